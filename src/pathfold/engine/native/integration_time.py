"""The length of static trajectories: a quarter or three quarters of a turn, tried in turn during warm-up.

With the Gaussian splitting the directions that the data leave alone turn with period 2 pi, and a quarter turn makes
them almost independent. A parameter that drags others along is slower: the scale of the observation noise cannot change
unless all of the noise w, or the path, moves with it, like a heavier mass. For such models longer trajectories pay
(method.md, section 11).
"""

from __future__ import annotations

from numpy import inf

from pathfold.engine import table as at

from .jit import compiled
from .thresholds import FAVOUR, SLOW, TIMES, TRIALS_BEGIN, TRIALS_END
from .vectors import copy, of_series, position


@compiled
def tried(iteration, warmup):
    """Return which of the times is tried in this iteration, or -1."""
    begin, end = int(TRIALS_BEGIN * warmup), int(TRIALS_END * warmup)
    return (iteration - begin) % 2 if begin <= iteration < end else -1


@compiled
def integration_time(chosen, iteration, warmup):
    """Return the time to go for: that on trial, else the one that was chosen, if any was (then it is not 0)."""
    trial = tried(iteration, warmup)
    if trial >= 0:
        return TIMES[trial]
    return chosen if chosen > 0.0 else TIMES[0]


@compiled
def before_transition(layout, point, tuning):
    copy(position(layout, point)[: tuning.previous.size], tuning.previous)


@compiled
def after_transition(layout, point, tuning, warmup, steps):
    """Add a draw to the search; with the last one, choose."""
    state = tuning.state[0]
    mean, squares, previous = tuning.mean, tuning.squares, tuning.previous
    trial = tried(state.iteration, warmup)
    if trial < 0:
        return
    jumps = tuning.jumps[trial]
    q = position(layout, point)
    state.seen += 1.0
    tuning.steps[trial] += steps + 1.0  # drawing a momentum counts as a step
    for j in range(mean.size):
        jumps[j] += (q[j] - previous[j]) ** 2
        deviation = q[j] - mean[j]
        mean[j] += deviation / state.seen
        squares[j] += deviation * (q[j] - mean[j])
    if tried(state.iteration + 1, warmup) < 0:
        state.time = TIMES[1] if longer_pays(layout, tuning) else TIMES[0]


@compiled
def longer_pays(layout, tuning):
    """Return whether three quarters of a turn give more effective draws of the slowest coordinate for their cost."""
    slowest, effective = -1, inf
    for j in range(layout[at.U] + layout[at.V0]):
        share = independence(layout, tuning, 0, j)
        if share < effective:
            slowest, effective = j, share
    if effective > SLOW or slowest < 0:
        return False
    gain = independence(layout, tuning, 1, slowest) / effective if effective > 0.0 else inf
    return gain > FAVOUR * tuning.steps[1] / tuning.steps[0]


@compiled
def independence(layout, tuning, trial, j):
    """Return the share of draws that are effective with one of the times, for parameter j, or for initial states.

    A squared jump is 2 (1 - r) variances, with r the autocorrelation, and (1 - r) / (1 + r) of the draws are effective;
    antithetic ones count as independent. Initial states of all series are taken together: of thousands, each by itself,
    the slowest would be one that chance makes slow. Infinite where nothing moves.
    """
    parameters, jumps, squares = layout[at.U], 0.0, 0.0
    for k in range(1 if j < parameters else layout[at.SERIES]):
        i = j
        if j >= parameters:
            i = of_series(layout, at.VECTOR_V0, at.V0_V0, k) + (j - parameters) * layout[at.ABREAST]
        jumps += tuning.jumps[trial, i]
        squares += tuning.squares[i]
    if not squares > 0.0:
        return inf
    change = min(1.0, jumps / squares)
    return change / (2.0 - change)
