"""Vectors: the position and the gradient within a point, idle lanes, norm."""

from __future__ import annotations

from .jit import compiled
from .sizes import CHUNKS, FIRST, SERIES, STEPS, VECTOR_V, VECTOR_W, L, V, W


@compiled
def position(layout, point):
    return point[: layout[VECTOR_V + 1]]


@compiled
def gradient(layout, point):
    return point[layout[VECTOR_V + 1] : 2 * layout[VECTOR_V + 1]]


@compiled
def clear_idle(layout, vector):
    """Zero in the idle lanes of the last chunk: their paths are nobody's, and may well not be finite."""
    intervals, last = layout[layout[FIRST] + layout[SERIES]], layout[CHUNKS] - 1
    for k in range(last * W, (last + 1) * W):
        for lane in range(intervals - last * L, L):
            vector[layout[VECTOR_W] + k * L + lane] = 0.0
    for k in range(last * layout[STEPS] * V, (last + 1) * layout[STEPS] * V):
        for lane in range(intervals - last * L, L):
            vector[layout[VECTOR_V] + k * L + lane] = 0.0


@compiled
def squared_norm(vector):
    total = 0.0
    for i in range(vector.size):
        total += vector[i] * vector[i]
    return total
