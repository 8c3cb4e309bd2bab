"""Kernels that belong to no model: of what all series share, of whole vectors in shares, of segments.

They are called with addresses, as the kernels of a model are: once, or on every share, chunk or group (`plans.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import fabs, inf, sqrt

from pathfold.engine import table as at

from .jit import address_of_kernel, compiled
from .run import ADDED, RAISED, READ
from .small import invert, larger
from .thresholds import ACCURATE, ACCURATE_IN_ITERATION
from .words import bits, get, numbers_at, put


class OfNoModel(NamedTuple):
    """A kernel that is written by hand: the fields that it reads and writes, and what it does to sums of parts."""

    function: Callable
    reads: str
    writes: str
    sums: tuple[tuple[int, int, int], ...]  # what, the offset of the field in the table, how many numbers


KERNELS: dict[str, OfNoModel] = {}
ROUNDING = 2.0**-52
CORRECTED = "scratch.newton_sums.a scratch.newton_sums.a_error"
FACTORS, SQUARES, LARGEST = (READ, at.SUMS_FACTORS, 2), (ADDED, at.SUMS_SQUARES, 1), (RAISED, at.SUMS_CHANGE, 1)


def kernel[F: Callable](reads: str = "", writes: str = "", *sums: tuple[int, int, int]) -> Callable[[F], F]:
    """Enter a function here under its name; fields are written as in "point.sums.C"."""

    def enter(function: F) -> F:
        KERNELS[function.__name__] = OfNoModel(function, reads, writes, sums)
        return function

    return enter


@compiled
def of(layout, block, record, field, count):
    """Return the numbers of a field of a record that is there once."""
    return numbers_at(block + 8 * (get(layout, record) + get(layout, field)), count)


@compiled
def of_solve(layout, scratch, field, count):
    """Return numbers among the sums of a solve; a part has sums of its own."""
    return of(layout, scratch, at.SCRATCH_NEWTON_SUMS, field, count)


@compiled
def set_identity(layout, block, record):
    """Set C = I and log|G| = 0."""
    U = get(layout, at.U)
    C = of(layout, block, record, at.SUMS_C, U * U)
    of(layout, block, record, at.SUMS_LOG_DET, 1)[0] = 0.0
    for i in range(U):
        for j in range(U):
            C[i * U + j] = 1.0 if i == j else 0.0


@compiled
def largest_row(matrix, n):
    """Return the maximum norm of an n x n matrix, the largest sum of the sizes of a row."""
    found = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += fabs(matrix[i * n + j])
        found = larger(found, total)
    return found


@compiled
def invert_woodbury(layout, block, record):
    """Compute C^{-1}, the condition of C in the maximum norm, and log|C|; C is overwritten."""
    U = get(layout, at.U)
    C = of(layout, block, record, at.SUMS_C, U * U)
    inverse = of(layout, block, record, at.SUMS_C_INV, U * U)
    size = largest_row(C, U)
    log_C = invert(C, inverse, U)
    of(layout, block, record, at.SUMS_CONDITION, 1)[0] = size * largest_row(inverse, U)
    return log_C


@compiled
def add_correction(layout, block, record, scratch, accurate):
    """a += C^{-1} (b - a); then b = 0.

    Every correction leaves of what it corrects a fraction that rounding times the condition of C bounds; an error that
    is small enough counts as none.
    """
    U = get(layout, at.U)
    inverse, error = of(layout, block, record, at.SUMS_C_INV, U * U), of_solve(layout, scratch, at.SUMS_A_ERROR, 1)
    error[0] *= ROUNDING * of(layout, block, record, at.SUMS_CONDITION, 1)[0]
    if error[0] < accurate:
        error[0] = 0.0
    a = of_solve(layout, scratch, at.SUMS_A, U)
    b = of_solve(layout, scratch, at.SUMS_B, U)
    for i in range(U):
        b[i] -= a[i]
    for i in range(U):
        for j in range(U):
            a[i] += inverse[i * U + j] * b[j]
    for i in range(U):
        b[i] = 0.0


@kernel(writes="point.sums.C point.sums.log_det point.sums.excesses")
def begin_factor(once, layout, problem, point, other, scratch):
    """C = I, log|G| = 0 and no excess, before the sums over nodes."""
    set_identity(layout, point, at.POINT_SUMS)
    of(layout, point, at.POINT_SUMS, at.SUMS_EXCESSES, 1)[0] = 0.0


@kernel("point.sums.C point.sums.log_det", "point.sums.C_inv point.sums.condition point.sums.log_C point.sums.log_det")
def finish_factor(once, layout, problem, point, other, scratch):
    """Invert C and add log|C| to log|G|, which else is log|Sigma| of each series."""
    log_C = invert_woodbury(layout, point, at.POINT_SUMS)
    of(layout, point, at.POINT_SUMS, at.SUMS_LOG_C, 1)[0] = log_C
    of(layout, point, at.POINT_SUMS, at.SUMS_LOG_DET, 1)[0] += log_C


@kernel(writes="scratch.newton_sums.C scratch.newton_sums.log_det")
def begin_cross_factor(once, layout, problem, point, other, scratch):
    set_identity(layout, scratch, at.SCRATCH_NEWTON_SUMS)


@kernel("scratch.newton_sums.C", "scratch.newton_sums.C_inv scratch.newton_sums.condition")
def finish_cross_factor(once, layout, problem, point, other, scratch):
    invert_woodbury(layout, scratch, at.SCRATCH_NEWTON_SUMS)


@kernel(writes=f"{CORRECTED} scratch.newton_sums.b scratch.newton_sums.residual")
def begin_solve(once, layout, problem, point, other, scratch):
    """Set a, b and the largest residual to zero; all of a is in error."""
    U = get(layout, at.U)
    of_solve(layout, scratch, at.SUMS_A, U)[:] = 0.0
    of_solve(layout, scratch, at.SUMS_B, U)[:] = 0.0
    of_solve(layout, scratch, at.SUMS_A_ERROR, 1)[0] = 1.0
    of_solve(layout, scratch, at.SUMS_RESIDUAL, 1)[0] = 0.0


@kernel(
    f"point.sums.C_inv point.sums.condition scratch.newton_sums.b {CORRECTED}", f"{CORRECTED} scratch.newton_sums.b"
)
def correct(once, layout, problem, point, other, scratch):
    """Correct the multipliers a of the parameters by C^{-1} of the point."""
    add_correction(layout, point, at.POINT_SUMS, scratch, ACCURATE)


@kernel(
    f"scratch.newton_sums.C_inv scratch.newton_sums.condition scratch.newton_sums.b {CORRECTED}",
    f"{CORRECTED} scratch.newton_sums.b",
)
def cross_correct(once, layout, problem, point, other, scratch):
    """Correct the multipliers a of the parameters by C^{-1} of the mixed matrix."""
    add_correction(layout, scratch, at.SCRATCH_NEWTON_SUMS, scratch, ACCURATE_IN_ITERATION)


@kernel(writes="scratch.newton_sums.change")
def begin_change(once, layout, problem, point, other, scratch):
    of_solve(layout, scratch, at.SUMS_CHANGE, 1)[0] = 0.0


@kernel("scratch.newton_sums.a scratch.newton_sums.change", "scratch.newton_sums.change")
def bound_change(once, layout, problem, point, other, scratch):
    """Turn the largest square of a change of noise into a bound of the change of position, with the parameters'."""
    a = of_solve(layout, scratch, at.SUMS_A, get(layout, at.U))
    change = of_solve(layout, scratch, at.SUMS_CHANGE, 1)
    bound = sqrt(change[0])
    for i in range(a.size):
        bound = larger(bound, fabs(a[i]))
    change[0] = bound


