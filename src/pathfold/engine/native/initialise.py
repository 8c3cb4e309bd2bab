"""A point of the manifold near a draw from the prior (linear-time section 6): an iterated smoother on the lifted path.

Each iteration minimises 1/2 |q - q0|^2 subject to the linearised constraints, relaxed by a variance on gaps and misfits
that shrinks; steps are shortened until they reduce 1/2 |q - q0|^2 + |residuals|^2 / (2 relaxation). Once the relaxation
is zero q0 follows q: Newton's method with the smallest change; it need not find the nearest point but converges fast.
"""

from __future__ import annotations

from numpy import fabs, inf

from pathfold.engine.status import CONVERGED, NON_FINITE, NOT_CONVERGED

from .jit import compiled
from .newton import CONSTRAINT_TOLERANCE, POSITION_TOLERANCE, predict, shoot
from .point import evaluate_start, factorise, gradient, linearise, position, pull_start
from .sizes import (
    FIRST,
    NEWTON_GAP,
    NEWTON_O,
    NEWTON_SIZE,
    NODE_H,
    NODE_SIZE,
    NODE_X_NODE,
    POINT_NODE,
    POINT_START,
    SCRATCH_NEWTON,
    SCRATCH_WORK,
    SERIES,
    SETTINGS_RELAXATION,
    START_SIZE,
    START_X0,
    WORK_BP,
    WORK_SIZE,
    WORK_ZETA,
    L,
    X,
    Y,
)
from .step import copy
from .trajectory import CURRENT, NEXT

ITERATIONS = 100
GUESSES = 20
SHRINK = 0.2  # of the relaxation, with every iteration
EXACT = 1e-6  # relaxations below this fraction of the first one are zero
SHORTEST = 1.0 / 64.0


@compiled
def larger(a, b):
    """The larger of the two; NaN when either is."""
    return a if a >= b or a != a else b


