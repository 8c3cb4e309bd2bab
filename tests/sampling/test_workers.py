"""Chains given to workers: lost ones, stopped ones, foreign ones; one chain at a time by the command line."""

from __future__ import annotations

import functools
import pickle
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathfold as pf
from pathfold.cli import main
from pathfold.engine.compile import Program
from pathfold.sampling import chain, execution, workers
from pathfold.sampling.alone import chain_ended
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.checkpoint import sole_use
from pathfold.sampling.draws import Draws
from pathfold.sampling.progress import Monitor, Progress
from pathfold.sampling.selection import Selection
from pathfold.sampling.settings import Settings
from tests.processes import imported
from tests.sampling.small_run import CHAINS, DRAWS, WARMUP, assert_same_draws, model_and_data, small_run
from tests.sampling.test_checkpoint import SHAPE
from tests.sampling.test_reproducible import stop_with


@cache
def plain_run():
    return small_run(threads=1)


class Workers(Executor):
    """Two threads that see of a task and its result no more than could be sent; `before` may change a task, or fail."""

    def __init__(self, before: Callable[[ChainTask, int], ChainTask] = lambda task, attempt: task) -> None:
        self.pool, self.before, self.attempts = ThreadPoolExecutor(2), before, dict.fromkeys(range(CHAINS), 0)

    def submit(self, fn, /, *args, **kwargs) -> Future[Any]:
        if fn is not workers.work:
            return self.pool.submit(fn, *args, **kwargs)
        self.attempts[args[0].index] += 1
        return self.pool.submit(self.run, pickle.dumps(args), self.attempts[args[0].index])

    def run(self, sent: bytes, attempt: int) -> Any:
        task, stop = pickle.loads(sent)
        return pickle.loads(pickle.dumps(workers.work(self.before(task, attempt), stop)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.pool.shutdown(wait=wait, cancel_futures=cancel_futures)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(workers, "LOOK", 0.02)


def test_a_chain_that_loses_its_worker_goes_on_with_another(tmp_path, monkeypatch):
    started, real = [], chain.prepare
    monkeypatch.setattr(chain, "prepare", lambda *a: (started.append(1), real(*a))[1])

    def lose(task: ChainTask, attempt: int) -> ChainTask:
        if task.index == 1 and attempt < 3:
            assert isinstance(workers.work(replace(task, draws=20 * attempt), None), Draws)
            raise OSError("the connection was closed")
        return task

    sentence = r"chain 1 lost its worker \(OSError: 'the connection was closed'\) and goes on from its checkpoint with"
    with Workers(lose) as pool, pytest.warns(UserWarning, match=sentence) as warned:
        tree = small_run(executor=pool, checkpoint=tmp_path / "folder")
    assert pool.attempts == {0: 1, 1: 3, 2: 1}
    assert len(started) == CHAINS, "from where it was saved"
    assert len(warned) == 2
    assert_same_draws(plain_run(), tree)


def test_without_a_checkpoint_it_begins_again_and_not_for_ever(tmp_path):
    def lose(task: ChainTask, attempt: int) -> ChainTask:
        raise OSError("gone")

    def lose_once(task: ChainTask, attempt: int) -> ChainTask:
        return lose(task, attempt) if attempt == 1 and task.index == 2 else task

    with Workers(lose_once) as pool, pytest.warns(UserWarning, match="chain 2 lost its worker .* and begins again"):
        assert_same_draws(plain_run(), small_run(executor=pool))
    sentence = r"lost its worker 3 times \(OSError: 'gone'\): with checkpoint='folder', on a disk that all workers see"
    with (
        Workers(lose) as pool,
        pytest.warns(UserWarning, match="lost its worker"),
        pytest.raises(pf.PathfoldError, match=sentence),
    ):
        small_run(executor=pool)


def test_what_goes_wrong_in_a_chain_is_no_lost_worker(tmp_path, monkeypatch):
    class Odd(Exception):
        """Cannot be sent, since it belongs to this function."""

    def fail(error: Exception):
        def failing(*_):
            raise error

        monkeypatch.setattr(chain, "prepare", failing)

    fail(pf.InitialisationError("no start"))
    with Workers() as pool, pytest.raises(pf.InitialisationError, match="no start"):
        small_run(executor=pool, draws=1_000_000, keep_path="none", checkpoint=tmp_path / "folder")
    fail(Odd("very"))
    with Workers() as pool, pytest.raises(pf.PathfoldError, match=r"failed in a worker \(Odd: 'very'\):\nTraceback"):
        small_run(executor=pool)
    assert set(pool.attempts.values()) == {1}


def test_a_worker_with_another_processor_makes_its_own_code(tmp_path, monkeypatch):
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path))

    def foreign(task: ChainTask, attempt: int) -> ChainTask:
        sent = task.program
        return replace(task, program=Program(f"{sent.key} there", "abacus", {}, sent.facts, sent.assembly))

    with Workers(foreign) as pool:
        assert_same_draws(plain_run(), small_run(executor=pool))
    assert set(pool.attempts.values()) == {2}, "first they say what they need"
    assert len(list(tmp_path.glob("*.model"))) == 1, "which one of them makes for all"


