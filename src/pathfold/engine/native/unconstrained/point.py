"""What is done at a point q = [u; v0; v]: potential and its gradient.

The potential is 1/2 |q|^2 + phi(q); the point holds q and the gradient of phi. Momenta are those of q / scale, for
which the metric is the identity.
"""

from __future__ import annotations

from pathfold.engine.status import CONVERGED, NON_FINITE

from . import kernels
from .jit import compiled, once
from .sizes import (
    POINT_START,
    POINT_SUMS,
    POINT_THETA,
    SERIES,
    START_EXCESS_X0,
    START_SIZE,
    SUMS_GZ,
    SUMS_MISFIT,
    THETA_EXCESS_U,
    VECTOR_V,
    Z,
)
from .small import finite
from .vector import clear_idle, gradient, position, squared_norm


@compiled
def scales(layout, problem):
    """The metric, one scale a coordinate, follows the problem."""
    return problem[problem.size - layout[VECTOR_V + 1] :]


@once("i", "n", "a", "a", "a")
def evaluate(layout, problem, point, scratch):
    """Path, phi and its gradient by q; returns a status."""
    sums, g = point[layout[POINT_SUMS] : layout[POINT_SUMS + 1]], gradient(layout, point)
    kernels.parameters(0, layout, point)
    sums[SUMS_MISFIT] = 0.0
    for i in range(Z):
        sums[SUMS_GZ + i] = 0.0
    for k in range(layout[SERIES]):
        kernels.start_states(k, layout, point)
        kernels.path(k, layout, problem, point)
    for k in range(layout[SERIES]):
        kernels.pull_back(k, layout, problem, point, g, scratch)
        kernels.start_gradient(k, layout, point, g, scratch)
    kernels.parameter_gradient(0, layout, point, g)
    clear_idle(layout, g)
    return CONVERGED if finite(sums[SUMS_MISFIT]) else NON_FINITE


@compiled
def potential(layout, point):
    """Minus the log density of q."""
    total = 0.5 * squared_norm(position(layout, point)) + point[layout[POINT_SUMS] + SUMS_MISFIT]
    total += point[layout[POINT_THETA] + THETA_EXCESS_U]
    for k in range(layout[SERIES]):
        total += point[layout[POINT_START] + k * START_SIZE + START_EXCESS_X0]
    return total


@compiled
def hamiltonian(layout, point, p):
    return potential(layout, point) + 0.5 * squared_norm(p)
