"""The constrained integrator step (paper, algorithm 1), with both splittings."""

from __future__ import annotations

from numpy import cos, fabs, isfinite, sin

from pathfold.engine.status import CONVERGED, NON_FINITE, NON_REVERSIBLE

from .jit import compiled
from .newton import POSITION_TOLERANCE, solve_position
from .point import factorise, linearise, project, set_gradient, squared_norm
from .sizes import SETTINGS_VERLET


@compiled
def rotation(problem, t):
    """(Gqq, Gqp) of the flow of h2: (cos t, sin t) for the Gaussian splitting, (1, t) for Stormer-Verlet."""
    if problem.settings[SETTINGS_VERLET] == 0.0:
        return cos(t), sin(t)
    return 1.0, t


@compiled
def prepare(problem, point, scratch):
    """Everything a step needs at its start: Jacobians, factor, projected gradient."""
    linearise(problem, point, scratch)
    status = factorise(problem, point)
    if status == CONVERGED:
        set_gradient(problem, point, scratch)
    return status


@compiled
def position_step(problem, origin, target, p, t, scratch, counts):
    """target.q = Gqq q + Gqp (p - J^T lam) on the manifold; the momentum before projection replaces p."""
    gqq, gqp = rotation(problem, t)
    q, q_new = origin.q.all, target.q.all
    for i in range(q.size):
        q_new[i] = gqq * q[i] + gqp * p.all[i]
    status = solve_position(problem, origin, target, scratch, counts)
    for i in range(q.size):
        p.all[i] = (gqq * q_new[i] - q[i]) / gqp
    return status


@compiled
def kick(p, gradient, t):
    """p <- p - t grad h1, the gradient being projected already."""
    for i in range(p.size):
        p[i] -= t * gradient[i]


@compiled
def constrained_step(problem, origin, target, back, p, p_back, t, scratch, counts):
    """One step of size t from (origin, p) to (target, p); returns a status.

    Half a kick by h1, the flow of h2 with the position held on the manifold, half a kick at the new point. The flow is
    undone from (q', p') with -t, by the same solver, and must come back to q.
    """
    kick(p.all, origin.gradient.all, 0.5 * t)
    status = position_step(problem, origin, target, p, t, scratch, counts)
    if status != CONVERGED:
        return status
    linearise(problem, target, scratch)
    status = factorise(problem, target)
    if status != CONVERGED:
        return status
    project(problem, target, p, scratch)
    p_back.all[:] = p.all
    status = position_step(problem, target, back, p_back, -t, scratch, counts)
    if status != CONVERGED:
        return status
    for i in range(p.all.size):
        if not (fabs(back.q.all[i] - origin.q.all[i]) < 2.0 * POSITION_TOLERANCE):
            return NON_REVERSIBLE
    set_gradient(problem, target, scratch)
    kick(p.all, target.gradient.all, 0.5 * t)
    return CONVERGED if isfinite(squared_norm(p.all)) else NON_FINITE
