"""Draws on the fibre, the paths that meet the data given the parameters, about the most probable one.

A draw is a tangent vector from the Gaussian law whose precision is the curvature at the mode, projected onto the fibre
along the rows of the Jacobian there; its weight is what the fibre's own density has to do with that (method.md,
section 21). On entry the scratch holds the pass that found the mode.
"""

from __future__ import annotations

from numpy import fabs, inf

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED

from .constrained_step import clear_multipliers, copy_nodes, factorise, linearise, solve_position
from .inner_mode import AT, inner_potential, largest, simulate
from .jit import compiled
from .run import run
from .small import finite, invert, semidefinite_root, solve_semidefinite, times, times_transposed
from .thresholds import HELD
from .vectors import clear_idle, copy, displace, draw_normals, newton_sums, of_interval, of_series, position, sums_of

PLUS, MINUS, FIBRE_POINTS = range(1, 4)  # rows of the table of points, after that of the mode


@compiled
def gather(block, begin, stride, count, out):
    """Copy numbers that lie a stride apart."""
    for i in range(count):
        out[i] = block[begin + i * stride]


@compiled
def scatter(values, block, begin, stride, count):
    for i in range(count):
        block[begin + i * stride] = values[i]


@compiled
def quadratic(matrix, vector, n):
    """x^T A x."""
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += vector[i] * matrix[i * n + j] * vector[j]
    return total


@compiled
def room_size(layout):
    """Return how many numbers the draws need to work with: eight square matrices."""
    size = max(layout[at.X] + layout[at.W], layout[at.Y], layout[at.V0], 1)
    return 8 * size * size + 8 * size


@compiled
def rooms(layout, work):
    """Return four matrices and eight vectors of the room."""
    size = max(layout[at.X] + layout[at.W], layout[at.Y], layout[at.V0], 1)
    square, end = size * size, 8 * size * size
    matrices = work[:square], work[square : 2 * square], work[2 * square : 3 * square], work[3 * square : 4 * square]
    a, b = work[end : end + size], work[end + size : end + 2 * size]
    c, d = work[end + 2 * size : end + 3 * size], work[end + 3 * size : end + 4 * size]
    return matrices, (a, b, c, d)


@compiled
def set_end_precision(m, factor):
    """Give the end of every interval a precision: a multiple of that which it has before its observation."""
    layout, scratch = m.layout, m.scratch
    X, lanes = layout[at.X], layout[at.LANES]
    for n in range(layout[at.INTERVALS]):
        M = of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_M_AHEAD, n)
        end = of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_END_PRECISION, n)
        for i in range(X):
            variance = fabs(scratch[M + (i * X + i) * lanes])
            scratch[end + i * lanes] = factor / variance if variance > 0.0 else 0.0


@compiled
def draw_loose_starts(m, work, rng):
    """Draw the change of state at the start of every interval, given all that lies before it; return if that went."""
    layout, scratch = m.layout, m.scratch
    X, lanes, abreast, good = layout[at.X], layout[at.LANES], layout[at.ABREAST], True
    (matrix, root, scale, _), (x, normals, _, _) = rooms(layout, work)
    for k in range(layout[at.SERIES]):
        gather(scratch, of_series(layout, at.SCRATCH_ELEMENT_START, at.ELEMENT_START_P0, k), abreast, X * X, scale)
        for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
            gather(scratch, of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_P_AHEAD, n), lanes, X * X, matrix)
            good = semidefinite_root(matrix, scale, root, X) and good
            for i in range(X):
                normals[i] = rng.standard_normal()
            times(root, normals, x, X, X)
            scatter(x, scratch, of_interval(layout, at.SCRATCH_TIED, at.TIED_DX_LOOSE, n), lanes, X)
            gather(scratch, of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_M_AHEAD, n), lanes, X * X, scale)
    return good


@compiled
def back_substitute(root, b, n):
    """b <- L^{-T} b."""
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            b[i] -= root[k * n + i] * b[k]
        b[i] /= root[i * n + i]


