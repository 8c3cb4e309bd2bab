"""What is kept of a draw, where every fine step is an interval of its own."""

from __future__ import annotations

from .jit import compiled
from .sizes import (
    NODE_SIZE,
    NODE_X_NODE,
    NODE_X_START,
    POINT_NODE,
    POINT_START,
    POINT_THETA,
    SERIES,
    START_SIZE,
    START_X0,
    THETA_Z,
    L,
    X,
    Z,
)


@compiled
def record(layout, point, z, x0, nodes, path):
    """Write parameters, initial states and, where there is room for them, node states and paths of a draw."""
    for i in range(Z):
        z[i] = point[layout[POINT_THETA] + THETA_Z + i]
    for k in range(layout[SERIES]):
        for i in range(X):
            x0[k, i] = point[layout[POINT_START] + k * START_SIZE + START_X0 + i]
    steps = path.shape[1]
    for n in range(nodes.shape[0]):
        last = (n + 1) * steps - 1
        for i in range(X):
            nodes[n, i] = point[layout[POINT_NODE] + ((last // L) * NODE_SIZE + NODE_X_NODE + i) * L + last % L]
    for n in range(path.shape[0]):
        for s in range(steps):
            step = n * steps + s
            for i in range(X):
                at = layout[POINT_NODE] + ((step // L) * NODE_SIZE + NODE_X_START + i) * L + step % L
                path[n, s, i] = point[at]
