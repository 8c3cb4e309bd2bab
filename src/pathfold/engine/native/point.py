"""What is done at one point of the manifold: linearise, factorise, project vectors, gradient of h1, energy.

A point is one block of memory: the position q, the projected gradient of h1, and the records of what is known there.
"""

from __future__ import annotations

from pathfold.engine.status import CONVERGED, NON_FINITE

from . import kernels
from .jit import compiled, once
from .sizes import (
    CHUNKS,
    FIRST,
    NEWTON_GAP,
    NEWTON_O,
    NEWTON_SIZE,
    NODE_EXCESS_W,
    NODE_SIZE,
    NODE_X_NODE,
    NODE_X_START,
    POINT_NODE,
    POINT_START,
    POINT_SUMS,
    POINT_THETA,
    SCRATCH_NEWTON,
    SCRATCH_NEWTON_SUMS,
    SCRATCH_START_MULTIPLIERS,
    SERIES,
    START_EXCESS_X0,
    START_SIZE,
    SUMS_A,
    SUMS_B,
    SUMS_C,
    SUMS_C_INV,
    SUMS_GU,
    SUMS_GZ,
    SUMS_LOG_DET,
    SUMS_WD,
    THETA_EXCESS_U,
    VECTOR_U,
    VECTOR_V0,
    L,
    U,
    X,
    Y,
    Z,
)
from .small import finite, invert
from .vector import clear_idle, gradient, position, squared_norm

CORRECTIONS = 3  # of the parameters' multipliers a, from zero: the plain solve and two refinements


@compiled
def sums_of(layout, point):
    return point[layout[POINT_SUMS] : layout[POINT_SUMS + 1]]


@compiled
def evaluate_start(layout, point):
    """Parameters z and initial states x_0 of the point, with their Jacobians."""
    kernels.parameters(0, layout, point)
    for k in range(layout[SERIES]):
        kernels.start_states(k, layout, point)