@compiled
def residuals(layout, scratch):
    """Sum of squares and largest of all gaps and misfits."""
    total = 0.0
    largest = 0.0
    for n in range(layout[layout[FIRST] + layout[SERIES]]):
        base = layout[SCRATCH_NEWTON] + (n // L) * NEWTON_SIZE * L + n % L
        for field, size in ((NEWTON_GAP, X), (NEWTON_O, Y)):
            for i in range(size):
                r = scratch[base + (field + i) * L]
                total += r * r
                largest = larger(largest, fabs(r))
    return total, largest


@compiled
def distance(a, b):
    """Sum of squares and largest of the differences of two vectors."""
    total = 0.0
    largest = 0.0
    for i in range(a.size):
        d = a[i] - b[i]
        total += d * d
        largest = larger(largest, fabs(d))
    return total, largest


@compiled
def shorten(layout, origin, target, fraction):
    """Bring the target back towards the origin: positions and node states."""
    q, q_new = position(layout, origin), position(layout, target)
    for i in range(q.size):
        q_new[i] = q[i] + fraction * (q_new[i] - q[i])
    for n in range(layout[layout[FIRST] + layout[SERIES]]):
        base = layout[POINT_NODE] + (n // L) * NODE_SIZE * L + n % L
        for i in range(X):
            at = base + (NODE_X_NODE + i) * L
            target[at] = origin[at] + fraction * (target[at] - origin[at])


@compiled
def guess_nodes(layout, problem, point, scratch):
    """Node states to begin with: the initial state of the series, moved towards the observations.

    For one node: x <- x - H^T o / |H|^2, taken back by halves as long as that makes |o| larger, a number of times over;
    with one observed component that is its value.
    """
    intervals = layout[layout[FIRST] + layout[SERIES]]
    evaluate_start(layout, point)
    for k in range(layout[SERIES]):
        for n in range(layout[layout[FIRST] + k], layout[layout[FIRST] + k + 1]):
            base = layout[POINT_NODE] + (n // L) * NODE_SIZE * L + n % L
            work = layout[SCRATCH_WORK] + (n // L) * WORK_SIZE * L + n % L
            scratch[work + WORK_BP * L] = inf
            for i in range(X):
                x = point[layout[POINT_START] + k * START_SIZE + START_X0 + i]
                point[base + (NODE_X_NODE + i) * L] = x
                scratch[work + (WORK_ZETA + i) * L] = x
    for _ in range(GUESSES):
        linearise(layout, problem, point, scratch)
        for n in range(intervals):
            improve_node(layout, point, n, scratch)
    for n in range(intervals):
        base = layout[POINT_NODE] + (n // L) * NODE_SIZE * L + n % L
        work = layout[SCRATCH_WORK] + (n // L) * WORK_SIZE * L + n % L
        for i in range(X):
            point[base + (NODE_X_NODE + i) * L] = scratch[work + (WORK_ZETA + i) * L]


@compiled
def improve_node(layout, point, n, scratch):
    """Step towards the observation from a state that is better than all before; half the way back from another.

    The best state of the node is kept in scratch (zeta), and |o|^2 there (Bp).
    """
    base = layout[POINT_NODE] + (n // L) * NODE_SIZE * L + n % L
    work = layout[SCRATCH_WORK] + (n // L) * WORK_SIZE * L + n % L
    o = layout[SCRATCH_NEWTON] + (n // L) * NEWTON_SIZE * L + NEWTON_O * L + n % L
    misfit = 0.0
    for j in range(Y):
        misfit += scratch[o + j * L] ** 2
    better = misfit < scratch[work + WORK_BP * L]
    for i in range(X):
        at, kept = base + (NODE_X_NODE + i) * L, work + (WORK_ZETA + i) * L
        if better:
            scratch[kept] = point[at]
        else:
            point[at] = 0.5 * (point[at] + scratch[kept])
    if better:
        scratch[work + WORK_BP * L] = misfit
        for j in range(Y):
            norm = 0.0
            for i in range(X):
                norm += point[base + (NODE_H + j * X + i) * L] ** 2
            for i in range(X):
                change = point[base + (NODE_H + j * X + i) * L] * scratch[o + j * L] / norm
                if fabs(change) < inf:
                    point[base + (NODE_X_NODE + i) * L] -= change


@compiled
def project_start(layout, problem, points, q0, relaxation, scratch):
    """Move points[CURRENT], which holds q0 and a guess of the node states, onto the manifold.

    Returns a status, the largest residual left and the number of iterations; all residuals of the point are in scratch.
    """
    first = relaxation
    linearise(layout, problem, points[CURRENT], scratch)
    squares, largest = residuals(layout, scratch)
    change = inf
    for iteration in range(ITERATIONS):
        if relaxation == 0.0 and largest < CONSTRAINT_TOLERANCE and change < POSITION_TOLERANCE:
            problem[SETTINGS_RELAXATION] = 0.0
            return CONVERGED, largest, iteration
        problem[SETTINGS_RELAXATION] = relaxation
        origin, target = points[CURRENT], points[NEXT]
        if factorise(layout, problem, origin) != CONVERGED:
            problem[SETTINGS_RELAXATION] = 0.0
            return NON_FINITE, largest, iteration
        if relaxation == 0.0:
            copy(position(layout, origin), q0)
        copy(q0, position(layout, target))
        displacement, q = gradient(layout, target), position(layout, origin)
        for i in range(q.size):
            displacement[i] = q0[i] - q[i]
        predict(layout, problem, origin, target, displacement, scratch)
        pull_start(layout, position(layout, target), scratch)
        shoot(layout, problem, origin, target, False, scratch)
        squares_new, _ = residuals(layout, scratch)
        weight = relaxation if relaxation > 0.0 else EXACT * first
        merit = distance(position(layout, origin), q0)[0] + squares / weight
        merit_new = distance(position(layout, target), q0)[0] + squares_new / weight
        fraction = 1.0
        while not (merit_new < merit) and fraction > SHORTEST and largest > CONSTRAINT_TOLERANCE:
            fraction *= 0.5
            shorten(layout, origin, target, 0.5)
            linearise(layout, problem, target, scratch)
            squares_new, _ = residuals(layout, scratch)
            merit_new = distance(position(layout, target), q0)[0] + squares_new / weight
        if not (merit_new < inf):
            problem[SETTINGS_RELAXATION] = 0.0
            linearise(layout, problem, points[CURRENT], scratch)
            return NON_FINITE, largest, iteration
        change = distance(position(layout, origin), position(layout, target))[1]
        copy(target, origin)
        linearise(layout, problem, points[CURRENT], scratch)
        squares, largest = residuals(layout, scratch)
        relaxation = relaxation * SHRINK if relaxation * SHRINK > EXACT * first else 0.0
    problem[SETTINGS_RELAXATION] = 0.0
    return NOT_CONVERGED, largest, ITERATIONS
