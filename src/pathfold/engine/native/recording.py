"""Recording a draw: parameters, initial states, states at the nodes and after every fine step."""

from __future__ import annotations

from typing import Any, NamedTuple

from pathfold.engine import table as at

from .guided_paths import first_piece
from .jit import compiled
from .vectors import of_interval, of_series, of_step


class Drawn(NamedTuple):
    """Where draws are written, a row each: `sampling/draws.py` says in what shapes."""

    z: Any
    x0: Any
    nodes: Any
    path: Any
    statistics: Any


@compiled
def record_row(layout, point, drawn, row):
    """Write a draw to a row of the arrays, but for its statistics."""
    record(layout, point, drawn.z[row], drawn.x0[row], drawn.nodes[row], drawn.path[row])


@compiled
def record(layout, point, z, x0, nodes, path):
    """Write parameters, initial states and, where there is room for them, node states and paths of a draw."""
    for i in range(layout[at.Z]):
        z[i] = point[layout[at.POINT_THETA] + layout[at.THETA_Z] + i]
    for k in range(x0.shape[0]):
        begin = of_start(layout, k)
        for i in range(x0.shape[1]):
            x0[k, i] = point[begin + i * layout[at.ABREAST]]
    if layout[at.METHOD] == at.CONSTRAINED or layout[at.METHOD] == at.INTEGRATED:
        record_intervals(layout, point, nodes, path)
    else:
        record_steps(layout, point, nodes, path)


@compiled
def of_start(layout, k):
    """Return where the initial state of a series begins in a point."""
    if layout[at.METHOD] == at.GUIDED:
        return of_series(layout, at.POINT_PIECE, at.PIECE_X_BEGIN, first_piece(layout, k))
    return of_series(layout, at.POINT_START, at.START_X0, k)


@compiled
def take(layout, point, begin, state):
    """Copy the state that begins at a place of the point, as far as there is room for it."""
    for i in range(state.size):
        state[i] = point[begin + i * layout[at.LANES]]


@compiled
def record_intervals(layout, point, nodes, path):
    """Record paths whose intervals run from one node to the next, in fine steps."""
    for n in range(nodes.shape[0]):
        take(layout, point, of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n), nodes[n])
    for n in range(path.shape[0]):
        for s in range(path.shape[1]):
            take(layout, point, of_step(layout, at.POINT_PATH, at.PATH_X, n, s), path[n, s])


@compiled
def record_steps(layout, point, nodes, path):
    """Record paths in which every fine step is an interval of its own."""
    steps = path.shape[1]
    for n in range(nodes.shape[0]):
        last = (n + 1) * steps - 1
        take(layout, point, of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, last), nodes[n])
    for n in range(path.shape[0]):
        for s in range(steps):
            take(layout, point, of_interval(layout, at.POINT_NODE, at.NODE_X_START, n * steps + s), path[n, s])
