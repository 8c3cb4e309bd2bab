"""A constrained step, from the point that it begins at to the momentum that it ends with (method.md, sections 3 to 8).

A point is one block of memory: the position q, the projected gradient of h1, and the records of what is known there.
"""

from __future__ import annotations

from numpy import cos, sin

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, DIVERGED, NON_FINITE, NON_REVERSIBLE, NOT_CONVERGED, RETURNED

from .jit import compiled
from .run import run
from .small import finite
from .thresholds import CONTRACTION, DIVERGENCE, NEAR, PIECES, RETURN_TOLERANCE, RETURNING
from .trajectory import ITERATED, LINEARISED
from .vectors import (
    add,
    clear_idle,
    combine,
    copy,
    displace,
    gradient,
    largest_difference,
    newton_sums,
    position,
    setting,
    squared_norm,
    sums_of,
)


@compiled
def linearise(m, point):
    """Compute path and Jacobians at the point, from its noise and node states (method.md, section 3)."""
    run(m, plans.LINEARISE, point, point)


@compiled
def factor_status(m, point):
    """Return a status: log|G| is not finite where G is not, or is not positive."""
    return CONVERGED if finite(sums_of(m.layout, point)[m.layout[at.SUMS_LOG_DET]]) else NON_FINITE


@compiled
def factorise(m, point):
    """Compute the factor of the Gram matrix and log|G| (method.md, section 4), once linearised; return a status."""
    run(m, plans.FACTOR, point, point)
    return factor_status(m, point)


@compiled
def linearise_and_factorise(m, point):
    """Compute path, Jacobians and factor at the point; return a status."""
    run(m, plans.LINEARISE_AND_FACTOR, point, point)
    return factor_status(m, point)


@compiled
def project(m, point, vector):
    """p <- p - J^T G^{-1} J p: onto the cotangent space at the point (method.md, section 5)."""
    run(m, plans.PROJECT, point, vector)
    clear_idle(m.layout, vector)


@compiled
def remove_normal(m, point, vector):
    """p <- p - J^T G^{-1} (J p + residuals), with gaps and misfits as they are in scratch."""
    run(m, plans.REMOVE_NORMAL, point, vector)
    clear_idle(m.layout, vector)


@compiled
def set_gradient(m, point):
    """Compute the gradient of h1, projected onto the cotangent space (method.md, section 6)."""
    run(m, plans.GRADIENT, point, gradient(m.layout, point))
    clear_idle(m.layout, gradient(m.layout, point))


@compiled
def constrained_potential(layout, point):
    """l(q) = 1/2 q.q + excess of the priors and the noise + 1/2 log|G|: minus the log density on the manifold."""
    sums, of_parameters = sums_of(layout, point), point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]]
    excess = of_parameters + sums[layout[at.SUMS_EXCESSES]]
    return 0.5 * squared_norm(position(layout, point)) + 0.5 * sums[layout[at.SUMS_LOG_DET]] + excess


@compiled
def first_order_shift(m, point, vector):
    """Write u and v0 of -J^T G^{-1} c, with c the gaps and misfits at the point, to the vector, which is zero on entry.

    To first order their posterior means change by this when the constraints change by c. The scratch has the weights of
    the initial states' Jacobians, which their posterior covariance is made of. Returns a status.
    """
    status = linearise_and_factorise(m, point)
    run(m, plans.SHIFT, point, vector)
    return status


@compiled
def copy_nodes(layout, origin, target):
    """Start the target's node states at the origin's; what else is known of nodes there comes with them."""
    begin, end = layout[at.POINT_NODE], layout[at.POINT_NODE + at.END]
    copy(origin[begin:end], target[begin:end])


@compiled
def clear_multipliers(m):
    """Set lam, eta, zeta_0 and a to zero."""
    layout, scratch = m.layout, m.scratch
    a = layout[at.SCRATCH_NEWTON_SUMS] + layout[at.SUMS_A]
    scratch[layout[at.SCRATCH_NEWTON] : layout[at.SCRATCH_NEWTON + at.END]] = 0.0
    scratch[layout[at.SCRATCH_START_MULTIPLIERS] : layout[at.SCRATCH_START_MULTIPLIERS + at.END]] = 0.0
    scratch[a : a + layout[at.U]] = 0.0


@compiled
def predict(m, solve, origin, target, displacement):
    """Compute multipliers that bring q' = q + displacement to the constraints linearised at q, and move node states.

    From a point of the manifold (`plans.SOLVE_ON_MANIFOLD`) they take the normal part of the displacement away: the
    first guess of a solve. From another (`plans.SOLVE_WITH_RESIDUALS`) they see to its gaps and misfits, too.
    """
    run(m, solve, origin, displacement)
    run(m, plans.MOVE_NODES, origin, target)


