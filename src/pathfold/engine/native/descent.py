"""Going down to a mode, along paths and along the manifold (method.md, section 12).

With a variance rho, in units of the scales, added to every observation, the potential of a position is

    l_rho(q) = 1/2 |q|^2 + excess + 1/2 c^T R^{-1} c + 1/2 log|J J^T + R|,   R = rho diag(scale^2),

which is that of the manifold at rho = 0. One step of Gauss and Newton goes along

    d = -Pi_rho (q + grad h1) - J^T (J J^T + R)^{-1} c,   Pi_rho = I - J^T (J J^T + R)^{-1} J .
"""

from __future__ import annotations

from numpy import inf, sqrt

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .constrained_step import (
    constrained_potential,
    factorise,
    iterate,
    linearise,
    linearise_and_factorise,
    predict,
    project,
    remove_normal,
    set_gradient,
)
from .jit import compiled
from .nodes import follow
from .run import run
from .small import finite
from .thresholds import (
    ABSORPTIONS,
    CALMINGS,
    DESCENTS,
    IDLE,
    LEAST_GAIN,
    NEARLY,
    SHORTEN,
    SHORTEST_SEARCH,
    STEEPER,
)
from .trajectory import CURRENT, NEXT
from .vectors import (
    clear_idle,
    copy,
    displace,
    gradient,
    noise_of_interval,
    of_interval,
    of_place,
    of_series,
    position,
    setting,
    squared_norm,
    sums_of,
)

# Rows of the table of series: their share of the potential before a step and after it, the fraction of it they take.
BEFORE_STEP, AFTER_STEP, FRACTION, OF_SERIES = range(4)


@compiled
def relax(m, variance, lifted):
    """Set the variance that is added to every observation and, of a lifted path, to every gap, in units of scales."""
    m.problem[setting(m.layout, at.SETTINGS_ROW_RELAXATION)] = variance
    m.problem[setting(m.layout, at.SETTINGS_GAP_RELAXATION)] = variance if lifted else 0.0


@compiled
def squares_of_interval(layout, q, n):
    """Return |v_n|^2 + |w_n|^2."""
    lanes, total = layout[at.LANES], 0.0
    for begin, size in noise_of_interval(layout, n):
        for i in range(begin, begin + size * lanes, lanes):
            total += q[i] ** 2
    return total


@compiled
def misfits_of_interval(m, n):
    """Return the sum of squares of the misfits of an interval's end, in units of the scales."""
    layout, problem, scratch = m.layout, m.problem, m.scratch
    lanes, total = layout[at.LANES], 0.0
    o = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_O, n)
    scale = of_interval(layout, at.PROBLEM_GRID, at.GRID_ROW_SCALE, n)
    for j in range(layout[at.Y]):
        total += (scratch[o + j * lanes] / problem[scale + j * lanes]) ** 2
    return total


@compiled
def log_sig_of(layout, point, k):
    """Return log|Sigma| of a series; if it is cut, its segments, one after the other, have a share each."""
    place = layout[layout[at.PLACE] + k]
    total = point[of_place(layout, at.POINT_START, at.START_LOG_SIG, place)]
    while layout[layout[at.BEFORE] + place + 1] >= 0:
        place += 1
        total += point[of_place(layout, at.POINT_START, at.START_LOG_SIG, place)]
    return total


@compiled
def weigh(m, point, relaxation, shares):
    """Compute l_rho at a point that has been linearised, by series; return its sum, and the sum of squared misfits.

    The point is left with its factor. What is not finite is infinite.
    """
    layout = m.layout
    q = position(layout, point)
    factorise(m, point)
    log_C = sums_of(layout, point)[layout[at.SUMS_LOG_C]]
    total, misfits = 0.5 * log_C + point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]], 0.0
    for i in range(layout[at.U]):
        total += 0.5 * q[layout[at.VECTOR_U] + i] ** 2
    for k in range(layout[at.SERIES]):
        share = point[of_series(layout, at.POINT_START, at.START_EXCESS_X0, k)]
        share += 0.5 * log_sig_of(layout, point, k)
        v0 = of_series(layout, at.VECTOR_V0, at.V0_V0, k)
        for i in range(layout[at.V0]):
            share += 0.5 * q[v0 + i * layout[at.ABREAST]] ** 2
        for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
            misfit = misfits_of_interval(m, n)
            share += 0.5 * squares_of_interval(layout, q, n) + 0.5 * misfit / relaxation
            share += point[of_interval(layout, at.POINT_NODE, at.NODE_EXCESS, n)]
            misfits += misfit
        shares[k] = share if finite(share) else inf
        total += shares[k]
    return total if finite(total) else inf, misfits


