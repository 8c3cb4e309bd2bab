"""Computations at one point of the manifold: linearise, factorise, project vectors, gradient of h1, energy, shift.

A point is one block of memory: the position q, the projected gradient of h1, and the records of what is known there.
"""

from __future__ import annotations

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .jit import compiled, kernel
from .lanes import of_interval, of_series
from .parts import ADDED, NONE, each_chunk, over_chunks, over_series, summed
from .small import finite, invert
from .thresholds import CORRECTIONS
from .vector import clear_idle, gradient, position, squared_norm


@compiled
def sums_of(layout, point):
    return point[layout[at.POINT_SUMS] : layout[at.POINT_SUMS + at.END]]


@compiled
def newton_sums(layout, scratch):
    return scratch[layout[at.SCRATCH_NEWTON_SUMS] : layout[at.SCRATCH_NEWTON_SUMS + at.END]]


@compiled
def evaluate_start(layout, problem, point, scratch):
    """Compute parameters z and initial states x_0 of the point, with their Jacobians."""
    kernel(at.PARAMETERS, 0, layout, problem, point, point, scratch)
    over_series(at.START_STATES, layout, problem, point, point, scratch)


@compiled
def linearise(layout, problem, point, scratch):
    """Compute path and Jacobians at the point, from its noise and node states (method.md, section 3)."""
    evaluate_start(layout, problem, point, scratch)
    over_series(at.LINK, layout, problem, point, point, scratch)
    each_chunk(at.SIMULATE, at.LINEARISE, at.OBSERVE, layout, problem, point, point, scratch)


@compiled
def reset_woodbury(layout, sums):
    """Set C = I and log|G| = 0, before the sums over nodes."""
    U, C = layout[at.U], layout[at.SUMS_C]
    sums[layout[at.SUMS_LOG_DET]] = 0.0
    for i in range(U):
        for j in range(U):
            sums[C + i * U + j] = 1.0 if i == j else 0.0


@compiled
def invert_woodbury(layout, sums):
    """Compute C^{-1} and log|C|; C is overwritten."""
    U, C, C_inv = layout[at.U], layout[at.SUMS_C], layout[at.SUMS_C_INV]
    return invert(sums[C : C + U * U], sums[C_inv : C_inv + U * U], U)


@compiled
def factorise(layout, problem, point, scratch):
    """Compute the factor of the Gram matrix and log|G| (method.md, section 4); fail if not finite or not positive."""
    factorise_by_series(layout, problem, point, scratch)
    return CONVERGED if finite(sums_of(layout, point)[layout[at.SUMS_LOG_DET]]) else NON_FINITE


@compiled
def factorise_by_series(layout, problem, point, scratch):
    """Compute factor and log|G|; return log|C|, which is all of it but log|Sigma| of each series."""
    sums, log_det = sums_of(layout, point), layout[at.SUMS_LOG_DET]
    reset_woodbury(layout, sums)
    C_to_log_det = layout[at.SUMS_C], log_det + 1
    summed(at.BY_SERIES, ADDED, sums, NONE, C_to_log_det, at.FACTORISE, layout, problem, point, point, scratch)
    log_C = invert_woodbury(layout, sums)
    sums[log_det] += log_C
    return log_C


@compiled
def clear_residuals(layout, scratch):
    """Set all gaps and misfits to zero, as they are on the manifold."""
    lanes, size = layout[at.LANES], layout[at.SCRATCH_NEWTON + at.SIZE]
    begin, end = layout[at.NEWTON_GAP] * lanes, (layout[at.NEWTON_O] + layout[at.Y]) * lanes
    for c in range(layout[at.CHUNKS]):
        base = layout[at.SCRATCH_NEWTON] + c * size * lanes
        for i in range(base + begin, base + end):
            scratch[i] = 0.0


@compiled
def clear_parameters(layout, sums, field):
    """Set a parameter vector among the sums to zero."""
    for i in range(layout[at.U]):
        sums[layout[field] + i] = 0.0


@compiled
def correct(layout, inverse, sums):
    """a += C^{-1} (b - a)."""
    U, a, b = layout[at.U], layout[at.SUMS_A], layout[at.SUMS_B]
    for i in range(U):
        sums[b + i] -= sums[a + i]
    for i in range(U):
        for j in range(U):
            sums[a + i] += inverse[i * U + j] * sums[b + j]


@compiled
def multipliers(layout):
    """Return where a begins and ends among the sums."""
    return layout[at.SUMS_A], layout[at.SUMS_A] + layout[at.U]


@compiled
def solve_parameters(layout, problem, point, other, inverse, unexplained, scratch):
    """Solve C a = sum eU^T Sig^{-1} e for the parameters' multipliers a, by corrections from zero.

    `unexplained` is the kernel that finds what the parameters could still explain.
    """
    sums = newton_sums(layout, scratch)
    a, b = multipliers(layout), (layout[at.SUMS_B], layout[at.SUMS_B] + layout[at.U])
    clear_parameters(layout, sums, at.SUMS_A)
    for _ in range(CORRECTIONS):
        clear_parameters(layout, sums, at.SUMS_B)
        summed(at.BY_NODE, ADDED, sums, a, b, unexplained, layout, problem, point, other, scratch)
        correct(layout, inverse, sums)


