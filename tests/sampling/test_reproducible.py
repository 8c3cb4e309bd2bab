"""A run depends on model, data, settings and seed alone: not on threads, pieces, processes, or on being killed."""

from __future__ import annotations

import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathfold as pf
from pathfold.sampling import chain, execution
from pathfold.sampling.draws import ARRAYS, Draws
from pathfold.sampling.progress import Monitor, Progress
from tests.processes import imported
from tests.sampling.small_run import (
    CHAINS,
    DRAWS,
    SAMPLERS,
    WARMUP,
    assert_same_draws,
    killed_run,
    model_and_data,
    small_run,
)
from tests.thorough import thorough


@cache
def plain_run(sampler: str):
    """One thread, no checkpoint."""
    return small_run(sampler, threads=1)


def stop_with(monkeypatch, condition) -> None:
    """Send Ctrl-C to this process once the monitors of the chains fulfil a condition."""
    update = Progress.update

    def interrupting(self):
        update(self)
        if not sent and condition(self.monitors):
            sent.append(True)
            before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.signal(signal.SIGINT, before)

    sent = []
    monkeypatch.setattr(Progress, "update", interrupting)


QUICK = thorough(SAMPLERS, "static", "dynamic")


@pytest.mark.parametrize("sampler", QUICK)
def test_threads_change_nothing(sampler):
    assert_same_draws(plain_run(sampler), small_run(sampler, threads=2))


@pytest.mark.parametrize(
    ("sampler", "piece"), thorough(product(SAMPLERS, (1, 37, 1000)), *product(SAMPLERS, (1,)), ("static", 37))
)
def test_pieces_change_nothing(monkeypatch, sampler, piece):
    monkeypatch.setattr("pathfold.sampling.chain.PIECE", piece)
    assert_same_draws(plain_run(sampler), small_run(sampler))


def test_seeds_and_chains_differ():
    one, other = plain_run("static"), small_run("static", seed=8)
    sigma = np.concatenate([one.posterior["sigma"].values, other.posterior["sigma"].values])
    assert len(np.unique(sigma[:, -1])) == 2 * CHAINS


def test_fewer_chains_and_draws_are_the_first_ones():
    short = small_run("static", chains=2, draws=30)
    whole = plain_run("static").posterior.isel(chain=slice(2), draw=slice(30))
    assert np.array_equal(short.posterior["state"].values, whole["state"].values)


