"""What is kept of a draw."""

from __future__ import annotations

from .jit import compiled
from .sizes import POINT_START, POINT_THETA, SERIES, START_SIZE, START_X0, THETA_Z, X, Z
from .states import record_states


@compiled
def record(layout, point, z, x0, nodes, path):
    """Write parameters, initial states and, where there is room for them, node states and paths of a draw."""
    for i in range(Z):
        z[i] = point[layout[POINT_THETA] + THETA_Z + i]
    for k in range(layout[SERIES]):
        for i in range(X):
            x0[k, i] = point[layout[POINT_START] + k * START_SIZE + START_X0 + i]
    record_states(layout, point, nodes, path)
