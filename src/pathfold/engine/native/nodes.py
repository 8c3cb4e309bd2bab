"""First guesses of the states at the nodes: moved towards the data, or where a path leads (method.md, section 12)."""

from __future__ import annotations

from numpy import fabs, inf

from pathfold.engine import table as at

from .jit import compiled, kernel
from .lanes import chunk_of, of_interval, of_series, setting
from .manifold import evaluate_start, linearise
from .parts import over_chunks


@compiled
def guess_nodes(layout, problem, point, guesses, scratch):
    """Guess node states: the initial state of the series, moved towards the observations.

    Steps that make |o| larger are taken back by halves; with one observed component the first is its value. Where o is
    not a number (no case can be reported before anyone fell ill), the state is where the path comes to. The best state
    of a node and |o|^2 there, in units of the scales, are kept in scratch.
    """
    X, lanes, abreast = layout[at.X], layout[at.LANES], layout[at.ABREAST]
    evaluate_start(layout, problem, point, scratch)
    for k in range(layout[at.SERIES]):
        start = of_series(layout, at.POINT_START, at.START_X0, k)
        for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
            node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
            best = of_interval(layout, at.SCRATCH_WORK, at.WORK_ZETA, n)
            scratch[of_interval(layout, at.SCRATCH_WORK, at.WORK_BP, n)] = inf
            for i in range(X):
                point[node + i * lanes] = point[start + i * abreast]
                scratch[best + i * lanes] = point[start + i * abreast]
    known = False
    for _ in range(guesses):
        if known:  # o is a number at every node, and no gap will be needed
            over_chunks(at.OBSERVE, layout, problem, point, point, scratch)
        else:
            linearise(layout, problem, point, scratch)
        known = True
        for n in range(layout[at.INTERVALS]):
            improve_node(layout, problem, point, n, scratch)
            known = known and scratch[of_interval(layout, at.SCRATCH_WORK, at.WORK_BP, n)] < inf
    for n in range(layout[at.INTERVALS]):
        node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
        best = of_interval(layout, at.SCRATCH_WORK, at.WORK_ZETA, n)
        for i in range(X):
            point[node + i * lanes] = scratch[best + i * lanes]


@compiled
def improve_node(layout, problem, point, n, scratch):
    """Step towards the observation from a state that is better than all before; from another, go half the way back.

    The step is one of simultaneous iterative reconstruction: with H and o in units of the scales, each component i
    moves by -sum_j H_ji o_j / r_j / c_i, with r and c the sums of |H| over rows and columns. It does not leap where one
    row says little, as that of a sine near its top.
    """
    X, Y, lanes = layout[at.X], layout[at.Y], layout[at.LANES]
    node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
    H = of_interval(layout, at.POINT_NODE, at.NODE_H, n)
    o = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_O, n)
    best = of_interval(layout, at.SCRATCH_WORK, at.WORK_ZETA, n)
    least = of_interval(layout, at.SCRATCH_WORK, at.WORK_BP, n)
    scale = setting(layout, at.SETTINGS_STATE_SCALE)
    row_scale = of_interval(layout, at.PROBLEM_GRID, at.GRID_ROW_SCALE, n)
    misfit = 0.0
    for j in range(Y):
        misfit += (scratch[o + j * lanes] / problem[row_scale + j * lanes]) ** 2
    if scratch[least] == inf and not misfit < inf:
        gap = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_GAP, n)
        for i in range(X):
            if fabs(scratch[gap + i * lanes]) < inf:
                point[node + i * lanes] += scratch[gap + i * lanes]
        return
    if not misfit < scratch[least]:
        for i in range(X):
            point[node + i * lanes] = 0.5 * (point[node + i * lanes] + scratch[best + i * lanes])
        return
    scratch[least] = misfit
    for i in range(X):
        scratch[best + i * lanes] = point[node + i * lanes]
    for j in range(Y):  # o becomes o / r
        width = 0.0
        for k in range(X):
            width += fabs(problem[scale + k] * point[H + (j * X + k) * lanes])
        scratch[o + j * lanes] = scratch[o + j * lanes] / width if width > 0.0 else 0.0
    for i in range(X):
        total = 0.0
        change = 0.0
        for j in range(Y):
            slope = point[H + (j * X + i) * lanes] / problem[row_scale + j * lanes]
            total += fabs(slope)
            change += slope * scratch[o + j * lanes]
        change *= problem[scale + i] / total
        if fabs(change) < inf:
            point[node + i * lanes] -= change


@compiled
def follow(layout, problem, point, guesses, scratch):
    """Set node states in turn: where the path leads from the one before, moved `guesses` times towards the data.

    Where observations leave a choice (an angle seen as sine and cosine), the states so stay on one branch. Without
    guesses they are the path's own, be they numbers or not.
    """
    X, lanes = layout[at.X], layout[at.LANES]
    evaluate_start(layout, problem, point, scratch)
    for k in range(layout[at.SERIES]):
        before, stride = of_series(layout, at.POINT_START, at.START_X0, k), layout[at.ABREAST]
        for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
            start = of_interval(layout, at.POINT_NODE, at.NODE_X_START, n)
            node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
            gap = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_GAP, n)
            for i in range(X):
                point[start + i * lanes] = point[before + i * stride]
                point[node + i * lanes] = 0.0
            kernel(at.SIMULATE, chunk_of(layout, n), layout, problem, point, point, scratch)
            for i in range(X):
                led = scratch[gap + i * lanes]
                point[node + i * lanes] = led if guesses == 0 or fabs(led) < inf else point[before + i * stride]
                scratch[gap + i * lanes] = 0.0
            if guesses > 0:
                approach(layout, problem, point, n, guesses, scratch)
            before, stride = node, lanes


@compiled
def approach(layout, problem, point, n, guesses, scratch):
    """Move one node towards its observation; its state becomes the best that was met."""
    X, lanes = layout[at.X], layout[at.LANES]
    node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
    best = of_interval(layout, at.SCRATCH_WORK, at.WORK_ZETA, n)
    for i in range(X):
        scratch[best + i * lanes] = point[node + i * lanes]
    scratch[of_interval(layout, at.SCRATCH_WORK, at.WORK_BP, n)] = inf
    for _ in range(guesses):
        kernel(at.OBSERVE, chunk_of(layout, n), layout, problem, point, point, scratch)
        improve_node(layout, problem, point, n, scratch)
    for i in range(X):
        point[node + i * lanes] = scratch[best + i * lanes]