def test_a_folder_that_workers_do_not_see_is_told_at_once(tmp_path):
    def elsewhere(task: ChainTask, attempt: int) -> ChainTask:
        return replace(task, checkpoint=str(tmp_path / "elsewhere"))

    with (
        Workers(elsewhere) as pool,
        pytest.raises(pf.SettingsError, match=r"a worker does not see the folder .*else"),
    ):
        small_run(executor=pool, checkpoint=tmp_path / "folder")


def save_always(monkeypatch) -> None:
    monkeypatch.setattr(execution, "ChainTask", functools.partial(ChainTask, checkpoint_seconds=0.0))


class Forgetful(Workers):
    """Say no more of a chain once it was given."""

    def submit(self, fn, /, *args, **kwargs) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        return future if fn is not workers.work else Future()


@pytest.mark.parametrize("kind", [Workers, Forgetful])
@pytest.mark.filterwarnings("ignore:chains that were behind the others were left out")
def test_interruption_ends_workers_and_keeps_what_they_drew(monkeypatch, tmp_path, kind):
    """Two chains run, a third waits: it has nothing to keep. A relative name means the same folder to all.

    A chain that is far behind the other is left out.
    """
    monkeypatch.chdir(tmp_path)
    save_always(monkeypatch)
    stop_with(monkeypatch, lambda monitors: all(m.done[0] > WARMUP + 50 for m in monitors[:2]))
    long = {"draws": 200_000, "keep_path": "none", "keep_warmup": False, "checkpoint": "folder"}
    with (
        kind() as pool,
        pytest.warns(UserWarning, match=r"was interrupted: \d+ of 200000 draws are kept, of [12] of 3 chains"),
    ):
        tree = small_run(executor=pool, **long)
    assert 50 < tree.posterior.sizes["draw"] < 200_000
    first, second, _ = plain_run().posterior["sigma"].values[:, :50]
    for kept in tree.posterior["sigma"].values[:, :50]:
        assert np.array_equal(kept, first) or np.array_equal(kept, second)
    assert len(list(Path("folder").glob("stop_*"))) == (kind is Forgetful), "who did not hear of it may yet see it"


def test_ctrl_c_asks_a_chain_to_end_between_its_draws():
    monitor, handler = Monitor(), signal.getsignal(signal.SIGINT)
    with workers._stopped_by(None, monitor):
        signal.raise_signal(signal.SIGINT)
    assert monitor.stop[0] == 1
    assert signal.getsignal(signal.SIGINT) is handler


def test_progress_is_read_from_the_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pathfold.sampling.progress.LOG_SECONDS", 0.0)
    counts, update = [], Progress.update

    def counted(self):
        update(self)
        counts.append(sum(int(m.done[0]) for m in self.monitors))

    monkeypatch.setattr(Progress, "update", counted)
    save_always(monkeypatch)
    with Workers() as pool:
        small_run(executor=pool, checkpoint=tmp_path / "folder", progress=True)
    assert counts == sorted(counts)
    assert counts[-1] == CHAINS * (WARMUP + DRAWS)
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"{CHAINS * (WARMUP + DRAWS)} of {CHAINS * (WARMUP + DRAWS)} iterations" in last
    assert "acceptance 0." in last


