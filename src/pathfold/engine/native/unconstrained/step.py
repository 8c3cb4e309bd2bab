"""A step of unconstrained dynamics in place of the constrained one: leapfrog, or the Gaussian splitting.

With the metric diag(1 / scale^2) a coordinate q and the momentum p of q / scale move by dq = scale p, dp = -scale dU.
The Gaussian splitting turns them exactly under 1/2 q^2 + 1/2 p^2, by the angle scale t.
"""

from __future__ import annotations

from numpy import cos, sin

from pathfold.engine.status import CONVERGED, NON_FINITE

from .jit import compiled
from .point import evaluate, gradient, position, scales, squared_norm
from .sizes import SETTINGS_VERLET
from .small import finite


@compiled
def copy(source, target):
    for i in range(source.size):
        target[i] = source[i]


@compiled
def prepare(layout, problem, point, scratch):
    return evaluate(layout, problem, point, scratch)


@compiled
def kick(layout, problem, point, p, t):
    """By the gradient of the potential, or of what the Gaussian splitting leaves of it."""
    q, g, scale = position(layout, point), gradient(layout, point), scales(layout, problem)
    verlet = problem[SETTINGS_VERLET]
    for i in range(p.size):
        p[i] -= t * scale[i] * (g[i] + verlet * q[i])


@compiled
def drift(layout, problem, origin, target, p, t):
    q, q_new, scale = position(layout, origin), position(layout, target), scales(layout, problem)
    for i in range(p.size):
        if problem[SETTINGS_VERLET] != 0.0:
            q_new[i] = q[i] + t * scale[i] * p[i]
        else:
            c, s = cos(t * scale[i]), sin(t * scale[i])
            q_new[i], p[i] = c * q[i] + s * p[i], c * p[i] - s * q[i]


@compiled
def constrained_step(layout, problem, origin, target, back, p, t, scratch, counts):
    """One step of size t from (origin, p) to (target, p); returns a status. It is reversible as it stands."""
    kick(layout, problem, origin, p, 0.5 * t)
    drift(layout, problem, origin, target, p, t)
    status = evaluate(layout, problem, target, scratch)
    if status != CONVERGED:
        return status
    kick(layout, problem, target, p, 0.5 * t)
    return CONVERGED if finite(squared_norm(p)) else NON_FINITE
