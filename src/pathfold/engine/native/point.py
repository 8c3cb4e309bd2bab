"""What is done at one point of the manifold: linearise, factorise, project vectors, gradient of h1, energy."""

from __future__ import annotations

from numpy import isfinite

from pathfold.engine.status import CONVERGED, NON_FINITE

from . import kernels
from .jit import compiled
from .sizes import (
    NODE_SIZE,
    NODE_X_NODE,
    NODE_X_START,
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
    L,
    U,
    X,
    Z,
)
from .small import invert, multiply


@compiled
def count_chunks(problem):
    return (problem.first[-1] + L - 1) // L


@compiled
def evaluate_start(problem, point):
    """Parameters z and initial states x_0 of the point, with their Jacobians."""
    kernels.parameters(0, 0, 0, point.q.u, point.theta)
    for k in range(problem.first.size - 1):
        kernels.start_states(k, 0, 0, point.theta, point.q.v0, point.start)


@compiled
def link_intervals(problem, point):
    """Let every interval begin at its node; idle lanes of the last chunk repeat the last interval."""
    first, node = problem.first, point.node
    for k in range(first.size - 1):
        kernels.link(k, first[k], first[k + 1], point.start, node, problem.grid)
    last = first[-1] - 1
    source = (last // L) * NODE_SIZE * L + last % L
    for n in range(last + 1, count_chunks(problem) * L):
        target = (n // L) * NODE_SIZE * L + n % L
        for i in range(X):
            node[target + (NODE_X_START + i) * L] = node[source + (NODE_X_START + i) * L]
            node[target + (NODE_X_NODE + i) * L] = node[source + (NODE_X_NODE + i) * L]


@compiled
def linearise(problem, point, scratch):
    """Path and Jacobians at the point, from its noise and node states (linear-time section 1)."""
    evaluate_start(problem, point)
    link_intervals(problem, point)
    S, settings, grid, carry = problem.S, problem.settings, problem.grid, scratch.carry
    theta, node, path, q = point.theta, point.node, point.path, point.q
    for c in range(count_chunks(problem)):
        kernels.simulate(c, S, settings, grid, theta, q.v, node, path, carry)
        kernels.linearise(c, S, settings, grid, theta, q.v, node, path, carry)
        kernels.observe(c, S, grid, theta, q.w, node, carry)


@compiled
def factorise(problem, point):
    """Factor of the Gram matrix and log|G| (linear-time section 2); fails when it is not finite or not positive."""
    sums, first = point.sums, problem.first
    reset_woodbury(sums)
    for k in range(first.size - 1):
        kernels.factorise(k, first[k], first[k + 1], problem.grid, point.start, point.node, sums)
    sums[SUMS_LOG_DET] += invert(sums[SUMS_C : SUMS_C + U * U], sums[SUMS_C_INV : SUMS_C_INV + U * U], U)
    return CONVERGED if isfinite(sums[SUMS_LOG_DET]) else NON_FINITE


@compiled
def reset_woodbury(sums):
    """C = I, log|G| = 0, before the sums over nodes."""
    sums[SUMS_LOG_DET] = 0.0
    for i in range(U):
        for j in range(U):
            sums[SUMS_C + i * U + j] = 1.0 if i == j else 0.0


@compiled
def solve_pushed(problem, point, p, scratch):
    """Multipliers of J^T G^{-1} J p in `work` (lam, eta), `sums` (a) and `newton_start`, once `work` holds B p_v."""
    sums, first, work = point.sums, problem.first, scratch.work
    for i in range(U):
        sums[SUMS_B + i] = 0.0
    for k in range(first.size - 1):
        kernels.filter_vector(
            k, first[k], first[k + 1], problem.grid, p.u, p.v0, p.w, point.start, point.node, work, sums
        )
    multiply(sums[SUMS_C_INV : SUMS_C_INV + U * U], sums[SUMS_B : SUMS_B + U], sums[SUMS_A : SUMS_A + U], U)
    for k in range(first.size - 1):
        kernels.smooth_vector(
            k, first[k], first[k + 1], problem.grid, point.start, point.node, work, sums, scratch.newton_start
        )


@compiled
def pull_start(p, sums, newton_start):
    """The parts of J^T lam for the parameters and the initial states: u -= a, v0 -= B0^T zeta_0."""
    for i in range(U):
        p.u[i] -= sums[SUMS_A + i]
    for i in range(p.v0.size):
        p.v0[i] -= newton_start[i]


@compiled
def project(problem, point, p, scratch):
    """p <- p - J^T G^{-1} J p: onto the cotangent space at the point (linear-time section 3)."""
    S, carry, work = problem.S, scratch.carry, scratch.work
    for c in range(count_chunks(problem)):
        kernels.push(c, S, point.path, p.v, work, carry)
    solve_pushed(problem, point, p, scratch)
    for c in range(count_chunks(problem)):
        kernels.pull(c, S, point.path, p.v, p.w, point.node, work, carry)
    pull_start(p, point.sums, scratch.newton_start)


@compiled
def set_gradient(problem, point, scratch):
    """The gradient of h1, projected onto the cotangent space (linear-time section 4)."""
    S, settings, grid, first = problem.S, problem.settings, problem.grid, problem.first
    theta, start, node, path, sums = point.theta, point.start, point.node, point.path, point.sums
    q, g, carry, work, slope = point.q, point.gradient, scratch.carry, scratch.work, scratch.slope
    for i in range(Z * U):
        sums[SUMS_WD + i] = 0.0
    for i in range(Z):
        sums[SUMS_GZ + i] = 0.0
    for i in range(U):
        sums[SUMS_GU + i] = 0.0
    for k in range(first.size - 1):
        kernels.weights(k, first[k], first[k + 1], grid, theta, start, node, work, sums, scratch.gradient_start)
    for c in range(count_chunks(problem)):
        kernels.spread(c, S, settings, grid, theta, q.v, path, work, slope, carry)
        kernels.curvature(c, S, settings, grid, theta, q.v, path, work, slope, carry)
        kernels.observe_curvature(c, S, settings, grid, theta, q.w, node, work, g.w, carry)
    for k in range(first.size - 1):
        kernels.pull_back(k, first[k], first[k + 1], grid, node, work, sums, scratch.gradient_start)
        kernels.start_curvature(k, 0, 0, settings, theta, q.v0, start, sums, scratch.gradient_start, g.v0)
    kernels.parameter_gradient(0, 0, 0, settings, q.u, theta, sums, g.u)
    solve_pushed(problem, point, g, scratch)
    for c in range(count_chunks(problem)):
        kernels.gradient_vector(c, S, path, slope, node, work, g.v, g.w, carry)
    pull_start(g, sums, scratch.newton_start)


@compiled
def squared_norm(vector):
    total = 0.0
    for i in range(vector.size):
        total += vector[i] * vector[i]
    return total


@compiled
def potential(problem, point):
    """l(q) = 1/2 q.q + excess of the priors + 1/2 log|G|: minus the log density on the manifold."""
    total = 0.5 * squared_norm(point.q.all) + point.theta[THETA_EXCESS_U] + 0.5 * point.sums[SUMS_LOG_DET]
    for k in range(problem.first.size - 1):
        total += point.start[k * START_SIZE + START_EXCESS_X0]
    return total


@compiled
def hamiltonian(problem, point, p):
    """h(q, p) = l(q) + 1/2 p.p (the metric is the identity)."""
    return potential(problem, point) + 0.5 * squared_norm(p.all)
