"""Static Hamiltonian Monte Carlo: a random number of steps, then accept or reject (paper, algorithm 1)."""

from __future__ import annotations

from numpy import exp

from pathfold.engine.status import CONVERGED

from .jit import compiled
from .momentum import draw_momentum
from .point import hamiltonian, potential
from .step import constrained_step, copy
from .trajectory import (
    ACCEPTANCE,
    BACK,
    CURRENT,
    DEPTH,
    DIVERGENCE_ENERGY,
    DIVERGING,
    ENERGY,
    ITERATIONS,
    LOG_DENSITY,
    MOVING,
    NEXT,
    RETURNED,
    SPARE,
    STATUS,
    STEP_SIZE,
    STEPS_TAKEN,
)

SPREAD = 0.4  # the number of steps varies by this fraction about the integration time
MAX_STEPS = 1023


@compiled
def draw_steps(time, t, rng):
    """A number of steps, uniform about time / t."""
    low = max(1, min(MAX_STEPS, int((1.0 - SPREAD) * time / t + 0.5)))
    high = max(low, min(MAX_STEPS, int((1.0 + SPREAD) * time / t + 0.5)))
    return low + int(rng.random() * (high - low + 1))


@compiled
def static_transition(layout, problem, points, momenta, t, time, rng, scratch, counts, statistics):
    """One transition from points[CURRENT]; a failed step is a rejection."""
    p = momenta[MOVING]
    draw_momentum(layout, problem, points[CURRENT], p, rng, scratch)
    before = hamiltonian(layout, points[CURRENT], p)
    steps = draw_steps(time, t, rng)
    counts[0] = 0
    at, to = CURRENT, NEXT
    status = CONVERGED
    taken = 0
    while status == CONVERGED and taken < steps:
        status = constrained_step(
            layout, problem, points[at], points[to], points[BACK], p, momenta[RETURNED], t, scratch, counts
        )
        taken += 1
        at, to = to, (SPARE if to == NEXT else NEXT)
    after = hamiltonian(layout, points[at], p) if status == CONVERGED else before
    probability = min(1.0, exp(before - after)) if status == CONVERGED and after == after else 0.0
    if rng.random() < probability:
        copy(points[at], points[CURRENT])
    statistics[ACCEPTANCE] = probability
    statistics[STEPS_TAKEN] = taken
    statistics[STEP_SIZE] = t
    statistics[ENERGY] = before
    statistics[LOG_DENSITY] = -potential(layout, points[CURRENT])
    statistics[STATUS] = status
    statistics[ITERATIONS] = counts[0] / (2.0 * taken)
    statistics[DEPTH] = 0.0
    statistics[DIVERGING] = 0.0 if after - before < DIVERGENCE_ENERGY else 1.0
