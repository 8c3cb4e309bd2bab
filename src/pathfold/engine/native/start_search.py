"""A point of the manifold near a draw from the prior (method.md, section 12): an iterated smoother on the lifted path.

Each iteration minimises 1/2 |q - q0|^2 subject to the linearised constraints, relaxed by a variance on gaps and misfits
that shrinks; steps are shortened until they reduce 1/2 |q - q0|^2 + |residuals|^2 / (2 relaxation). Once the relaxation
is zero q0 follows q: Newton's method with the smallest change; it need not find the nearest point but converges fast.
"""

from __future__ import annotations

from numpy import fabs, inf

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE, NOT_CONVERGED

from .dynamics import potential, prepare
from .jit import compiled, kernel
from .lanes import of_interval, of_series, setting
from .manifold import evaluate_start, factorise, linearise, pull_start
from .parts import over_chunks
from .projection import predict, shoot
from .small import larger
from .step_size import first_step_size
from .thresholds import EXACT, GUESSES, SHORTEST_SEARCH, SHRINK, START_ITERATIONS
from .trajectory import CURRENT, MOVING, NEXT
from .vector import clear_idle, copy, draw_normals, gradient, position


@compiled
def residuals(layout, problem, scratch):
    """Return the sum of squares and the largest of all gaps and misfits, in units of the scales."""
    total = 0.0
    largest = 0.0
    lanes = layout[at.LANES]
    for n in range(layout[at.INTERVALS]):
        gap, scale = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_GAP, n), setting(layout, at.SETTINGS_STATE_SCALE)
        for i in range(layout[at.X]):
            r = scratch[gap + i * lanes] / problem[scale + i]
            total += r * r
            largest = larger(largest, fabs(r))
        o = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_O, n)
        row_scale = of_interval(layout, at.PROBLEM_GRID, at.GRID_ROW_SCALE, n)
        for j in range(layout[at.Y]):
            r = scratch[o + j * lanes] / problem[row_scale + j * lanes]
            total += r * r
            largest = larger(largest, fabs(r))
    return total, largest


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
def shorten(layout, origin, target, fraction):
    """Move the target back towards the origin: positions and node states."""
    q, q_new = position(layout, origin), position(layout, target)
    for i in range(q.size):
        q_new[i] = q[i] + fraction * (q_new[i] - q[i])
    for n in range(layout[at.INTERVALS]):
        node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
        for i in range(layout[at.X]):
            k = node + i * layout[at.LANES]
            target[k] = origin[k] + fraction * (target[k] - origin[k])


@compiled
def guess_nodes(layout, problem, point, guesses, scratch):
    """Guess node states: the initial state of the series, moved towards the observations.

    Steps that make |o| larger are taken back by halves; with one observed component the first is its value. Where o is
    not a number (no case can be reported before anyone fell ill), the state is where the path comes to. The best state
    of a node and |o|^2 there, in units of the scales, are kept in scratch.
    """
    X, lanes = layout[at.X], layout[at.LANES]
    evaluate_start(layout, problem, point, scratch)
    for k in range(layout[at.SERIES]):
        start = of_series(layout, at.POINT_START, at.START_X0, k)
        for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
            node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
            best = of_interval(layout, at.SCRATCH_WORK, at.WORK_ZETA, n)
            scratch[of_interval(layout, at.SCRATCH_WORK, at.WORK_BP, n)] = inf
            for i in range(X):
                point[node + i * lanes] = point[start + i]
                scratch[best + i * lanes] = point[start + i]
    known = False
    for _ in range(guesses):
        if known:  # o is a number at every node, and no gap will be needed
            over_chunks(at.OBSERVE, layout, problem, point, point, scratch)
        else:
            linearise(layout, problem, point, scratch)
        known = True
        for n in range(layout[at.INTERVALS]):
            improve_node(layout, problem, point, n, scratch)
            known = known and scratch[of_interval(layout, at.SCRATCH_WORK, at.WORK_BP, n)] < inf
    for n in range(layout[at.INTERVALS]):
        node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
        best = of_interval(layout, at.SCRATCH_WORK, at.WORK_ZETA, n)
        for i in range(X):
            point[node + i * lanes] = scratch[best + i * lanes]


