"""The noise that is most probable given parameters and data, and the curvature there (method.md, section 21).

The unknowns of the solve are the noise, the states at the nodes and the multipliers of rows and gaps; the parameters
stand in the problem. A pass is one Newton step for all of them, with the curvature of the constraint or without.
"""

from __future__ import annotations

from numpy import fabs

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE, NOT_CONVERGED

from .jit import compiled
from .run import run
from .small import finite, larger
from .thresholds import INNER_ITERATIONS, INNER_TOLERANCE, NEAR, SHORTEST_SEARCH, STALLED, TRUSTED, WARM_ITERATIONS
from .vectors import clear_idle, combine, copy, position, setting, squared_norm, sums_of

AT, TRIAL = range(2)  # rows of the table of points


@compiled
def simulate(m, point):
    """Compute the path from the point's noise and node states, with gaps, misfits and the rows' Jacobians."""
    run(m, plans.SIMULATE, point, point)


@compiled
def newton_pass(m, point, change, curved):
    """Compute the Newton step from a point that was simulated: changes of noise and nodes, new multipliers.

    That of the noise goes to `change`, all else to scratch, log|det K| to the sums. With `curved` 0 the curvature of
    the constraint is left out. Returns a status. At a mode K has as many negative eigenvalues as there are constraint
    rows. If the number of negative determinants met on the way is odd it has not, and the step would lead to a saddle.
    """
    m.problem[setting(m.layout, at.SETTINGS_CURVED)] = curved
    sums, log_det = sums_of(m.layout, point), m.layout[at.SUMS_LOG_DET]
    negatives = m.layout[at.SUMS_NEGATIVES]
    sums[log_det] = 0.0
    sums[negatives] = 0.0
    run(m, plans.NEWTON_PASS, point, change)
    clear_idle(m.layout, change)
    return CONVERGED if finite(sums[log_det]) and int(fabs(sums[negatives])) % 2 == 0 else NON_FINITE


@compiled
def potential_and_penalty(m, point):
    """Return V = 1/2 |n|^2 + excess of initial states and nodes, at a point that was simulated; and the penalty.

    It is the sum of all gaps and misfits, each with twice its new multiplier: exact in the sense of penalties.
    """
    sums, excesses, penalty = sums_of(m.layout, point), m.layout[at.SUMS_EXCESSES], m.layout[at.SUMS_PENALTY]
    sums[excesses], sums[penalty] = 0.0, 0.0
    run(m, plans.MERIT, point, point)
    return 0.5 * squared_norm(position(m.layout, point)) + sums[excesses], sums[penalty]


@compiled
def inner_potential(m, point):
    return potential_and_penalty(m, point)[0]


@compiled
def merit(m, point):
    """Return the potential plus the penalty: steps are to lower it."""
    potential, penalty = potential_and_penalty(m, point)
    return potential + penalty


@compiled
def largest(vector):
    """Return the largest absolute entry; not finite if one is not."""
    found = 0.0
    for i in range(vector.size):
        found = larger(found, fabs(vector[i]))
    return found


@compiled
def advance(m, origin, target, change, fraction):
    """Write the origin moved by a fraction of the Newton step to the target: noise, nodes and multipliers."""
    combine(m, 1.0, position(m.layout, origin), fraction, change, position(m.layout, target))
    run(m, plans.ADVANCE, origin, target)


@compiled
def search(m, points, change, size):
    """Shorten the step until it lowers V plus the penalty; return the fraction, or 0 if none does.

    On entry scratch has the gaps of points[AT], in the end those of points[TRIAL]. Steps that are tiny are taken as
    they are: their effect is lost in rounding.
    """
    before, fraction = merit(m, points[AT]), 1.0
    while fraction > SHORTEST_SEARCH:
        advance(m, points[AT], points[TRIAL], change, fraction)
        simulate(m, points[TRIAL])
        after = merit(m, points[TRIAL])
        if after < before or (fraction * size < TRUSTED and finite(after)):
            return fraction
        fraction *= 0.5
    return 0.0


@compiled
def inner_mode(m, points, change, warm):
    """Move points[AT] to the most probable noise given the parameters; return a status, V, log|det K| and the passes.

    From a mode of other parameters it begins `warm`, with the multipliers that it has and with curvature; else the
    first passes are without it, which are always defined.
    """
    layout = m.layout
    point = points[AT]
    simulate(m, point)
    curved, size, passes = 1.0 if warm else 0.0, 0.0, 0
    for _ in range(WARM_ITERATIONS if warm else INNER_ITERATIONS):
        before, passes = size, passes + 1
        status = newton_pass(m, point, change, curved)
        size = largest(change)
        if status != CONVERGED or not finite(size):
            if curved == 0.0:
                return NON_FINITE, 0.0, 0.0, passes
            curved = 0.0
            continue
        stalled = size < STALLED and size > 0.5 * before
        if curved == 1.0 and (size < INNER_TOLERANCE or stalled):
            return CONVERGED, inner_potential(m, point), sums_of(layout, point)[layout[at.SUMS_LOG_DET]], passes
        fraction = search(m, points, change, size)
        if fraction == 0.0:
            if curved == 0.0:
                return NOT_CONVERGED, 0.0, 0.0, passes
            simulate(m, point)
            curved = 0.0
            continue
        copy(points[TRIAL], point)
        curved = 1.0 if fraction * size < NEAR or (curved == 1.0 and fraction == 1.0) else 0.0
    return NOT_CONVERGED, 0.0, 0.0, passes