@compiled
def tie_observation(m, point, vector, n, x, work):
    """Move the drawn noise of an observation so that its rows are met to first order, given the change x of the state.

    It has the precision I + Lam_ww and the slope Lam_wx x. Returns the square of (x, w) with the node's curvature, and
    whether all went well.
    """
    X, W, Y, lanes = m.layout[at.X], m.layout[at.W], m.layout[at.Y], m.layout[at.LANES]
    N = X + W
    (curvature, matrix, root, rows), (_, w, b, r) = rooms(m.layout, work)
    gather(m.scratch, of_interval(m.layout, at.SCRATCH_ELEMENT, at.ELEMENT_CURV_H, n), lanes, N * N, curvature)
    place = of_interval(m.layout, at.VECTOR_W, at.W_W, n)
    gather(vector, place, lanes, W, w)
    good = True
    if W > 0:
        for i in range(W):
            for j in range(W):
                matrix[i * W + j] = curvature[(X + i) * N + X + j] + (1.0 if i == j else 0.0)
        good = semidefinite_root(matrix, matrix, root, W)
        back_substitute(root, w, W)
        for i in range(W):
            b[i] = 0.0
            for j in range(X):
                b[i] += curvature[(X + i) * N + j] * x[j]
        solve_semidefinite(root, b, W)
        for i in range(W):
            w[i] -= b[i]
        H, Hw = of_interval(m.layout, at.POINT_NODE, at.NODE_H, n), of_interval(m.layout, at.POINT_NODE, at.NODE_HW, n)
        for j in range(Y):  # the rows of R^{-1} Hw^T, and what the rows are missed by
            r[j] = 0.0
            for i in range(X):
                r[j] += point[H + (j * X + i) * lanes] * x[i]
            for i in range(W):
                rows[j * W + i] = point[Hw + (j * W + i) * lanes]
                r[j] += rows[j * W + i] * w[i]
            solve_semidefinite(root, rows[j * W : (j + 1) * W], W)
        for j in range(Y):
            for k in range(Y):
                total = 0.0
                for i in range(W):
                    total += point[Hw + (j * W + i) * lanes] * rows[k * W + i]
                matrix[j * Y + k] = total
        good = semidefinite_root(matrix, matrix, root, Y) and good
        solve_semidefinite(root, r, Y)
        times_transposed(rows, r, b, Y, W)
        for i in range(W):
            w[i] -= b[i]
        scatter(w, vector, place, lanes, W)
    squares = 0.0
    for i in range(N):
        left = x[i] if i < X else w[i - X]
        if i >= X:
            squares += left * left
        for j in range(N):
            squares += left * curvature[i * N + j] * (x[j] if j < X else w[j - X])
    return squares, good


@compiled
def tie_nodes(m, point, vector, work, rng):
    """Go back over the nodes of all series and draw their states, each given the one after it.

    The loose draw of an interval is moved to end where it is to: by the costate M^{-1} (its end less the state there).
    Returns the squares of nodes and starts, and whether all went well.
    """
    layout, scratch = m.layout, m.scratch
    X, V0, lanes = layout[at.X], layout[at.V0], layout[at.LANES]
    squares, good = 0.0, True
    (scale, matrix, root, _), (x, y, tie, moved) = rooms(layout, work)
    for k in range(layout[at.SERIES]):
        first, end = layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]
        gather(scratch, of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_SEEN_COV, end - 1), lanes, X * X, matrix)
        gather(scratch, of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_M_AHEAD, end - 1), lanes, X * X, scale)
        good = semidefinite_root(matrix, scale, root, X) and good
        for i in range(X):
            y[i] = rng.standard_normal()
        times(root, y, x, X, X)
        for n in range(end - 1, first - 1, -1):
            of_node, well = tie_observation(m, point, vector, n, x, work)
            good = good and well
            precision = of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_END_PRECISION, n)
            for i in range(X):
                of_node -= scratch[precision + i * lanes] * x[i] * x[i]
            gather(scratch, of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_M_AHEAD, n), lanes, X * X, matrix)
            good = semidefinite_root(matrix, matrix, root, X) and good
            gather(scratch, of_interval(layout, at.SCRATCH_TIED, at.TIED_END_LOOSE, n), lanes, X, tie)
            for i in range(X):
                tie[i] -= x[i]
            solve_semidefinite(root, tie, X)
            scatter(tie, scratch, of_interval(layout, at.SCRATCH_TIED, at.TIED_TIE, n), lanes, X)
            gather(scratch, of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_GAIN, n), lanes, X * X, matrix)
            times(matrix, tie, moved, X, X)
            gather(scratch, of_interval(layout, at.SCRATCH_TIED, at.TIED_DX_LOOSE, n), lanes, X, x)
            for i in range(X):
                x[i] -= moved[i]
            scatter(x, scratch, of_interval(layout, at.SCRATCH_TIED, at.TIED_DX_TIED, n), lanes, X)
            gather(scratch, of_interval(layout, at.SCRATCH_ELEMENT, at.ELEMENT_EO, n), lanes, X * X, matrix)
            squares += of_node + quadratic(matrix, x, X)
        if V0 > 0:
            of_start, well = tie_start(m, point, vector, k, x, work)
            squares, good = squares + of_start, good and well
    return squares, good


