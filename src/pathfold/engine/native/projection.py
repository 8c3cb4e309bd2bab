"""The position update: find q' = Gqq q + Gqp p - J(q)^T lam on the manifold, by Newton's method on the lifted path.

method.md, section 8.
"""

from __future__ import annotations

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, DIVERGED, NON_FINITE, NOT_CONVERGED, RETURNED

from .jit import compiled
from .lanes import setting
from .run import run
from .shares import add, largest_difference, newton_sums
from .small import finite
from .thresholds import CONTRACTION, DIVERGENCE, NEAR, PIECES, RETURNING
from .trajectory import ITERATED, LINEARISED
from .vector import clear_idle, copy, gradient, position


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
def iterate(m, origin, target, goal, chords, counts):
    """Iterate Newton's method from the given guess of multipliers and node states; return a status.

    Far from the solution every iteration linearises; near it the last linearisation and its factor are kept (chord
    steps, if they are allowed) while they contract well. The error that is left after a change is estimated by the next
    one, from how the last two shrank. A solve that is to find `goal` ends as soon as it is sure to (method.md, section
    8); an empty one stands for no goal.
    """
    layout, problem = m.layout, m.problem
    constraint_tolerance = problem[setting(layout, at.SETTINGS_CONSTRAINT_TOLERANCE)]
    position_tolerance = problem[setting(layout, at.SETTINGS_POSITION_TOLERANCE)]
    change = 1e300
    rate = 1.0  # by which the last two changes shrank
    away = 0.0
    fresh = True
    for iteration in range(int(problem[setting(layout, at.SETTINGS_MAX_ITERATIONS)])):
        run(m, plans.SHOOT_AFRESH if fresh else plans.SHOOT, origin, target)
        residual = newton_sums(m)[layout[at.SUMS_RESIDUAL]]
        counts[ITERATED] += 1
        if fresh:
            counts[LINEARISED] += 1
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
def continue_to(m, origin, target, displacement, pieces, counts):
    """Follow the solution from q while the displacement grows by equal pieces, linearising throughout."""
    copy_nodes(m.layout, origin, target)
    q, q_new = position(m.layout, origin), position(m.layout, target)
    copy(q, q_new)
    for _ in range(pieces):
        add(m, 1.0 / pieces, displacement, q_new)
        clear_multipliers(m)
        status = iterate(m, origin, target, q[:0], False, counts)
        if status != CONVERGED:
            return status
    return CONVERGED


@compiled
def solve_position(m, origin, target, goal, counts):
    """Move the position of `target` onto the manifold along the rows of J(q) at `origin`; return a status.

    On entry the target is the unconstrained end of the step, and the way there its displacement (in the place of its
    gradient). The solver starts from a first-order guess; should it fail from there, it follows the solution from the
    origin, in more pieces if few do not do. The result depends on the origin and that end alone, as reversibility
    demands. With a goal, a position, it ends as RETURNED once it is sure to be found; an empty one stands for none.
    `counts` gains the numbers of iterations and linearisations.
    """
    displacement = gradient(m.layout, target)
    predict(m, plans.SOLVE_ON_MANIFOLD, origin, target, displacement)
    status = iterate(m, origin, target, goal, True, counts)
    for pieces in PIECES:
        if status != CONVERGED and status != RETURNED:
            status = continue_to(m, origin, target, displacement, pieces, counts)
    return status
