"""Unconstrained dynamics at a point q = [u; v0; v]: potential and its gradient; the step is leapfrog or Gaussian.

The potential is 1/2 |q|^2 + phi(q); the point holds q and the gradient of phi. Momenta p are those of q / scale, for
which the metric is the identity: with the metric diag(1 / scale^2) they move by dq = scale p, dp = -scale dU. The
Gaussian splitting turns q and p exactly under 1/2 q^2 + 1/2 p^2, by the angle scale t.
"""

from __future__ import annotations

from numpy import cos, sin

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .jit import compiled
from .run import run
from .small import finite
from .vectors import clear_idle, gradient, position, setting, squared_norm


@compiled
def scales(m):
    """Return the metric, one scale for each coordinate."""
    return m.problem[m.layout[at.PROBLEM_METRIC] : m.layout[at.PROBLEM_METRIC + at.END]]


@compiled
def prepare_unconstrained(m, point):
    """Compute the path, phi and its gradient by q; return a status."""
    sums, g = point[m.layout[at.POINT_SUMS] : m.layout[at.POINT_SUMS + at.END]], gradient(m.layout, point)
    misfit, gz, Z = m.layout[at.SUMS_MISFIT], m.layout[at.SUMS_GZ], m.layout[at.Z]
    sums[misfit] = 0.0
    sums[m.layout[at.SUMS_EXCESSES]] = 0.0
    for i in range(Z):
        sums[gz + i] = 0.0
    run(m, plans.PATH_GRADIENT, point, g)
    clear_idle(m.layout, g)
    return CONVERGED if finite(sums[misfit]) else NON_FINITE


@compiled
def unconstrained_potential(layout, point):
    """Return minus the log density of q."""
    sums = point[layout[at.POINT_SUMS] : layout[at.POINT_SUMS + at.END]]
    of_density = sums[layout[at.SUMS_MISFIT]] + sums[layout[at.SUMS_EXCESSES]]
    of_parameters = point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]]
    return 0.5 * squared_norm(position(layout, point)) + of_density + of_parameters


@compiled
def kick_scaled(m, point, p, t):
    """p <- p - t scale dphi, with the whole potential, 1/2 |q|^2 + phi, in the place of phi for Stormer-Verlet."""
    q, g, scale = position(m.layout, point), gradient(m.layout, point), scales(m)
    verlet = m.problem[setting(m.layout, at.SETTINGS_VERLET)]
    for i in range(p.size):
        p[i] -= t * scale[i] * (g[i] + verlet * q[i])


@compiled
def drift(m, origin, target, p, t):
    """q' = q + t scale p for Stormer-Verlet; else turn (q, p) by the angle t scale."""
    q, q_new, scale = position(m.layout, origin), position(m.layout, target), scales(m)
    verlet = m.problem[setting(m.layout, at.SETTINGS_VERLET)]
    for i in range(p.size):
        if verlet != 0.0:
            q_new[i] = q[i] + t * scale[i] * p[i]
        else:
            c, s = cos(t * scale[i]), sin(t * scale[i])
            q_new[i], p[i] = c * q[i] + s * p[i], c * p[i] - s * q[i]


@compiled
def unconstrained_step(m, origin, target, p, t, first, last):
    """Make one step of size t from (origin, p) to (target, p), which is reversible as it is; return a status."""
    kick_scaled(m, origin, p, first)
    drift(m, origin, target, p, t)
    status = prepare_unconstrained(m, target)
    if status != CONVERGED:
        return status
    kick_scaled(m, target, p, last)
    return CONVERGED if finite(squared_norm(p)) else NON_FINITE
