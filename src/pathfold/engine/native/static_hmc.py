"""Static Hamiltonian Monte Carlo: a random number of steps, then accept or reject (paper, algorithm 1).

Where a step fails the trajectory turns back: the momentum changes sign, and the steps that are left lead the way it
came and on beyond its start. Let A be a step followed by a change of sign F of the momentum, or nothing where the step
fails: steps being reversible, A A = 1. The trajectory is (F A)^n, F (F A)^n undoes itself, and the usual acceptance
holds. The discretised path of many models explodes beyond some state (an explicit scheme far out, a logarithm near
extinction); trajectories meet that wall however small their steps are, and would be lost if they ended there.

Near such walls the step size that warm-up found may be too long, and a chain that got there would stay for long: every
now and then a trajectory has shorter steps. Where a step fails both ways, the trajectory is tried again with shorter
steps, and must end where the longer steps fail both ways as well: dead ends and the rest of the states (q, p) are two
sets, and transitions stay in the set that they begin in, each leaving the target alone there. A trajectory with longer
steps does, since the last step it took can be taken back.
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
RETRIES = 3  # of a trajectory that cannot begin, each with steps shorter by the same factor


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
def trajectory(layout, problem, points, momenta, t, steps, scratch, counts):
    """Steps from points[CURRENT]; returns the rows of the end and of one to overwrite, failed steps, cause of the last.

    When the first step fails both ways so will all: no more are tried, and the momentum is that of the beginning.
    """
    p = momenta[MOVING]
    at, to = CURRENT, NEXT
    failed = 0
    cause = CONVERGED
    for i in range(steps):
        copy(p, momenta[BEFORE])
        status = constrained_step(layout, problem, points[at], points[to], points[BACK], p, t, scratch, counts)
        if status == CONVERGED:
            at, to = to, (SPARE if to == NEXT else NEXT)
        else:
            turn(momenta[BEFORE], p)
            failed += 1
            cause = status
            if i == 1 and failed == 2:
                return at, to, steps, cause
    return at, to, failed, cause


@compiled
def is_dead_end(layout, problem, points, momenta, at, to, t, scratch, counts):
    """Whether a step from the state fails both ways. The momentum may end up reversed."""
    p = momenta[MOVING]
    for _ in range(2):
        copy(p, momenta[BEFORE])
        status = constrained_step(layout, problem, points[at], points[to], points[BACK], p, t, scratch, counts)
        turn(momenta[BEFORE], p)
        if status == CONVERGED:
            return False
    return True


@compiled
def static_transition(layout, problem, points, momenta, t, time, rng, scratch, counts, statistics):
    """One transition from points[CURRENT]. It has failed, with a status, when its steps led nowhere, of any length.

    The acceptance statistic is the probability times the fraction of steps that succeeded with the first length, so
    that failing steps make for smaller ones.
    """
    p = momenta[MOVING]
    draw_momentum(layout, problem, points[CURRENT], p, rng, scratch)
    before = hamiltonian(layout, points[CURRENT], p)
    steps = draw_steps(time, t, rng)
    length = SHORTER * t if rng.random() < CAREFUL else t
    counts[0] = 0
    at, to, failed, cause = trajectory(layout, problem, points, momenta, length, steps, scratch, counts)
    retries = 0
    leads_on = failed < steps
    while not leads_on and steps > 1 and retries < RETRIES:
        retries += 1
        shorter = length * SHORTER**retries
        at, to, again, _ = trajectory(layout, problem, points, momenta, shorter, steps, scratch, counts)
        leads_on = again < steps
    after = hamiltonian(layout, points[at], p)
    for i in range(retries):
        longer = length * SHORTER**i
        leads_on = leads_on and is_dead_end(layout, problem, points, momenta, at, to, longer, scratch, counts)
    probability = min(1.0, exp(before - after)) if leads_on and after == after else 0.0
    if rng.random() < probability:
        copy(points[at], points[CURRENT])
    statistics[ACCEPTANCE] = probability * (steps - failed) / steps
    statistics[STEPS_TAKEN] = steps
    statistics[STEP_SIZE] = t
    statistics[ENERGY] = before
    statistics[LOG_DENSITY] = -potential(layout, points[CURRENT])
    statistics[STATUS] = CONVERGED if leads_on else cause
    statistics[ITERATIONS] = counts[0] / (2.0 * steps)
    statistics[DEPTH] = 0.0
    statistics[DIVERGING] = 0.0 if after - before < DIVERGENCE_ENERGY else 1.0
    statistics[STEPS_FAILED] = failed
