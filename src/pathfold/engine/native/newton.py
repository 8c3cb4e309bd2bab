"""The position update: find q' = Gqq q + Gqp p - J(q)^T lam on the manifold, by Newton's method on the lifted path."""

from __future__ import annotations

from numpy import fabs, isfinite, sqrt

from pathfold.engine.status import CONVERGED, DIVERGED, NON_FINITE, NOT_CONVERGED

from . import kernels
from .jit import compiled
from .point import count_chunks, evaluate_start, link_intervals, pull_start, reset_woodbury
from .sizes import SUMS_A, SUMS_B, SUMS_C, SUMS_C_INV, SUMS_CHANGE, SUMS_RESIDUAL, NODE_SIZE, NODE_X_NODE, L, U, X
from .small import invert, multiply

CONSTRAINT_TOLERANCE = 1e-9  # of gaps and observation residuals (paper: theta_c)
POSITION_TOLERANCE = 1e-8  # of the last change of position (paper: theta_q)
MAX_ITERATIONS = 50
DIVERGENCE = 1e10  # a residual beyond this cannot be mended
NEAR = 0.3  # changes below this leave the linearisation in place ...
CONTRACTION = 0.1  # ... as long as they shrink by this factor


@compiled
def solve_position(problem, origin, target, scratch, counts):
    """Move `target` onto the manifold along the rows of J(q) at `origin`; returns a status.

    On entry target.q is the unconstrained end of the step. Node states begin at those of the origin. Far from the
    solution every iteration linearises; near it the last linearisation and its factor are kept (chord steps) while they
    contract well. The result depends on origin and target.q alone, as reversibility demands.
    """
    sums, newton = scratch.newton_sums, scratch.newton
    copy_nodes(problem, origin, target)
    for i in range(newton.size):
        newton[i] = 0.0
    for i in range(U):
        sums[SUMS_A + i] = 0.0
    for i in range(scratch.newton_start.size):
        scratch.newton_start[i] = 0.0
    change = previous = 1e300
    fresh = True
    for iteration in range(MAX_ITERATIONS):
        pull_start(target.q, sums, scratch.newton_start)
        shoot(problem, origin, target, fresh, scratch)
        if fresh:
            counts.linearisations[0] += 1
            cross_factorise(problem, origin, target, scratch)
        residual = cross_filter(problem, target, scratch)
        counts.newton_iterations[0] += 1
        if not (residual < DIVERGENCE):
            return NON_FINITE if iteration == 0 and not isfinite(residual) else DIVERGED
        if residual < CONSTRAINT_TOLERANCE and change < POSITION_TOLERANCE:
            return CONVERGED
        previous = change
        change = cross_smooth(problem, origin, target, scratch)
        fresh = change > NEAR or change > CONTRACTION * previous
        if change < POSITION_TOLERANCE:
            fresh = False
    return NOT_CONVERGED


@compiled
def copy_nodes(problem, origin, target):
    """Start the target's node states at the origin's."""
    for c in range(count_chunks(problem)):
        base = (c * NODE_SIZE + NODE_X_NODE) * L
        for i in range(base, base + X * L):
            target.node[i] = origin.node[i]


@compiled
def shoot(problem, origin, target, fresh, scratch):
    """Apply the last change to the noise, simulate every interval, and compare with nodes and data."""
    S, settings, grid, carry, newton = problem.S, problem.settings, problem.grid, scratch.carry, scratch.newton
    q, theta = target.q, target.theta
    evaluate_start(problem, target)
    link_intervals(problem, target)
    for c in range(count_chunks(problem)):
        if fresh:
            kernels.shoot_linearised(c, S, settings, grid, theta, q.v, target.node, origin.path, newton, carry)
            kernels.residual_linearised(c, S, grid, theta, q.w, origin.node, target.node, newton, carry)
        else:
            kernels.shoot(c, S, settings, grid, theta, q.v, target.node, origin.path, newton, carry)
            kernels.residual(c, S, grid, theta, q.w, origin.node, target.node, newton, carry)


@compiled
def cross_factorise(problem, origin, target, scratch):
    """Factor of J(q') J(q)^T, and the inverse of its Woodbury matrix."""
    sums, first = scratch.newton_sums, problem.first
    reset_woodbury(sums)
    for k in range(first.size - 1):
        kernels.cross_factorise(
            k,
            first[k],
            first[k + 1],
            problem.grid,
            origin.start,
            target.start,
            origin.node,
            target.node,
            scratch.newton,
            sums,
        )
    invert(sums[SUMS_C : SUMS_C + U * U], sums[SUMS_C_INV : SUMS_C_INV + U * U], U)


@compiled
def cross_filter(problem, target, scratch):
    """Innovations of the residuals; returns the largest residual."""
    sums, first = scratch.newton_sums, problem.first
    sums[SUMS_RESIDUAL] = 0.0
    for i in range(U):
        sums[SUMS_B + i] = 0.0
    for k in range(first.size - 1):
        kernels.cross_filter(k, first[k], first[k + 1], problem.grid, target.node, scratch.newton, sums)
    return sums[SUMS_RESIDUAL]


@compiled
def cross_smooth(problem, origin, target, scratch):
    """Multipliers of the change, and the node states after it; returns a bound of the change of position."""
    sums, first = scratch.newton_sums, problem.first
    multiply(sums[SUMS_C_INV : SUMS_C_INV + U * U], sums[SUMS_B : SUMS_B + U], sums[SUMS_A : SUMS_A + U], U)
    sums[SUMS_CHANGE] = 0.0
    for k in range(first.size - 1):
        kernels.cross_smooth(
            k,
            first[k],
            first[k + 1],
            problem.grid,
            origin.start,
            origin.node,
            target.node,
            scratch.newton,
            scratch.newton_start,
            sums,
        )
    change = sqrt(sums[SUMS_CHANGE])
    for i in range(U):
        size = fabs(sums[SUMS_A + i])
        if not (size <= change):
            change = size
    return change
