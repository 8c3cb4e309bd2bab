"""Threads inside a chain: the draws are those of one thread, to the bit; small problems have none."""

from __future__ import annotations

import threading
import time
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import pathfold as pf
from pathfold.engine import engine, helpers
from pathfold.sampling import replica_sampler
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.replica_sampler import ReplicaChain
from pathfold.sampling.workers import _helpers
from tests.sampling.linear_gaussian import ornstein_uhlenbeck
from tests.sampling.small_run import assert_same_draws, small_run
from tests.sampling.test_reproducible import stop_with
from tests.thorough import thorough

SAMPLERS = {
    "static": pf.StaticHMC(integrate=False),
    "integrated": pf.StaticHMC(),
    "dynamic": pf.DynamicHMC(),
    "baseline": pf.UnconstrainedHMC(),
    "replicas": pf.ReplicaExchange(rungs=3),
}


@cache
def data(kind: str) -> list[pf.Observations]:
    """A panel of series of many lengths, or one long series; they have as many chunks."""
    rng = np.random.default_rng(3)
    lengths = {"panel": [1, 60, 2, *11 * [7]], "series": [140]}[kind]
    return [pf.Observations(0.4 * np.arange(1, n + 1), 0.5 * rng.standard_normal(n)) for n in lengths]


@cache
def model() -> pf.DiffusionModel:
    return ornstein_uhlenbeck(noisy=True).model(known=False)


def run(kind: str, sampler: str, **options: Any):
    settings: dict[str, Any] = {"chains": 1, "warmup": 12, "draws": 8, "keep_path": "all", "keep_warmup": True}
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "(.*) (has (not converged|few effective draws)|stood still|would move|and back in)"
        )
        return pf.sample(
            model(), data(kind), steps_per_interval=3, sampler=SAMPLERS[sampler], progress=False, **settings | options
        )


@pytest.fixture
def many_parts(monkeypatch):
    monkeypatch.setattr(engine, "WORK", 200)


@pytest.fixture
def started(monkeypatch) -> list[int]:
    """The numbers of the helpers that were started: for warm-up, and again for the draws."""
    numbers = []

    class Counted(helpers.Thread):
        def start(self):
            numbers.append(self._args[0])  # type: ignore[attr-defined]
            super().start()

    monkeypatch.setattr(helpers, "Thread", Counted)
    return numbers


@pytest.mark.parametrize(
    ("kind", "sampler"),
    thorough(
        [
            (kind, sampler)
            for kind in ("panel", "series")
            for sampler in ("static", "integrated", "dynamic", "baseline")
        ],
        ("panel", "static"),
        ("panel", "integrated"),
        ("panel", "baseline"),
        ("series", "dynamic"),
    ),
)
def test_threads_of_a_chain_change_nothing(many_parts, started, kind, sampler):
    alone = run(kind, sampler, threads=1)
    assert started == []
    for threads in (2, 3):
        assert_same_draws(alone, run(kind, sampler, threads=threads))
    assert sorted(started) == [1, 1, 2]


@pytest.fixture
def helped(monkeypatch) -> list[bool]:
    """Of every helper of replicas, when it ended, whether it had moved any of them."""
    found, run = [], replica_sampler.run_replicas

    def watched(work, rng, replicas, team, thread, *rest):
        made = run(work, rng, replicas, team, thread, *rest)
        found.extend([bool(np.any(work.points))] if thread > 0 else [])
        return made

    monkeypatch.setattr(replica_sampler, "run_replicas", watched)
    return found


@pytest.mark.parametrize("sampler", thorough(["replicas", pf.ReplicaExchange()], "replicas"))
def test_threads_share_the_replicas_of_a_chain(helped, sampler):
    alone = small_run(sampler, chains=1, threads=1)
    assert helped == []
    for threads in (2, 3):
        for _ in range(20):  # a helper that gets no core moves no replica
            assert_same_draws(alone, small_run(sampler, chains=1, threads=threads))
            if any(helped):
                break
        assert any(helped)
        helped.clear()


def test_replicas_go_on_with_another_number_of_threads(tmp_path):
    alone = small_run("replicas", chains=1, threads=1)
    for draws, threads in ((30, 2), (60, 1), (90, 3)):
        resumed = small_run("replicas", chains=1, threads=threads, draws=draws, checkpoint=tmp_path)
    assert_same_draws(alone, resumed)


