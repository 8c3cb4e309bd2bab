"""Compiled and plain control flow agree; compiled models are kept between processes; memory is linear and small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pathfold.engine import Engine
from pathfold.engine.status import CONVERGED
from pathfold.example_models import fitzhugh_nagumo
from pathfold.model import DiffusionModel, Observations, TimeGrid
from tests.engine.driving import Driven
from tests.engine.models import Case, with_data_from

AGREEMENT = 1e-12
KIB_A_STEP = 4.0


def fitzhugh_nagumo_grid(intervals: int, steps: int) -> TimeGrid:
    return TimeGrid.build(
        Observations(0.2 * np.arange(1, intervals + 1), np.zeros(intervals)), steps_per_interval=steps
    )


IRREGULAR = Case(
    seed=21,
    X=2,
    B=1,
    Y=2,
    W=2,
    S=3,
    priors=("normal", "gamma"),
    starts=("normal",),
    lengths=(7,),
    missing=True,
    regular=False,
)
PANEL = Case(**{**vars(IRREGULAR), "lengths": (3, 1, 4)})
FIXED = {
    "noiseless": lambda: (fitzhugh_nagumo.noiseless(), fitzhugh_nagumo_grid(20, 5)),
    "noisy, irregular, masked": lambda: (IRREGULAR.model(), IRREGULAR.grid()),
    "panel": lambda: (PANEL.model(), PANEL.grid()),
}


@pytest.fixture(scope="module", autouse=True)
def cache_folder(tmp_path_factory):
    """An empty cache of compiled models."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATHFOLD_CACHE", str(folder))
        yield folder


def one_step(model: DiffusionModel, grid: TimeGrid, *, compiled: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    q, p = 0.3 * rng.normal(size=(2, Driven.dimension(model, grid)))
    d = Driven(model, with_data_from(model, grid, q), compiled=compiled, lanes=4)
    status, target, momentum = d.step(d.point(q), d.dense.project(q, p), 0.1)
    assert status == CONVERGED
    return d.flat(target), momentum


@pytest.mark.parametrize("name", FIXED)
def test_compiled_and_plain_control_flow_agree(name):
    model, grid = FIXED[name]()
    compiled, plain = (one_step(model, grid, compiled=flag) for flag in (True, False))
    np.testing.assert_allclose(compiled[0], plain[0], rtol=AGREEMENT, atol=AGREEMENT)
    np.testing.assert_allclose(compiled[1], plain[1], rtol=AGREEMENT, atol=AGREEMENT)


PROCESS = """
import json
import numpy as np
from tests.engine.test_cache import fitzhugh_nagumo_grid
from tests.engine.driving import Driven
from pathfold.example_models import fitzhugh_nagumo

d = Driven(fitzhugh_nagumo.noiseless(), fitzhugh_nagumo_grid(20, 5), compiled=True, lanes=4)
q = 0.3 * np.random.default_rng(4).normal(size=d.dense.dim)
point = d.point(q)
gradient = d.flat(d.engine.gradient(point))
stats = d.native.step.prepare.stats
print(json.dumps([sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), gradient.tolist()]))
"""


def test_second_process_loads_what_the_first_compiled(tmp_path):
    def run() -> tuple[int, int, list[float]]:
        environment = os.environ | {"PATHFOLD_CACHE": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", PROCESS],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return tuple(json.loads(done.stdout.splitlines()[-1]))

    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    hits, misses, first = run()
    assert (hits, misses) == (0, 1)
    written = files()
    assert any(path.suffix == ".nbc" for path in written)
    hits, misses, second = run()
    assert (hits, misses) == (1, 0)
    assert files() == written
    assert first == second


def bytes_of_a_chain(intervals: int, steps: int) -> int:
    """Three points, three vectors, scratch and problem: all that a chain needs."""
    engine = Engine(fitzhugh_nagumo.noiseless(), fitzhugh_nagumo_grid(intervals, steps), compiled=False)
    blocks = 3 * ["point"] + 3 * ["vector"] + ["scratch", "problem"]
    return sum(engine.block(kind).nbytes for kind in blocks)


def test_memory_is_linear_and_small():
    small, large = bytes_of_a_chain(200, 25), bytes_of_a_chain(800, 25)
    assert large / (800 * 25) < KIB_A_STEP * 1024
    assert large < 4.05 * small
