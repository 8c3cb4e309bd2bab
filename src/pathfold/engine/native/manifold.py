"""Computations at one point of the manifold: linearise, factorise, project vectors, gradient of h1, energy, shift.

A point is one block of memory: the position q, the projected gradient of h1, and the records of what is known there.
"""

from __future__ import annotations

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .jit import compiled, kernel
from .lanes import of_interval, of_series
from .parts import NO_STAGE, NO_SUMS, NONE, by_chunk, by_node, by_series, joined, over_series, starts, sums_in, sweep
from .shares import newton_sums
from .small import finite, invert
from .thresholds import CORRECTIONS
from .vector import clear_idle, gradient, position, squared_norm


@compiled
def sums_of(layout, point):
    return point[layout[at.POINT_SUMS] : layout[at.POINT_SUMS + at.END]]


@compiled
def evaluate_start(layout, problem, point, scratch):
    """Compute parameters z and initial states x_0 of the point, with their Jacobians."""
    kernel(at.PARAMETERS, 0, layout, problem, point, point, scratch)
    over_series(at.START_STATES, layout, problem, point, point, scratch)


@compiled
def linearise(layout, problem, point, scratch):
    """Compute path and Jacobians at the point, from its noise and node states (method.md, section 3)."""
    kernel(at.PARAMETERS, 0, layout, problem, point, point, scratch)
    intervals = by_chunk(at.SIMULATE, at.LINEARISE, at.OBSERVE)
    sweep(layout, problem, point, point, scratch, NO_SUMS, starts(), intervals)


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
def factor_sums(layout, point):
    """Set C and log|G| to begin with, and return the sums that the factor is made of."""
    sums = sums_of(layout, point)
    reset_woodbury(layout, sums)
    return sums_in(sums, NONE, (layout[at.SUMS_C], layout[at.SUMS_LOG_DET] + 1), NONE)


@compiled
def finish_factor(layout, point):
    """Invert C and add log|C| to log|G|; return log|C|, which is all of it but log|Sigma| of each series."""
    sums = sums_of(layout, point)
    log_C = invert_woodbury(layout, sums)
    sums[layout[at.SUMS_LOG_DET]] += log_C
    return log_C


@compiled
def factor_status(layout, point):
    """Return a status: log|G| is not finite where G is not, or is not positive."""
    return CONVERGED if finite(sums_of(layout, point)[layout[at.SUMS_LOG_DET]]) else NON_FINITE


@compiled
def factor_stages():
    """Return the stages of the factor: of segments, if series are cut, where each begins; then all nodes."""
    joint = joined(at.JOIN_FACTORS, at.JOIN_WEIGHTS)
    return by_series(at.REFERENCE, at.SURVEY), joint, by_series(at.FACTORISE)


@compiled
def factorise_by_series(layout, problem, point, scratch):
    """Compute the factor of the Gram matrix and log|G| (method.md, section 4) once linearised; return log|C|."""
    sums = factor_sums(layout, point)
    surveyed, joint, factorised = factor_stages()
    sweep(layout, problem, point, point, scratch, sums, surveyed, joint, factorised)
    return finish_factor(layout, point)


@compiled
def factorise(layout, problem, point, scratch):
    """Compute the factor of the Gram matrix and log|G|, once linearised; return a status."""
    factorise_by_series(layout, problem, point, scratch)
    return factor_status(layout, point)


@compiled
def linearise_and_factorise(layout, problem, point, scratch):
    """Compute path, Jacobians and factor at the point, in one sweep; return a status."""
    kernel(at.PARAMETERS, 0, layout, problem, point, point, scratch)
    sums = factor_sums(layout, point)
    intervals = by_chunk(at.SIMULATE, at.LINEARISE, at.OBSERVE)
    surveyed, joint, factorised = factor_stages()
    sweep(layout, problem, point, point, scratch, sums, starts(), intervals, surveyed, joint, factorised)
    finish_factor(layout, point)
    return factor_status(layout, point)


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
def unexplained_sums(layout, scratch):
    """Set a and b to zero, and return the sums in which kernels find what the parameters could explain."""
    sums = newton_sums(layout, scratch)
    clear_parameters(layout, sums, at.SUMS_A)
    clear_parameters(layout, sums, at.SUMS_B)
    return sums_in(sums, multipliers(layout), (layout[at.SUMS_B], layout[at.SUMS_B] + layout[at.U]), NONE)


@compiled
def solve_parameters(layout, problem, point, other, inverse, unexplained, scratch):
    """Solve C a = sum eU^T Sig^{-1} e for the parameters' multipliers a, by corrections from zero.

    `unexplained` is the kernel that finds what the parameters could still explain, as it did for a = 0 already.
    """
    sums = newton_sums(layout, scratch)
    of_b = sums_in(sums, multipliers(layout), (layout[at.SUMS_B], layout[at.SUMS_B] + layout[at.U]), NONE)
    correct(layout, inverse, sums)
    for _ in range(1, CORRECTIONS):
        clear_parameters(layout, sums, at.SUMS_B)
        sweep(layout, problem, point, other, scratch, of_b, by_node(unexplained))
        correct(layout, inverse, sums)