@compiled
def direct(m, point, d):
    """d = -Pi_rho (q + grad h1) - J^T (J J^T + R)^{-1} c at a point with its factor and its misfits in scratch."""
    q = position(m.layout, point)
    for i in range(q.size):
        d[i] = -q[i]
    remove_normal(m, point, d)
    set_gradient(m, point)
    slope = gradient(m.layout, point)
    for i in range(q.size):
        d[i] -= slope[i]
    clear_idle(m.layout, d)


@compiled
def move(layout, origin, target, d, fraction, fractions):
    """Move the parameters by a fraction of d, the noise of every series by a fraction of its own."""
    q, q_new = position(layout, origin), position(layout, target)
    lanes = layout[at.LANES]
    for i in range(layout[at.U]):
        j = layout[at.VECTOR_U] + i
        q_new[j] = q[j] + fraction * d[j]
    for k in range(layout[at.SERIES]):
        v0 = of_series(layout, at.VECTOR_V0, at.V0_V0, k)
        for i in range(layout[at.V0]):
            j = v0 + i * layout[at.ABREAST]
            q_new[j] = q[j] + fractions[k] * d[j]
        for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
            for begin, size in noise_of_interval(layout, n):
                for j in range(begin, begin + size * lanes, lanes):
                    q_new[j] = q[j] + fractions[k] * d[j]


@compiled
def culprits(table):
    """Return a tenth of the largest rise of a series' potential: series that rise by as much take a shorter step."""
    largest = 0.0
    for k in range(table.shape[1]):
        largest = max(largest, table[AFTER_STEP, k] - table[BEFORE_STEP, k])
    return largest if largest == inf else 0.1 * largest


@compiled
def count_rows(m):
    layout, problem = m.layout, m.problem
    rows = 0.0
    for n in range(layout[at.INTERVALS]):
        mask = of_interval(layout, at.PROBLEM_GRID, at.GRID_MASK, n)
        for j in range(layout[at.Y]):
            rows += problem[mask + j * layout[at.LANES]]
    return rows


@compiled
def calm(m, point):
    """Halve the noise of series whose path is not finite, and at last the parameters; return the squared misfits.

    The point is left with its path linearised.
    """
    layout = m.layout
    q, misfits = position(layout, point), 0.0
    for attempt in range(CALMINGS):
        follow(m, point, 0)
        linearise(m, point)
        misfits = 0.0
        for k in range(layout[at.SERIES]):
            of_series_k = 0.0
            for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
                of_series_k += misfits_of_interval(m, n)
            misfits += of_series_k
            if not finite(of_series_k):
                scale_series(layout, q, k, 0.5 if attempt < CALMINGS // 2 else 0.0)
        if finite(misfits):
            break
        if attempt >= CALMINGS // 2:
            for i in range(layout[at.U]):
                q[layout[at.VECTOR_U] + i] *= 0.5
    return misfits


@compiled
def scale_series(layout, q, k, factor):
    """Multiply all noise of a series."""
    lanes, v0 = layout[at.LANES], of_series(layout, at.VECTOR_V0, at.V0_V0, k)
    for i in range(layout[at.V0]):
        q[v0 + i * layout[at.ABREAST]] *= factor
    for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
        for begin, size in noise_of_interval(layout, n):
            for i in range(begin, begin + size * lanes, lanes):
                q[i] *= factor


@compiled
def absorb(m, point):
    """Let the noise of observations make up for their misfits, where there is any: w -= Hw_j^T o_j / |Hw_j|^2."""
    layout, scratch = m.layout, m.scratch
    lanes, W, q = layout[at.LANES], layout[at.W], position(layout, point)
    for _ in range(ABSORPTIONS):
        run(m, plans.OBSERVE, point, point)
        for n in range(layout[at.INTERVALS]):
            o = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_O, n)
            Hw = of_interval(layout, at.POINT_NODE, at.NODE_HW, n)
            w, _ = noise_of_interval(layout, n)[0]
            for j in range(layout[at.Y]):
                square = 0.0
                for i in range(W):
                    square += point[Hw + (j * W + i) * lanes] ** 2
                if square > 0.0:
                    for i in range(W):
                        q[w + i * lanes] -= point[Hw + (j * W + i) * lanes] * scratch[o + j * lanes] / square