@kernel(writes="point.sums.gz point.sums.gu point.sums.wD")
def begin_gradient(once, layout, problem, point, other, scratch):
    """Set the sums of a gradient, from gz to wD, to zero."""
    size = get(layout, at.SUMS_WD) + get(layout, at.Z) * get(layout, at.U) - get(layout, at.SUMS_GZ)
    of(layout, point, at.POINT_SUMS, at.SUMS_GZ, size)[:] = 0.0


@kernel("scratch.newton_sums.a scratch.start_multipliers.zeta0", "other.u.u other.v0.v0")
def pull_start(once, layout, problem, point, vector, scratch):
    """Subtract the parts of J^T lam for the parameters and the initial states: u -= a, v0 -= B0^T zeta_0."""
    U, begin, V0 = get(layout, at.U), get(layout, at.VECTOR_V0), get(layout, at.VECTOR_V0 + at.END)
    u, v0 = numbers_at(vector + 8 * get(layout, at.VECTOR_U), U), numbers_at(vector + 8 * begin, V0 - begin)
    a = of_solve(layout, scratch, at.SUMS_A, U)
    zeta0 = numbers_at(scratch + 8 * get(layout, at.SCRATCH_START_MULTIPLIERS), V0 - begin)
    for i in range(U):
        u[i] -= a[i]
    for i in range(V0 - begin):
        v0[i] -= zeta0[i]