def test_a_run_of_replicas_with_helpers_can_be_interrupted(helped, monkeypatch):
    stop_with(monkeypatch, lambda monitors: monitors[0].done[0] > 80)
    with pytest.warns(UserWarning, match="was interrupted"):
        tree = small_run("replicas", chains=1, draws=1_000_000, threads=2, keep_path="none")
    assert any(helped)
    assert 0 < tree.posterior.sizes["draw"] < 1_000_000


@pytest.mark.parametrize("fails", [True, False])
def test_an_error_in_a_thread_of_replicas_is_raised(monkeypatch, fails):
    """In one that helps, or in that of the chain."""
    run = replica_sampler.run_replicas

    def failing(work, rng, replicas, team, thread, *rest):
        if (thread > 0) == fails:
            raise MemoryError("no room for a replica")
        return run(work, rng, replicas, team, thread, *rest)

    monkeypatch.setattr(replica_sampler, "run_replicas", failing)
    before = threading.active_count()
    with pytest.raises(MemoryError, match="no room for a replica"):
        small_run("replicas", chains=1, threads=3)
    assert threading.active_count() == before


@pytest.mark.parametrize(("sampler", "chain"), [("static", HamiltonianChain), ("replicas", ReplicaChain)])
def test_seconds_of_a_chain_are_those_of_all_its_threads(many_parts, monkeypatch, sampler, chain):
    """Were two helpers to spend five times as much as the chain's own thread, it would have six times as many."""
    monkeypatch.setattr(helpers, "_seconds", lambda threads: 2.5 * len(threads) * time.thread_time())
    own, advance = [], chain.advance

    def timed(self, monitor):
        before = time.thread_time()
        advance(self, monitor)
        own.append(time.thread_time() - before)

    monkeypatch.setattr(chain, "advance", timed)
    attributes = run("series", sampler, threads=3, draws=200, keep_path="none").attrs
    assert attributes["chain_seconds"] == pytest.approx([6.0 * sum(own)], rel=0.1)
    assert 0.5 < attributes["main_seconds"][0] / attributes["chain_seconds"][0] < 1.0


@pytest.mark.parametrize("told", [True, False])
def test_the_processor_seconds_of_other_threads(monkeypatch, told):
    """As they count them; where the system does not tell, as many as the thread has that asks."""
    if not told:
        monkeypatch.delattr(time, "pthread_getcpuclockid", raising=False)
    found, done, asked = [], threading.Event(), threading.Event()

    def work():
        while time.thread_time() < 0.3:
            pass
        found.append(time.thread_time())
        done.set()
        asked.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
        done.wait()
        done.clear()
    seconds, own = helpers._seconds(threads), time.thread_time()
    asked.set()
    expected = sum(found) if told and hasattr(time, "pthread_getcpuclockid") else 2.0 * own
    assert seconds == pytest.approx(expected, abs=0.05)


def test_threads_are_shared_among_chains(many_parts, started):
    alone = run("panel", "static", chains=2, threads=1)
    assert_same_draws(alone, run("panel", "static", chains=2, threads=5))
    assert sorted(started) == [1, 1, 2]


@pytest.mark.parametrize(("chains", "threads", "expected"), [(4, 2, [0, 0, 0, 0]), (2, 2, [0, 0]), (1, 8, [7]),
                                                             (3, 8, [2, 2, 1]), (4, 6, [1, 1, 0, 0])])  # fmt: skip
def test_every_thread_beyond_one_a_chain_helps(chains, threads, expected):
    assert [_helpers(i, chains, threads) for i in range(chains)] == expected


def test_a_small_problem_needs_one_thread(started):
    small_run("static", chains=1, warmup=2, draws=2, threads=8)
    assert started == []


def test_a_run_with_helpers_can_be_interrupted(many_parts, started, monkeypatch):
    stop_with(monkeypatch, lambda monitors: monitors[0].done[0] > 20)
    with pytest.warns(UserWarning, match="was interrupted"):
        tree = run("series", "static", draws=100_000, threads=2, keep_path="none")
    assert started == [1]
    assert 0 < tree.posterior.sizes["draw"] < 100_000
