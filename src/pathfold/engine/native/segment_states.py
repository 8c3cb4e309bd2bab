"""What segments of a series hand to each other besides the results of scans: the states they begin with."""

from __future__ import annotations

from pathfold.engine import table as at

from .words import get, numbers_at


def hand_states(group, layout, problem, point, other, scratch):
    """Give each segment of a group the state at the node before it; one that begins a series has an initial state."""
    X, lanes, abreast = get(layout, at.X), get(layout, at.LANES), get(layout, at.ABREAST)
    for lane in range(abreast):
        slot = get(layout, get(layout, at.BEFORE) + group * abreast + lane)
        if slot >= 0:
            row = slot // lanes * get(layout, at.POINT_NODE + at.SIZE) + get(layout, at.NODE_X_NODE)
            own = group * get(layout, at.POINT_SEGMENT + at.SIZE) + get(layout, at.SEGMENT_X_IN)
            state = numbers_at(point + 8 * (get(layout, at.POINT_NODE) + row * lanes + slot % lanes), X * lanes)
            handed = numbers_at(point + 8 * (get(layout, at.POINT_SEGMENT) + own * abreast + lane), X * abreast)
            for i in range(X):
                handed[i * abreast] = state[i * lanes]
