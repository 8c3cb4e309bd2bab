"""Static Hamiltonian Monte Carlo: a random number of steps, then accept or reject (paper, algorithm 1).

Where a step fails the trajectory turns back: the momentum changes sign, and the steps that are left lead the way it
came and on beyond its start. Let A be a step followed by a change of sign F of the momentum, or nothing where the step
fails: steps being reversible, A A = 1. The trajectory is (F A)^n, F (F A)^n undoes itself, and the usual acceptance
holds. The discretised path of many models explodes beyond some state (an explicit scheme far out, a logarithm near
extinction); trajectories meet that wall however small their steps are, and would be lost if they ended there.

Near such walls the step size that warm-up found may be too long, and a chain that got there would stay for long: every
now and then a trajectory has shorter steps.
"""

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
    BEFORE,
    CURRENT,
    DEPTH,
    DIVERGENCE_ENERGY,
    DIVERGING,
    ENERGY,
    ITERATIONS,
    LOG_DENSITY,
    MOVING,
    NEXT,
    SPARE,
    STATUS,
    STEP_SIZE,
    STEPS_FAILED,
    STEPS_TAKEN,
)

SPREAD = 0.4  # the number of steps varies by this fraction about the integration time
MAX_STEPS = 1023
CAREFUL, SHORTER = 0.1, 0.25  # this fraction of trajectories has steps shorter by this factor


@compiled
def draw_steps(time, t, rng):
    """A number of steps, uniform about time / t."""
    low = max(1, min(MAX_STEPS, int((1.0 - SPREAD) * time / t + 0.5)))
    high = max(low, min(MAX_STEPS, int((1.0 + SPREAD) * time / t + 0.5)))
    return low + int(rng.random() * (high - low + 1))


@compiled
def turn(p, reversed_p):
    for i in range(p.size):
        reversed_p[i] = -p[i]


@compiled
def static_transition(layout, problem, points, momenta, t, time, rng, scratch, counts, statistics):
    """One transition from points[CURRENT]. The trajectory has failed, with a status, when none of its steps succeeded.

    The acceptance statistic is the probability times the fraction of steps that succeeded, so that failing steps make
    for smaller ones.
    """
    p = momenta[MOVING]
    draw_momentum(layout, problem, points[CURRENT], p, rng, scratch)
    before = hamiltonian(layout, points[CURRENT], p)
    steps = draw_steps(time, t, rng)
    length = SHORTER * t if rng.random() < CAREFUL else t
    counts[0] = 0
    at, to = CURRENT, NEXT
    failed = 0
    cause = CONVERGED
    for _ in range(steps):
        copy(p, momenta[BEFORE])
        status = constrained_step(layout, problem, points[at], points[to], points[BACK], p, length, scratch, counts)
        if status == CONVERGED:
            at, to = to, (SPARE if to == NEXT else NEXT)
        else:
            turn(momenta[BEFORE], p)
            failed += 1
            cause = status
    after = hamiltonian(layout, points[at], p)
    probability = min(1.0, exp(before - after)) if failed < steps and after == after else 0.0
    if rng.random() < probability:
        copy(points[at], points[CURRENT])
    statistics[ACCEPTANCE] = probability * (steps - failed) / steps
    statistics[STEPS_TAKEN] = steps
    statistics[STEP_SIZE] = t
    statistics[ENERGY] = before
    statistics[LOG_DENSITY] = -potential(layout, points[CURRENT])
    statistics[STATUS] = cause if failed == steps else CONVERGED
    statistics[ITERATIONS] = counts[0] / (2.0 * steps)
    statistics[DEPTH] = 0.0
    statistics[DIVERGING] = 0.0 if after - before < DIVERGENCE_ENERGY else 1.0
    statistics[STEPS_FAILED] = failed
