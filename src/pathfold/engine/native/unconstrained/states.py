"""What is kept of a path, every fine step of which is an interval: the states at the nodes, and after each step."""

from __future__ import annotations

from .jit import compiled
from .sizes import NODE_SIZE, NODE_X_NODE, NODE_X_START, POINT_NODE, L, X


@compiled
def record_states(layout, point, nodes, path):
    """Write node states and paths, where there is room for them."""
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
