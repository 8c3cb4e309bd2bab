"""Vectors: the position and the gradient within a point, idle lanes, normals, norm."""

from __future__ import annotations

from pathfold.engine import table as at

from .jit import compiled


@compiled
def position(layout, point):
    return point[: layout[at.VECTOR_V + at.END]]


@compiled
def gradient(layout, point):
    size = layout[at.VECTOR_V + at.END]
    return point[size : 2 * size]


@compiled
def copy(source, target):
    for i in range(source.size):
        target[i] = source[i]


@compiled
def squared_norm(vector):
    total = 0.0
    for i in range(vector.size):
        total += vector[i] * vector[i]
    return total


@compiled
def clear_idle(layout, vector):
    """Set the idle lanes of the last chunk to zero: their paths belong to no interval, and may not be finite."""
    clear_idle_rows(layout, vector[layout[at.VECTOR_W] : layout[at.VECTOR_W + at.END]])
    clear_idle_rows(layout, vector[layout[at.VECTOR_V] : layout[at.VECTOR_V + at.END]])


@compiled
def clear_idle_rows(layout, record):
    """Set the idle lanes of one record of the vector to zero, in the last of its equal chunks."""
    lanes, chunks = layout[at.LANES], layout[at.CHUNKS]
    used, rows = layout[at.INTERVALS] - (chunks - 1) * lanes, record.size // lanes
    for row in range(rows // chunks * (chunks - 1), rows):
        for lane in range(used, lanes):
            record[row * lanes + lane] = 0.0


@compiled
def draw_normals(layout, vector, rng):
    """Draw standard normals for every component of a vector, whatever a failed step left there."""
    for i in range(vector.size):
        vector[i] = rng.standard_normal()
    clear_idle(layout, vector)
