"""Vectors, and where numbers lie in them and in other blocks of memory (`program/layout.py`)."""

from __future__ import annotations

from pathfold.engine import plans
from pathfold.engine import table as at

from .jit import compiled
from .run import run_on


@compiled
def slot_of(layout, n):
    return layout[layout[at.SLOT] + n]


@compiled
def chunk_of(layout, n):
    """Return the chunk that interval n is in."""
    return slot_of(layout, n) // layout[at.LANES]


@compiled
def of_interval(layout, record, field, n):
    """Return where a field of interval n begins in its block; its entries follow at strides of layout[LANES]."""
    lanes, slot = layout[at.LANES], slot_of(layout, n)
    return layout[record] + ((slot // lanes) * layout[record + at.SIZE] + layout[field]) * lanes + slot % lanes


@compiled
def of_step(layout, record, field, n, s):
    """Return where a field of fine step s of interval n begins in its block, with the strides of `of_interval`."""
    lanes, slot = layout[at.LANES], slot_of(layout, n)
    row = (slot // lanes) * layout[at.STEPS] + s
    return layout[record] + (row * layout[record + at.SIZE] + layout[field]) * lanes + slot % lanes


@compiled
def of_series(layout, record, field, k):
    """Return where a field of series k begins in its block; its entries follow at strides of layout[ABREAST]."""
    return of_place(layout, record, field, layout[layout[at.PLACE] + k])


@compiled
def places_of(layout, k):
    """Return the first place of series k and the end of its places: if it is cut, its segments follow each other."""
    first = layout[layout[at.PLACE] + k]
    end = first + 1
    while layout[layout[at.BEFORE] + end] >= 0:
        end += 1
    return first, end


@compiled
def of_place(layout, record, field, place):
    """Return the same for the place of a series, or of a segment of one."""
    abreast = layout[at.ABREAST]
    return layout[record] + ((place // abreast) * layout[record + at.SIZE] + layout[field]) * abreast + place % abreast


@compiled
def setting(layout, field):
    """Return where a setting lies in the problem."""
    return layout[at.PROBLEM_SETTINGS] + layout[field]


@compiled
def sums_of(layout, point):
    return point[layout[at.POINT_SUMS] : layout[at.POINT_SUMS + at.END]]


@compiled
def newton_sums(m):
    return m.scratch[m.layout[at.SCRATCH_NEWTON_SUMS] : m.layout[at.SCRATCH_NEWTON_SUMS + at.END]]


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


@compiled
def with_factors(m, a, b):
    """Write two factors where kernels read them; the squares are zero."""
    sums, factors = newton_sums(m), m.layout[at.SUMS_FACTORS]
    sums[factors], sums[factors + 1], sums[m.layout[at.SUMS_SQUARES]] = a, b, 0.0


@compiled
def combine(m, a, first, b, second, target):
    """target = a first + b second, fast if the target is none of the two."""
    with_factors(m, a, b)
    run_on(m, plans.COMBINE, first, second, target)


@compiled
def add(m, b, first, target):
    """target += b first; return its squared norm."""
    with_factors(m, 0.0, b)
    run_on(m, plans.ADD, first, first, target)
    return newton_sums(m)[m.layout[at.SUMS_SQUARES]]


@compiled
def displace(m, a, origin, b, p, target):
    """q' = a q + b p, the position of the target; the way there, q' - q, takes the place of its gradient."""
    with_factors(m, a, b)
    run_on(m, plans.DISPLACE, origin, p, target)


@compiled
def largest_difference(m, q, goal):
    """Return the largest difference of two positions; infinite if it is not finite."""
    sums, change = newton_sums(m), m.layout[at.SUMS_CHANGE]
    sums[change] = 0.0
    run_on(m, plans.COMPARE, q, goal, goal)
    return sums[change]
