"""Inverse, Cholesky factor and integrals of the exponential of small matrices, written out for scalar programs.

In JAX, where models are traced and differentiated; kernels have those of `program.matrices`, native code its own.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

LONGEST, ORDER = 2.0**-5, 8  # of a piece: its length times the norm of the matrix, and of the series over it
MOST_DOUBLINGS = 40  # for |A d| up to 2^35
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
    """dL = dQ R^T - L N^T with R the inverse of L, and N the lower triangle of M = R dQ R^T with half its diagonal."""
    factor = cholesky(*covariances)
    found = inverse_factor(factor)
    pushed = directions[0] @ found.T
    M = found @ pushed
    return factor, jnp.tril(pushed - factor @ jnp.tril(M).T + 0.5 * factor * jnp.diag(M))


@inverse_factor.defjvp
def _derivative_of_inverse_factor(factors, directions):
    found = inverse_factor(*factors)
    return found, -found @ directions[0] @ found


class Integrals(NamedTuple):
    """The change e^{Ad} - I over a step of length d of the exponential of a matrix A, and integrals of e^{As}.

    once = int_0^d e^{As} ds; twice = int_0^d (d - s) e^{As} ds, if asked for; spread (noises, X, X), for each
    covariance S of white noise per unit of time, int_0^d e^{As} S e^{A^T s} ds.
    """

    change: Array
    once: Array
    twice: Array | None
    spread: Array


def integrals(matrix: Array, length: Any, noises: Any, *, twice: bool = False) -> Integrals:
    """Return the integrals of the exponential of a matrix over a step, by Taylor's series over a piece that is doubled.

    The piece is the step halved until |A h| <= LONGEST. Over it the series to order ORDER are exact to rounding; then
    int_0^2h = int_0^h + e^{Ah} int_0^h. What is doubled of the exponential is e^{Ah} - I, to (e^{Ah} - I)^2 +
    2 (e^{Ah} - I): the digits of short pieces are kept, and where e^{Ah} has decayed errors do, too (Van Loan 1978;
    Higham 2008, section 10.7.3). The error is about 1e-16 |A d| times the condition of the eigenvectors.
    """
    one = jnp.eye(len(matrix))
    norm = jnp.max(jnp.sum(jnp.abs(matrix), axis=1)) * length / LONGEST
    halvings = jax.lax.stop_gradient(jnp.ceil(jnp.log2(jnp.maximum(norm, 1.0))))
    h = length * jnp.exp2(-halvings)
    Z = h * matrix

    def term(sums, weights):
        """Horner's rule: of sum_k Z^k / (k + 1)!, sum_k Z^k 2 / (k + 2)!, and of Q = S + (Z Q + Q Z^T) / 2 + ..."""
        (once, again, spread), (weight, next_weight) = sums, weights
        part = weight * Z @ spread
        spread = noises + part + jnp.swapaxes(part, 1, 2)
        return (one + weight * Z @ once, one + next_weight * Z @ again if twice else None, spread), None

    def double(pieces, k):
        h, change, once, again, spread = pieces
        across = one + change
        doubled = (
            2 * h,
            2 * change + change @ change,
            2 * once + change @ once,
            2 * again + change @ again + h * once if twice else None,
            spread + jnp.einsum("ac,pcd,bd->pab", across, spread, across),
        )
        return jax.tree.map(lambda new, old: jnp.where(k < halvings, new, old), doubled, pieces), None

    orders = np.arange(ORDER, 0.0, -1.0)
    (once, again, spread), _ = jax.lax.scan(
        term, (one, one if twice else None, noises), (1 / (orders + 1), 1 / (orders + 2))
    )
    pieces = (h, Z @ once, h * once, h**2 / 2 * again if twice else None, h * spread)
    (_, *found), _ = jax.lax.scan(double, pieces, np.arange(MOST_DOUBLINGS, dtype=float))
    return Integrals(*found)