@compiled
def improve_node(layout, problem, point, n, scratch):
    """Step towards the observation from a state that is better than all before; from another, go half the way back.

    The step is one of simultaneous iterative reconstruction: with H and o in units of the scales, each component i
    moves by -sum_j H_ji o_j / r_j / c_i, with r and c the sums of |H| over rows and columns. It does not leap where one
    row says little, as that of a sine near its top.
    """
    X, Y, lanes = layout[at.X], layout[at.Y], layout[at.LANES]
    node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
    H = of_interval(layout, at.POINT_NODE, at.NODE_H, n)
    o = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_O, n)
    best = of_interval(layout, at.SCRATCH_WORK, at.WORK_ZETA, n)
    least = of_interval(layout, at.SCRATCH_WORK, at.WORK_BP, n)
    scale = setting(layout, at.SETTINGS_STATE_SCALE)
    row_scale = of_interval(layout, at.PROBLEM_GRID, at.GRID_ROW_SCALE, n)
    misfit = 0.0
    for j in range(Y):
        misfit += (scratch[o + j * lanes] / problem[row_scale + j * lanes]) ** 2
    if scratch[least] == inf and not misfit < inf:
        gap = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_GAP, n)
        for i in range(X):
            if fabs(scratch[gap + i * lanes]) < inf:
                point[node + i * lanes] += scratch[gap + i * lanes]
        return
    if not misfit < scratch[least]:
        for i in range(X):
            point[node + i * lanes] = 0.5 * (point[node + i * lanes] + scratch[best + i * lanes])
        return
    scratch[least] = misfit
    for i in range(X):
        scratch[best + i * lanes] = point[node + i * lanes]
    for j in range(Y):  # o becomes o / r
        width = 0.0
        for k in range(X):
            width += fabs(problem[scale + k] * point[H + (j * X + k) * lanes])
        scratch[o + j * lanes] = scratch[o + j * lanes] / width if width > 0.0 else 0.0
    for i in range(X):
        total = 0.0
        change = 0.0
        for j in range(Y):
            slope = point[H + (j * X + i) * lanes] / problem[row_scale + j * lanes]
            total += fabs(slope)
            change += slope * scratch[o + j * lanes]
        change *= problem[scale + i] / total
        if fabs(change) < inf:
            point[node + i * lanes] -= change


