"""Operations on whole vectors, in shares that several threads take; every share is as long as the others.

Their kernels belong to no model, and are called as those of a model are: a share of what three blocks hold, with what
is read and summed among the sums of the solve.
"""

from __future__ import annotations

from numpy import fabs, inf

from pathfold.engine import table as at

from .jit import address_of_kernel, compiled
from .parts import NONE, by_share, sums_in, sweep
from .small import finite
from .words import get, numbers_at


@compiled
def newton_sums(layout, scratch):
    return scratch[layout[at.SCRATCH_NEWTON_SUMS] : layout[at.SCRATCH_NEWTON_SUMS + at.END]]


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

    A comparison has to wait for the one before it: so two go side by side.
    """
    x, y = share_of(share, layout, first), share_of(share, layout, second)
    half = x.size // 2
    later_x, later_y = x[half:], y[half:]
    lower = upper = total = 0.0
    for i in range(half):
        a, b = fabs(x[i] - y[i]), fabs(later_x[i] - later_y[i])
        lower, upper = (a if a > lower else lower), (b if b > upper else upper)
        total += a + b
    last = fabs(x[-1] - y[-1]) if x.size > 0 else 0.0
    largest = max(lower, upper, last)
    own_sums(layout, scratch, at.SUMS_CHANGE)[0] = largest if finite(total + last) else inf


def clear_chunk(chunk, layout, problem, point, other, scratch):
    """Set the gaps and misfits of a chunk to zero."""
    lanes, base = get(layout, at.LANES), chunk * get(layout, at.SCRATCH_NEWTON + at.SIZE)
    begin, end = get(layout, at.NEWTON_GAP), get(layout, at.NEWTON_O) + get(layout, at.Y)
    size = (end - begin) * lanes
    residuals = numbers_at(scratch + 8 * (get(layout, at.SCRATCH_NEWTON) + (base + begin) * lanes), size)
    for i in range(size):
        residuals[i] = 0.0


def addresses() -> dict[int, int]:
    """Return the addresses of the kernels here, by their places in the layout table."""
    kernels = {
        at.COMBINE: combine_share,
        at.ADD: add_share,
        at.DISPLACE: displace_share,
        at.COMPARE: compare_share,
        at.CLEAR_RESIDUALS: clear_chunk,
    }
    return {place: address_of_kernel(kernel) for place, kernel in kernels.items()}


@compiled
def with_factors(layout, a, b, scratch):
    """Write two factors where kernels read them, and return the sums with them; their squares are zero."""
    sums, factors, squares = newton_sums(layout, scratch), layout[at.SUMS_FACTORS], layout[at.SUMS_SQUARES]
    sums[factors], sums[factors + 1], sums[squares] = a, b, 0.0
    return sums_in(sums, (factors, factors + 2), (squares, squares + 1), NONE)


@compiled
def combine(layout, a, first, b, second, target, scratch):
    """target = a first + b second, fast if the target is none of the two."""
    sweep(layout, first, second, target, scratch, with_factors(layout, a, b, scratch), by_share(at.COMBINE))


@compiled
def add(layout, b, first, target, scratch):
    """target += b first; return its squared norm."""
    sweep(layout, first, first, target, scratch, with_factors(layout, 0.0, b, scratch), by_share(at.ADD))
    return newton_sums(layout, scratch)[layout[at.SUMS_SQUARES]]


@compiled
def displace(layout, a, origin, b, p, target, scratch):
    """q' = a q + b p, the position of the target; the way there, q' - q, takes the place of its gradient."""
    sweep(layout, origin, p, target, scratch, with_factors(layout, a, b, scratch), by_share(at.DISPLACE))


@compiled
def largest_difference(layout, q, goal, scratch):
    """Return the largest difference of two positions; infinite if it is not finite."""
    sums, change = newton_sums(layout, scratch), layout[at.SUMS_CHANGE]
    sums[change] = 0.0
    written = sums_in(sums, NONE, NONE, (change, change + 1))
    sweep(layout, q, goal, goal, scratch, written, by_share(at.COMPARE))
    return sums[change]
