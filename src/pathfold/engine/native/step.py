"""The constrained integrator step (paper, algorithm 1), with both splittings."""

from __future__ import annotations

from numpy import cos, fabs, sin

from pathfold.engine.status import CONVERGED, NON_FINITE, NON_REVERSIBLE

from .jit import compiled, once
from .newton import POSITION_TOLERANCE, solve_position
from .point import clear_idle, factorise, gradient, linearise, position, project, set_gradient, squared_norm
from .sizes import SETTINGS_VERLET
from .small import finite


@compiled
def rotation(problem, t):
    """(Gqq, Gqp) of the flow of h2: (cos t, sin t) for the Gaussian splitting, (1, t) for Stormer-Verlet."""
    if problem[SETTINGS_VERLET] == 0.0:
        return cos(t), sin(t)
    return 1.0, t


@compiled
def prepare(layout, problem, point, scratch):
    """Everything a step needs at its start: Jacobians, factor, projected gradient."""
    linearise(layout, problem, point, scratch)
    status = factorise(layout, problem, point)
    if status == CONVERGED:
        set_gradient(layout, problem, point, scratch)
    return status


@compiled
def position_step(layout, problem, origin, target, p, t, scratch, counts):
    """q' = Gqq q + Gqp (p - J^T lam) on the manifold; returns a status."""
    gqq, gqp = rotation(problem, t)
    q, q_new, displacement = position(layout, origin), position(layout, target), gradient(layout, target)
    for i in range(q.size):
        moved = gqq * q[i] + gqp * p[i]
        q_new[i] = moved
        displacement[i] = moved - q[i]
    status = solve_position(layout, problem, origin, target, scratch, counts)
    clear_idle(layout, q_new)
    return status


@compiled
def momentum_step(layout, problem, origin, target, p, t):
    """The momentum at q', before projection."""
    gqq, gqp = rotation(problem, t)
    q, q_new, inverse = position(layout, origin), position(layout, target), 1.0 / gqp
    for i in range(q.size):
        p[i] = (gqq * q_new[i] - q[i]) * inverse


@compiled
def copy(source, target):
    for i in range(source.size):
        target[i] = source[i]


@compiled
def kick(p, slope, t):
    """p <- p - t grad h1, the gradient being projected already."""
    for i in range(p.size):
        p[i] -= t * slope[i]


@once("i", "n", "a", "a", "a", "a", "a", "f", "a", "n")
def constrained_step(layout, problem, origin, target, back, p, t, scratch, counts):
    """One step of size t from (origin, p) to (target, p); returns a status.

    Half a kick by h1, the flow of h2 with the position held on the manifold, half a kick at the new point. The flow is
    undone from (q', p') with -t, by the same solver, and must come back to q.
    """
    kick(p, gradient(layout, origin), 0.5 * t)
    status = position_step(layout, problem, origin, target, p, t, scratch, counts)
    if status != CONVERGED:
        return status
    momentum_step(layout, problem, origin, target, p, t)
    linearise(layout, problem, target, scratch)
    status = factorise(layout, problem, target)
    if status != CONVERGED:
        return status
    project(layout, problem, target, p, scratch)
    status = position_step(layout, problem, target, back, p, -t, scratch, counts)
    if status != CONVERGED:
        return status
    q, returned = position(layout, origin), position(layout, back)
    for i in range(q.size):
        if not (fabs(returned[i] - q[i]) < 2.0 * POSITION_TOLERANCE):
            return NON_REVERSIBLE
    set_gradient(layout, problem, target, scratch)
    kick(p, gradient(layout, target), 0.5 * t)
    return CONVERGED if finite(squared_norm(p)) else NON_FINITE
