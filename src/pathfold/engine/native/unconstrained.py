"""Unconstrained dynamics: the step is leapfrog, or the Gaussian splitting.

With the metric diag(1 / scale^2) a coordinate q and the momentum p of q / scale move by dq = scale p, dp = -scale dU.
The Gaussian splitting turns them exactly under 1/2 q^2 + 1/2 p^2, by the angle scale t.
"""

from __future__ import annotations

from numpy import cos, sin

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .density import evaluate, scales
from .jit import compiled
from .small import finite
from .vector import draw_normals, gradient, position, squared_norm


@compiled
def draw_momentum(layout, p, rng):
    """Standard normal, the momentum of q / scale."""
    draw_normals(layout, p, rng)


@compiled
def kick(layout, problem, point, p, t):
    """By the gradient of the potential, or of what the Gaussian splitting leaves of it."""
    q, g, scale = position(layout, point), gradient(layout, point), scales(layout, problem)
    verlet = problem[layout[at.PROBLEM_SETTINGS] + layout[at.SETTINGS_VERLET]]
    for i in range(p.size):
        p[i] -= t * scale[i] * (g[i] + verlet * q[i])


@compiled
def drift(layout, problem, origin, target, p, t):
    q, q_new, scale = position(layout, origin), position(layout, target), scales(layout, problem)
    verlet = problem[layout[at.PROBLEM_SETTINGS] + layout[at.SETTINGS_VERLET]]
    for i in range(p.size):
        if verlet != 0.0:
            q_new[i] = q[i] + t * scale[i] * p[i]
        else:
            c, s = cos(t * scale[i]), sin(t * scale[i])
            q_new[i], p[i] = c * q[i] + s * p[i], c * p[i] - s * q[i]


@compiled
def unconstrained_step(layout, problem, origin, target, p, t, scratch):
    """One step of size t from (origin, p) to (target, p); returns a status. It is reversible as it stands."""
    kick(layout, problem, origin, p, 0.5 * t)
    drift(layout, problem, origin, target, p, t)
    status = evaluate(layout, problem, target, scratch)
    if status != CONVERGED:
        return status
    kick(layout, problem, target, p, 0.5 * t)
    return CONVERGED if finite(squared_norm(p)) else NON_FINITE
