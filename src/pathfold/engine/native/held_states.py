"""Blocking (method.md, section 15): the states at some nodes are held, at others in the next transition."""

from __future__ import annotations

from pathfold.engine import table as at

from .dynamics import prepare
from .jit import compiled
from .lanes import of_interval


@compiled
def hold_states(layout, problem, point, scratch):
    """Let the problem condition on the node states of the point, where its mask says so; returns a status."""
    X, lanes = layout[at.X], layout[at.LANES]
    for n in range(layout[at.INTERVALS]):
        held = of_interval(layout, at.PROBLEM_GRID, at.GRID_Y, n) + (layout[at.Y] - X) * lanes
        node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
        for i in range(X):
            problem[held + i * lanes] = point[node + i * lanes]
    return prepare(layout, problem, point, scratch)
