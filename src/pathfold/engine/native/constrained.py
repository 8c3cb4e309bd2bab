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
def rotation(layout, problem, t):
    """Return (Gqq, Gqp) of the flow of h2: (cos t, sin t) for the Gaussian splitting, (1, t) for Stormer-Verlet."""
    if problem[setting(layout, at.SETTINGS_VERLET)] == 0.0:
        return cos(t), sin(t)
    return 1.0, t


@compiled
def prepare_constrained(layout, problem, point, scratch):
    """Compute everything a step needs at its start: Jacobians, factor, projected gradient."""
    status = linearise_and_factorise(layout, problem, point, scratch)
    if status == CONVERGED:
        set_gradient(layout, problem, point, scratch)
    return status


@compiled
def position_step(layout, problem, origin, target, goal, p, t, scratch, counts):
    """q' = Gqq q + Gqp (p - J^T lam) on the manifold; returns a status. For `goal` see `solve_position`."""
    gqq, gqp = rotation(layout, problem, t)
    displace(layout, gqq, origin, gqp, p, target, scratch)
    status = solve_position(layout, problem, origin, target, goal, scratch, counts)
    clear_idle(layout, position(layout, target))
    return status


@compiled
def momentum_step(layout, problem, origin, target, p, t, scratch):
    """Compute the momentum at q', before projection: (Gqq q' - q) / Gqp."""
    gqq, gqp = rotation(layout, problem, t)
    combine(layout, gqq / gqp, position(layout, target), -1.0 / gqp, position(layout, origin), p, scratch)


@compiled
def kick(layout, p, slope, t, scratch):
    """p <- p - t grad h1, the gradient being projected already; return the squared norm."""
    return add(layout, -t, slope, p, scratch)


@compiled
def constrained_step(layout, problem, origin, target, back, p, t, first, last, scratch, counts):
    """Make one step of size t from (origin, p) to (target, p); return a status.

    A kick by h1 for the time `first`, the flow of h2 with the position held on the manifold, a kick at the new point
    for the time `last`. The flow is undone from (q', p') with -t, by the same solver, and must come back to q.
    """
    kick(layout, p, gradient(layout, origin), first, scratch)
    status = position_step(layout, problem, origin, target, position(layout, origin)[:0], p, t, scratch, counts)
    if status != CONVERGED:
        return status
    momentum_step(layout, problem, origin, target, p, t, scratch)
    status = linearise_and_factorise(layout, problem, target, scratch)
    if status != CONVERGED:
        return status
    project(layout, problem, target, p, scratch)
    q, returned = position(layout, origin), position(layout, back)
    status = position_step(layout, problem, target, back, q, p, -t, scratch, counts)
    if status != RETURNED:
        if status != CONVERGED:
            return status
        allowed = RETURN_TOLERANCE * problem[setting(layout, at.SETTINGS_POSITION_TOLERANCE)]
        if not (largest_difference(layout, returned, q, scratch) < allowed):
            return NON_REVERSIBLE
    set_gradient(layout, problem, target, scratch)
    return CONVERGED if finite(kick(layout, p, gradient(layout, target), last, scratch)) else NON_FINITE
