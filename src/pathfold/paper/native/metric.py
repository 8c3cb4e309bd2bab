"""A diagonal metric from the variances in growing windows of warm-up, as in Stan (reference manual, section on HMC).

Of 500 iterations 75 come before the windows of 25, 50, 100 and 200, and 50 after; other lengths are in proportion.
"""

from __future__ import annotations

from numpy import sqrt

from pathfold.engine import table as at
from pathfold.engine.native.jit import compiled
from pathfold.engine.native.unconstrained import scales
from pathfold.engine.native.vectors import position

WINDOWS_BEGIN, WINDOWS_END, FIRST_WINDOW = 0.15, 0.1, 0.05  # of warm-up: before the windows, after them, the first
PRIOR_DRAWS, PRIOR_VARIANCE = 5.0, 1e-3  # what the variances are shrunk towards, and with what weight


@compiled
def window(iteration, warmup):
    """Return first and last iteration (exclusive) of the window that an iteration lies in; empty outside of all."""
    begin, end_of_all = int(WINDOWS_BEGIN * warmup), warmup - int(WINDOWS_END * warmup)
    size = max(1, int(FIRST_WINDOW * warmup))
    if iteration < begin or iteration >= end_of_all:
        return 0, 0
    end = begin + size
    while True:
        if end + 2 * size > end_of_all:
            end = end_of_all
        if iteration < end:
            return begin, end
        begin, size = end, 2 * size
        end = begin + size


@compiled
def adapt_metric(m, point, iteration, warmup):
    """Add the point to its window; at the window's end set the scales, and return whether that was done."""
    begin, end = window(iteration, warmup)
    if begin == end:
        return False
    mean = m.problem[m.layout[at.PROBLEM_WINDOW_MEAN] : m.layout[at.PROBLEM_WINDOW_MEAN + at.END]]
    squares = m.problem[m.layout[at.PROBLEM_WINDOW_SQUARES] : m.layout[at.PROBLEM_WINDOW_SQUARES + at.END]]
    q, scale = position(m.layout, point), scales(m)
    seen = iteration - begin + 1.0
    for i in range(q.size):
        if iteration == begin:
            mean[i] = 0.0
            squares[i] = 0.0
        deviation = q[i] - mean[i]
        mean[i] += deviation / seen
        squares[i] += deviation * (q[i] - mean[i])
    if iteration + 1 < end or seen < 2.0:
        return False
    for i in range(q.size):
        variance = squares[i] / (seen - 1.0)
        scale[i] = sqrt((seen * variance + PRIOR_DRAWS * PRIOR_VARIANCE) / (seen + PRIOR_DRAWS))
    return True
