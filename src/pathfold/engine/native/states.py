"""What is kept of a path: the states at the nodes, and after every fine step."""

from __future__ import annotations

from .jit import compiled
from .sizes import NODE_SIZE, NODE_X_NODE, PATH_SIZE, PATH_X, POINT_NODE, POINT_PATH, STEPS, L, X


@compiled
def record_states(layout, point, nodes, path):
    """Write node states and paths, where there is room for them."""
    for n in range(nodes.shape[0]):
        base = layout[POINT_NODE] + (n // L) * NODE_SIZE * L + n % L
        for i in range(X):
            nodes[n, i] = point[base + (NODE_X_NODE + i) * L]
    for n in range(path.shape[0]):
        for s in range(layout[STEPS]):
            base = layout[POINT_PATH] + ((n // L) * layout[STEPS] + s) * PATH_SIZE * L + n % L
            for i in range(X):
                path[n, s, i] = point[base + (PATH_X + i) * L]
