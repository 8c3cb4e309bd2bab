"""Blocking (paper, section 5.1): the states at some nodes are held, at others in the next transition."""

from __future__ import annotations

from .jit import compiled
from .sizes import FIRST, GRID_SIZE, GRID_Y, NODE_SIZE, NODE_X_NODE, POINT_NODE, PROBLEM_GRID, SERIES, L, X, Y
from .step import prepare


@compiled
def hold_states(layout, problem, point, scratch):
    """Let the problem condition on the node states of the point, where its mask says so; returns a status."""
    for n in range(layout[layout[FIRST] + layout[SERIES]]):
        held = layout[PROBLEM_GRID] + ((n // L) * GRID_SIZE + GRID_Y + Y - X) * L + n % L
        node = layout[POINT_NODE] + ((n // L) * NODE_SIZE + NODE_X_NODE) * L + n % L
        for i in range(X):
            problem[held + i * L] = point[node + i * L]
    return prepare(layout, problem, point, scratch)