@compiled
def tie_start(m, point, vector, k, x, work):
    """Move the drawn noise of an initial state so that it changes by x; return its square, and if all went well.

    Its precision R need not be positive, since observations come later. Given x the law is the same if B0 v is held by
    a precision of its own.
    """
    layout, scratch = m.layout, m.scratch
    X, V0, abreast = layout[at.X], layout[at.V0], layout[at.ABREAST]
    (precision, matrix, root, rows), (_, v, r, _) = rooms(layout, work)
    gather(scratch, of_series(layout, at.SCRATCH_ELEMENT_START, at.ELEMENT_START_R0_INV, k), abreast, V0 * V0, matrix)
    invert(matrix, precision, V0)
    copy(precision[: V0 * V0], matrix)
    B0, size = of_series(layout, at.POINT_START, at.START_B0, k), largest(precision[: V0 * V0])
    for i in range(X):
        square = 0.0
        for j in range(V0):
            rows[i * V0 + j] = point[B0 + (i * V0 + j) * abreast]
            square += rows[i * V0 + j] ** 2
        held = HELD * size / square if square > 0.0 else 0.0
        for j in range(V0):
            for h in range(V0):
                matrix[j * V0 + h] += held * rows[i * V0 + j] * rows[i * V0 + h]
    good = semidefinite_root(matrix, matrix, root, V0)
    place = of_series(layout, at.VECTOR_V0, at.V0_V0, k)
    gather(vector, place, abreast, V0, v)
    back_substitute(root, v, V0)
    for i in range(X):
        r[i] = -x[i]
        for j in range(V0):
            r[i] += rows[i * V0 + j] * v[j]
        solve_semidefinite(root, rows[i * V0 : (i + 1) * V0], V0)
    for i in range(X):
        for h in range(X):
            matrix[i * X + h] = 0.0
            for j in range(V0):
                matrix[i * X + h] += point[B0 + (i * V0 + j) * abreast] * rows[h * V0 + j]
    good = semidefinite_root(matrix, matrix, root, X) and good
    solve_semidefinite(root, r, X)
    for i in range(X):
        for j in range(V0):
            v[j] -= rows[i * V0 + j] * r[i]
    scatter(v, vector, place, abreast, V0)
    return quadratic(precision, v, V0), good


@compiled
def draw_tangent(m, point, vector, work, rng):
    """Draw a tangent vector at the mode, with the curvature there as its precision.

    Every interval is drawn by itself, its end held loosely, and then tied to the next. How loosely does not matter,
    since the end is given at last; not held at all, the noise of an interval may have no law. Returns the square of the
    vector in its precision, and whether all went well.
    """
    layout, scratch = m.layout, m.scratch
    draw_normals(layout, vector, rng)
    set_end_precision(m, HELD)
    run(m, plans.ELEMENTS, point, vector)
    run(m, plans.LOOSE_NODES, point, vector)
    good = draw_loose_starts(m, work, rng)
    run(m, plans.LOOSE_NOISE, point, vector)
    squares, well = tie_nodes(m, point, vector, work, rng)
    run(m, plans.TIED_NOISE, point, vector)
    for n in range(layout[at.INTERVALS]):
        squares += scratch[of_interval(layout, at.SCRATCH_TIED, at.TIED_SQUARES, n)]
    set_end_precision(m, 0.0)
    return squares, good and well and finite(squares)


@compiled
def mixed_log_det(m, origin, target):
    """log|det J(n) J(n*)^T| of a point of the fibre; not finite if the fibre was left behind a fold."""
    clear_multipliers(m)
    run(m, plans.JUST_SHOOT_AFRESH, origin, target)
    sums, log_det = newton_sums(m), m.layout[at.SUMS_LOG_DET]
    sums[log_det] = 0.0
    run(m, plans.MIXED_LOG_DET, origin, target)
    return sums[log_det]


@compiled
def onto_fibre(m, origin, target, tangent, sign):
    """Project the mode moved along the tangent, or against it, onto the fibre; return V + log|det| or infinity."""
    copy_nodes(m.layout, origin, target)
    displace(m, 1.0, origin, sign, tangent, target)
    if solve_position(m, origin, target, tangent[:0]) != CONVERGED:
        return inf
    log_det = mixed_log_det(m, origin, target)
    clear_idle(m.layout, position(m.layout, target))
    simulate(m, target)
    return inner_potential(m.layout, target) + log_det


@compiled
def draw_pair(m, points, tangent, work, rng):
    """Draw two points of the fibre on either side of the mode, at points[PLUS] and points[MINUS].

    Returns the logs of their weights, by which their law becomes that of the fibre; -inf of one that was not reached.
    """
    origin = points[AT]
    potential = inner_potential(m.layout, origin)
    squares, good = draw_tangent(m, origin, tangent, work, rng)
    linearise(m, origin)
    if not good or factorise(m, origin) != CONVERGED:
        return -inf, -inf
    level = potential + 0.5 * squares + sums_of(m.layout, origin)[m.layout[at.SUMS_LOG_DET]]
    plus = level - onto_fibre(m, origin, points[PLUS], tangent, 1.0)
    minus = level - onto_fibre(m, origin, points[MINUS], tangent, -1.0)
    return plus if finite(plus) else -inf, minus if finite(minus) else -inf