@compiled
def follow(layout, problem, point, guesses, scratch):
    """Set node states in turn: where the path leads from the one before, moved `guesses` times towards the data.

    Where observations leave a choice (an angle seen as sine and cosine), the states so stay on one branch. Without
    guesses they are the path's own, be they numbers or not.
    """
    X, lanes = layout[at.X], layout[at.LANES]
    evaluate_start(layout, problem, point, scratch)
    for k in range(layout[at.SERIES]):
        before, stride = of_series(layout, at.POINT_START, at.START_X0, k), 1
        for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
            start = of_interval(layout, at.POINT_NODE, at.NODE_X_START, n)
            node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
            gap = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_GAP, n)
            for i in range(X):
                point[start + i * lanes] = point[before + i * stride]
                point[node + i * lanes] = 0.0
            kernel(at.SIMULATE, n // lanes, layout, problem, point, point, scratch)
            for i in range(X):
                led = scratch[gap + i * lanes]
                point[node + i * lanes] = led if guesses == 0 or fabs(led) < inf else point[before + i * stride]
                scratch[gap + i * lanes] = 0.0
            if guesses > 0:
                approach(layout, problem, point, n, guesses, scratch)
            before, stride = node, lanes


@compiled
def approach(layout, problem, point, n, guesses, scratch):
    """Move one node towards its observation; its state becomes the best that was met."""
    X, lanes = layout[at.X], layout[at.LANES]
    node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
    best = of_interval(layout, at.SCRATCH_WORK, at.WORK_ZETA, n)
    for i in range(X):
        scratch[best + i * lanes] = point[node + i * lanes]
    scratch[of_interval(layout, at.SCRATCH_WORK, at.WORK_BP, n)] = inf
    for _ in range(guesses):
        kernel(at.OBSERVE, n // lanes, layout, problem, point, point, scratch)
        improve_node(layout, problem, point, n, scratch)
    for i in range(X):
        point[node + i * lanes] = scratch[best + i * lanes]


@compiled
def relax(layout, problem, variance, lifted):
    """Set the variance that is added to every observation and, of a lifted path, to every gap, in units of scales."""
    problem[setting(layout, at.SETTINGS_ROW_RELAXATION)] = variance
    problem[setting(layout, at.SETTINGS_GAP_RELAXATION)] = variance if lifted else 0.0


@compiled
def project_start(layout, problem, points, q0, relaxation, lifted, scratch):
    """Move points[CURRENT], which holds q0 and a guess of the node states, onto the manifold.

    Unless the path is `lifted`, its nodes are where it comes to at every iteration; that is slow and needs a path that
    can be followed, but leads through states that the model knows. Returns a status, the largest residual left and the
    number of iterations; all residuals of the point are in scratch.
    """
    first = relaxation
    constraint_tolerance = problem[setting(layout, at.SETTINGS_CONSTRAINT_TOLERANCE)]
    position_tolerance = problem[setting(layout, at.SETTINGS_POSITION_TOLERANCE)]
    linearise(layout, problem, points[CURRENT], scratch)
    squares, largest = residuals(layout, problem, scratch)
    change = inf
    for iteration in range(START_ITERATIONS):
        if relaxation == 0.0 and largest < constraint_tolerance and change < position_tolerance:
            relax(layout, problem, 0.0, lifted)
            return CONVERGED, largest, iteration
        relax(layout, problem, relaxation, lifted)
        origin, target = points[CURRENT], points[NEXT]
        if factorise(layout, problem, origin, scratch) != CONVERGED:
            relax(layout, problem, 0.0, lifted)
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
        clear_idle(layout, position(layout, target))
        if not lifted:
            follow(layout, problem, target, 0, scratch)
            linearise(layout, problem, target, scratch)
        squares_new, _ = residuals(layout, problem, scratch)
        weight = relaxation if relaxation > 0.0 else EXACT * first
        merit = differences(position(layout, origin), q0)[0] + squares / weight
        merit_new = differences(position(layout, target), q0)[0] + squares_new / weight
        linearised = not lifted
        fraction = 1.0
        while not (merit_new < merit) and fraction > SHORTEST_SEARCH and largest > constraint_tolerance:
            fraction *= 0.5
            shorten(layout, origin, target, 0.5)
            if not lifted:
                follow(layout, problem, target, 0, scratch)
            linearise(layout, problem, target, scratch)
            linearised = True
            squares_new, _ = residuals(layout, problem, scratch)
            merit_new = differences(position(layout, target), q0)[0] + squares_new / weight
        if not (merit_new < inf):
            relax(layout, problem, 0.0, lifted)
            linearise(layout, problem, points[CURRENT], scratch)
            return NON_FINITE, largest, iteration
        change = differences(position(layout, origin), position(layout, target))[1]
        copy(target, origin)
        if not linearised:
            linearise(layout, problem, origin, scratch)
        squares, largest = residuals(layout, problem, scratch)
        relaxation = relaxation * SHRINK if relaxation * SHRINK > EXACT * first else 0.0
    relax(layout, problem, 0.0, lifted)
    return NOT_CONVERGED, largest, START_ITERATIONS


# What a start is sought from: a prior draw with nodes near the data, a guess that points[CURRENT] holds, a position
# that was found before, a prior draw with its own path, or one whose path is moved towards the data at every node.
FROM_PRIOR, FROM_GUESS, FROM_POSITION, FROM_PATH, FROM_MOVED_PATH = 0, 1, 2, 3, 4


@compiled
def try_start(layout, problem, points, momenta, source, relaxation, rng, scratch, counts):
    """Leave a point that a chain can start from in points[CURRENT], ready for a step.

    Returns a status and, of what was projected, the largest residual left, a first step size and the potential.
    """
    point, q0 = points[CURRENT], momenta[MOVING]
    if source == FROM_POSITION:
        return prepare(layout, problem, point, scratch), 0.0, 0.0, 0.0
    lifted = source != FROM_PATH
    if source in (FROM_PRIOR, FROM_PATH, FROM_MOVED_PATH):
        draw_normals(layout, q0, rng)
        copy(q0, position(layout, point))
        if source == FROM_PRIOR:
            guess_nodes(layout, problem, point, GUESSES, scratch)
        else:
            follow(layout, problem, point, GUESSES if source == FROM_MOVED_PATH else 0, scratch)
    copy(position(layout, point), q0)
    status, residual, _ = project_start(layout, problem, points, q0, relaxation, lifted, scratch)
    if status == CONVERGED:
        status = prepare(layout, problem, point, scratch)
    if status != CONVERGED:
        return status, residual, 0.0, inf
    t = first_step_size(layout, problem, points, momenta, rng, scratch, counts)
    return status, residual, t, potential(layout, point)