@compiled
def link_intervals(layout, problem, point):
    """Let every interval begin at its node; idle lanes of the last chunk repeat the last interval."""
    for k in range(layout[SERIES]):
        kernels.link(k, layout, problem, point)
    node = point[layout[POINT_NODE] : layout[POINT_NODE + 1]]
    last = layout[layout[FIRST] + layout[SERIES]] - 1
    source = (last // L) * NODE_SIZE * L + last % L
    for n in range(last + 1, layout[CHUNKS] * L):
        target = (n // L) * NODE_SIZE * L + n % L
        for i in range(X):
            node[target + (NODE_X_START + i) * L] = node[source + (NODE_X_START + i) * L]
            node[target + (NODE_X_NODE + i) * L] = node[source + (NODE_X_NODE + i) * L]


@once("", "n", "a", "a", "a")
def linearise(layout, problem, point, scratch):
    """Path and Jacobians at the point, from its noise and node states (linear-time section 1)."""
    evaluate_start(layout, point)
    link_intervals(layout, problem, point)
    for c in range(layout[CHUNKS]):
        kernels.simulate(c, layout, problem, point, scratch)
        kernels.linearise(c, layout, problem, point, scratch)
        kernels.observe(c, layout, problem, point, scratch)


@compiled
def reset_woodbury(sums):
    """C = I, log|G| = 0, before the sums over nodes."""
    sums[SUMS_LOG_DET] = 0.0
    for i in range(U):
        for j in range(U):
            sums[SUMS_C + i * U + j] = 1.0 if i == j else 0.0


@once("i", "n", "a", "a")
def factorise(layout, problem, point):
    """Factor of the Gram matrix and log|G| (linear-time section 2); fails when it is not finite or not positive."""
    sums = sums_of(layout, point)
    reset_woodbury(sums)
    for k in range(layout[SERIES]):
        kernels.factorise(k, layout, problem, point)
    sums[SUMS_LOG_DET] += invert(sums[SUMS_C : SUMS_C + U * U], sums[SUMS_C_INV : SUMS_C_INV + U * U], U)
    return CONVERGED if finite(sums[SUMS_LOG_DET]) else NON_FINITE


@compiled
def newton_sums(layout, scratch):
    return scratch[layout[SCRATCH_NEWTON_SUMS] : layout[SCRATCH_NEWTON_SUMS + 1]]


@compiled
def clear_residuals(layout, scratch):
    """On the manifold there are no gaps and no misfits."""
    for c in range(layout[CHUNKS]):
        base = layout[SCRATCH_NEWTON] + c * NEWTON_SIZE * L
        for i in range(base + NEWTON_GAP * L, base + (NEWTON_O + Y) * L):
            scratch[i] = 0.0


@compiled
def correct(inverse, sums):
    """a += C^{-1} (b - a)."""
    for i in range(U):
        sums[SUMS_B + i] -= sums[SUMS_A + i]
    for i in range(U):
        for j in range(U):
            sums[SUMS_A + i] += inverse[i * U + j] * sums[SUMS_B + j]


@compiled
def clear(sums, at):
    """Set a parameter vector among the sums to zero."""
    for i in range(U):
        sums[at + i] = 0.0


@compiled
def solve_pushed(layout, problem, point, vector, scratch):
    """Multipliers lam, eta, a, zeta_0 of J^T G^{-1} (J p + residuals), once `work` holds sum B p_v."""
    sums, at = newton_sums(layout, scratch), layout[POINT_SUMS] + SUMS_C_INV
    for k in range(layout[SERIES]):
        kernels.filter_vector(k, layout, problem, point, vector, scratch)
    clear(sums, SUMS_A)
    for _ in range(CORRECTIONS):
        clear(sums, SUMS_B)
        for k in range(layout[SERIES]):
            kernels.unexplained(k, layout, point, scratch)
        correct(point[at : at + U * U], sums)
    for k in range(layout[SERIES]):
        kernels.smooth_vector(k, layout, problem, point, scratch)


@compiled
def pull_start(layout, vector, scratch):
    """The parts of J^T lam for the parameters and the initial states: u -= a, v0 -= B0^T zeta_0."""
    for i in range(U):
        vector[layout[VECTOR_U] + i] -= scratch[layout[SCRATCH_NEWTON_SUMS] + SUMS_A + i]
    for i in range(layout[VECTOR_V0 + 1] - layout[VECTOR_V0]):
        vector[layout[VECTOR_V0] + i] -= scratch[layout[SCRATCH_START_MULTIPLIERS] + i]


@once("", "n", "a", "a", "a", "a")
def project(layout, problem, point, vector, scratch):
    """p <- p - J^T G^{-1} J p: onto the cotangent space at the point (linear-time section 3)."""
    clear_residuals(layout, scratch)
    for c in range(layout[CHUNKS]):
        kernels.push(c, layout, point, vector, scratch)
    solve_pushed(layout, problem, point, vector, scratch)
    for c in range(layout[CHUNKS]):
        kernels.pull(c, layout, point, vector, scratch)
    pull_start(layout, vector, scratch)
    clear_idle(layout, vector)


@once("", "n", "a", "a", "a")
def set_gradient(layout, problem, point, scratch):
    """The gradient of h1, projected onto the cotangent space (linear-time section 4)."""
    sums, g = sums_of(layout, point), gradient(layout, point)
    for i in range(Z * U):
        sums[SUMS_WD + i] = 0.0
    for i in range(Z):
        sums[SUMS_GZ + i] = 0.0
    for i in range(U):
        sums[SUMS_GU + i] = 0.0
    for k in range(layout[SERIES]):
        kernels.weights(k, layout, problem, point, scratch)
    for c in range(layout[CHUNKS]):
        kernels.spread(c, layout, problem, point, scratch)
        kernels.curvature(c, layout, problem, point, scratch)
        kernels.observe_curvature(c, layout, problem, point, g, scratch)
    for k in range(layout[SERIES]):
        kernels.pull_back(k, layout, problem, point, scratch)
        kernels.start_curvature(k, layout, problem, point, g, scratch)
    kernels.parameter_gradient(0, layout, problem, point, g)
    clear_residuals(layout, scratch)
    solve_pushed(layout, problem, point, g, scratch)
    for c in range(layout[CHUNKS]):
        kernels.gradient_vector(c, layout, point, g, scratch)
    pull_start(layout, g, scratch)
    clear_idle(layout, g)


@compiled
def potential(layout, point):
    """l(q) = 1/2 q.q + excess of the priors and the noise + 1/2 log|G|: minus the log density on the manifold."""
    total = 0.5 * squared_norm(position(layout, point)) + 0.5 * sums_of(layout, point)[SUMS_LOG_DET]
    total += point[layout[POINT_THETA] + THETA_EXCESS_U]
    for k in range(layout[SERIES]):
        total += point[layout[POINT_START] + k * START_SIZE + START_EXCESS_X0]
    for n in range(layout[layout[FIRST] + layout[SERIES]]):
        total += point[layout[POINT_NODE] + ((n // L) * NODE_SIZE + NODE_EXCESS_W) * L + n % L]
    return total


@once("f", "n", "a", "a")
def hamiltonian(layout, point, vector):
    """h(q, p) = l(q) + 1/2 p.p (the metric is the identity)."""
    return potential(layout, point) + 0.5 * squared_norm(vector)
