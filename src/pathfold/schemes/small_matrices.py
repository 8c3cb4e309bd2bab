"""Inverse, Cholesky factor and integrals of the exponential of small matrices, written out for scalar programs."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

DOUBLINGS = 5  # a step is made of 2^5 pieces, over each of which the exponential is rational
NODES = 0.5 + np.sqrt(0.15) * np.array([-1.0, 0.0, 1.0])  # of Gauss and Legendre's rule on [0, 1]
WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18.0
NO_DIGITS = 1e-13  # a pivot below this share of its variance is rounding


@jax.custom_jvp
def inverse(matrix: Array) -> Array:
    """Return the inverse by elimination without exchanges, for matrices near the identity or dissipative."""
    n = len(matrix)
    rows = jnp.concatenate([matrix, jnp.eye(n)], axis=1)
    for k in range(n):
        row = rows[k] / rows[k, k]
        rows = jnp.where((np.arange(n) == k)[:, None], row, rows - jnp.outer(rows[:, k], row))
    return rows[:, n:]


@inverse.defjvp
def _derivative_of_inverse(matrices, directions):
    found = inverse(*matrices)
    return found, -found @ directions[0] @ found


def cholesky(covariance: Array) -> Array:
    """Return the lower factor L with L L^T the covariance, with zeros for what has no variance of its own."""
    n = len(covariance)
    factor = jnp.zeros((n, n))
    for j in range(n):
        rest = covariance[:, j] - factor @ factor[j]
        own = rest[j] > NO_DIGITS * covariance[j, j]
        column = rest / jnp.sqrt(jnp.where(own, rest[j], 1.0))
        factor = factor.at[:, j].set(jnp.where(own & (np.arange(n) >= j), column, 0.0))
    return factor


class Integrals(NamedTuple):
    """Integrals over a step of length d of the exponential e^{As} of a matrix A.

    once = int_0^d e^{As} ds; twice = int_0^d (d - s) e^{As} ds; spread (pairs, X, X), for each entry S_ij of a
    symmetric matrix, in the order of `np.tril_indices`, what it adds to int_0^d e^{As} S e^{A^T s} ds.
    """

    once: Array
    twice: Array
    spread: Array

    def covariance(self, rate: Array) -> Array:
        """Return int_0^d e^{As} S e^{A^T s} ds for the covariance S of white noise per unit of time."""
        return jnp.einsum("p,pab->ab", rate[np.tril_indices(len(rate))], self.spread)


def integrals(matrix: Array, length: Any) -> Integrals:
    """Return the integrals of the exponential, by Gauss and Legendre's collocation in pieces that are doubled.

    Over a piece of length h, e^{As} at the nodes is a rational function of Z = A h with the denominator of Pade's
    approximation [3/3], of order 6; then int_0^2h = int_0^h + e^{Ah} int_0^h. All are sums of products, stable for
    eigenvalues however far left, and fulfil A once = e^{Ad} - I and Lyapunov's equation, A Q + Q A^T =
    e^{Ad} S e^{A^T d} - S, to rounding. The error is about 1e-14 |A d|^7 where e^{Ad} has not decayed; eigenvalues
    beyond |A d| = 2,000 decay too slowly (Hairer and Wanner 1996, section IV.5; Van Loan 1978, on the problem).
    """
    n, h = len(matrix), length / 2**DOUBLINGS
    one, Z = jnp.eye(n), h * matrix
    Z2 = Z @ Z
    below = inverse(one - Z / 2 + Z2 / 10 - Z2 @ Z / 120)
    once, twice, spread = jnp.zeros((n, n)), jnp.zeros((n, n)), jnp.zeros((n * (n + 1) // 2, n, n))
    for c, weight in zip(NODES, WEIGHTS, strict=True):
        stage = (one + (c - 0.5) * Z + (c * (c - 1) / 2 + 0.1) * Z2) @ below
        once = once + weight * h * stage
        twice = twice + weight * (1 - c) * h**2 * stage
        spread = spread + weight * h * _by_pairs(stage)
    for _ in range(DOUBLINGS):
        across = one + matrix @ once
        twice = twice + across @ twice + h * once
        spread = spread + _mirrored(jnp.einsum("ac,pcd,bd->pab", across, spread, across))
        once, h = once + across @ once, 2 * h
    return Integrals(once, twice, spread)


def _by_pairs(stage: Array) -> Array:
    """Return s_i s_j^T + s_j s_i^T for all pairs of columns of a matrix, half of that for i = j."""
    i, j = np.tril_indices(len(stage))
    products = jnp.einsum("ap,bp->pab", stage[:, i], stage[:, j])
    return jnp.where((i == j)[:, None, None], products, products + jnp.swapaxes(products, 1, 2))


def _mirrored(matrices: Array) -> Array:
    """Make symmetric matrices of their lower triangles; in a scalar program the upper ones are never computed."""
    return jnp.where(np.tri(matrices.shape[-1], dtype=bool), matrices, jnp.swapaxes(matrices, -1, -2))
