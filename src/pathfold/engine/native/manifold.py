"""Computations at one point of the manifold: linearise, factorise, project vectors, gradient of h1, energy, shift.

A point is one block of memory: the position q, the projected gradient of h1, and the records of what is known there.
"""

from __future__ import annotations

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .jit import compiled
from .run import run
from .small import finite
from .vector import clear_idle, gradient, position, squared_norm


@compiled
def sums_of(layout, point):
    return point[layout[at.POINT_SUMS] : layout[at.POINT_SUMS + at.END]]


@compiled
def linearise(m, point):
    """Compute path and Jacobians at the point, from its noise and node states (method.md, section 3)."""
    run(m, plans.LINEARISE, point, point)


@compiled
def factor_status(m, point):
    """Return a status: log|G| is not finite where G is not, or is not positive."""
    return CONVERGED if finite(sums_of(m.layout, point)[m.layout[at.SUMS_LOG_DET]]) else NON_FINITE


@compiled
def factorise(m, point):
    """Compute the factor of the Gram matrix and log|G| (method.md, section 4), once linearised; return a status."""
    run(m, plans.FACTOR, point, point)
    return factor_status(m, point)


@compiled
def linearise_and_factorise(m, point):
    """Compute path, Jacobians and factor at the point; return a status."""
    run(m, plans.LINEARISE_AND_FACTOR, point, point)
    return factor_status(m, point)


@compiled
def project(m, point, vector):
    """p <- p - J^T G^{-1} J p: onto the cotangent space at the point (method.md, section 5)."""
    run(m, plans.PROJECT, point, vector)
    clear_idle(m.layout, vector)


@compiled
def remove_normal(m, point, vector):
    """p <- p - J^T G^{-1} (J p + residuals), with gaps and misfits as they are in scratch."""
    run(m, plans.REMOVE_NORMAL, point, vector)
    clear_idle(m.layout, vector)


@compiled
def set_gradient(m, point):
    """Compute the gradient of h1, projected onto the cotangent space (method.md, section 6)."""
    run(m, plans.GRADIENT, point, gradient(m.layout, point))
    clear_idle(m.layout, gradient(m.layout, point))


@compiled
def constrained_potential(layout, point):
    """l(q) = 1/2 q.q + excess of the priors and the noise + 1/2 log|G|: minus the log density on the manifold."""
    sums, of_parameters = sums_of(layout, point), point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]]
    excess = of_parameters + sums[layout[at.SUMS_EXCESSES]]
    return 0.5 * squared_norm(position(layout, point)) + 0.5 * sums[layout[at.SUMS_LOG_DET]] + excess


@compiled
def first_order_shift(m, point, vector):
    """Write u and v0 of -J^T G^{-1} c, with c the gaps and misfits at the point, to the vector, which is zero on entry.

    To first order their posterior means change by this when the constraints change by c. The scratch has the weights of
    the initial states' Jacobians, which their posterior covariance is made of. Returns a status.
    """
    status = linearise_and_factorise(m, point)
    run(m, plans.SHIFT, point, vector)
    return status