@compiled
def share_of(share, layout, vector):
    """Return the numbers of a share of a vector, which begins at an address."""
    size, shares = get(layout, at.VECTOR_V + at.END), get(layout, at.PARTS)
    begin, end = share * size // shares, (share + 1) * size // shares
    return numbers_at(vector + 8 * begin, end - begin)


@kernel("scratch.newton_sums.factors", "", FACTORS)
def combine(share, layout, first, second, target, scratch):
    """target = a first + b second, with the factors a and b among the sums; fast if the target is none of the two."""
    a, b = of_solve(layout, scratch, at.SUMS_FACTORS, 2)
    x, y, result = share_of(share, layout, first), share_of(share, layout, second), share_of(share, layout, target)
    for i in range(result.size):
        result[i] = a * x[i] + b * y[i]


@kernel("scratch.newton_sums.factors", "scratch.newton_sums.squares", FACTORS, SQUARES)
def add(share, layout, first, second, target, scratch):
    """target += b first; adds the squares of the result to the sums."""
    b = of_solve(layout, scratch, at.SUMS_FACTORS, 2)[1]
    x, result, squares = share_of(share, layout, first), share_of(share, layout, target), 0.0
    for i in range(result.size):
        result[i] += b * x[i]
        squares += result[i] * result[i]
    of_solve(layout, scratch, at.SUMS_SQUARES, 1)[0] += squares


@kernel("scratch.newton_sums.factors", "", FACTORS)
def displace(share, layout, origin, momentum, target, scratch):
    """q' = a q + b p and, in the place of the gradient of the target, q' - q."""
    a, b = of_solve(layout, scratch, at.SUMS_FACTORS, 2)
    q, p, q_new = share_of(share, layout, origin), share_of(share, layout, momentum), share_of(share, layout, target)
    displacement = share_of(share, layout, target + 8 * get(layout, at.VECTOR_V + at.END))
    for i in range(q.size):
        moved = a * q[i] + b * p[i]
        q_new[i] = moved
        displacement[i] = moved - q[i]


@kernel("", "scratch.newton_sums.change", LARGEST)
def compare(share, layout, first, second, target, scratch):
    """Keep the largest difference of two vectors, infinite if it is not finite; nothing is written to the target.

    Whole numbers in the place of numbers let NaN be the largest, and the compiler make vectors of the comparisons.
    """
    x, y = share_of(share, layout, first), share_of(share, layout, second)
    largest, infinite = 0, bits(inf)
    for i in range(x.size):
        difference = bits(fabs(x[i] - y[i]))
        largest = difference if difference > largest else largest
    put(scratch, get(layout, at.SCRATCH_NEWTON_SUMS) + get(layout, at.SUMS_CHANGE), min(largest, infinite))


@kernel(writes="scratch.newton.gap scratch.newton.o")
def clear_residuals(chunk, layout, problem, point, other, scratch):
    """Set the gaps and misfits of a chunk to zero."""
    lanes, base = get(layout, at.LANES), chunk * get(layout, at.SCRATCH_NEWTON + at.SIZE)
    begin, end = get(layout, at.NEWTON_GAP), get(layout, at.NEWTON_O) + get(layout, at.Y)
    size = (end - begin) * lanes
    residuals = numbers_at(scratch + 8 * (get(layout, at.SCRATCH_NEWTON) + (base + begin) * lanes), size)
    for i in range(size):
        residuals[i] = 0.0


@kernel("point.node.x_node", "point.segment.x_in")
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
