"""Transitions and step-size adaptation as plain Python, the constrained step replaced by a toy: a leapfrog step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare, kstest, truncnorm, uniform

from pathfold.engine import table as at
from pathfold.engine.native.run import Machine
from pathfold.engine.native.trajectory import COUNTS, ITERATED
from pathfold.engine.status import CONVERGED, NOT_CONVERGED
from pathfold.paper.native.dynamic_hmc import CANDIDATE, LEVELS, RIGHT
from tests.plain import plain_native
from tests.sampling.comparing import threshold
from tests.thorough import sparing

FALSE_ALARMS = 1e-3  # of this file
MAX_DEPTH = 10
NO_MACHINE = Machine(None, None, None, np.zeros(COUNTS, dtype=np.int64))
SCALES = np.array([1.0, 0.6, 0.8])
WALL = 1.8  # in units of the scales: steps from or to states beyond fail, where there is a wall


@pytest.fixture(scope="module")
def native() -> Any:
    """The sampler's own functions, uncompiled."""
    return plain_native()


class Toy:
    """Potential 1/2 |q / scales|^2; a point is q, a step a leapfrog step."""

    def __init__(self, *, wall: bool = False) -> None:
        self.wall = wall
        self.failures = 0

    def inside(self, q: np.ndarray) -> bool:
        return not self.wall or bool(np.all(np.abs(q) < WALL * SCALES))

    def potential(self, layout, q) -> float:
        return 0.5 * float(np.sum((q / SCALES) ** 2))

    def hamiltonian(self, layout, q, p) -> float:
        return self.potential(layout, q) + 0.5 * float(p @ p)

    def step(self, m, origin, target, back, p, t, first, last) -> int:
        p -= first * origin / SCALES**2
        target[:] = origin + t * p
        p -= last * target / SCALES**2
        m.counts[ITERATED] += 2
        if self.inside(origin) and self.inside(target):
            return CONVERGED
        self.failures += 1
        return NOT_CONVERGED

    @staticmethod
    def draw_normals(layout, p, rng) -> None:
        p[:] = rng.standard_normal(p.size)

    def draw_momentum(self, m, point, p, rng) -> None:
        self.draw_normals(m.layout, p, rng)

    def put_into(self, monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
        for name, value in (
            ("potential", self.potential),
            ("hamiltonian", self.hamiltonian),
            ("step", self.step),
            ("draw_momentum", self.draw_momentum),
            ("draw_normals", self.draw_normals),
            ("become_momentum", lambda *_: None),
        ):
            for module in modules:
                monkeypatch.setattr(module, name, value, raising=False)


def tables(native: Any) -> SimpleNamespace:
    t, dynamic = native.trajectory, native.dynamic_hmc
    return SimpleNamespace(
        points=np.zeros((dynamic.DYNAMIC_POINTS, 3)),
        momenta=np.zeros((dynamic.dynamic_momenta(MAX_DEPTH), 3)),
        tree=np.array([(0.0, -np.inf, 0.0, 0.0, 0.0)], dtype=dynamic.TREE)[0],
        statistics=np.zeros(t.STATISTICS),
    )


def of_rung(native: Any, layout: np.ndarray) -> Any:
    return native.tuning.of_rung(native.tuning.Tuning.of(1, layout[at.VECTOR_W]), 0)


def leapfrog_states(q, p, t, count) -> tuple[np.ndarray, np.ndarray]:
    """The states after each of `count` steps."""
    toy, qs, ps = Toy(), [], []
    q, p = q.copy(), p.copy()
    for _ in range(count):
        target = np.empty(3)
        toy.step(NO_MACHINE, q, target, None, p, t, 0.5 * t, 0.5 * t)
        q = target
        qs.append(q.copy())
        ps.append(p.copy())
    return np.array(qs), np.array(ps)


def goes_on(a: np.ndarray, b: np.ndarray) -> bool:
    """The criterion for two adjoining parts, from all their momenta (Betancourt 2017, and Stan's further checks)."""

    def apart(momenta, total):
        return momenta[0] @ total > 0 and momenta[-1] @ total > 0

    near_a, near_b = np.vstack([a, b[:1]]), np.vstack([a[-1:], b])
    return all(apart(part, part.sum(axis=0)) for part in (np.vstack([a, b]), near_a, near_b))


def is_tree(momenta: np.ndarray) -> bool:
    """Whether no sub-tree turns back, by recursion from the top."""
    if len(momenta) == 1:
        return True
    a, b = np.split(momenta, 2)
    return is_tree(a) and is_tree(b) and goes_on(a, b)


def test_log_add(native):
    log_add = native.dynamic_hmc.log_add
    for a, b in ((0.3, -1.2), (-800.0, -801.0), (700.0, 2.0), (-np.inf, 1.0), (1.0, -np.inf)):
        assert log_add(a, b) == pytest.approx(np.logaddexp(a, b), abs=1e-14)
    assert log_add(-np.inf, -np.inf) == -np.inf


def test_merging_joins_sums_and_ends_and_finds_turns(native):
    rng = np.random.default_rng(1)
    verdicts = []
    for _ in range(200):
        parts = [rng.normal(size=(4, 3)) + 0.7 for _ in range(2)]
        momenta = tables(native).momenta
        for level, part in enumerate(parts):
            momenta[LEVELS + 3 * level : LEVELS + 3 * level + 3] = part.sum(axis=0), part[0], part[-1]
        going = native.dynamic_hmc.merge(momenta, 0)
        verdicts.append(bool(going))
        assert going == goes_on(*parts)
        joined = np.vstack([parts[0].sum(axis=0) + parts[1].sum(axis=0), parts[0][0], parts[1][-1]])
        np.testing.assert_allclose(momenta[LEVELS : LEVELS + 3], joined, rtol=1e-14)
    assert 20 < sum(verdicts) < 180, "both verdicts are tested"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extension_is_the_recursive_tree(native, monkeypatch, sign):
    """Bottom-up joining gives what recursion from the top gives: the verdict, the weight, sum and outermost momenta."""
    Toy().put_into(monkeypatch, native.dynamic_hmc)
    rng, row = np.random.default_rng(2), native.trajectory
    ended = {CONVERGED: 0, native.dynamic_hmc.TURNED: 0}
    for leaves in (1, 2, 4, 8, 16, 32):
        for _ in range(12):
            work, t = tables(native), sign * rng.uniform(0.02, 0.5)
            q, p = SCALES * rng.normal(size=3), rng.normal(size=3)
            before = Toy().hamiltonian(None, q, p)
            qs, ps = leapfrog_states(q, p, t, leaves)
            errors = np.array([Toy().hamiltonian(None, *state) for state in zip(qs, ps, strict=True)]) - before
            work.points[RIGHT], work.momenta[row.MOVING] = q, p
            work.tree.energy = before
            status = native.dynamic_hmc.extend(NO_MACHINE, work.points, work.momenta, RIGHT, t, leaves, rng, work.tree)
            assert (status == CONVERGED) == is_tree(ps)
            ended[status] += 1
            if status == CONVERGED:
                assert work.tree.log_weight == pytest.approx(logsumexp(-errors), abs=1e-12)
                assert work.tree.accepted == pytest.approx(np.minimum(1.0, np.exp(-errors)).sum(), abs=1e-12)
                assert work.tree.taken == leaves
                found = work.momenta[LEVELS : LEVELS + 3]
                np.testing.assert_allclose(found, [ps.sum(axis=0), ps[0], ps[-1]], atol=1e-12)
                np.testing.assert_allclose(work.points[RIGHT], qs[-1], atol=1e-13)
    assert min(ended.values()) > 15, ended


def test_the_state_is_drawn_by_weight(native, monkeypatch):
    def bumpy(layout, q, p):
        return np.sin(4.0 * q[0])

    Toy().put_into(monkeypatch, native.dynamic_hmc)
    monkeypatch.setattr(native.dynamic_hmc, "hamiltonian", bumpy)
    rng, row, leaves, t, repeats = np.random.default_rng(3), native.trajectory, 4, 0.3, 3000
    q, p = np.array([-1.0, -0.6, -0.8]), np.array([1.0, 0.7, 0.9])
    qs, ps = leapfrog_states(q, p, t, leaves)
    assert is_tree(ps)
    weights = np.exp([-bumpy(None, *state) for state in zip(qs, ps, strict=True)])
    assert weights.max() > 3 * weights.min()
    drawn = np.zeros(leaves)
    for _ in range(repeats):
        work = tables(native)
        work.points[RIGHT], work.momenta[row.MOVING] = q, p
        native.dynamic_hmc.extend(NO_MACHINE, work.points, work.momenta, RIGHT, t, leaves, rng, work.tree)
        drawn[np.argmin(np.abs(qs - work.points[CANDIDATE]).sum(axis=1))] += 1
    assert chisquare(drawn, repeats * weights / weights.sum()).pvalue > 0.1 * FALSE_ALARMS


def transition(
    native: Any, kind: str, work: SimpleNamespace, t: float, rng: np.random.Generator, share: float = 0.1
) -> None:
    if kind == "dynamic":
        layout = np.zeros(at.LENGTH, dtype=np.int64)
        layout[at.MAX_DEPTH] = MAX_DEPTH
        machine = NO_MACHINE._replace(layout=layout)
        native.dynamic_hmc.dynamic_transition(
            machine, work.points, work.momenta, t, share, rng, work.tree, work.statistics
        )
    else:
        chances = native.static_hmc.draw_chances(None, work.momenta[native.trajectory.MOVING], rng)
        native.static_hmc.static_transition(
            NO_MACHINE, work.points, work.momenta, t, 2.6, share, chances, work.statistics
        )


TRANSITIONS = [
    ("static", False, 0.7, 4, 0.1),
    ("dynamic", False, 0.7, 4, 0.1),
    ("static", True, 1.0, 4, 0.1),
    ("static", True, 1.0, 4, 0.01),
    ("static", True, 1.0, 1, 0.5),
    ("dynamic", True, 0.7, 4, 0.1),
    ("dynamic", True, 0.7, 4, 0.5),
]


@pytest.mark.parametrize(
    ("kind", "wall", "t", "levels", "share"), sparing(TRANSITIONS, *TRANSITIONS[3:5], TRANSITIONS[6])
)
def test_transitions_leave_the_target_alone(native, monkeypatch, kind, wall, t, levels, share):
    """From exact draws (of the Gaussian, or of what is inside the wall, where steps fail) come exact draws."""
    monkeypatch.setattr(native.static_hmc, "MOST_SHORTENED", levels)
    toy = Toy(wall=wall)
    toy.put_into(monkeypatch, getattr(native, f"{kind}_hmc"), native.two_stage)
    rng, row, size = np.random.default_rng(4), native.trajectory, 6000
    target = truncnorm(-WALL, WALL) if wall else truncnorm(-np.inf, np.inf)
    work, after, failed = tables(native), np.zeros((size, 3)), np.zeros((size, 2))
    dead_end = np.zeros(size, dtype=bool)
    before = SCALES * target.rvs((size, 3), random_state=rng)
    for i in range(size):
        work.points[row.CURRENT] = before[i]
        transition(native, kind, work, t, rng, share)
        after[i] = work.points[row.CURRENT]
        failed[i] = work.statistics[row.STATUS] != CONVERGED, work.statistics[row.STEPS_FAILED] > 0
        dead_end[i] = work.statistics[row.STEPS_FAILED] > 1 and work.statistics[row.ACCEPTANCE] == 0.0
        assert toy.inside(after[i])
        assert work.statistics[row.ITERATIONS] == 1.0, "the toy says two a step: all that were made are counted"
        if failed[i, 0]:
            assert kind == "dynamic" or np.array_equal(before[i], after[i]), "a failed static trajectory is a rejection"
            assert work.statistics[row.ACCEPTANCE] == 0.0
    moved = np.any(before != after, axis=1)
    assert np.mean(moved) > (0.3 if wall else 0.8)
    if wall:
        lost, met = np.mean(failed, axis=0)
        assert lost > (0.02 if kind == "static" else 0.05), "trajectories that fail are tested"
        if kind == "dynamic":
            assert np.mean(moved[failed[:, 0] > 0]) > 0.3, "the state drawn before the doubling that failed is kept"
        assert met > 0.05, "and those that meet the wall"
        if kind == "static":
            assert np.mean(moved[failed[:, 1] > 0]) > 0.3, "trajectories turn back at the wall"
            assert np.mean(dead_end) > 0.05
            assert np.mean(moved[dead_end]) > 0.1, "shorter steps lead on where the usual ones fail both ways"
    else:
        assert not failed.any()
    x, scores = after / SCALES, []
    for power in (1, 2, 4):
        exact, second = target.moment(power), target.moment(2 * power)
        scores += [*((np.mean(x**power, axis=0) - exact) / np.sqrt((second - exact**2) / size))]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        scores.append(np.mean(x[:, i] * x[:, j]) * np.sqrt(size) / target.moment(2))
    assert np.abs(scores).max() < threshold(len(scores), 0.2 * FALSE_ALARMS), scores


class Corner(Toy):
    """Beyond a value of the first coordinate, which has 6 % of the mass, only steps shorter than 0.2 succeed."""

    EDGE = truncnorm(-np.inf, np.inf).isf(0.06)

    def inside(self, q: np.ndarray) -> bool:
        return q[0] < self.EDGE * SCALES[0]

    def step(self, m, origin, target, back, p, t, first, last) -> int:
        status = super().step(m, origin, target, back, p, t, first, last)
        return CONVERGED if abs(t) < 0.2 else status


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_corner_where_steps_are_too_long_is_entered_and_left(native, monkeypatch, kind):
    """Never with one step size; with others a chain is there for 6 % of the time, within 3.5 standard errors of the
    means of 40 batches."""
    toy, row, rng = Corner(), native.trajectory, np.random.default_rng(9)
    toy.put_into(monkeypatch, getattr(native, f"{kind}_hmc"), native.two_stage)

    def is_behind(size: int, share: float) -> np.ndarray:
        found, work = np.zeros(size, dtype=bool), tables(native)
        for i in range(size):
            transition(native, kind, work, 0.7, rng, share=share)
            found[i] = not toy.inside(work.points[row.CURRENT])
        return found

    assert not is_behind(1000, 1e-12).any()
    behind = is_behind(8000, 0.25)
    batches = behind.reshape(40, -1).mean(axis=1)
    assert np.sum(behind[1:] & ~behind[:-1]) > 30, "it goes there many times"
    assert abs(batches.mean() - 0.06) < 3.5 * batches.std(ddof=1) / np.sqrt(40)


def test_a_length_that_cannot_be_drawn_at_the_end_is_never_accepted(native, monkeypatch):
    """However much energy is lost on the way: a chance of zero times a large number must not be NaN and accepted."""
    toy, work, row = Toy(), tables(native), native.trajectory
    toy.put_into(monkeypatch, native.static_hmc, native.two_stage)
    monkeypatch.setattr(native.static_hmc, "hamiltonian", lambda layout, q, p: 1e6 if np.all(q == 0.0) else -1e6)
    levels = iter([0, 3] * 50)
    monkeypatch.setattr(native.static_hmc, "level_of", lambda *_: next(levels))
    for seed in range(50):
        work.points[row.CURRENT] = 0.0
        transition(native, "static", work, 0.1, np.random.default_rng(seed), share=1.0 - 1e-9)
        assert work.statistics[row.ACCEPTANCE] == 0.0
        assert np.all(work.points[row.CURRENT] == 0.0)


def test_pairs_that_fail_count_a_third_for_the_step_size(native, monkeypatch):
    """At a wall shorter steps fail as well; where all fail at first they are too long, also if shorter ones lead on."""
    toy, work, row = Toy(), tables(native), native.trajectory
    toy.put_into(monkeypatch, native.static_hmc, native.two_stage)
    monkeypatch.setattr(native.static_hmc, "hamiltonian", lambda *_: 0.0)
    monkeypatch.setattr(native.static_hmc, "length_of", lambda *_: (4, 0.1))
    monkeypatch.setattr(native.static_hmc, "level_of", lambda *_: 1)
    for failed, expected in ((0, 1.0), (1, 11 / 12), (3, 3 / 4), (4, 0.0)):
        found = [0, failed]  # of shorter steps, and before them of the usual ones

        def trajectory(*given, found=found):
            given[0].counts[row.STEPPED] = 1
            return row.NEXT, row.SPARE, found.pop(), NOT_CONVERGED

        monkeypatch.setattr(native.static_hmc, "trajectory", trajectory)
        transition(native, "static", work, 0.1, np.random.default_rng(0), share=1e-9)
        assert work.statistics[row.ACCEPTANCE] == pytest.approx(expected)
        assert work.statistics[row.STATUS] == CONVERGED


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_shorter_steps_are_rare_where_they_were_never_needed(native, monkeypatch, kind):
    """A chain whose warm-up never met a wall takes the small share after it, another the large one."""
    chain = native.chain_loop if kind == "static" else native.dynamic_loop
    careful, confident = native.thresholds.CAREFUL, native.thresholds.CONFIDENT
    monkeypatch.setattr(native.chain_loop, "first_step_size", lambda *_: 0.5)
    for name in ("draw_chances", "record_row", "before_transition", "after_transition"):
        monkeypatch.setattr(chain, name, lambda *_: 0.5, raising=False)

    def shares(needed: bool) -> list[float]:
        """Of a warm-up of four transitions and two more, in the second of which steps may have to be shortened."""
        found = []

        def transition(*given):
            found.append(given[5 if kind == "static" else 4])
            return needed and len(found) == 2

        monkeypatch.setattr(chain, f"{kind}_transition", transition)
        one, rows, flags = np.zeros((1, 1)), np.zeros((6, 20)), np.zeros((2, 1), dtype=np.int64)
        tuning = native.tuning.Tuning.of(1, 0)
        work = native.chain_loop.Work(None, one, one, one, None, tuning, None)
        given = 4, 0.9, native.recording.Drawn(rows, rows, rows, rows, rows), *flags
        if kind == "static":
            chain.run_static(work, None, 1.0, *given)
        else:
            chain.run_dynamic(work, None, [None], False, *given)
        return found

    assert shares(needed=False) == [careful] * 4 + [confident] * 2
    assert shares(needed=True) == [careful] * 6


def test_trajectories_grow_either_way(native, monkeypatch):
    """From the middle, stopped after the first doubling: the new state lies ahead or behind, each half of the time."""
    Toy().put_into(monkeypatch, native.dynamic_hmc)
    monkeypatch.setattr(native.dynamic_hmc, "joins", lambda *_: False)
    work, row, rng, ahead, repeats = tables(native), native.trajectory, np.random.default_rng(8), 0, 2000
    for _ in range(repeats):
        work.points[row.CURRENT] = 0.0
        transition(native, "dynamic", work, 0.1, rng)
        assert work.statistics[row.DEPTH] == 1
        ahead += bool(np.any(work.points[RIGHT] != 0.0))
    assert abs(ahead - repeats / 2) < threshold(1, 0.1 * FALSE_ALARMS) * np.sqrt(repeats / 4)


def test_divergence_ends_a_dynamic_trajectory(native, monkeypatch):
    Toy().put_into(monkeypatch, native.dynamic_hmc)
    work, row = tables(native), native.trajectory
    work.points[row.CURRENT] = start = np.array([3.0, 3.0, 3.0])
    transition(native, "dynamic", work, 50.0, np.random.default_rng(0), share=0.0)
    assert work.statistics[row.DIVERGING] == 1.0
    assert work.statistics[row.ACCEPTANCE] == 0.0
    assert work.statistics[row.STEPS_TAKEN] == 1
    assert np.array_equal(work.points[row.CURRENT], start)


def test_shorter_steps_are_drawn_evenly_on_the_logarithm(native):
    rng, dynamic = np.random.default_rng(10), native.dynamic_hmc
    sizes, depths = np.array([dynamic.draw_step_size(0.5, 10, 0.25, rng) for _ in range(8000)]).T
    shorter = sizes < 0.5
    assert abs(shorter.mean() - 0.25) < threshold(1, 0.1 * FALSE_ALARMS) * np.sqrt(0.25 * 0.75 / 8000)
    assert kstest(np.log(sizes[shorter] / 0.5) / np.log(dynamic.SHORTEST_STEP), "uniform").pvalue > 0.1 * FALSE_ALARMS
    assert set(depths[shorter]) == {dynamic.SHALLOW}
    assert set(depths[~shorter]) == {10}


def test_normals_replace_whatever_was_there(native):
    """One interval in two lanes: a step that failed may have left NaN in the idle one, which must not stay for ever."""
    layout = np.append(np.zeros(at.LENGTH, dtype=np.int64), 1)  # the list of idle slots
    layout[[at.CHUNKS, at.INTERVALS, at.LANES, at.ABREAST]] = 1, 1, 2, 1
    layout[[at.IDLE, at.IDLE_SLOTS]] = at.LENGTH, 1
    for place, begin, end in ((at.VECTOR_V0, 0, 1), (at.VECTOR_W, 1, 3), (at.VECTOR_V, 3, 5)):
        layout[[place, place + at.END]] = begin, end
    p = np.full(5, np.nan)
    native.vectors.draw_normals(layout, p, np.random.default_rng(0))
    assert np.flatnonzero(p == 0.0).tolist() == [2, 4]
    assert np.isfinite(p).all()


def test_the_length_of_trajectories_lies_about_the_integration_time(native):
    rng, length_of = np.random.default_rng(5), native.static_hmc.length_of
    pairs, step = np.array([length_of(1.5, 0.1, rng.random()) for _ in range(3000)]).T
    assert np.all(step <= 0.1)
    assert np.all(step > 0.1 * (1.0 - 1.0 / pairs)), "one pair less would not do"
    lengths = 2.0 * pairs * step
    assert kstest(lengths, uniform(0.9, 1.2).cdf).pvalue > 0.1 * FALSE_ALARMS
    assert {length_of(1.5, 5.0, rng.random())[0] for _ in range(20)} == {1}
    assert {length_of(1.5, 1e-9, rng.random()) for _ in range(20)} == {(native.static_hmc.MAX_PAIRS, 1e-9)}


@pytest.mark.parametrize(("slow", "expected"), [(0.9, 1), (0.2, 0)])
def test_a_slow_coordinate_makes_trajectories_longer(native, slow, expected):
    """Two coordinates as autoregressions: longer trajectories help the slow one, and cost three times as much."""
    time, rng, warmup, steps = native.integration_time, np.random.default_rng(7), 400, (4, 12)
    layout, point = np.zeros(at.LENGTH, dtype=np.int64), np.zeros(4)
    layout[[at.U, at.VECTOR_W, at.VECTOR_V + at.END]] = 2
    tuning = of_rung(native, layout)
    for iteration in range(warmup):
        tuning.state[0].iteration = iteration
        time.before_transition(layout, point, tuning)
        trial = time.TIMES.index(time.integration_time(tuning.state[0].time, iteration, warmup))
        for j, r in enumerate((0.1, (slow, slow**9)[trial])):
            point[j] = r * point[j] + np.sqrt(1.0 - r**2) * rng.normal()
        time.after_transition(layout, point, tuning, warmup, steps[trial])
    assert time.integration_time(tuning.state[0].time, warmup, warmup) == time.TIMES[expected]
    assert time.integration_time(0.0, 0, 0) == time.TIMES[0], "a run without warm-up has a quarter of a turn"


@pytest.mark.parametrize(("slow", "expected"), [(0.9, 1), (0.2, 0)])
def test_initial_states_of_many_series_are_judged_together(native, slow, expected):
    """One parameter and two initial states of 2,000 series: some seem slow by chance in a warm-up of 100 iterations."""
    time, rng, warmup, steps, series = native.integration_time, np.random.default_rng(8), 100, (4, 12), 2000
    layout, point = np.zeros(at.LENGTH + series, dtype=np.int64), np.zeros(1 + 2 * series)
    layout[[at.U, at.V0, at.SERIES, at.ABREAST]] = 1, 2, series, 1
    layout[at.PLACE], layout[at.LENGTH :] = at.LENGTH, np.arange(series)
    layout[[at.VECTOR_V0, at.VECTOR_V0 + at.SIZE]] = 1, 2
    layout[[at.VECTOR_W, at.VECTOR_V + at.END]] = point.size
    tuning = of_rung(native, layout)
    for iteration in range(warmup):
        tuning.state[0].iteration = iteration
        time.before_transition(layout, point, tuning)
        trial = time.TIMES.index(time.integration_time(tuning.state[0].time, iteration, warmup))
        r = np.append(0.1, np.tile((0.1, (slow, slow**9)[trial]), series))
        point[:] = r * point + np.sqrt(1.0 - r**2) * rng.normal(size=point.size)
        time.after_transition(layout, point, tuning, warmup, steps[trial])
    assert time.integration_time(tuning.state[0].time, warmup, warmup) == time.TIMES[expected]


def adapted(
    native: Any, acceptance, *, first: float, iterations: int, target: float = 0.8
) -> tuple[list[float], float]:
    """Steps tried in warm-up when `acceptance(step, iteration)` is the statistic, and the step it ends with."""
    size = native.step_size
    state = native.tuning.Tuning.of(1, 0).state[0]
    size.start_adaptation(state, first)
    tried = []
    for i in range(iterations):
        tried.append(size.step_size(state, True))
        size.adapt_step_size(state, acceptance(tried[-1], i), target)
    return tried, size.step_size(state, False)


@pytest.mark.parametrize("first", [0.01, 0.3, 1.0])
def test_dual_averaging_finds_the_target(native, first):
    rng = np.random.default_rng(6)
    found = adapted(native, lambda t, i: float(np.exp(-t) > rng.random()), first=first, iterations=3000)[1]
    assert np.exp(-found) == pytest.approx(0.8, abs=0.03)


def test_early_failures_do_not_stall(native):
    tried, found = adapted(native, lambda t, i: 0.0 if i < 40 else np.exp(-t), first=0.4, iterations=400)
    assert min(tried) >= native.step_size.FLOOR * 0.4 * (1 - 1e-12)
    assert np.exp(-found) == pytest.approx(0.8, abs=0.05)


def test_the_first_step_is_where_acceptance_crosses_a_half(native, monkeypatch):
    toy, size, row = Toy(), native.step_size, native.trajectory
    toy.put_into(monkeypatch, size)

    def first_step(seed: int) -> float:
        work = tables(native)
        work.points[row.CURRENT] = SCALES
        rng = np.random.default_rng(seed)
        return size.first_step_size(NO_MACHINE, work.points, work.momenta, rng)

    assert all(0.5 <= first_step(seed) <= size.LONGEST_STEP for seed in range(5))
    energies = iter(range(0, -100_000, -1000))
    with monkeypatch.context() as patch:
        patch.setattr(size, "hamiltonian", lambda *_: next(energies))
        assert first_step(0) < 1e-6, "a step that loses much energy is as wrong as one that gains it"

    def still(m, origin, target, back, p, t, first, last) -> int:
        target[:] = origin
        return CONVERGED if abs(t) < 0.01 else NOT_CONVERGED

    monkeypatch.setattr(size, "step", still)
    assert all(0.005 <= first_step(seed) < 0.01 for seed in range(5))
    monkeypatch.setattr(size, "step", lambda *a: NOT_CONVERGED)
    assert 0.0 < first_step(0) < 1e-6, "a chain that cannot move ends all the same"