def test_a_pool_that_breaks_is_told_with_what_to_do(tmp_path, monkeypatch):
    """A process is killed while chains run; the same call goes on."""
    save_always(monkeypatch)
    folder = tmp_path / "folder"
    pool = ProcessPoolExecutor(2, mp_context=imported)
    killer = ThreadPoolExecutor(1)
    killer.submit(kill_one_worker, pool, folder)
    with killer, pytest.raises(pf.PathfoldError) as caught:
        small_run(executor=pool, checkpoint=folder, draws=1_000_000, keep_path="none", keep_warmup=False)
    pool.shutdown()
    assert "lost its worker (BrokenProcessPool: " in str(caught.value)
    assert f"the same call with a new executor goes on from the checkpoint {folder}" in str(caught.value)
    assert isinstance(caught.value.__cause__, BrokenProcessPool)
    short = {"draws": DRAWS, "keep_path": "none", "keep_warmup": False}
    resumed, plain = small_run(checkpoint=folder, **short), small_run(**short)
    for name in plain.posterior.data_vars:
        assert resumed.posterior[name].values.tobytes() == plain.posterior[name].values.tobytes()


def kill_one_worker(pool: ProcessPoolExecutor, folder: Path) -> None:
    """Once a chain has saved something."""
    while not (folder / "chain_0.npz").exists():
        time.sleep(0.05)
    next(iter(pool._processes.values())).kill()


SCRIPT = """
import sys
from pathlib import Path
from tests.sampling.test_checkpoint import SHAPE
from tests.sampling.small_run import small_run

small_run(chains=1, draws=1, warmup=1)  # without a checkpoint: all of it, in every job
tree = small_run(checkpoint=sys.argv[1])
Path(sys.argv[1], "gathered").write_bytes(tree.posterior["state"].values.tobytes())
"""


@pytest.fixture
def script(tmp_path) -> Path:
    (file := tmp_path / "script.py").write_text(SCRIPT)
    return file


def test_chains_are_run_one_by_one_and_gathered_by_the_script(script, tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    run = [str(script), str(folder)]
    for k in (2, 0):
        assert main(["run", "--chain", str(k), *run]) == 0
        sentence = capsys.readouterr().err.splitlines()[-1]
        assert sentence.startswith(f"pathfold: chain {k} of 3 has {WARMUP + DRAWS} of {WARMUP + DRAWS} draws")
        assert sentence.endswith("once all chains are there, the script itself gathers them")
    one = sole_use(folder / "chain_1.lock")  # as by its job
    with one, pytest.raises(pf.SettingsError, match="in use by another run"):
        small_run(checkpoint=folder)
    assert {file.name for file in folder.glob("chain_*.npz")} == {"chain_0.npz", "chain_2.npz"}
    assert not (folder / "gathered").exists()
    assert main(["run", "--chain", "1", *run]) == 0
    assert_same_draws(plain_run(), small_run(checkpoint=folder))


@pytest.mark.parametrize(
    ("changes", "complete", "end"),
    [
        (
            {"made": 150},
            True,
            "has 150 of 150 draws and warm-up draws in folder; once all chains are there, the script itself gathers",
        ),
        ({"made": 20}, False, "has 20 of 150 draws and warm-up draws in folder; the same command goes on from there"),
        (
            {"made": 20, "seconds": 3.0},
            True,
            "has 20 of 150 draws and warm-up draws in folder; once all chains are there, the script",
        ),
        ({"made": 150, "unsaved": "No space left"}, False, "in folder, but they could not be saved (No space left)"),
    ],
)
def test_a_job_says_how_far_its_chain_is(changes, complete, end):
    """Also where max_seconds are spent, after which the same command would add nothing."""
    keep = Selection.of(model_and_data()[0])
    settings = Settings.checked(
        chains=3, warmup=WARMUP, draws=DRAWS, seed=1, keep=keep, max_seconds=2.0, checkpoint="folder"
    )
    ended = chain_ended(replace(Draws.empty(SHAPE), **changes), settings, 1)
    assert ended.complete is complete
    assert str(ended).startswith("chain 1 of 3 has ")
    assert end in str(ended)


@pytest.mark.parametrize(
    ("text", "chain", "sentence"),
    [
        (SCRIPT, 3, "--chain 3: the script asks pf.sample for 3 chains, which are numbered from 0 to 2"),
        ("print(1)", 0, "called no pf.sample(..., checkpoint='folder'), so there was no chain to run"),
        (SCRIPT.replace("run(check", "run(steps_per_interval='auto', check"), 0, "'auto' is found by a run of its own"),
        (None, 0, "there is no script"),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_done_is_told(tmp_path, capsys, text, chain, sentence):
    file = tmp_path / "script.py"
    if text is not None:
        file.write_text(text)
    assert main(["run", "--chain", str(chain), str(file), str(tmp_path / "folder")]) == 2
    assert sentence in capsys.readouterr().err