def uncounted(folder: Path) -> list[int]:
    """By chain, how many draws are on file that the state does not count."""
    width = 8 * len(model_and_data()[0].parameters.names)
    states = sorted(folder.glob("chain_*.npz"))
    return [len(f.with_suffix(".z").read_bytes()) // width - int(np.load(f)["made"]) for f in states]


@pytest.mark.parametrize("sampler", thorough(SAMPLERS, "static"))
def test_a_killed_run_resumes_where_it_was(tmp_path, monkeypatch, sampler):
    folder = tmp_path / "checkpoint"
    progress = []
    for moment in ("warm-up", "sampling", "appending", "saving"):
        process = imported.Process(target=killed_run, args=(folder, sampler, moment))
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        progress.append([int(np.load(file)["made"]) for file in sorted(folder.glob("chain_*.npz"))])
        if moment == "appending":
            assert any(uncounted(folder)), "it died when draws were written that do not count yet"
        if moment == "saving":
            assert list(folder.glob("*.draft")), "it died while a save was not in place yet"
    assert max(progress[0]) < WARMUP < max(progress[1]) < WARMUP + DRAWS
    assert max(progress[3]) > WARMUP + 20

    restored, restore = [], chain.Chain.restore

    def counted(*given):
        restored.append(found := restore(*given))
        return found

    monkeypatch.setattr(chain.Chain, "restore", counted)
    resumed = small_run(sampler, checkpoint=folder)
    assert sum(restored) == len(progress[3]), "chains with a checkpoint do not start again"
    assert_same_draws(plain_run(sampler), resumed)
    assert_same_draws(resumed, small_run(sampler, checkpoint=folder))


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    small_run("static", checkpoint=tmp_path, chains=1, warmup=2, draws=4)
    sentence = "belongs to a run with another model, other data or other settings: give the same ones to resume it"
    for change in (
        {"seed": 9},
        {"warmup": 3},
        {"sampler": "dynamic"},
        {"sampler": "metric"},
        {"sampler": pf.DynamicHMC(splitting="stormer-verlet")},
    ):
        with pytest.raises(pf.SettingsError, match=sentence):
            small_run(**{"sampler": "static", "checkpoint": tmp_path, "chains": 1, "warmup": 2, "draws": 4} | change)
    model, data = model_and_data()
    other = pf.Observations(data.times, 1.01 * data.values, initial_time=data.initial_time)
    with pytest.raises(pf.SettingsError, match=sentence):
        pf.sample(model, other, steps_per_interval=4, chains=1, warmup=2, draws=4, seed=7, checkpoint=tmp_path)


@pytest.mark.parametrize("sampler", thorough(SAMPLERS, "static"))
def test_processes_change_nothing(sampler):
    with ProcessPoolExecutor(2, mp_context=imported) as pool:
        assert_same_draws(plain_run(sampler), small_run(sampler, executor=pool))


def test_an_executor_of_threads_is_used_and_left_open():
    with ThreadPoolExecutor(1) as pool:
        assert_same_draws(plain_run("static"), small_run("static", executor=pool))
        assert pool.submit(int, 3).result() == 3


def test_interruption_keeps_what_was_drawn(monkeypatch, tmp_path):
    """Two chains run, a third waits: it has nothing to keep."""
    stop_with(monkeypatch, lambda monitors: all(m.done[0] > WARMUP + 50 for m in monitors[:2]))
    long = {"draws": 200_000, "keep_path": "none", "keep_warmup": False, "threads": 2, "checkpoint": tmp_path}
    with pytest.warns(UserWarning, match=r"was interrupted: \d+ of 200000 draws are kept, of 2 of 3 chains"):
        tree = small_run("static", **long)
    draws = tree.posterior.sizes["draw"]
    assert tree.posterior.sizes["chain"] == 2
    assert 50 < draws < 200_000
    kept = np.load(tmp_path / "chain_0.npz")
    assert kept["made"] >= WARMUP + draws, "it can be resumed"
    whole = plain_run("static").posterior.isel(chain=slice(2), draw=slice(50))
    for name in ("sigma", "tau", "initial_state"):
        assert np.array_equal(tree.posterior[name].values[:, :50], whole[name].values)


def test_interruption_in_warm_up_gives_an_empty_posterior(monkeypatch):
    stop_with(monkeypatch, lambda monitors: monitors[0].done[0] > 10)
    with pytest.warns(UserWarning, match="was interrupted: 0 of 10 draws are kept"):
        tree = small_run("static", warmup=1_000_000, draws=10, keep_path="none")
    assert tree.posterior.sizes["draw"] == 0
    assert tree["warmup_posterior"].sizes["draw"] > 10


def test_interruption_in_warm_up_ends_the_call_where_there_is_nothing_to_keep(monkeypatch):
    stop_with(monkeypatch, lambda monitors: monitors[0].done[0] > 10)
    with pytest.raises(KeyboardInterrupt, match="in warm-up"):
        small_run("static", warmup=1_000_000, draws=10, keep_path="none", keep_warmup=False)


def test_a_chain_ends_when_its_seconds_are_spent_and_goes_on_with_more(tmp_path):
    with pytest.warns(UserWarning, match="max_seconds were spent: 0 of 90 draws are kept, of 3 of 3 chains"):
        cut = small_run("static", checkpoint=tmp_path, max_seconds=1e-9)
    assert cut.attrs["iterations"] == [1, 1, 1], "a piece of one transition each"
    assert cut.attrs["main_seconds"] == [0.0, 0.0, 0.0]
    assert_same_draws(plain_run("static"), small_run("static", checkpoint=tmp_path, max_seconds=1000.0))
    with pytest.raises(pf.SettingsError, match="max_seconds must be a positive number, not 0"):
        small_run("static", max_seconds=0)


def test_the_time_of_draws_that_are_cut_off_does_not_count():
    arrays: dict[str, Any] = {name: np.zeros((110, 1)) for name in ARRAYS}
    draws = Draws(**arrays, made=110, seconds=12.0, main_seconds=10.0)
    cut = execution._of_length(draws, 60, warmup=10)
    assert (cut.made, len(cut.z), cut.main_seconds, cut.seconds) == (60, 60, 5.0, 12.0)
    assert execution._of_length(draws, 7, warmup=10).main_seconds == 0.0


def test_a_failing_chain_ends_the_run(monkeypatch):
    def fail(*_):
        raise pf.InitialisationError("no start")

    monkeypatch.setattr("pathfold.sampling.chain.prepare", fail)
    with pytest.raises(pf.InitialisationError, match="no start"):
        small_run("static", draws=1_000_000, keep_path="none")


def test_bad_settings_are_refused():
    for name, value in (("chains", 0), ("draws", 2.5), ("warmup", -1), ("seed", -3), ("draws", True), ("threads", 0)):
        with pytest.raises(pf.SettingsError, match=f"{name} must be a whole number"):
            small_run("static", **{name: value})
    with pytest.raises(pf.SettingsError, match="keep_path must be"):
        small_run("static", keep_path="some")
    wrong: dict[str, Any] = {
        r"pf.StaticHMC\(\), .* not ": "dynamic",
        r"made with parentheses.*DynamicHMC\(\)": pf.DynamicHMC,
    }
    for words, sampler in wrong.items():
        with pytest.raises(pf.SettingsError, match=f"sampler must be {words}"):
            pf.sample(*model_and_data(), steps_per_interval=4, sampler=sampler)


def test_progress_is_logged_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr("pathfold.sampling.progress.LOG_SECONDS", 0.0)
    small_run("static", progress=True, draws=3000, keep_path="none")
    last = capsys.readouterr().err.splitlines()[-1]
    for part in (f"{CHAINS * (WARMUP + 3000)} of {CHAINS * (WARMUP + 3000)} iterations", "done", "acceptance",
                 "step size", "steps per draw", "% failures"):  # fmt: skip
        assert part in last


def test_the_time_left_counts_what_this_run_has_made(tmp_path, capsys, monkeypatch):
    """Of 1,000 iterations 900 were there before, and 50 took ten seconds."""
    seen = list[Monitor]()
    with monkeypatch.context() as patch:
        patch.setattr(Progress, "close", lambda self: seen.extend(self.monitors))
        for draws in (30, 60):
            small_run("static", chains=1, draws=draws, keep_path="none", checkpoint=tmp_path)
    assert [monitor.before for monitor in seen] == [0, WARMUP + 30]
    monitor = Monitor(done=np.array([950]), before=900)
    progress = Progress([monitor], 1000, show=True)
    progress.begun -= 10.0
    progress.close()
    assert "950 of 1000 iterations in 10 s, 10 s left" in capsys.readouterr().err
