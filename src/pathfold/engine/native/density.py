"""What is done at a point q = [u; v0; v] without a constraint: potential and its gradient.

The potential is 1/2 |q|^2 + phi(q); the point holds q and the gradient of phi. Momenta are those of q / scale, for
which the metric is the identity.
"""

from __future__ import annotations

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .jit import compiled, kernel
from .lanes import of_series, over_series
from .small import finite
from .vector import clear_idle, gradient, position, squared_norm


@compiled
def scales(layout, problem):
    """The metric, one scale a coordinate."""
    return problem[layout[at.PROBLEM_METRIC] : layout[at.PROBLEM_METRIC + at.END]]


@compiled
def evaluate(layout, problem, point, scratch):
    """Path, phi and its gradient by q; returns a status."""
    sums, g = layout[at.POINT_SUMS], gradient(layout, point)
    misfit = sums + layout[at.SUMS_MISFIT]
    kernel(at.PARAMETERS, 0, layout, problem, point, g, scratch)
    point[misfit] = 0.0
    for i in range(layout[at.Z]):
        point[sums + layout[at.SUMS_GZ] + i] = 0.0
    over_series(at.START_STATES, layout, problem, point, g, scratch)
    over_series(at.PATH, layout, problem, point, g, scratch)
    over_series(at.PATH_GRADIENT, layout, problem, point, g, scratch)
    over_series(at.START_GRADIENT, layout, problem, point, g, scratch)
    kernel(at.PARAMETER_GRADIENT, 0, layout, problem, point, g, scratch)
    clear_idle(layout, g)
    return CONVERGED if finite(point[misfit]) else NON_FINITE


@compiled
def potential(layout, point):
    """Minus the log density of q."""
    total = 0.5 * squared_norm(position(layout, point)) + point[layout[at.POINT_SUMS] + layout[at.SUMS_MISFIT]]
    total += point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]]
    for k in range(layout[at.SERIES]):
        total += point[of_series(layout, at.POINT_START, at.START_EXCESS_X0, k)]
    return total