@compiled
def descend(m, points, d, table):
    """Go down l_rho along the path of points[CURRENT], with rho from the misfits there to almost nothing.

    Nodes are where the path comes to. A step that does not lead down is shortened, at first for the series that it
    does not help. Returns a status; a path that is not finite cannot be begun from.
    """
    layout = m.layout
    origin, target = points[CURRENT], points[NEXT]
    fractions = table[FRACTION]
    misfits = calm(m, origin)
    if not finite(misfits):
        return NON_FINITE
    rows = max(1.0, count_rows(m))
    rho = misfits / rows
    last = NEARLY * rho
    made = 0
    while rho > last and made < DESCENTS:
        relax(m, rho, False)
        before, _ = weigh(m, origin, rho, table[BEFORE_STEP])
        if not finite(before):
            break
        direct(m, origin, d)
        fraction, after, rounds = 1.0, inf, 0
        for k in range(layout[at.SERIES]):
            fractions[k] = 1.0
        while True:
            move(layout, origin, target, d, fraction, fractions)
            follow(m, target, 0)
            linearise(m, target)
            after, misfits = weigh(m, target, rho, table[AFTER_STEP])
            made += 1
            if after < before or fraction < SHORTEST_SEARCH:
                break
            rounds += 1
            everywhere = rounds % 3 == 0 or layout[at.SERIES] == 1
            if everywhere:
                fraction *= SHORTEN
            least = culprits(table)
            for k in range(layout[at.SERIES]):
                if everywhere or table[AFTER_STEP, k] - table[BEFORE_STEP, k] >= least:
                    fractions[k] *= SHORTEN
        if after < before:
            copy(target, origin)
            if fraction == 1.0:
                rho = min(STEEPER * rho, max(misfits / rows, 0.01 * rho))
        else:
            linearise(m, origin)
            rho *= STEEPER
    relax(m, 0.0, False)
    return CONVERGED


@compiled
def go_down(m, points, d, most):
    """Go down the potential along the manifold from points[CURRENT], a point of it; return the potential.

    A step is a move along the tangent and a projection; it is shortened until it leads down, to where a parabola
    through what is known has its lowest point.
    """
    layout = m.layout
    origin, target = points[CURRENT], points[NEXT]
    linearise(m, origin)
    if factorise(m, origin) != CONVERGED:
        return inf
    value, fraction, idle = constrained_potential(layout, origin), 1.0, 0
    least = LEAST_GAIN * sqrt(layout[at.SERIES])
    for _ in range(most):
        set_gradient(m, origin)
        copy(position(layout, origin), d)
        project(m, origin, d)
        slope = gradient(layout, origin)
        for i in range(d.size):
            d[i] = -d[i] - slope[i]
        promised = squared_norm(d)
        if 0.5 * promised < least:
            break
        lower = move_along(m, origin, target, d, fraction)
        while not (lower < value) and fraction > SHORTEST_SEARCH:
            fraction = max(0.1 * fraction, min(0.5 * fraction, lowest(promised, fraction, value - lower)))
            lower = move_along(m, origin, target, d, fraction)
        if not (lower < value):
            break
        gained, value = value - lower, lower
        copy(target, origin)
        idle = idle + 1 if gained < least else 0
        if idle == IDLE:
            break
        fraction = max(SHORTEN * fraction, min(1.0, lowest(promised, fraction, gained)))
    return value


@compiled
def lowest(promised, fraction, gained):
    """Return where a parabola is lowest that has the slope -`promised` at 0, and fell by `gained` at `fraction`."""
    bend = promised * fraction - gained
    return 0.5 * promised * fraction**2 / bend if bend > 0.0 else 1.0


@compiled
def move_along(m, origin, target, d, fraction):
    """Move along the tangent and back onto the manifold; return the potential there, infinite if there is none."""
    displace(m, 1.0, origin, fraction, d, target)
    predict(m, plans.SOLVE_ON_MANIFOLD, origin, target, gradient(m.layout, target))
    status = iterate(m, origin, target, position(m.layout, origin)[:0], True)
    if status != CONVERGED:
        return inf
    clear_idle(m.layout, position(m.layout, target))
    if linearise_and_factorise(m, target) != CONVERGED:
        return inf
    return constrained_potential(m.layout, target)
