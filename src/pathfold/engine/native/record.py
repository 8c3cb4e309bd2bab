"""What is kept of a draw."""

from __future__ import annotations

from .jit import compiled
from .sizes import (
    NODE_SIZE,
    NODE_X_NODE,
    PATH_SIZE,
    PATH_X,
    POINT_NODE,
    POINT_PATH,
    POINT_START,
    POINT_THETA,
    SERIES,
    START_SIZE,
    START_X0,
    STEPS,
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
    for n in range(nodes.shape[0]):
        base = layout[POINT_NODE] + (n // L) * NODE_SIZE * L + n % L
        for i in range(X):
            nodes[n, i] = point[base + (NODE_X_NODE + i) * L]
    for n in range(path.shape[0]):
        for s in range(layout[STEPS]):
            base = layout[POINT_PATH] + ((n // L) * layout[STEPS] + s) * PATH_SIZE * L + n % L
            for i in range(X):
                path[n, s, i] = point[base + (PATH_X + i) * L]
