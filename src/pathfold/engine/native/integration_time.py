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
from .vectors import of_series, position

# Places in the search: the time chosen, the draws seen; for each parameter and initial state its mean, its sum of
# squared deviations, its value before the transition; then for each of the times the steps, and squared jumps.
CHOSEN, SEEN, MOMENTS = 0, 1, 2


def time_search_size(layout):
    """Return how many numbers the search takes; the host asks."""
    return MOMENTS + 3 * layout[at.VECTOR_W] + 2 * (1 + layout[at.VECTOR_W])


@compiled
def tried(iteration, warmup):
    """Return which of the times is tried in this iteration, or -1."""
    begin, end = int(TRIALS_BEGIN * warmup), int(TRIALS_END * warmup)
    return (iteration - begin) % 2 if begin <= iteration < end else -1


@compiled
def integration_time(search, iteration, warmup):
    trial = tried(iteration, warmup)
    if trial >= 0:
        return TIMES[trial]
    return search[CHOSEN] if search[CHOSEN] > 0.0 else TIMES[0]


@compiled
def before_transition(layout, point, search):
    size = layout[at.VECTOR_W]
    q = position(layout, point)
    for j in range(size):
        search[MOMENTS + 2 * size + j] = q[j]


@compiled
def after_transition(layout, point, search, iteration, warmup, steps):
    """Add a draw to the search; with the last one, choose."""
    trial = tried(iteration, warmup)
    if trial < 0:
        return
    size = layout[at.VECTOR_W]
    mean, squares = search[MOMENTS : MOMENTS + size], search[MOMENTS + size : MOMENTS + 2 * size]
    previous = search[MOMENTS + 2 * size : MOMENTS + 3 * size]
    tally = MOMENTS + 3 * size + trial * (1 + size)
    q = position(layout, point)
    search[SEEN] += 1.0
    search[tally] += steps + 1.0  # drawing a momentum counts as a step
    for j in range(size):
        search[tally + 1 + j] += (q[j] - previous[j]) ** 2
        deviation = q[j] - mean[j]
        mean[j] += deviation / search[SEEN]
        squares[j] += deviation * (q[j] - mean[j])
    if tried(iteration + 1, warmup) < 0:
        search[CHOSEN] = TIMES[1] if longer_pays(layout, search) else TIMES[0]


@compiled
def longer_pays(layout, search):
    """Return whether three quarters of a turn give more effective draws of the slowest coordinate for their cost."""
    size = layout[at.VECTOR_W]
    short, long = MOMENTS + 3 * size, MOMENTS + 3 * size + 1 + size
    slowest, effective = -1, inf
    for j in range(layout[at.U] + layout[at.V0]):
        share = independence(layout, search, short, j)
        if share < effective:
            slowest, effective = j, share
    if effective > SLOW or slowest < 0:
        return False
    gain = independence(layout, search, long, slowest) / effective if effective > 0.0 else inf
    return gain > FAVOUR * search[long] / search[short]


@compiled
def independence(layout, search, tally, j):
    """Return the share of draws that are effective with one of the times, for parameter j, or for initial states.

    A squared jump is 2 (1 - r) variances, with r the autocorrelation, and (1 - r) / (1 + r) of the draws are effective;
    antithetic ones count as independent. Initial states of all series are taken together: of thousands, each by itself,
    the slowest would be one that chance makes slow. Infinite where nothing moves.
    """
    size, parameters = layout[at.VECTOR_W], layout[at.U]
    jumps = squares = 0.0
    for k in range(1 if j < parameters else layout[at.SERIES]):
        i = j
        if j >= parameters:
            i = of_series(layout, at.VECTOR_V0, at.V0_V0, k) + (j - parameters) * layout[at.ABREAST]
        jumps += search[tally + 1 + i]
        squares += search[MOMENTS + size + i]
    if not squares > 0.0:
        return inf
    change = min(1.0, jumps / squares)
    return change / (2.0 - change)
