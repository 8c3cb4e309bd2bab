"""Compiled models in use: whatever happens to their files, to a build or beside it, the draws are the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from inspect import unwrap
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine, compile, model_cache, model_file
from pathfold.engine.compile import CompiledModel
from pathfold.model.kept import Kept
from tests.sampling import small_run
from tests.sampling.linear_gaussian import ornstein_uhlenbeck


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty cache of models."""
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def draws_of_a_new_process() -> np.ndarray:
    """A few draws, with nothing of the model left in this process."""
    model, _ = small_run.model_and_data()
    model.kept = Kept()
    compile._programs.clear()
    tree = small_run.small_run(chains=1, warmup=5, draws=5)
    return tree.posterior["state"].values


def cut(content: bytes, other: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(place: Callable[[bytes], int]) -> Callable[[bytes, bytes], bytes]:
    def flipped(content: bytes, other: bytes) -> bytes:
        at = place(content)
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    return flipped


def another_processor(content: bytes, other: bytes) -> bytes:
    """A sound file, but of other machine code: it says so, and its code would crash."""
    (path,) = Path(os.environ["PATHFOLD_CACHE"]).glob("*.model")
    header, entry = model_file.read(path)
    return model_file.encode(header.key, "another processor", model_file.Entry({"push": b"\0" * 64}, entry.facts))


DAMAGE: dict[str, Callable[[bytes, bytes], bytes]] = {
    "cut": cut,
    "empty": lambda content, other: b"",
    "longer": lambda content, other: content + b"\0",
    "zeros": lambda content, other: b"\0" * len(content),
    "bit of the format": flip(lambda content: 9),
    "bit of the header": flip(lambda content: 60),
    "bit of the code": flip(lambda content: len(content) // 2),
    "bit of the checksum": flip(lambda content: len(content) - 1),
    "swapped": lambda content, other: other,
    "another processor": another_processor,
}


def test_damaged_files_are_noticed_and_built_again(folder, builds, monkeypatch):
    """One test for all kinds of damage, so that the model is compiled no more often than it has to be."""
    expected = draws_of_a_new_process()
    (file,) = folder.glob("*.model")
    sound, (_, entry) = file.read_bytes(), model_file.read(file)

    def remembered(self):
        builds.append("built")
        return entry

    assert builds == ["built"]
    np.testing.assert_array_equal(draws_of_a_new_process(), expected)
    assert builds == ["built"], "a sound file is used"
    other = model_file.encode("0" * 64, "machine", model_file.Entry({"push": b"code"}, {"carried": 1}))
    for number, (name, damaged) in enumerate(DAMAGE.items(), start=2):
        file.write_bytes(damaged(sound, other))
        np.testing.assert_array_equal(draws_of_a_new_process(), expected, err_msg=name)
        assert len(builds) == number, f"{name}: built again"
        assert file.read_bytes() == sound, f"{name}: and stored again"
        monkeypatch.setattr(CompiledModel, "_build", remembered)  # it has shown that it makes the same of the same


def test_of_two_threads_that_need_the_same_model_one_builds_it(folder, builds):
    """As two models that are equal: by their key one waits for the other."""
    grid = TimeGrid.build(pf.Observations([0.5, 1.0], [0.1, 0.2]), steps_per_interval=2)
    with ThreadPoolExecutor(2) as pool:
        models = [unwrap(ornstein_uhlenbeck)(noisy=True).model(known=False) for _ in range(2)]
        engines = list(pool.map(Engine, models, [grid] * 2))
    assert builds == ["built"]
    assert engines[0].program is engines[1].program
    assert [path.suffix for path in folder.iterdir()] == [".model"]


KILLED = """
import os, signal
from pathfold.engine import compile
from tests.sampling import small_run

def killed(code):
    os.kill(os.getpid(), signal.SIGKILL)

compile.assemble = killed
small_run.small_run(chains=1, warmup=5, draws=5)
"""


def test_a_killed_build_leaves_nothing_behind(folder):
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=Path(__file__).parents[2], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not [*folder.glob("*.model"), *folder.glob("*.draft")]
    assert np.isfinite(draws_of_a_new_process()).all()
    assert not [*folder.glob("*.lock")], "what it had locked is not"


def test_without_a_usable_folder_it_works_from_memory(tmp_path, monkeypatch, builds):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(model_cache, "_unwarned", Lock())
    monkeypatch.setattr(model_cache, "_memory", {})
    with pytest.warns(model_cache.CacheWarning, match="PATHFOLD_CACHE"):
        expected = draws_of_a_new_process()
    np.testing.assert_array_equal(draws_of_a_new_process(), expected)
    assert builds == ["built"]