@compiled
def solve_pushed(layout, problem, point, vector, scratch):
    """Compute multipliers lam, eta, a, zeta_0 of J^T G^{-1} (J p + residuals), once `work` holds sum B p_v."""
    over_series(at.FILTER_VECTOR, layout, problem, point, vector, scratch)
    begin = layout[at.POINT_SUMS] + layout[at.SUMS_C_INV]
    inverse = point[begin : begin + layout[at.U] * layout[at.U]]
    solve_parameters(layout, problem, point, vector, inverse, at.UNEXPLAINED, scratch)
    over_series(at.SMOOTH_VECTOR, layout, problem, point, vector, scratch)


@compiled
def pull_start(layout, vector, scratch):
    """Subtract the parts of J^T lam for the parameters and the initial states: u -= a, v0 -= B0^T zeta_0."""
    a = layout[at.SCRATCH_NEWTON_SUMS] + layout[at.SUMS_A]
    for i in range(layout[at.U]):
        vector[layout[at.VECTOR_U] + i] -= scratch[a + i]
    for i in range(layout[at.VECTOR_V0 + at.END] - layout[at.VECTOR_V0]):
        vector[layout[at.VECTOR_V0] + i] -= scratch[layout[at.SCRATCH_START_MULTIPLIERS] + i]


@compiled
def project(layout, problem, point, vector, scratch):
    """p <- p - J^T G^{-1} J p: onto the cotangent space at the point (method.md, section 5)."""
    clear_residuals(layout, scratch)
    over_chunks(at.PUSH, layout, problem, point, vector, scratch)
    solve_pushed(layout, problem, point, vector, scratch)
    over_chunks(at.PULL, layout, problem, point, vector, scratch)
    pull_start(layout, vector, scratch)
    clear_idle(layout, vector)


@compiled
def set_weights(layout, problem, point, vector, scratch):
    """G^{-1} J as far as Jacobians have entries (method.md, section 6); sums of gradients begin with zero."""
    sums = sums_of(layout, point)
    for i in range(layout[at.Z] * layout[at.U]):
        sums[layout[at.SUMS_WD] + i] = 0.0
    for i in range(layout[at.Z]):
        sums[layout[at.SUMS_GZ] + i] = 0.0
    clear_parameters(layout, sums, at.SUMS_GU)
    C_inv = layout[at.SUMS_C_INV], layout[at.SUMS_C_INV] + layout[at.U] ** 2
    summed(at.BY_SERIES, ADDED, sums, C_inv, gradient_sums(layout), at.WEIGHTS, layout, problem, point, vector, scratch)


@compiled
def gradient_sums(layout):
    """Return where the sums of a gradient, from gz to wD, begin and end."""
    return layout[at.SUMS_GZ], layout[at.SUMS_WD] + layout[at.Z] * layout[at.U]


@compiled
def set_gradient(layout, problem, point, scratch):
    """Compute the gradient of h1, projected onto the cotangent space (method.md, section 6)."""
    sums, g, gz_to_wD = sums_of(layout, point), gradient(layout, point), gradient_sums(layout)
    set_weights(layout, problem, point, g, scratch)
    each_chunk(at.SPREAD, at.CURVATURE, at.OBSERVE_CURVATURE, layout, problem, point, g, scratch)
    summed(at.BY_SERIES, ADDED, sums, NONE, gz_to_wD, at.PULL_BACK, layout, problem, point, g, scratch)
    summed(at.BY_SERIES, ADDED, sums, NONE, gz_to_wD, at.START_CURVATURE, layout, problem, point, g, scratch)
    kernel(at.PARAMETER_GRADIENT, 0, layout, problem, point, g, scratch)
    clear_residuals(layout, scratch)
    solve_pushed(layout, problem, point, g, scratch)
    over_chunks(at.GRADIENT_VECTOR, layout, problem, point, g, scratch)
    pull_start(layout, g, scratch)
    clear_idle(layout, g)


@compiled
def constrained_potential(layout, point):
    """l(q) = 1/2 q.q + excess of the priors and the noise + 1/2 log|G|: minus the log density on the manifold."""
    total = 0.5 * squared_norm(position(layout, point)) + 0.5 * sums_of(layout, point)[layout[at.SUMS_LOG_DET]]
    total += point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]]
    for k in range(layout[at.SERIES]):
        total += point[of_series(layout, at.POINT_START, at.START_EXCESS_X0, k)]
    for n in range(layout[at.INTERVALS]):
        total += point[of_interval(layout, at.POINT_NODE, at.NODE_EXCESS, n)]
    return total


@compiled
def first_order_shift(layout, problem, point, vector, scratch):
    """Write u and v0 of -J^T G^{-1} c, with c the gaps and misfits at the point, to the vector, which is zero on entry.

    To first order their posterior means change by this when the constraints change by c. The scratch has the weights of
    the initial states' Jacobians, which their posterior covariance is made of. Returns a status.
    """
    linearise(layout, problem, point, scratch)
    status = factorise(layout, problem, point, scratch)
    over_chunks(at.PUSH, layout, problem, point, vector, scratch)
    solve_pushed(layout, problem, point, vector, scratch)
    pull_start(layout, vector, scratch)
    set_weights(layout, problem, point, vector, scratch)
    return status
