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
    """Set idle lanes to zero: their paths belong to no interval, and may not be finite. Also where no series begins."""
    clear_idle_slots(layout, vector[layout[at.VECTOR_W] : layout[at.VECTOR_W + at.END]])
    clear_idle_slots(layout, vector[layout[at.VECTOR_V] : layout[at.VECTOR_V + at.END]])
    abreast = layout[at.ABREAST]
    for i in range(layout[at.IDLE_PLACE], layout[at.IDLE_PLACE] + layout[at.IDLE_PLACES]):
        place = layout[i]
        first = layout[at.VECTOR_V0] + place // abreast * abreast * layout[at.V0] + place % abreast
        for j in range(layout[at.V0]):
            vector[first + j * abreast] = 0.0


@compiled
def clear_idle_slots(layout, record):
    """Set the idle slots of one record of the vector to zero."""
    lanes, size = layout[at.LANES], record.size // layout[at.CHUNKS]
    for i in range(layout[at.IDLE], layout[at.IDLE] + layout[at.IDLE_SLOTS]):
        slot = layout[i]
        begin = slot // lanes * size + slot % lanes
        for j in range(begin, begin + size, lanes):
            record[j] = 0.0


@compiled
def draw_normals(layout, vector, rng):
    """Draw standard normals for every component of a vector, whatever a failed step left there."""
    for i in range(vector.size):
        vector[i] = rng.standard_normal()
    clear_idle(layout, vector)
