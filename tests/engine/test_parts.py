"""Work in parts: the same numbers whoever does which part, and what the oracle has, however many parts there are."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from pathfold.data import Observations, TimeGrid
from pathfold.engine import Engine, GuidedEngine, UnconstrainedEngine, engine, helpers, plans
from pathfold.engine import table as at
from pathfold.engine.helpers import helped
from pathfold.engine.native import team
from pathfold.engine.native.run import Machine, address_of_run, run
from pathfold.engine.status import CONVERGED
from pathfold.example_models import ornstein_uhlenbeck
from tests.engine.driving import Driven
from tests.engine.models import Case, with_data_from
from tests.plain import plain_native
from tests.thorough import thorough

CALLED = ctypes.CFUNCTYPE(None, *6 * [ctypes.c_int64])
OVER_CHUNKS = plans.plan(plans.chunks("called"))
PATIENCE = 30.0  # seconds


@pytest.fixture
def many_parts(monkeypatch):
    """As many parts as there are chunks, two at the least."""
    monkeypatch.setattr(engine, "WORK", 1)
    monkeypatch.setattr(engine, "FEWEST_PARTS", 2)


def layout_of(bounds: list[int]) -> np.ndarray:
    """A layout with nothing but parts, and no tables of theirs."""
    layout = np.zeros(at.LENGTH + len(bounds), dtype=np.int64)
    layout[[at.PARTS, at.TABLES, at.BY_CHUNK]] = len(bounds) - 1, len(layout), at.LENGTH
    layout[at.LENGTH :] = bounds
    return layout


def go(layout: np.ndarray, kernel: Callable[..., None]) -> None:
    """Call a Python function where a kernel would be called, on all parts; the Python lock is not held meanwhile."""
    function = CALLED(kernel)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    bound = plans.bind({"called": address}, {}, apart=False).after(layout)
    bound[at.RUN] = address_of_run()
    none = np.zeros(0)
    run(Machine.of(bound, none, none), OVER_CHUNKS, none, none)


@pytest.mark.parametrize("bounds", [[0, 17], [0, 3, 3, 4, 9, 10, 17]])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_chunk_is_done_once(count, bounds):
    layout, done = layout_of(bounds), []
    with helped(layout, count):
        for _ in range(200):
            go(layout, lambda i, *_: done.append(i))
    assert sorted(done) == sorted(200 * list(range(17)))


def test_helpers_work_at_the_same_time():
    """Three parts wait for each other: one thread alone would wait in vain."""
    layout, here, threads = layout_of([0, 1, 2, 3]), threading.Barrier(3), set()

    def meet(*_):
        here.wait(PATIENCE)
        threads.add(threading.get_ident())

    with helped(layout, 2):
        for _ in range(5):
            go(layout, meet)
    assert len(threads) == 3
    assert not here.broken


def test_nobody_waits_for_a_helper_that_has_not_begun():
    """A helper that is held up in one part leaves the others to the chain."""
    layout, release, by = layout_of([*range(9)]), threading.Event(), {}

    def slow(i, *_):
        by[i] = threading.get_ident()
        if len(by) == 8:
            release.set()
        elif by[i] != threading.main_thread().ident:
            assert release.wait(PATIENCE)

    with helped(layout, 1):
        go(layout, slow)
    mine = [i for i, thread in by.items() if thread == threading.main_thread().ident]
    assert len(mine) >= 7


def test_helpers_leave_with_the_chain():
    layout, before = layout_of([0, 1, 2]), threading.active_count()
    seen = []

    def fail():
        seen.append(threading.active_count())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), helped(layout, 4):
        fail()
    assert seen == [before + 1], "one part for the chain, one for a helper"
    assert threading.active_count() == before
    assert layout[at.TEAM] == 0


class Words:
    """The words of a team of threads that never run: their functions, called by hand."""

    def __init__(self, threads: int) -> None:
        self.words = np.zeros(team.words_of(threads), dtype=np.int64)
        self.words[team.THREADS] = threads
        self.address = self.words.ctypes.data

    def __getattr__(self, name: str):
        return lambda *arguments: getattr(team, name)(self.address, *arguments)


@pytest.mark.parametrize("before", [0, 2**31 - 2, 2**32 - 2])
def test_parts_are_taken_once_also_where_a_helper_is_late(before):
    """Works of different numbers of parts, taken by threads in any order; a late one has seen works that are done."""
    t, rng, old = Words(3), np.random.default_rng(4), list[int]()
    t.words[team.POSTED] = before * team.NUMBER
    for _ in range(200):
        parts = int(rng.integers(0, 9))
        posted = t.post(parts)
        taken = []
        while (part := t.take(thread := int(rng.integers(3)), posted)) >= 0:
            taken.append(part)
            t.count_done(thread)
            assert all(t.take(int(rng.integers(3)), late) < 0 for late in old[-5:])
        assert sorted(taken) == [*range(parts)]
        t.wait_for_others()
        old.append(posted)


def test_a_thread_begins_with_parts_of_its_own():
    t = Words(3)
    for _ in range(2):
        posted = t.post(8)
        assert [t.take(1, posted) for _ in range(3)] == [1, 4, 7]
        assert [t.take(0, posted) for _ in range(2)] == [0, 3]
        assert [t.take(1, posted) for _ in range(4)] == [2, 5, 6, -1], "then with those of the next threads"


def test_an_error_of_a_helper_is_raised_soon(monkeypatch):
    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(helpers, "is_compiled", lambda: True)
    monkeypatch.setattr(helpers.run, "help_along", fail)
    turns = int(PATIENCE / 0.01)

    def chain(asked: list[float]) -> None:
        with helped(layout_of([0, 1, 2]), 1) as clock:
            while len(asked) < turns:
                asked.append(clock())
                time.sleep(0.01)

    asked: list[float] = []
    with pytest.raises(MemoryError, match="no room"):
        chain(asked)
    assert len(asked) < turns, "not when all is done"


def test_a_helper_that_cannot_start_is_no_harm(monkeypatch):
    """The operating system may refuse a thread: the error is told, and those that were started leave."""
    layout, before, made = layout_of([0, 1, 2, 3]), threading.active_count(), itertools.count()

    class Refused(threading.Thread):
        def start(self):
            if next(made) > 0:
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(helpers, "Thread", Refused)
    with pytest.raises(RuntimeError, match="can't start"), helped(layout, 2):
        pass
    assert threading.active_count() == before


def grid_of(lengths: list[int], steps: int) -> TimeGrid:
    series = [Observations(0.2 * np.arange(1, n + 1), np.zeros(n)) for n in lengths]
    return TimeGrid.build(series, steps_per_interval=steps)


@pytest.mark.parametrize(
    ("lengths", "steps", "parts"),
    [([100], 25, 1), ([1000], 25, 1), ([1100], 25, 8), ([3000], 5, 1), (160 * [20], 5, 8), ([20_000], 25, 64)],
)
def test_small_problems_are_one_part(lengths, steps, parts):
    assert Engine(ornstein_uhlenbeck.noisy(), grid_of(lengths, steps)).parts == parts


def test_guided_paths_are_not_cut(many_parts):
    model, grid = ornstein_uhlenbeck.noisy(), grid_of([40], 2)
    assert GuidedEngine(model, grid).parts == 1
    assert UnconstrainedEngine(model, grid).parts == 5


def test_parts_hold_every_chunk_series_and_node(many_parts):
    e = Engine(ornstein_uhlenbeck.noisy(), grid_of([1, 30, 2, 2, 2, 40, 1], 2), lanes=4, abreast=1)
    assert e.parts == 20 == e.chunks

    def listed(place: int, count: int) -> list[int]:
        return e.layout[e.layout[place] :][:count].tolist()

    rows = listed(at.ROWS, e.series + 1 + e.parts + 1)
    assert listed(at.BY_CHUNK, e.parts + 1) == [*range(21)]
    assert rows == [0, 1, 31, 33, 35, 37, 77, 78, *range(0, 78, 4), 78]
    assert listed(at.BY_NODE, e.parts + 1) == [*range(8, 29)]
    by_series = listed(at.BY_SERIES, e.parts + 1)
    assert (by_series[0], by_series[-1]) == (0, 7)
    assert by_series == sorted(by_series)
    tables = e.layout[e.layout[at.TABLES] :][: 2 * 19 * at.LENGTH].reshape(-1, at.LENGTH)
    places = {name: len(np.unique(tables[:, place])) for name, place in at.OF_PARTS.items()}
    assert places == {"sums": 20, "newton_sums": 20, "carry": 19}
    for i, table in enumerate(tables):
        begin = e.layout[at.TABLES] + i * at.LENGTH
        for place in (at.ROWS, at.ACTIVE):
            assert begin + table[place] == e.layout[place]


def test_parts_hold_groups_of_series(many_parts):
    """Ten series in groups of four, the longest first; the last group has two."""
    e = Engine(ornstein_uhlenbeck.noisy(), grid_of([1, 3, 2, 2, 9, 3, 1, 2, 8, 8], 2), lanes=4, abreast=4)

    def listed(place: int, count: int) -> list[int]:
        return e.layout[e.layout[place] :][:count].tolist()

    assert e.chunks == e.parts == 9 + 3 + 1
    assert listed(at.ROWS, 4) == [0, 9, 12, 13]
    assert listed(at.ACTIVE, 13) == [4, 4, 4, 3, 3, 3, 3, 3, 1, 4, 4, 1, 2]
    assert listed(at.PLACE, 10) == [8, 3, 5, 6, 0, 4, 9, 7, 1, 2]
    assert listed(at.SLOT, 4) == [48, 3, 7, 11]
    assert listed(at.BY_SERIES, 14) == [0, *9 * [1], 2, 2, 2, 3]
    idle = listed(at.IDLE, e.layout[at.IDLE_SLOTS])
    assert sorted([*listed(at.SLOT, e.intervals), *idle]) == [*range(52)]


def test_parts_of_a_large_panel_have_whole_series(many_parts, monkeypatch):
    """A part begins with a chunk: the group before has idle rows, and nothing of a series is in another part."""
    monkeypatch.setattr(engine, "CACHE", 1)
    lengths = [3, 5, 4, 4, 7, 3, 5, 9, 8, 8, 2, 6, 6, 9, 5, 4, 9, 9]
    e = Engine(ornstein_uhlenbeck.noisy(), grid_of(lengths, 2), lanes=4, abreast=2)

    def listed(place: int, count: int) -> np.ndarray:
        return e.layout[e.layout[place] :][:count]

    by_chunk, by_series = listed(at.BY_CHUNK, e.parts + 1), listed(at.BY_SERIES, e.parts + 1)
    rows, active = listed(at.ROWS, 9 + 1 + e.parts + 1), listed(at.ACTIVE, e.slots.rows[-1])
    assert e.layout[at.APART] == 1
    assert e.parts == 6
    assert rows[: 9 + 1][by_series].tolist() == rows[9 + 1 :].tolist() == [0, 10, 20, 28, 42, 52, 59]
    assert by_chunk.tolist() == [0, 5, 10, 14, 21, 26, 30]
    assert (by_series[0], by_series[-1]) == (0, 9)
    assert active.sum() == sum(lengths)
    assert (active == 0).sum() > 0
    parts_of = np.searchsorted(by_chunk, e.slots.of_interval // e.lanes, side="right")
    for first, length in zip(e.first, lengths, strict=True):
        assert len(set(parts_of[first : first + length])) == 1
    assert len(set(e.slots.of_interval)) == sum(lengths)


PANEL = Case(
    seed=5, X=2, B=2, Y=1, W=1, S=2, priors=("normal", "gamma"), starts=("normal",), lengths=(3, 1, 9, 2), missing=True
)
CASES = {"a panel": PANEL, "whole series": PANEL, "one series": Case(**{**vars(PANEL), "lengths": (11,)})}


@pytest.fixture
def in_parts(many_parts, monkeypatch):
    """Gives a case in parts, with positions near zero; of "whole series" each part has such."""

    def drive(name: str, positions: int, **options) -> tuple[Driven, np.ndarray]:
        monkeypatch.setattr(engine, "CACHE", 1 if name == "whole series" else 10**9)
        model, grid, rng = CASES[name].model(), CASES[name].grid(), np.random.default_rng(2)
        q = 0.4 * rng.normal(size=(positions, Driven.dimension(model, grid)))
        d = Driven(model, with_data_from(model, grid, q[0]), lanes=2, **options)
        assert d.engine.parts == (2 if name == "whole series" else d.engine.chunks)
        assert d.engine.layout[at.APART] == (name == "whole series")
        return d, q

    return drive


@pytest.mark.parametrize(
    ("name", "plain"),
    thorough([(name, plain) for name in CASES for plain in (True, False)], ("a panel", False), ("whole series", False)),
)
def test_in_parts_the_numbers_are_those_of_the_oracle(in_parts, name, plain):
    """All sums over nodes: log|G|, C, the gradient's, the multipliers of the parameters, residual and change."""
    d, (q, p, other) = in_parts(name, 3, plain=plain)
    with helped(d.engine.layout, 0 if plain else 2):
        assert d.log_det_error(q) < 1e-10
        assert d.gradient_error(q, verlet=True) < 1e-9
        assert max(d.projector_errors(q, p)) < 1e-9
        assert max(d.newton_errors(q, q + 0.1 * other).values()) < 1e-9


@pytest.mark.parametrize("name", ["a panel", "whole series"])
def test_a_fault_in_the_sums_of_parts_is_seen(in_parts, monkeypatch, name):
    d, (q, other) = in_parts(name, 2)
    for fault in ("begin_sums", "join_sums"):
        with monkeypatch.context() as patch:
            patch.setattr(plain_native().run, fault, lambda *_: None)
            assert max(d.newton_errors(q, q + 0.1 * other).values()) > 1e-6


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_same_with_any_number_of_threads(in_parts, name):
    d, (q, p) = in_parts(name, 2, plain=False)
    found = set()
    for count in (0, 1, 2, 5):
        with helped(d.engine.layout, count):
            status, target, momentum = d.step(d.point(q), d.dense.project(q, p), 0.1)
        assert status == CONVERGED
        found.add((d.flat(target).tobytes(), d.flat(d.engine.gradient(target)).tobytes(), momentum.tobytes()))
    assert len(found) == 1
