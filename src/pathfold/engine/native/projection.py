"""The position update: find q' = Gqq q + Gqp p - J(q)^T lam on the manifold, by Newton's method on the lifted path.

method.md, section 8.
"""

from __future__ import annotations

from numpy import fabs, sqrt

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, DIVERGED, NON_FINITE, NOT_CONVERGED, RETURNED

from .jit import compiled, kernel
from .lanes import setting
from .manifold import (
    clear_parameters,
    invert_woodbury,
    multipliers,
    pull_start,
    push_from_manifold,
    reset_woodbury,
    smooth_and,
    solve_parameters,
    solve_pushed,
)
from .parts import NO_STAGE, NO_SUMS, NONE, by_chunk, by_node, by_series, joined, starts_of_other, sums_in, sweep
from .shares import add, largest_difference, newton_sums
from .small import finite
from .thresholds import CONTRACTION, DIVERGENCE, NEAR, PIECES, RETURNING
from .trajectory import ITERATED, LINEARISED
from .vector import clear_idle, copy, gradient, position


@compiled
def copy_nodes(layout, origin, target):
    """Start the target's node states at the origin's."""
    lanes, size = layout[at.LANES], layout[at.POINT_NODE + at.SIZE]
    for c in range(layout[at.CHUNKS]):
        base = layout[at.POINT_NODE] + (c * size + layout[at.NODE_X_NODE]) * lanes
        for i in range(base, base + layout[at.X] * lanes):
            target[i] = origin[i]


@compiled
def clear_multipliers(layout, scratch):
    """Set lam, eta, zeta_0 and a to zero."""
    for i in range(layout[at.SCRATCH_NEWTON], layout[at.SCRATCH_NEWTON + at.END]):
        scratch[i] = 0.0
    for i in range(layout[at.SCRATCH_START_MULTIPLIERS], layout[at.SCRATCH_START_MULTIPLIERS + at.END]):
        scratch[i] = 0.0
    for i in range(layout[at.U]):
        scratch[layout[at.SCRATCH_NEWTON_SUMS] + layout[at.SUMS_A] + i] = 0.0


@compiled
def predict(layout, problem, origin, target, displacement, push, scratch):
    """Compute multipliers that bring q' = q + displacement to the constraints linearised at q, and move node states.

    From a point of the manifold (`push_from_manifold`) they take the normal part of the displacement away: the first
    guess of a solve. From another they see to its gaps and misfits, too (`push_with_residuals`).
    """
    solve_pushed(layout, problem, origin, displacement, push, scratch)
    smooth_and(by_chunk(at.MOVE_NODES), layout, problem, origin, target, scratch)


@compiled
def shooting(fresh):
    """Return the stage that applies the last change to the noise, simulates, and compares with nodes and data.

    If `fresh` it linearises, too.
    """
    if fresh:
        return by_chunk(at.SHOOT_LINEARISED, at.RESIDUAL_LINEARISED)
    return by_chunk(at.SHOOT, at.RESIDUAL)


@compiled
def shoot(layout, problem, origin, target, fresh, scratch):
    """Apply the last change to the noise, simulate every interval, and compare with nodes and data."""
    kernel(at.PARAMETERS, 0, layout, problem, target, target, scratch)
    sweep(layout, problem, origin, target, scratch, NO_SUMS, starts_of_other(), shooting(fresh))


@compiled
def shoot_and_filter(layout, problem, origin, target, fresh, scratch):
    """Shoot; compute the innovations of the residuals, and what parameters could explain; return the largest residual.

    If `fresh`, compute the factor of J(q') J(q)^T, too, and the inverse of its Woodbury matrix.
    """
    sums, residual, U = newton_sums(layout, scratch), layout[at.SUMS_RESIDUAL], layout[at.U]
    clear_parameters(layout, sums, at.SUMS_A)
    clear_parameters(layout, sums, at.SUMS_B)
    sums[residual] = 0.0
    begin, surveyed, factors, ends = layout[at.SUMS_B], NO_STAGE, NO_STAGE, by_series(at.CROSS_FILTER_ENDS)
    if fresh:
        reset_woodbury(layout, sums)
        begin, ends = layout[at.SUMS_C], by_series(at.CROSS_FACTORISE, at.CROSS_FILTER_ENDS)
        surveyed, factors = by_series(at.CROSS_SURVEY), joined(at.JOIN_CROSS_FACTORS)
    written = sums_in(sums, multipliers(layout), (begin, layout[at.SUMS_B] + U), (residual, residual + 1))
    kernel(at.PARAMETERS, 0, layout, problem, target, target, scratch)
    begun, shot, joint = starts_of_other(), shooting(fresh), joined(at.JOIN_CROSS_FILTERS)
    filtered, explained = by_series(at.CROSS_FILTER), by_node(at.CROSS_UNEXPLAINED)
    stages = begun, shot, surveyed, factors, ends, joint, filtered, explained
    sweep(layout, problem, origin, target, scratch, written, *stages)
    if fresh:
        invert_woodbury(layout, sums)
    return sums[residual]


