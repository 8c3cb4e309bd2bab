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
    combine,
    copy,
    displace,
    gradient,
    newton_sums,
    of_place,
    places_of,
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
def of_whole_series(m, field, k):
    """Return what a series has of a field; if it is cut, its segments have a share each."""
    total, (first, end) = 0.0, places_of(m.layout, k)
    for place in range(first, end):
        total += m.scratch[of_place(m.layout, at.SCRATCH_DESCENT_OF_SERIES, field, place)]
    return total


@compiled
def residuals(m, point):
    """Return the sum of squares and the largest of all gaps and misfits in scratch, in units of the scales.

    It is done for every series, together with its share of l_rho.
    """
    sums, squares, largest = newton_sums(m), m.layout[at.SUMS_SQUARES], m.layout[at.SUMS_RESIDUAL]
    sums[squares], sums[largest], sums[m.layout[at.SUMS_ROWS]] = 0.0, 0.0, 0.0
    run(m, plans.WEIGH, point, point)
    return sums[squares], sums[largest]


@compiled
def weigh(m, point, shares):
    """Compute l_rho at a point that has been linearised, by series; return its sum, and the sum of squared misfits.

    The point is left with its factor. What is not finite is infinite.
    """
    layout = m.layout
    factorise(m, point)
    misfits, _ = residuals(m, point)
    log_C = sums_of(layout, point)[layout[at.SUMS_LOG_C]]
    total = 0.5 * (log_C + squared_norm(of_parameters(layout, point)))
    total += point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]]
    for k in range(layout[at.SERIES]):
        share = of_whole_series(m, at.DESCENT_OF_SERIES_SHARE, k)
        shares[k] = share if finite(share) else inf
        total += shares[k]
    return total if finite(total) else inf, misfits


@compiled
def of_parameters(layout, vector):
    """Return the part of a vector, or of the position of a point, that belongs to the parameters."""
    return vector[layout[at.VECTOR_U] : layout[at.VECTOR_U + at.END]]


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
def shorten(m, origin, target, fraction, fractions):
    """Move the target back towards the origin: parameters to a fraction of the way, each series to one of its own."""
    layout = m.layout
    for k in range(layout[at.SERIES]):
        first, end = places_of(layout, k)
        for place in range(first, end):
            m.scratch[of_place(layout, at.SCRATCH_DESCENT_OF_SERIES, at.DESCENT_OF_SERIES_FRACTION, place)] = fractions[
                k
            ]
    run(m, plans.SHORTEN, origin, target)
    u, u_new = of_parameters(layout, origin), of_parameters(layout, target)
    for i in range(u.size):
        u_new[i] = u[i] + fraction * (u_new[i] - u[i])


@compiled
def culprits(table):
    """Return a tenth of the largest rise of a series' potential: series that rise by as much take a shorter step."""
    largest = 0.0
    for k in range(table.shape[1]):
        largest = max(largest, table[AFTER_STEP, k] - table[BEFORE_STEP, k])
    return largest if largest == inf else 0.1 * largest


@compiled
def calm(m, points, fractions):
    """Halve the noise of series whose path is not finite, and at last the parameters; return the squared misfits.

    points[CURRENT] is left with its path linearised; of points[NEXT] the position becomes the centre of the prior.
    """
    layout, point, misfits = m.layout, points[CURRENT], 0.0
    position(layout, points[NEXT])[:] = 0.0
    for attempt in range(CALMINGS):
        follow(m, point, 0)
        linearise(m, point)
        misfits, _ = residuals(m, point)
        if finite(misfits):
            break
        late = attempt >= CALMINGS // 2
        for k in range(layout[at.SERIES]):
            calmer = 0.0 if late else 0.5
            fractions[k] = 1.0 if finite(of_whole_series(m, at.DESCENT_OF_SERIES_MISSED, k)) else calmer
        shorten(m, points[NEXT], point, 0.5 if late else 1.0, fractions)
    return misfits


@compiled
def absorb(m, point):
    """Let the noise of observations make up for their misfits, where there is any."""
    for _ in range(ABSORPTIONS):
        run(m, plans.OBSERVE_AND_ABSORB, point, point)
    clear_idle(m.layout, position(m.layout, point))


@compiled
def descend(m, points, d, table):
    """Go down l_rho along the path of points[CURRENT], with rho from the misfits there to almost nothing.

    Nodes are where the path comes to. A step that does not lead down is shortened, at first for the series that it
    does not help. Returns a status; a path that is not finite cannot be begun from.
    """
    layout = m.layout
    origin, target = points[CURRENT], points[NEXT]
    fractions = table[FRACTION]
    misfits = calm(m, points, fractions)
    if not finite(misfits):
        return NON_FINITE
    rows = max(1.0, newton_sums(m)[layout[at.SUMS_ROWS]])
    rho = misfits / rows
    last = NEARLY * rho
    made = 0
    while rho > last and made < DESCENTS:
        relax(m, rho, False)
        before, _ = weigh(m, origin, table[BEFORE_STEP])
        if not finite(before):
            break
        direct(m, origin, d)
        fraction, after, rounds = 1.0, inf, 0
        for k in range(layout[at.SERIES]):
            fractions[k] = 1.0
        while True:
            combine(m, 1.0, position(layout, origin), 1.0, d, position(layout, target))
            shorten(m, origin, target, fraction, fractions)
            follow(m, target, 0)
            linearise(m, target)
            after, misfits = weigh(m, target, table[AFTER_STEP])
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
