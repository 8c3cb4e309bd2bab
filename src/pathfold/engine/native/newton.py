"""The position update: find q' = Gqq q + Gqp p - J(q)^T lam on the manifold, by Newton's method on the lifted path."""

from __future__ import annotations

from numpy import fabs, isfinite, sqrt

from pathfold.engine.status import CONVERGED, DIVERGED, NON_FINITE, NOT_CONVERGED

from . import kernels
from .jit import compiled
from .point import evaluate_start, gradient, link_intervals, position, pull_start, reset_woodbury, solve_woodbury
from .sizes import (
    CHUNKS,
    POINT_SUMS,
    SCRATCH_NEWTON_SUMS,
    SERIES,
    SUMS_A,
    SUMS_B,
    SUMS_C,
    SUMS_C_INV,
    SUMS_CHANGE,
    SUMS_RESIDUAL,
    U,
)
from .small import invert, multiply

CONSTRAINT_TOLERANCE = 1e-9  # of gaps and observation residuals (paper: theta_c)
POSITION_TOLERANCE = 1e-8  # of the last change of position (paper: theta_q)
MAX_ITERATIONS = 50
DIVERGENCE = 1e10  # a residual beyond this cannot be mended
NEAR = 0.3  # changes below this leave the linearisation in place ...
CONTRACTION = 0.2  # ... as long as they shrink by this factor


@compiled
def solve_position(layout, problem, origin, target, scratch, counts):
    """Move the position of `target` onto the manifold along the rows of J(q) at `origin`; returns a status.

    On entry the target is the unconstrained end of the step. Node states begin at those of the origin. Far from the
    solution every iteration linearises; near it the last linearisation and its factor are kept (chord steps) while they
    contract well. The result depends on the origin and that end alone, as reversibility demands. `counts` gains the
    numbers of iterations and of linearisations.
    """
    sums = newton_sums(layout, scratch)
    predict(layout, problem, origin, target, scratch)
    change = previous = 1e300
    fresh = True
    for iteration in range(MAX_ITERATIONS):
        pull_start(layout, position(layout, target), sums, scratch)
        shoot(layout, problem, origin, target, fresh, scratch)
        counts[0] += 1
        if fresh:
            counts[1] += 1
            cross_factorise(layout, problem, origin, target, scratch)
        residual = cross_filter(layout, problem, target, scratch)
        if not (residual < DIVERGENCE):
            return NON_FINITE if iteration == 0 and not isfinite(residual) else DIVERGED
        if residual < CONSTRAINT_TOLERANCE and change < POSITION_TOLERANCE:
            return CONVERGED
        previous = change
        change = cross_smooth(layout, problem, origin, target, scratch)
        fresh = change > NEAR or change > CONTRACTION * previous
        if change < POSITION_TOLERANCE:
            fresh = False
    return NOT_CONVERGED


@compiled
def newton_sums(layout, scratch):
    return scratch[layout[SCRATCH_NEWTON_SUMS] : layout[SCRATCH_NEWTON_SUMS + 1]]


@compiled
def predict(layout, problem, origin, target, scratch):
    """First guess: take the normal part of q' - q away and move the node states with the rest, to first order."""
    sums, d = newton_sums(layout, scratch), gradient(layout, target)
    q, q_new = position(layout, origin), position(layout, target)
    for i in range(d.size):
        d[i] = q_new[i] - q[i]
    for c in range(layout[CHUNKS]):
        kernels.push(c, layout, origin, d, scratch)
    for i in range(U):
        sums[SUMS_B + i] = 0.0
    for k in range(layout[SERIES]):
        kernels.predict_filter(k, layout, problem, origin, d, scratch)
    inverse = layout[POINT_SUMS] + SUMS_C_INV
    multiply(origin[inverse : inverse + U * U], sums[SUMS_B : SUMS_B + U], sums[SUMS_A : SUMS_A + U], U)
    for k in range(layout[SERIES]):
        kernels.predict_smooth(k, layout, problem, origin, target, scratch)


@compiled
def shoot(layout, problem, origin, target, fresh, scratch):
    """Apply the last change to the noise, simulate every interval, and compare with nodes and data."""
    evaluate_start(layout, target)
    link_intervals(layout, problem, target)
    for c in range(layout[CHUNKS]):
        if fresh:
            kernels.shoot_linearised(c, layout, problem, origin, target, scratch)
            kernels.residual_linearised(c, layout, problem, origin, target, scratch)
        else:
            kernels.shoot(c, layout, problem, origin, target, scratch)
            kernels.residual(c, layout, problem, origin, target, scratch)


@compiled
def cross_factorise(layout, problem, origin, target, scratch):
    """Factor of J(q') J(q)^T, and the inverse of its Woodbury matrix."""
    sums = newton_sums(layout, scratch)
    reset_woodbury(sums)
    for k in range(layout[SERIES]):
        kernels.cross_factorise(k, layout, problem, origin, target, scratch)
    invert(sums[SUMS_C : SUMS_C + U * U], sums[SUMS_C_INV : SUMS_C_INV + U * U], U)


@compiled
def cross_filter(layout, problem, target, scratch):
    """Innovations of the residuals; returns the largest residual."""
    sums = newton_sums(layout, scratch)
    sums[SUMS_RESIDUAL] = 0.0
    for i in range(U):
        sums[SUMS_B + i] = 0.0
    for k in range(layout[SERIES]):
        kernels.cross_filter(k, layout, problem, target, scratch)
    return sums[SUMS_RESIDUAL]


@compiled
def cross_smooth(layout, problem, origin, target, scratch):
    """Multipliers of the change, and the node states after it; returns a bound of the change of position."""
    sums = newton_sums(layout, scratch)
    solve_woodbury(sums)
    sums[SUMS_CHANGE] = 0.0
    for k in range(layout[SERIES]):
        kernels.cross_smooth(k, layout, problem, origin, target, scratch)
    change = sqrt(sums[SUMS_CHANGE])
    for i in range(U):
        size = fabs(sums[SUMS_A + i])
        if not (size <= change):
            change = size
    return change
