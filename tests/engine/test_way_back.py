"""The way back that ends early (method.md, section 8), beside the whole solve, along chains.

Where it ends early the whole solve must end at the same solution. It may end a little further away than the step allows
(twice the tolerance, 2e-8), since both solves have errors of about the tolerance; another solution is far away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.status import CONVERGED, RETURNED
from pathfold.example_models import fitzhugh_nagumo, lorenz63, ornstein_uhlenbeck, sir, van_der_pol
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.starts import find_starts
from tests.plain import compiled_native as native

STEPS = (0.05, 1.5)  # sizes, evenly on the logarithm; the last is the longest that warm-up may choose
MOVE = 0.2  # the step size that the chain itself moves with
ELSEWHERE = 1e-6  # prior standard deviations from where it began: another solution
ALLOWED = 2.0 * pf.Solver().position_tolerance
BARELY = 1e-3  # of ways that end early, at most, whose whole solve ends further away than the step allows


class Case(NamedTuple):
    model: Callable[[], pf.DiffusionModel]
    data: Callable[[], pf.Observations]
    length: int
    steps: int  # fine ones, between observations


CASES = {
    "fitzhugh_nagumo": Case(
        fitzhugh_nagumo.noiseless, lambda: fitzhugh_nagumo.data(fitzhugh_nagumo.noiseless()), 15, 8
    ),
    "ornstein_uhlenbeck": Case(
        ornstein_uhlenbeck.noiseless, lambda: ornstein_uhlenbeck.data(ornstein_uhlenbeck.noiseless()), 15, 5
    ),
    "sir, unknown noise": Case(sir.noisy, sir.data, 14, 8),
    "sir, little noise": Case(lambda: sir.noisy(sigma_y=0.1), sir.data, 5, 8),  # few infected, whose noise is large
    "lorenz63": Case(lambda: lorenz63.noisy(0.1), lorenz63.data, 15, 8),
    "stiff": Case(van_der_pol.noisy, van_der_pol.data, 15, 8),
}


class Verdicts(NamedTuple):
    early: np.ndarray  # whether the way back ended before its solve did
    returned: np.ndarray  # whether it is taken to lead back
    away: np.ndarray  # how far from there the whole solve ends, infinite where it fails


class Walk:
    """A chain on the manifold of a case, and steps from where it is that are judged both ways."""

    def __init__(self, case: Case, seed: int) -> None:
        data = case.data()
        data = pf.Observations(data.times[: case.length], data.values[: case.length], data.initial_time)
        grid = TimeGrid.build(data, steps_per_interval=case.steps)
        self.engine = e = Engine(case.model(), grid)
        set_scales(e)
        self.rng = np.random.default_rng(seed)
        self.points, self.p = tuple(e.block("point") for _ in range(3)), e.block("vector")
        self.scratch = e.block("scratch")
        start = find_starts(e, [0], seed=seed, threads=1, relaxation=relative_spread(e)).point(0)
        self.points[0][: start.position.size] = start.position
        e.record("point", self.points[0], "node")[:] = start.nodes
        native.dynamics.prepare(e.machine(self.scratch), self.points[0])

    def move(self) -> None:
        """Five steps, each with a momentum of its own, which are accepted or not."""
        dynamics, m, p = native.dynamics, self.engine.machine(self.scratch), self.p
        for _ in range(5):
            origin, there, back = self.points
            dynamics.draw_momentum(m, origin, p, self.rng)
            before, blocks = dynamics.hamiltonian(m.layout, origin, p), (origin, there, back, p)
            status = dynamics.step(m, *blocks, MOVE, 0.5 * MOVE, 0.5 * MOVE)
            if status == CONVERGED and dynamics.hamiltonian(m.layout, there, p) - before < self.rng.exponential():
                self.points = there, origin, back

    def judged(self, t: float) -> tuple[bool, bool, float] | None:
        """A step of size t as `constrained_step` makes it: whether its way back ended early, whether it is taken to
        lead back, and how far from there the whole solve ends; None where there is no way there."""
        code, m, p = native.constrained_step, self.engine.machine(self.scratch), self.p
        origin, there, back = self.points
        goal = origin[: p.size]
        native.dynamics.draw_momentum(m, origin, p, self.rng)
        code.kick(m, p, self.engine.gradient(origin), 0.5 * t)
        if code.position_step(m, origin, there, goal[:0], p, t) != CONVERGED:
            return None
        code.momentum_step(m, origin, there, p, t)
        if code.linearise_and_factorise(m, there) != CONVERGED:
            return None
        code.project(m, there, p)
        ends = []
        for sought in (goal, goal[:0]):
            status = code.position_step(m, there, back, sought, p, -t)
            ends.append((status, native.vectors.largest_difference(m, back[: goal.size], goal)))
        (early, near), (status, away) = ends
        returned = early == RETURNED or (early == CONVERGED and near < ALLOWED)
        return early == RETURNED, returned, away if status == CONVERGED else np.inf


def verdicts(name: str, count: int, seed: int) -> Verdicts:
    """Of so many steps whose way there was found, or of as many as three times that number of tries give."""
    walk, found = Walk(CASES[name], seed), []
    for i in range(3 * count):
        if len(found) == count:
            break
        if i % 5 == 0:
            walk.move()
        judged = walk.judged(float(np.exp(walk.rng.uniform(*np.log(STEPS)))))
        found += [] if judged is None else [judged]
    early, returned, away = np.array(found).T
    return Verdicts(early > 0, returned > 0, away)


def check(found: dict[str, Verdicts]) -> None:
    for name, (early, _, away) in found.items():
        barely = early & (away >= ALLOWED)
        print(
            f"{name}: {early.size} steps, {early.sum()} ways back ended early, of which "
            f"{(early & (away > ELSEWHERE)).sum()} lead elsewhere and {barely.sum()} end further away than allowed, "
            f"at most {away[early].max():.1e}; {(away > ELSEWHERE).sum()} ways lead elsewhere, of them "
            f"{(away == np.inf).sum()} nowhere, the nearest {away[away > ELSEWHERE].min(initial=np.inf):.1e} away"
        )
    early, returned, away = (np.concatenate(each) for each in zip(*found.values(), strict=True))
    assert np.array_equal(returned, away < np.where(early, ELSEWHERE, ALLOWED))
    assert np.mean(early[away < ALLOWED]) > 0.9, "most end early"
    assert np.sum(away > ELSEWHERE) > 3e-4 * away.size, "ways that lead elsewhere are tried too"


def test_ways_back_that_end_early_lead_back():
    check({name: verdicts(name, 1000, seed=3) for name in ("fitzhugh_nagumo", "sir, unknown noise")})


@pytest.mark.slow
def test_a_hundred_thousand_ways_back_that_end_early_lead_back():
    """Too few steps of one corner say little of how many end further away than allowed: these are counted here."""
    found = {name: verdicts(name, 20_000, seed=2) for name in CASES}
    assert sum(each.away.size for each in found.values()) > 100_000
    check(found)
    assert np.mean(np.concatenate([each.away[each.early] >= ALLOWED for each in found.values()])) < BARELY
