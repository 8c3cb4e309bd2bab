"""Static Hamiltonian Monte Carlo: a random length in pairs of steps, then accept or reject (method.md, section 9).

Where a pair fails the trajectory turns back: the momentum changes sign, and the pairs that are left lead the way it
came and on beyond its start. Let A be a pair followed by a change of sign F of the momentum, or nothing where the pair
fails: steps being reversible, A A = 1. The trajectory is (F A)^n, F (F A)^n undoes itself, and the usual acceptance
holds. The discretised path of many models explodes beyond some state (an explicit scheme far out, a logarithm near
extinction); trajectories meet that wall however small their steps are, and would be lost if they ended there.

Near such walls the step size that warm-up found may be too long, and a chain that got there would stay for long. So the
length of its steps is drawn where a trajectory begins: they are shortened as often as it takes for one that does not
fail both ways (the level of the state, almost always 0), for a share of the trajectories once more. At the end the same
length may have another chance to be drawn; the ratio of the two enters the acceptance (Gibbs self-tuning, Bou-Rabee,
Carpenter and Marsden 2024). The share is smaller after a warm-up in which steps never had to be shortened.
"""

from __future__ import annotations

from numpy import ceil, exp, inf, log

from pathfold.engine.status import CONVERGED

from . import trajectory as rows
from .dynamics import become_momentum, hamiltonian, potential
from .jit import compiled
from .thresholds import DIVERGENCE_ENERGY, FAILED_WEIGHT, LENGTH_SPREAD, MAX_PAIRS, MOST_SHORTENED, SHORTER
from .two_stage import take_pair
from .vectors import copy, draw_normals


@compiled
def draw_chances(layout, p, rng):
    """Draw all that chance decides in a transition: normals p, which become the momentum, and three numbers of [0, 1).

    They decide on the length, on whether steps are shortened, and on acceptance.
    """
    draw_normals(layout, p, rng)
    return rng.random(), rng.random(), rng.random()


@compiled
def length_of(time, t, chance):
    """Return a length, uniform about `time`, as a number of pairs of steps not longer than t, and their size."""
    length = time * (1.0 + LENGTH_SPREAD * (2.0 * chance - 1.0))
    pairs = int(ceil(length / (2.0 * t)))
    return (pairs, 0.5 * length / pairs) if pairs <= MAX_PAIRS else (MAX_PAIRS, t)


@compiled
def turn(p, reversed_p):
    for i in range(p.size):
        reversed_p[i] = -p[i]


@compiled
def trajectory(m, points, momenta, at, to, t, pairs):
    """Make pairs of steps from points[at]; return the rows of the end and of one to overwrite, failed pairs, a cause.

    When the first pair fails both ways so will all: no more are tried. A momentum that led nowhere is left as it was.
    """
    p = momenta[rows.MOVING]
    failed = 0
    cause = CONVERGED
    for i in range(pairs):
        status = take_pair(m, points, momenta, at, to, t)
        if status == CONVERGED:
            at, to = to, (rows.SPARE if to == rows.NEXT else rows.NEXT)
        else:
            turn(momenta[rows.BEFORE], p)
            failed += 1
            cause = status
            if i == 1 and failed == 2:
                return at, to, pairs, cause
    if failed == pairs:
        copy(momenta[rows.BEFORE], p)
    return at, to, failed, cause


@compiled
def fails(m, points, momenta, at, to, t):
    """Return whether a pair of steps from the state fails; the momentum is not changed."""
    status = take_pair(m, points, momenta, at, to, t)
    copy(momenta[rows.BEFORE], momenta[rows.MOVING])
    return status != CONVERGED


@compiled
def level_of(m, points, momenta, at, to, t):
    """Return the level of a state: the smallest k for which a pair of steps of size SHORTER^k t succeeds forward or
    backward, at most MOST_SHORTENED."""
    for level in range(MOST_SHORTENED):
        for way in (1.0, -1.0):
            length = way * t * SHORTER**level
            if not fails(m, points, momenta, at, to, length):
                return level
    return MOST_SHORTENED


@compiled
def log_chance(level, own, share):
    """Return the log probability that a level is drawn at a state with its own."""
    if level == own:
        return log(1.0 - share)
    return log(share) if level == own + 1 else -inf


@compiled
def static_transition(m, points, momenta, t, time, share, chances, statistics):
    """Make one transition from points[CURRENT]. It has failed, with a status, if none of its steps succeeded.

    What chance decides was drawn before, by `draw_chances`: the normals are in momenta[MOVING].

    The acceptance statistic is the acceptance probability times 1 - FAILED_WEIGHT failed / pairs, and 0 if every pair
    of the first attempt failed: steps that are too long fail, and should become shorter, but walls are met however
    short steps are. `share` is the probability of one level more than the state has. The numbers of steps and of
    iterations count all that were made, also to find levels; the step size is that of level 0. Returns whether every
    pair of the first attempt failed.
    """
    p = momenta[rows.MOVING]
    of_length, of_care, of_acceptance = chances
    become_momentum(m, points[rows.CURRENT], p)
    before = hamiltonian(m.layout, points[rows.CURRENT], p)
    pairs, length = length_of(time, t, of_length)
    careful = of_care < share
    m.counts[rows.ITERATED] = 0
    m.counts[rows.STEPPED] = 0
    at, to = (
        int(rows.CURRENT),
        int(rows.NEXT),
    )  # no constants: for each of those Numba would compile what they are given to
    level = 1 + level_of(m, points, momenta, at, to, length) if careful else 0
    shorter = length * SHORTER**level
    at, to, failed, cause = trajectory(m, points, momenta, at, to, shorter, pairs)
    moved = failed < pairs
    needed = not moved
    if not moved and not careful:
        level = level_of(m, points, momenta, at, to, length)
        if level > 0:
            shorter = length * SHORTER**level
            at, to, again, _ = trajectory(m, points, momenta, at, to, shorter, pairs)
            moved = again < pairs
    after = hamiltonian(m.layout, points[at], p)
    log_ratio = 0.0
    if moved and level > 0:
        end = level_of(m, points, momenta, at, to, length)
        log_ratio = log_chance(level, end, share) - log(share if careful else 1.0 - share)
    probability = exp(min(0.0, log_ratio + before - after)) if moved and after < inf and log_ratio > -inf else 0.0
    if of_acceptance < probability:
        copy(points[at], points[rows.CURRENT])
    statistics[rows.ACCEPTANCE] = probability * (1.0 - FAILED_WEIGHT * failed / pairs) if failed < pairs else 0.0
    statistics[rows.STEPS_TAKEN] = m.counts[rows.STEPPED]
    statistics[rows.STEP_SIZE] = t
    statistics[rows.ENERGY] = before
    statistics[rows.LOG_DENSITY] = -potential(m.layout, points[rows.CURRENT])
    statistics[rows.STATUS] = CONVERGED if moved else cause
    statistics[rows.ITERATIONS] = m.counts[rows.ITERATED] / (2.0 * m.counts[rows.STEPPED])
    statistics[rows.DEPTH] = 0.0
    statistics[rows.DIVERGING] = 0.0 if after - before < DIVERGENCE_ENERGY else 1.0
    statistics[rows.STEPS_FAILED] = failed
    return needed