@compiled
def push_with_residuals():
    """Return the stage that finds sum B p_v, with gaps and misfits as they are in scratch."""
    return by_chunk(at.PUSH)


@compiled
def push_from_manifold():
    """Return the stage that finds sum B p_v, and sets gaps and misfits to zero, as they are on the manifold."""
    return by_chunk(at.CLEAR_RESIDUALS, at.PUSH)


@compiled
def solve_pushed(layout, problem, point, vector, push, scratch):
    """Compute innovations of J p + residuals and the multipliers a of J^T G^{-1} (J p + residuals).

    `push` is the stage before: one of the two above, or what stands for it where sum B p_v is known. `SMOOTH_VECTOR`
    finds the other multipliers: lam, eta, zeta_0.
    """
    sums = unexplained_sums(layout, scratch)
    ends, joint, filtered = by_series(at.FILTER_ENDS), joined(at.JOIN_FILTERS), by_series(at.FILTER_VECTOR)
    sweep(layout, problem, point, vector, scratch, sums, push, ends, joint, filtered, by_node(at.UNEXPLAINED))
    begin = layout[at.POINT_SUMS] + layout[at.SUMS_C_INV]
    inverse = point[begin : begin + layout[at.U] * layout[at.U]]
    solve_parameters(layout, problem, point, vector, inverse, at.UNEXPLAINED, scratch)


@compiled
def smooth_and(stage, layout, problem, point, other, scratch):
    """Find the multipliers lam, eta and zeta_0, then do the stage."""
    ends, joint = by_series(at.SMOOTH_ENDS), joined(at.JOIN_SMOOTHERS)
    sweep(layout, problem, point, other, scratch, NO_SUMS, ends, joint, by_series(at.SMOOTH_VECTOR), stage)


@compiled
def pull_start(layout, vector, scratch):
    """Subtract the parts of J^T lam for the parameters and the initial states: u -= a, v0 -= B0^T zeta_0."""
    a = layout[at.SCRATCH_NEWTON_SUMS] + layout[at.SUMS_A]
    for i in range(layout[at.U]):
        vector[layout[at.VECTOR_U] + i] -= scratch[a + i]
    for i in range(layout[at.VECTOR_V0 + at.END] - layout[at.VECTOR_V0]):
        vector[layout[at.VECTOR_V0] + i] -= scratch[layout[at.SCRATCH_START_MULTIPLIERS] + i]


@compiled
def remove_normal(layout, problem, point, vector, push, scratch):
    """p <- p - J^T G^{-1} (J p + residuals), for `push_from_manifold` or `push_with_residuals`."""
    solve_pushed(layout, problem, point, vector, push, scratch)
    smooth_and(by_chunk(at.PULL), layout, problem, point, vector, scratch)
    pull_start(layout, vector, scratch)
    clear_idle(layout, vector)


@compiled
def project(layout, problem, point, vector, scratch):
    """p <- p - J^T G^{-1} J p: onto the cotangent space at the point (method.md, section 5)."""
    remove_normal(layout, problem, point, vector, push_from_manifold(), scratch)


@compiled
def gradient_sums(layout, point):
    """Set the sums of a gradient, from gz to wD, to zero, and return them with C^{-1}, which their kernels read."""
    sums = sums_of(layout, point)
    begin, end = layout[at.SUMS_GZ], layout[at.SUMS_WD] + layout[at.Z] * layout[at.U]
    for i in range(begin, end):
        sums[i] = 0.0
    C_inv = layout[at.SUMS_C_INV], layout[at.SUMS_C_INV] + layout[at.U] ** 2
    return sums_in(sums, C_inv, (begin, end), NONE)


@compiled
def set_weights(layout, problem, point, vector, scratch):
    """Compute G^{-1} J as far as Jacobians have entries (method.md, section 6)."""
    sweep(layout, problem, point, vector, scratch, gradient_sums(layout, point), by_series(at.WEIGHTS))


@compiled
def set_gradient(layout, problem, point, scratch):
    """Compute the gradient of h1, projected onto the cotangent space (method.md, section 6)."""
    g, sums = gradient(layout, point), gradient_sums(layout, point)
    intervals = by_chunk(at.SPREAD, at.CURVATURE, at.OBSERVE_CURVATURE)
    ends, joint = by_series(at.PULL_BACK_ENDS), joined(at.JOIN_PULLS)
    pulled = by_series(at.PULL_BACK, at.START_CURVATURE)
    sweep(layout, problem, point, g, scratch, sums, by_series(at.WEIGHTS), intervals, ends, joint, pulled)
    kernel(at.PARAMETER_GRADIENT, 0, layout, problem, point, g, scratch)
    solve_pushed(layout, problem, point, g, by_chunk(at.CLEAR_RESIDUALS), scratch)
    smooth_and(by_chunk(at.GRADIENT_VECTOR), layout, problem, point, g, scratch)
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
    status = linearise_and_factorise(layout, problem, point, scratch)
    solve_pushed(layout, problem, point, vector, push_with_residuals(), scratch)
    smooth_and(NO_STAGE, layout, problem, point, vector, scratch)
    pull_start(layout, vector, scratch)
    set_weights(layout, problem, point, vector, scratch)
    return status
