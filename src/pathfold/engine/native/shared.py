"""Kernels of what all series share, the U x U block of the parameters: a factor is begun and ended by them, and solved.

They are called once, with addresses, as the kernels of a model are (method.md, sections 4, 5 and 8).
"""

from __future__ import annotations

from numpy import fabs, sqrt

from pathfold.engine import table as at

from .jit import compiled
from .small import invert
from .words import get, numbers_at


@compiled
def of(layout, block, record, field, count):
    """Return the numbers of a field of a record that is there once."""
    return numbers_at(block + 8 * (get(layout, record) + get(layout, field)), count)


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
def invert_woodbury(layout, block, record):
    """Compute C^{-1} and log|C|; C is overwritten."""
    U = get(layout, at.U)
    C = of(layout, block, record, at.SUMS_C, U * U)
    return invert(C, of(layout, block, record, at.SUMS_C_INV, U * U), U)


@compiled
def add_correction(layout, inverse, scratch):
    """a += C^{-1} (b - a); then b = 0."""
    U = get(layout, at.U)
    a = of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_A, U)
    b = of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_B, U)
    for i in range(U):
        b[i] -= a[i]
    for i in range(U):
        for j in range(U):
            a[i] += inverse[i * U + j] * b[j]
    for i in range(U):
        b[i] = 0.0


def begin_factor(once, layout, problem, point, other, scratch):
    """C = I, log|G| = 0 and no excess, before the sums over nodes."""
    set_identity(layout, point, at.POINT_SUMS)
    of(layout, point, at.POINT_SUMS, at.SUMS_EXCESSES, 1)[0] = 0.0


def finish_factor(once, layout, problem, point, other, scratch):
    """Invert C and add log|C| to log|G|, which else is log|Sigma| of each series."""
    log_C = invert_woodbury(layout, point, at.POINT_SUMS)
    of(layout, point, at.POINT_SUMS, at.SUMS_LOG_C, 1)[0] = log_C
    of(layout, point, at.POINT_SUMS, at.SUMS_LOG_DET, 1)[0] += log_C


def begin_cross_factor(once, layout, problem, point, other, scratch):
    set_identity(layout, scratch, at.SCRATCH_NEWTON_SUMS)


def finish_cross_factor(once, layout, problem, point, other, scratch):
    invert_woodbury(layout, scratch, at.SCRATCH_NEWTON_SUMS)


def begin_solve(once, layout, problem, point, other, scratch):
    """Set a, b and the largest residual to zero."""
    U = get(layout, at.U)
    of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_A, U)[:] = 0.0
    of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_B, U)[:] = 0.0
    of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_RESIDUAL, 1)[0] = 0.0


def correct(once, layout, problem, point, other, scratch):
    """Correct the multipliers a of the parameters by C^{-1} of the point."""
    U = get(layout, at.U)
    add_correction(layout, of(layout, point, at.POINT_SUMS, at.SUMS_C_INV, U * U), scratch)


def cross_correct(once, layout, problem, point, other, scratch):
    """Correct the multipliers a of the parameters by C^{-1} of the mixed matrix."""
    U = get(layout, at.U)
    add_correction(layout, of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_C_INV, U * U), scratch)


def begin_change(once, layout, problem, point, other, scratch):
    of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_CHANGE, 1)[0] = 0.0


def bound_change(once, layout, problem, point, other, scratch):
    """Turn the largest square of a change of noise into a bound of the change of position, with the parameters'."""
    a = of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_A, get(layout, at.U))
    change = of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_CHANGE, 1)
    bound = sqrt(change[0])
    for i in range(a.size):
        size = fabs(a[i])
        if not (size <= bound):
            bound = size
    change[0] = bound


def begin_gradient(once, layout, problem, point, other, scratch):
    """Set the sums of a gradient, from gz to wD, to zero."""
    size = get(layout, at.SUMS_WD) + get(layout, at.Z) * get(layout, at.U) - get(layout, at.SUMS_GZ)
    of(layout, point, at.POINT_SUMS, at.SUMS_GZ, size)[:] = 0.0


def pull_start(once, layout, problem, point, vector, scratch):
    """Subtract the parts of J^T lam for the parameters and the initial states: u -= a, v0 -= B0^T zeta_0."""
    U, begin, V0 = get(layout, at.U), get(layout, at.VECTOR_V0), get(layout, at.VECTOR_V0 + at.END)
    u, v0 = numbers_at(vector + 8 * get(layout, at.VECTOR_U), U), numbers_at(vector + 8 * begin, V0 - begin)
    a = of(layout, scratch, at.SCRATCH_NEWTON_SUMS, at.SUMS_A, U)
    zeta0 = numbers_at(scratch + 8 * get(layout, at.SCRATCH_START_MULTIPLIERS), V0 - begin)
    for i in range(U):
        u[i] -= a[i]
    for i in range(V0 - begin):
        v0[i] -= zeta0[i]


# By name, with the fields that each reads and writes.
KERNELS = {
    "begin_factor": (begin_factor, "", "point.sums.C point.sums.log_det point.sums.excesses"),
    "finish_factor": (finish_factor, "point.sums.C point.sums.log_det", "point.sums.C_inv point.sums.log_C"),
    "begin_cross_factor": (begin_cross_factor, "", "scratch.newton_sums.C"),
    "finish_cross_factor": (finish_cross_factor, "scratch.newton_sums.C", "scratch.newton_sums.C_inv"),
    "begin_solve": (begin_solve, "", "scratch.newton_sums.a scratch.newton_sums.b scratch.newton_sums.residual"),
    "correct": (correct, "point.sums.C_inv scratch.newton_sums.b", "scratch.newton_sums.a"),
    "cross_correct": (cross_correct, "scratch.newton_sums.C_inv scratch.newton_sums.b", "scratch.newton_sums.a"),
    "begin_change": (begin_change, "", "scratch.newton_sums.change"),
    "bound_change": (bound_change, "scratch.newton_sums.a scratch.newton_sums.change", ""),
    "begin_gradient": (begin_gradient, "", "point.sums.gz point.sums.gu point.sums.wD"),
    "pull_start": (pull_start, "scratch.newton_sums.a scratch.start_multipliers.zeta0", "other.u.u other.v0.v0"),
}
