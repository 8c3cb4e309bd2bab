"""Compiled and plain control flow agree; it is compiled once; memory is linear and small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching

from pathfold.data import Observations, TimeGrid
from pathfold.engine import Engine
from pathfold.engine.native.pieces import HostFunction
from pathfold.engine.status import CONVERGED
from pathfold.example_models import fitzhugh_nagumo
from pathfold.model import DiffusionModel
from tests.engine.driving import Driven
from tests.engine.models import Case, with_data_from
from tests.plain import compiled_native
from tests.thorough import thorough

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
    "noiseless": lambda: (fitzhugh_nagumo.noiseless(), fitzhugh_nagumo_grid(6, 3)),
    "noisy, irregular, masked": lambda: (IRREGULAR.model(), IRREGULAR.grid()),
    "panel": lambda: (PANEL.model(), PANEL.grid()),
}


def one_step(model: DiffusionModel, grid: TimeGrid, *, plain: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    q, p = 0.3 * rng.normal(size=(2, Driven.dimension(model, grid)))
    d = Driven(model, with_data_from(model, grid, q), plain=plain, lanes=4)
    status, target, momentum = d.step(d.point(q), d.dense.project(q, p), 0.1)
    assert status == CONVERGED
    return d.flat(target), momentum


@pytest.mark.parametrize("name", thorough(FIXED, "panel"))
def test_compiled_and_plain_control_flow_agree(name):
    model, grid = FIXED[name]()
    compiled, plain = (one_step(model, grid, plain=flag) for flag in (False, True))
    np.testing.assert_allclose(compiled[0], plain[0], rtol=AGREEMENT, atol=AGREEMENT)
    np.testing.assert_allclose(compiled[1], plain[1], rtol=AGREEMENT, atol=AGREEMENT)


def run_apart(code: str, folder: Path, **variables: str) -> list:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder), **variables},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


COMPILING = """
import json
from pathfold.engine import entries, installation
from pathfold.engine.native.pieces import Whole
from pathfold.paper import paper_entries as of_the_paper

entries.OF_ALL, entries.STATIC = entries.OF_ALL[:1], entries.REPLICAS[:1]
of_the_paper.GUIDED = of_the_paper.GUIDED[-2:-1]
wholes, finalize = [], Whole.finalize
Whole.finalize = lambda self: wholes.append(self.name) or finalize(self)
installation.address_of_run = installation.kernels_of_no_model = int
kinds = "pathfold.engine.entries:STATIC", "pathfold.paper.paper_entries:GUIDED"
for _ in range(2):
    installation.compile_sampler(*kinds, announce=False)
few = *entries.OF_ALL, *entries.STATIC, *of_the_paper.GUIDED
hits = [sum(function.stats.cache_hits.values()) for function, _ in few]
print(json.dumps([wholes, hits]))
"""


def test_control_flow_is_compiled_once_by_one_of_several_processes(tmp_path):
    with ThreadPoolExecutor(2) as pool:  # two processes at once
        apart = [pool.submit(run_apart, COMPILING, tmp_path) for _ in range(2)]
        waited, (wholes, hits) = sorted(process.result() for process in apart)
    assert waited == [[], [1, 1, 1]], "it waited for the other, and loaded what that compiled"
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb*")}
    assert wholes == ["integration_time", "set_coldness", "exchange_noise"], "what the host calls becomes machine code"
    assert hits == [0, 0, 0], "once, though asked for twice"
    assert run_apart(COMPILING, tmp_path) == [[], [1, 1, 1]], "in another process nothing is compiled"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb*")} == written


CALLED = """
import json, warnings
import numpy as np
import pathfold as pf
from pkgutil import resolve_name
from pathfold.engine.entries import OF_ALL
from pathfold.engine.native.pieces import HostFunction
from pathfold.example_models import double_well, ornstein_uhlenbeck
from tests.plain import compiled_native

warnings.simplefilter("ignore")  # two draws have not converged
model, found = ornstein_uhlenbeck.noisy(), {}
data = pf.Observations(0.5 * np.arange(1, 9), np.linspace(0.5, 1.5, 8))
samplers = pf.StaticHMC(), pf.DynamicHMC(metric="adapted"), pf.DynamicHMC(), pf.UnconstrainedHMC(), pf.GuidedProposals()
fitted = {"LAPLACE": double_well.noisy(), "LINEAR": model}
for sampler in (*samplers, *fitted):
    kind = f"pathfold.engine.entries:{sampler}" if sampler in fitted else sampler.native
    if sampler in fitted:
        pf.fit(fitted[sampler], data, steps_per_interval=2, points=16, threads=2)
    else:
        pf.sample(
            model, data, sampler=sampler, steps_per_interval=2, chains=1, warmup=8, draws=2, threads=2, progress=False
        )
    listed = {(f.py_func, s) for f, s in (*OF_ALL, *resolve_name(kind))}
    modules = vars(compiled_native).values()
    entries = {id(f): f for m in modules for f in vars(m).values() if isinstance(f, HostFunction)}.values()
    called = {(f.py_func, s) for f in entries for s in f.overloads}
    earlier = {each for key in found for each in resolve_name(key)}
    known = listed | {(f.py_func, s) for f, s in earlier}
    found.setdefault(kind, sorted(f.__qualname__ for f, s in called - known))
print(json.dumps(found))
"""


def test_what_a_sampler_calls_is_compiled_before_and_nothing_else_is(tmp_path):
    """In a run nothing is compiled besides: one would wait for it in silence."""
    done = subprocess.run(
        [sys.executable, "-c", CALLED],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [*found.values()] == 5 * [[]], found


def entry(function):
    return HostFunction(function)


@entry
def shared(x):
    return np.sqrt(x)


@entry
def left_out(x):
    return shared(x) + 1.0


@entry
def left_in(x):
    return 2.0 * shared(x)


@entry
def whole(x):
    total = 0.0
    for _ in range(0):
        total += left_out(x)
    return total + left_in(x)


def test_a_piece_is_found_though_the_first_of_its_callers_is_never_called():
    assert whole(9.0) == 6.0
    assert [len(f.overloads) for f in (whole, left_in, left_out, shared)] == [1, 0, 0, 0], "the others are pieces"
    assert shared(9.0) == 3.0, "the host can call each by itself"


def test_a_change_of_any_file_is_noticed(tmp_path):
    """Numba looks at the file of a function alone; ours are stamped with the sources of the whole package."""
    stamps = {
        getattr(module, name)._cache._cache_file._source_stamp
        for module, name in (
            (compiled_native.chain_loop, "run_static"),
            (compiled_native.dynamic_loop, "run_dynamic"),
            (compiled_native.start_search, "seek"),
        )
    }
    assert stamps == {compiled_native.jit.native_sources()}


def test_without_a_folder_to_write_to_it_is_compiled_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    twice = compiled_native.jit.compiled(lambda x: 2.0 * x)
    assert twice(3.0) == 6.0


def bytes_of_a_chain(intervals: int, steps: int) -> int:
    """Three points, three vectors, scratch and problem: all that a chain needs."""
    engine = Engine(fitzhugh_nagumo.noiseless(), fitzhugh_nagumo_grid(intervals, steps))
    blocks = 3 * ["point"] + 3 * ["vector"] + ["scratch", "problem"]
    return sum(engine.block(kind).nbytes for kind in blocks)


def test_memory_is_linear_and_small():
    small, large = bytes_of_a_chain(200, 25), bytes_of_a_chain(800, 25)
    assert large / (800 * 25) < KIB_A_STEP * 1024
    assert large < 4.05 * small
