"""A point of the manifold near a draw from the prior (method.md, section 12): an iterated smoother on the lifted path.

Each iteration minimises 1/2 |q - q0|^2 subject to the linearised constraints, relaxed by a variance on gaps and misfits
that shrinks; steps are shortened until they reduce 1/2 |q - q0|^2 + |residuals|^2 / (2 relaxation). Once the relaxation
is zero q0 follows q: Newton's method with the smallest change; it need not find the nearest point but converges fast.
"""

from __future__ import annotations

from numpy import fabs, inf

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE, NOT_CONVERGED

from .constrained_step import factorise, linearise, predict
from .descent import BEFORE_STEP, FRACTION, absorb, descend, go_down, relax, residuals, shorten, weigh
from .jit import compiled
from .nodes import follow, guess_nodes
from .run import run
from .small import larger
from .thresholds import COARSE, DESCENTS, EXACT, GUESSES, SHORTEST_PROJECTION, SHRINK, START_ITERATIONS
from .trajectory import CURRENT, MOVING, NEXT, SPARE
from .vectors import clear_idle, copy, draw_normals, gradient, position, setting


@compiled
def differences(a, b):
    """Return the sum of squares and the largest of the differences of two vectors."""
    total = 0.0
    largest = 0.0
    for i in range(a.size):
        d = a[i] - b[i]
        total += d * d
        largest = larger(largest, fabs(d))
    return total, largest


@compiled
def project_start(m, points, q0, relaxation, fractions):
    """Move points[CURRENT], which holds q0 and a guess of the node states, onto the manifold.

    Returns a status and the largest residual left; all residuals of the point are in scratch. `fractions` is room for a
    number of each series.
    """
    layout = m.layout
    fractions[:] = 0.5
    first = relaxation
    constraint_tolerance = m.problem[setting(layout, at.SETTINGS_CONSTRAINT_TOLERANCE)]
    position_tolerance = m.problem[setting(layout, at.SETTINGS_POSITION_TOLERANCE)]
    linearise(m, points[CURRENT])
    squares, largest = residuals(m, points[CURRENT])
    change = inf
    for _ in range(START_ITERATIONS):
        if relaxation == 0.0 and largest < constraint_tolerance and change < position_tolerance:
            relax(m, 0.0, True)
            return CONVERGED, largest
        relax(m, relaxation, True)
        origin, target = points[CURRENT], points[NEXT]
        if factorise(m, origin) != CONVERGED:
            relax(m, 0.0, True)
            return NON_FINITE, largest
        if relaxation == 0.0:
            copy(position(layout, origin), q0)
        copy(q0, position(layout, target))
        displacement, q = gradient(layout, target), position(layout, origin)
        for i in range(q.size):
            displacement[i] = q0[i] - q[i]
        predict(m, plans.SOLVE_WITH_RESIDUALS, origin, target, displacement)
        run(m, plans.JUST_SHOOT, origin, target)
        clear_idle(layout, position(layout, target))
        squares_new, _ = residuals(m, target)
        weight = relaxation if relaxation > 0.0 else EXACT * max(first, EXACT)
        merit = differences(position(layout, origin), q0)[0] + squares / weight
        merit_new = differences(position(layout, target), q0)[0] + squares_new / weight
        fraction = 1.0
        while not (merit_new < merit) and fraction > SHORTEST_PROJECTION and largest > constraint_tolerance:
            fraction *= 0.5
            shorten(m, origin, target, 0.5, fractions)
            linearise(m, target)
            squares_new, _ = residuals(m, target)
            merit_new = differences(position(layout, target), q0)[0] + squares_new / weight
        if not (merit_new < inf):
            relax(m, 0.0, True)
            linearise(m, points[CURRENT])
            return NON_FINITE, largest
        change = differences(position(layout, origin), position(layout, target))[1]
        copy(target, origin)
        if fraction == 1.0:
            linearise(m, origin)
        squares, largest = residuals(m, origin)
        relaxation = relaxation * SHRINK if relaxation * SHRINK > EXACT * first else 0.0
    relax(m, 0.0, True)
    return NOT_CONVERGED, largest


@compiled
def set_tolerances(m, of_constraint, of_position):
    """Set the tolerances of projections; return those before."""
    constraint, position = (
        setting(m.layout, at.SETTINGS_CONSTRAINT_TOLERANCE),
        setting(m.layout, at.SETTINGS_POSITION_TOLERANCE),
    )
    before = m.problem[constraint], m.problem[position]
    m.problem[constraint], m.problem[position] = of_constraint, of_position
    return before


# What a start is sought from: a guess that points[CURRENT] holds, to end at the next point of the manifold or at a
# mode; the path of a draw, which is gone down along; a draw whose nodes are moved towards the data, each by itself or
# along the path.
FROM_GUESS, FROM_PARTS, FROM_PATH, FROM_NODES, FROM_MOVED_PATH = range(5)


@compiled
def seek(m, points, momenta, table, source, spread, relaxation, rng):
    """Leave a point of the manifold in points[CURRENT]: from a guess the next one, else a mode.

    A draw is one from the prior, `spread` times as far from its centre. Returns a status, the largest residual left and
    the potential, of which the series have their shares in the first row of the table.
    """
    point, q0, fractions = points[CURRENT], momenta[MOVING], table[FRACTION]
    if source >= FROM_PATH:
        q = position(m.layout, point)
        draw_normals(m.layout, q, rng)
        for i in range(q.size):
            q[i] *= spread
    if source == FROM_PATH:
        if descend(m, points, q0, table) != CONVERGED:
            return NON_FINITE, inf, inf
    elif source == FROM_NODES:
        guess_nodes(m, point, GUESSES)
    elif source == FROM_MOVED_PATH:
        follow(m, point, GUESSES)
    if source != FROM_GUESS:
        tolerances = set_tolerances(m, COARSE, COARSE)
        copy(position(m.layout, point), q0)
        copy(point, points[SPARE])
        first = 0.0 if source == FROM_PATH else relaxation
        status, residual = project_start(m, points, q0, first, fractions)
        if status != CONVERGED and source == FROM_PATH:
            copy(points[SPARE], point)
            absorb(m, point)
            copy(position(m.layout, point), q0)
            status, residual = project_start(m, points, q0, 0.0, fractions)
        if status == CONVERGED:
            go_down(m, points, q0, DESCENTS)
        set_tolerances(m, *tolerances)
        if status != CONVERGED:
            return status, residual, inf
    copy(position(m.layout, point), q0)
    status, residual = project_start(m, points, q0, relaxation if source == FROM_GUESS else 0.0, fractions)
    if status != CONVERGED:
        return status, residual, inf
    return status, residual, weigh(m, point, table[BEFORE_STEP])[0]
