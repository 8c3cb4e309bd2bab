"""Operations on whole vectors, in shares that several threads take; every share is as long as the others.

Their kernels belong to no model, and are called as those of a model are: a share of what three blocks hold, with what
is read and summed among the sums of the solve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import fabs, inf

from pathfold.engine import plans
from pathfold.engine import table as at

from . import shared
from .jit import address_of_kernel, compiled
from .run import ADDED, RAISED, READ, run_on
from .segment_states import hand_states
from .words import bits, get, numbers_at, put


@compiled
def newton_sums(m):
    return m.scratch[m.layout[at.SCRATCH_NEWTON_SUMS] : m.layout[at.SCRATCH_NEWTON_SUMS + at.END]]


@compiled
def own_sums(layout, scratch, field):
    """Return the sums of a part from a field on; `layout` and `scratch` are addresses, as kernels have them."""
    return numbers_at(scratch + 8 * (get(layout, at.SCRATCH_NEWTON_SUMS) + get(layout, field)), 2)


@compiled
def share_of(share, layout, vector):
    """Return the numbers of a share of a vector, which begins at an address."""
    size, shares = get(layout, at.VECTOR_V + at.END), get(layout, at.PARTS)
    begin, end = share * size // shares, (share + 1) * size // shares
    return numbers_at(vector + 8 * begin, end - begin)


def combine_share(share, layout, first, second, target, scratch):
    """target = a first + b second, with the factors a and b among the sums; fast if the target is none of the two."""
    a, b = own_sums(layout, scratch, at.SUMS_FACTORS)
    x, y, result = share_of(share, layout, first), share_of(share, layout, second), share_of(share, layout, target)
    for i in range(result.size):
        result[i] = a * x[i] + b * y[i]


def add_share(share, layout, first, second, target, scratch):
    """target += b first; adds the squares of the result to the sums."""
    b = own_sums(layout, scratch, at.SUMS_FACTORS)[1]
    x, result, squares = share_of(share, layout, first), share_of(share, layout, target), 0.0
    for i in range(result.size):
        result[i] += b * x[i]
        squares += result[i] * result[i]
    own_sums(layout, scratch, at.SUMS_SQUARES)[0] += squares


def displace_share(share, layout, origin, momentum, target, scratch):
    """q' = a q + b p and, in the place of the gradient of the target, q' - q."""
    a, b = own_sums(layout, scratch, at.SUMS_FACTORS)
    q, p, q_new = share_of(share, layout, origin), share_of(share, layout, momentum), share_of(share, layout, target)
    displacement = share_of(share, layout, target + 8 * get(layout, at.VECTOR_V + at.END))
    for i in range(q.size):
        moved = a * q[i] + b * p[i]
        q_new[i] = moved
        displacement[i] = moved - q[i]


def compare_share(share, layout, first, second, target, scratch):
    """Keep the largest difference of two vectors, infinite if it is not finite; nothing is written to the target.

    Whole numbers in the place of numbers let NaN be the largest, and the compiler make vectors of the comparisons.
    """
    x, y = share_of(share, layout, first), share_of(share, layout, second)
    largest, infinite = 0, bits(inf)
    for i in range(x.size):
        difference = bits(fabs(x[i] - y[i]))
        largest = difference if difference > largest else largest
    put(scratch, get(layout, at.SCRATCH_NEWTON_SUMS) + get(layout, at.SUMS_CHANGE), min(largest, infinite))


def clear_chunk(chunk, layout, problem, point, other, scratch):
    """Set the gaps and misfits of a chunk to zero."""
    lanes, base = get(layout, at.LANES), chunk * get(layout, at.SCRATCH_NEWTON + at.SIZE)
    begin, end = get(layout, at.NEWTON_GAP), get(layout, at.NEWTON_O) + get(layout, at.Y)
    size = (end - begin) * lanes
    residuals = numbers_at(scratch + 8 * (get(layout, at.SCRATCH_NEWTON) + (base + begin) * lanes), size)
    for i in range(size):
        residuals[i] = 0.0


class OfNoModel(NamedTuple):
    """A kernel that is written by hand; what it does to fields of the sums of a part; what it reads and writes."""

    function: Callable
    reads: str = ""  # fields, as in "point.sums.C"
    writes: str = ""
    sums: tuple[tuple[int, int, int], ...] = ()  # what, the place of the field in the table, how many numbers


FACTORS, SQUARES = (READ, at.SUMS_FACTORS, 2), (ADDED, at.SUMS_SQUARES, 1)
KERNELS = {
    "combine": OfNoModel(combine_share, "scratch.newton_sums.factors", "", (FACTORS,)),
    "add": OfNoModel(add_share, "scratch.newton_sums.factors", "scratch.newton_sums.squares", (FACTORS, SQUARES)),
    "displace": OfNoModel(displace_share, "scratch.newton_sums.factors", "", (FACTORS,)),
    "compare": OfNoModel(compare_share, "", "scratch.newton_sums.change", ((RAISED, at.SUMS_CHANGE, 1),)),
    "clear_residuals": OfNoModel(clear_chunk, "", "scratch.newton.gap scratch.newton.o"),
    "hand_states": OfNoModel(hand_states, "point.node.x_node", "point.segment.x_in"),
    **{name: OfNoModel(*given) for name, given in shared.KERNELS.items()},
}


def addresses() -> dict[str, int]:
    """Return the addresses of the kernels here."""
    return {name: address_of_kernel(kernel.function) for name, kernel in KERNELS.items()}


def spans(layout: np.ndarray) -> dict[str, list[tuple[int, ...]]]:
    """Return what the kernels here do to sums, as `plans.Span`."""
    scratch, record = 3, at.SCRATCH_NEWTON_SUMS
    return {
        name: [(what, scratch, record, layout[field], layout[field] + count) for what, field, count in kernel.sums]
        for name, kernel in KERNELS.items()
    }


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