@compiled
def iterate(m, origin, target, goal, chords):
    """Iterate Newton's method from the given guess of multipliers and node states; return a status.

    `SHOOT` moves the noise of q' by the multipliers that there are, and measures gaps and misfits; `CROSS_SMOOTH`
    computes the multipliers of the next change, and moves the node states at once. Far from the solution every
    iteration linearises; near it the last linearisation and its factor are kept (chord steps, if they are allowed)
    while they contract well. The error that is left after a change is estimated by the next one, from how the last two
    shrank. A solve that is to find `goal` ends as soon as it is sure to (method.md, section 8); an empty one stands for
    no goal.
    """
    layout, problem = m.layout, m.problem
    constraint_tolerance = problem[setting(layout, at.SETTINGS_CONSTRAINT_TOLERANCE)]
    position_tolerance = problem[setting(layout, at.SETTINGS_POSITION_TOLERANCE)]
    change = 1e300
    rate = 1.0  # by which the last two changes shrank
    away = 0.0  # from the goal: it has to shrink once before it counts
    fresh = True
    for iteration in range(int(problem[setting(layout, at.SETTINGS_MAX_ITERATIONS)])):
        run(m, plans.SHOOT_AFRESH if fresh else plans.SHOOT, origin, target)
        residual = newton_sums(m)[layout[at.SUMS_RESIDUAL]]
        m.counts[ITERATED] += 1
        if fresh:
            m.counts[LINEARISED] += 1
        if goal.size > 0:
            clear_idle(layout, position(layout, target))
            before, away = away, largest_difference(m, position(layout, target), goal)
            if away < RETURNING and away < CONTRACTION * before:
                return RETURNED
        if not (residual < DIVERGENCE):
            return NON_FINITE if iteration == 0 and not finite(residual) else DIVERGED
        if residual < constraint_tolerance and rate * change < position_tolerance:
            return CONVERGED
        previous = change
        run(m, plans.CROSS_SMOOTH, origin, target)
        change = newton_sums(m)[layout[at.SUMS_CHANGE]]
        rate = min(1.0, change / previous) if iteration > 0 else 1.0
        fresh = not chords or change > NEAR or change > CONTRACTION * previous
        if change < position_tolerance:
            fresh = False
    return NOT_CONVERGED


@compiled
def continue_to(m, origin, target, displacement, pieces):
    """Follow the solution from q while the displacement grows by equal pieces, linearising throughout."""
    copy_nodes(m.layout, origin, target)
    q, q_new = position(m.layout, origin), position(m.layout, target)
    copy(q, q_new)
    for _ in range(pieces):
        add(m, 1.0 / pieces, displacement, q_new)
        clear_multipliers(m)
        status = iterate(m, origin, target, q[:0], False)
        if status != CONVERGED:
            return status
    return CONVERGED


@compiled
def solve_position(m, origin, target, goal):
    """Move the position of `target` onto the manifold along the rows of J(q) at `origin`; return a status.

    On entry the target is the unconstrained end of the step, and the way there its displacement (in the place of its
    gradient). The solver starts from a first-order guess; should it fail from there, it follows the solution from the
    origin, in more pieces if few do not do. The result depends on the origin and that end alone, as reversibility
    demands. With a goal, a position, it ends as RETURNED once it is sure to be found; an empty one stands for none.
    """
    displacement = gradient(m.layout, target)
    predict(m, plans.SOLVE_ON_MANIFOLD, origin, target, displacement)
    status = iterate(m, origin, target, goal, True)
    for pieces in PIECES:
        if status != CONVERGED and status != RETURNED:
            status = continue_to(m, origin, target, displacement, pieces)
    return status


@compiled
def rotation(m, t):
    """Return (Gqq, Gqp) of the flow of h2: (cos t, sin t) for the Gaussian splitting, (1, t) for Stormer-Verlet."""
    if m.problem[setting(m.layout, at.SETTINGS_VERLET)] == 0.0:
        return cos(t), sin(t)
    return 1.0, t


@compiled
def prepare_constrained(m, point):
    """Compute everything a step needs at its start: Jacobians, factor, projected gradient."""
    status = linearise_and_factorise(m, point)
    if status == CONVERGED:
        set_gradient(m, point)
    return status


@compiled
def position_step(m, origin, target, goal, p, t):
    """q' = Gqq q + Gqp (p - J^T lam) on the manifold; returns a status. For `goal` see `solve_position`."""
    gqq, gqp = rotation(m, t)
    displace(m, gqq, origin, gqp, p, target)
    status = solve_position(m, origin, target, goal)
    clear_idle(m.layout, position(m.layout, target))
    return status


@compiled
def momentum_step(m, origin, target, p, t):
    """Compute the momentum at q', before projection: (Gqq q' - q) / Gqp."""
    gqq, gqp = rotation(m, t)
    combine(m, gqq / gqp, position(m.layout, target), -1.0 / gqp, position(m.layout, origin), p)


@compiled
def kick(m, p, slope, t):
    """p <- p - t grad h1, the gradient being projected already; return the squared norm."""
    return add(m, -t, slope, p)


@compiled
def constrained_step(m, origin, target, back, p, t, first, last):
    """Make one step of size t from (origin, p) to (target, p); return a status.

    A kick by h1 for the time `first`, the flow of h2 with the position held on the manifold, a kick at the new point
    for the time `last`. The flow is undone from (q', p') with -t, by the same solver, and must come back to q.
    """
    kick(m, p, gradient(m.layout, origin), first)
    status = position_step(m, origin, target, position(m.layout, origin)[:0], p, t)
    if status != CONVERGED:
        return status
    momentum_step(m, origin, target, p, t)
    status = linearise_and_factorise(m, target)
    if status != CONVERGED:
        return status
    project(m, target, p)
    q, returned = position(m.layout, origin), position(m.layout, back)
    status = position_step(m, target, back, q, p, -t)
    if status != RETURNED:
        if status != CONVERGED:
            return status
        allowed = RETURN_TOLERANCE * m.problem[setting(m.layout, at.SETTINGS_POSITION_TOLERANCE)]
        if not (largest_difference(m, returned, q) < allowed):
            return NON_REVERSIBLE
    set_gradient(m, target)
    return CONVERGED if finite(kick(m, p, gradient(m.layout, target), last)) else NON_FINITE
