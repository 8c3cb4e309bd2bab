"""Constrained dynamics (method.md, section 7): momenta on the cotangent space, the step with both splittings."""

from __future__ import annotations

from numpy import cos, sin

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE, NON_REVERSIBLE, RETURNED

from .jit import compiled
from .lanes import setting
from .manifold import linearise_and_factorise, project, set_gradient
from .projection import solve_position
from .shares import add, combine, displace, largest_difference
from .small import finite
from .thresholds import RETURN_TOLERANCE
from .vector import clear_idle, gradient, position


@compiled
def rotation(m, t):
    """Return (Gqq, Gqp) of the flow of h2: (cos t, sin t) for the Gaussian splitting, (1, t) for Stormer-Verlet."""
    if m.problem[setting(m.layout, at.SETTINGS_VERLET)] == 0.0:
        return cos(t), sin(t)
    return 1.0, t


@compiled
def prepare_constrained(m, point):
    """Compute everything a step needs at its start: Jacobians, factor, projected gradient."""
    status = linearise_and_factorise(m, point)
    if status == CONVERGED:
        set_gradient(m, point)
    return status


@compiled
def position_step(m, origin, target, goal, p, t, counts):
    """q' = Gqq q + Gqp (p - J^T lam) on the manifold; returns a status. For `goal` see `solve_position`."""
    gqq, gqp = rotation(m, t)
    displace(m, gqq, origin, gqp, p, target)
    status = solve_position(m, origin, target, goal, counts)
    clear_idle(m.layout, position(m.layout, target))
    return status


@compiled
def momentum_step(m, origin, target, p, t):
    """Compute the momentum at q', before projection: (Gqq q' - q) / Gqp."""
    gqq, gqp = rotation(m, t)
    combine(m, gqq / gqp, position(m.layout, target), -1.0 / gqp, position(m.layout, origin), p)


@compiled
def kick(m, p, slope, t):
    """p <- p - t grad h1, the gradient being projected already; return the squared norm."""
    return add(m, -t, slope, p)


@compiled
def constrained_step(m, origin, target, back, p, t, first, last, counts):
    """Make one step of size t from (origin, p) to (target, p); return a status.

    A kick by h1 for the time `first`, the flow of h2 with the position held on the manifold, a kick at the new point
    for the time `last`. The flow is undone from (q', p') with -t, by the same solver, and must come back to q.
    """
    kick(m, p, gradient(m.layout, origin), first)
    status = position_step(m, origin, target, position(m.layout, origin)[:0], p, t, counts)
    if status != CONVERGED:
        return status
    momentum_step(m, origin, target, p, t)
    status = linearise_and_factorise(m, target)
    if status != CONVERGED:
        return status
    project(m, target, p)
    q, returned = position(m.layout, origin), position(m.layout, back)
    status = position_step(m, target, back, q, p, -t, counts)
    if status != RETURNED:
        if status != CONVERGED:
            return status
        allowed = RETURN_TOLERANCE * m.problem[setting(m.layout, at.SETTINGS_POSITION_TOLERANCE)]
        if not (largest_difference(m, returned, q) < allowed):
            return NON_REVERSIBLE
    set_gradient(m, target)
    return CONVERGED if finite(kick(m, p, gradient(m.layout, target), last)) else NON_FINITE
