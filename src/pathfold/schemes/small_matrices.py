"""Inverse, Cholesky factor and integrals of the exponential of small matrices, written out for scalar programs."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

DOUBLINGS = 18  # a step is made of 2^18 pieces, over each of which the exponential is rational
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


@jax.custom_jvp
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


@jax.custom_jvp
def inverse_factor(factor: Array) -> Array:
    """Return the inverse of a lower factor, with zeros in the rows and columns of what has no variance of its own."""
    n = len(factor)
    found = jnp.zeros((n, n))
    for j in range(n):
        own = factor[j, j] > 0.0
        row = (jnp.eye(n)[j] - factor[j] @ found) / jnp.where(own, factor[j, j], 1.0)
        found = found.at[j].set(jnp.where(own, row, 0.0))
    return found


@inverse.defjvp
def _derivative_of_inverse(matrices, directions):
    found = inverse(*matrices)
    return found, -found @ directions[0] @ found


@cholesky.defjvp
def _derivative_of_factor(covariances, directions):
    """dL = dQ R^T - L N^T with R the inverse of L, and N the lower triangle of R dQ R^T with half its diagonal."""
    factor = cholesky(*covariances)
    found = inverse_factor(factor)
    pushed = directions[0] @ found.T
    halved = np.tri(len(factor)) - 0.5 * np.eye(len(factor))
    return factor, jnp.tril(pushed - factor @ (halved * (found @ pushed)).T)


@inverse_factor.defjvp
def _derivative_of_inverse_factor(factors, directions):
    found = inverse_factor(*factors)
    return found, -found @ directions[0] @ found


class Integrals(NamedTuple):
    """Integrals over a step of length d of the exponential e^{As} of a matrix A.

    once = int_0^d e^{As} ds; twice = int_0^d (d - s) e^{As} ds; spread (noises, X, X), for each covariance S of white
    noise per unit of time, int_0^d e^{As} S e^{A^T s} ds.
    """

    once: Array
    twice: Array
    spread: Array


def integrals(matrix: Array, length: Any, noises: Array) -> Integrals:
    """Return the integrals of the exponential, by Gauss and Legendre's collocation in pieces that are doubled.

    Over a piece of length h, e^{As} at the nodes is a rational function of Z = A h with the denominator of Pade's
    approximation [3/3], of order 6; then int_0^2h = int_0^h + e^{Ah} int_0^h. All are sums of products, stable for
    eigenvalues however far left, and fulfil A once = e^{Ad} - I and Lyapunov's equation, A Q + Q A^T =
    e^{Ad} S e^{A^T d} - S, to rounding.
    """
    n, h = len(matrix), length / 2**DOUBLINGS
    one, Z = jnp.eye(n), h * matrix
    Z2 = Z @ Z
    below = inverse(one - Z / 2 + Z2 / 10 - Z2 @ Z / 120)
    once, twice, spread = jnp.zeros((n, n)), jnp.zeros((n, n)), jnp.zeros((len(noises), n, n))
    for c, weight in zip(NODES, WEIGHTS, strict=True):
        stage = (one + (c - 0.5) * Z + (c * (c - 1) / 2 + 0.1) * Z2) @ below
        once = once + weight * h * stage
        twice = twice + weight * (1 - c) * h**2 * stage
        spread = spread + weight * h * _moved(stage, noises)

    def doubled(carried, _):
        change, once = carried
        return (2.0 * change + change @ change, 2.0 * once + change @ once), (change, once)

    def doubled_twice(twice, piece):
        h, change, once = piece
        return 2.0 * twice + change @ twice + h * once, None

    def doubled_spread(spread, change):
        return spread + _moved(one + change, spread), None

    (_, once), (changes, pieces) = jax.lax.scan(doubled, (matrix @ once, once), length=DOUBLINGS)
    twice, _ = jax.lax.scan(doubled_twice, twice, (h * 2.0 ** np.arange(DOUBLINGS), changes, pieces))
    spread, _ = jax.lax.scan(doubled_spread, spread, changes)
    return Integrals(once, twice, spread)


def _moved(matrix: Array, covariances: Array) -> Array:
    """Return M S M^T for each covariance; in a scalar program the upper triangles are never computed."""
    moved = jnp.einsum("ac,pcd,bd->pab", matrix, covariances, matrix)
    return jnp.where(np.tri(len(matrix), dtype=bool), moved, jnp.swapaxes(moved, 1, 2))