@compiled
def cross_smooth(layout, problem, origin, target, scratch):
    """Compute multipliers of the change, and the node states after it; return a bound of the change of position."""
    sums, C_inv = newton_sums(layout, scratch), layout[at.SUMS_C_INV]
    inverse = sums[C_inv : C_inv + layout[at.U] * layout[at.U]]
    solve_parameters(layout, problem, origin, target, inverse, at.CROSS_UNEXPLAINED, scratch)
    of_change = layout[at.SUMS_CHANGE]
    sums[of_change] = 0.0
    written = sums_in(sums, multipliers(layout), NONE, (of_change, of_change + 1))
    ends, joint = by_series(at.CROSS_SMOOTH_ENDS), joined(at.JOIN_CROSS_SMOOTHERS)
    sweep(layout, problem, origin, target, scratch, written, ends, joint, by_series(at.CROSS_SMOOTH))
    change = sqrt(sums[of_change])
    for i in range(layout[at.U]):
        size = fabs(sums[layout[at.SUMS_A] + i])
        if not (size <= change):
            change = size
    return change


@compiled
def iterate(layout, problem, origin, target, goal, chords, scratch, counts):
    """Iterate Newton's method from the given guess of multipliers and node states; return a status.

    Far from the solution every iteration linearises; near it the last linearisation and its factor are kept (chord
    steps, if they are allowed) while they contract well. The error that is left after a change is estimated by the next
    one, from how the last two shrank. A solve that is to find `goal` ends as soon as it is sure to (method.md, section
    8); an empty one stands for no goal.
    """
    constraint_tolerance = problem[setting(layout, at.SETTINGS_CONSTRAINT_TOLERANCE)]
    position_tolerance = problem[setting(layout, at.SETTINGS_POSITION_TOLERANCE)]
    change = 1e300
    rate = 1.0  # by which the last two changes shrank
    away = 0.0
    fresh = True
    for iteration in range(int(problem[setting(layout, at.SETTINGS_MAX_ITERATIONS)])):
        pull_start(layout, position(layout, target), scratch)
        residual = shoot_and_filter(layout, problem, origin, target, fresh, scratch)
        counts[ITERATED] += 1
        if fresh:
            counts[LINEARISED] += 1
        if goal.size > 0:
            clear_idle(layout, position(layout, target))
            before, away = away, largest_difference(layout, position(layout, target), goal, scratch)
            if away < RETURNING and away < CONTRACTION * before:
                return RETURNED
        if not (residual < DIVERGENCE):
            return NON_FINITE if iteration == 0 and not finite(residual) else DIVERGED
        if residual < constraint_tolerance and rate * change < position_tolerance:
            return CONVERGED
        previous = change
        change = cross_smooth(layout, problem, origin, target, scratch)
        rate = min(1.0, change / previous) if iteration > 0 else 1.0
        fresh = not chords or change > NEAR or change > CONTRACTION * previous
        if change < position_tolerance:
            fresh = False
    return NOT_CONVERGED


@compiled
def continue_to(layout, problem, origin, target, displacement, pieces, scratch, counts):
    """Follow the solution from q while the displacement grows by equal pieces, linearising throughout."""
    copy_nodes(layout, origin, target)
    q, q_new = position(layout, origin), position(layout, target)
    copy(q, q_new)
    for _ in range(pieces):
        add(layout, 1.0 / pieces, displacement, q_new, scratch)
        clear_multipliers(layout, scratch)
        status = iterate(layout, problem, origin, target, q[:0], False, scratch, counts)
        if status != CONVERGED:
            return status
    return CONVERGED


@compiled
def solve_position(layout, problem, origin, target, goal, scratch, counts):
    """Move the position of `target` onto the manifold along the rows of J(q) at `origin`; return a status.

    On entry the target is the unconstrained end of the step, and the way there its displacement (in the place of its
    gradient). The solver starts from a first-order guess; should it fail from there, it follows the solution from the
    origin, in more pieces if few do not do. The result depends on the origin and that end alone, as reversibility
    demands. With a goal, a position, it ends as RETURNED once it is sure to be found; an empty one stands for none.
    `counts` gains the numbers of iterations and linearisations.
    """
    displacement = gradient(layout, target)
    predict(layout, problem, origin, target, displacement, push_from_manifold(), scratch)
    status = iterate(layout, problem, origin, target, goal, True, scratch, counts)
    for pieces in PIECES:
        if status != CONVERGED and status != RETURNED:
            status = continue_to(layout, problem, origin, target, displacement, pieces, scratch, counts)
    return status
