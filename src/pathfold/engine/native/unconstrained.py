"""Unconstrained dynamics at a point q = [u; v0; v]: potential and its gradient; the step is leapfrog or Gaussian.

The potential is 1/2 |q|^2 + phi(q); the point holds q and the gradient of phi. Momenta p are those of q / scale, for
which the metric is the identity: with the metric diag(1 / scale^2) they move by dq = scale p, dp = -scale dU. The
Gaussian splitting turns q and p exactly under 1/2 q^2 + 1/2 p^2, by the angle scale t.
"""

from __future__ import annotations

from numpy import cos, sin

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .jit import compiled, kernel
from .lanes import of_series, setting
from .parts import NONE, by_series, sums_in, sweep
from .small import finite
from .vector import clear_idle, gradient, position, squared_norm


@compiled
def scales(layout, problem):
    """Return the metric, one scale for each coordinate."""
    return problem[layout[at.PROBLEM_METRIC] : layout[at.PROBLEM_METRIC + at.END]]


@compiled
def prepare_unconstrained(layout, problem, point, scratch):
    """Compute the path, phi and its gradient by q; return a status."""
    sums, g = point[layout[at.POINT_SUMS] : layout[at.POINT_SUMS + at.END]], gradient(layout, point)
    misfit, gz, Z = layout[at.SUMS_MISFIT], layout[at.SUMS_GZ], layout[at.Z]
    kernel(at.PARAMETERS, 0, layout, problem, point, g, scratch)
    sums[misfit] = 0.0
    for i in range(Z):
        sums[gz + i] = 0.0
    written = sums_in(sums, NONE, (min(misfit, gz), max(misfit + 1, gz + Z)), NONE)
    paths, gradients = by_series(at.START_STATES, at.PATH), by_series(at.PATH_GRADIENT, at.START_GRADIENT)
    sweep(layout, problem, point, g, scratch, written, paths, gradients)
    kernel(at.PARAMETER_GRADIENT, 0, layout, problem, point, g, scratch)
    clear_idle(layout, g)
    return CONVERGED if finite(sums[misfit]) else NON_FINITE


@compiled
def unconstrained_potential(layout, point):
    """Return minus the log density of q."""
    total = 0.5 * squared_norm(position(layout, point)) + point[layout[at.POINT_SUMS] + layout[at.SUMS_MISFIT]]
    total += point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]]
    for k in range(layout[at.SERIES]):
        total += point[of_series(layout, at.POINT_START, at.START_EXCESS_X0, k)]
    return total


@compiled
def kick_scaled(layout, problem, point, p, t):
    """Change the momentum by the gradient of the potential, or of what the Gaussian splitting leaves of it."""
    q, g, scale = position(layout, point), gradient(layout, point), scales(layout, problem)
    verlet = problem[setting(layout, at.SETTINGS_VERLET)]
    for i in range(p.size):
        p[i] -= t * scale[i] * (g[i] + verlet * q[i])


@compiled
def drift(layout, problem, origin, target, p, t):
    q, q_new, scale = position(layout, origin), position(layout, target), scales(layout, problem)
    verlet = problem[setting(layout, at.SETTINGS_VERLET)]
    for i in range(p.size):
        if verlet != 0.0:
            q_new[i] = q[i] + t * scale[i] * p[i]
        else:
            c, s = cos(t * scale[i]), sin(t * scale[i])
            q_new[i], p[i] = c * q[i] + s * p[i], c * p[i] - s * q[i]


@compiled
def unconstrained_step(layout, problem, origin, target, p, t, first, last, scratch):
    """Make one step of size t from (origin, p) to (target, p), which is reversible as it is; return a status."""
    kick_scaled(layout, problem, origin, p, first)
    drift(layout, problem, origin, target, p, t)
    status = prepare_unconstrained(layout, problem, target, scratch)
    if status != CONVERGED:
        return status
    kick_scaled(layout, problem, target, p, last)
    return CONVERGED if finite(squared_norm(p)) else NON_FINITE
