"""The exact transition of a drift that is linear in the state: compartments, relaxation, oscillators."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular

from pathfold.schemes.ito import SDE, time_slope
from pathfold.schemes.scheme import Scheme, require_zero
from pathfold.schemes.small_matrices import cholesky, integrals


def halves(sde: SDE, z: dict[str, Array], x: Array, v: Array, fresh: Array, delta: Any, t: Any) -> tuple[Array, Array]:
    """Return the normals v1, v2 of two half steps whose noise adds up to that of the step: L v = e^{Ah} M v1 + M v2."""
    L, across, M = _factors(sde, z, x, delta, t, 0.5)
    v1 = _of_first(L, across, v, fresh)
    v2, idle = _solved(M, L @ v - across @ v1)
    return v1, v2 + idle * v


def _factors(sde: SDE, z: dict[str, Array], x: Array, delta: Any, t: Any, share: Any) -> tuple[Array, Array, Array]:
    """Return the factor L of a step, e^{Ar} M with that of its first part, and that of the rest, of length r.

    All have the diffusion at the beginning.
    """
    A = jax.jacfwd(lambda x: sde.drift(x, z, t))(x)
    B = sde.diffusion(x, z, t)
    first, rest = integrals(A, share * delta), integrals(A, (1.0 - share) * delta)
    M, N = cholesky(first.covariance(B @ B.T)), cholesky(rest.covariance(B @ B.T))
    across = M + A @ rest.once @ M
    return cholesky(across @ across.T + N @ N.T), across, N


def _of_first(L: Array, across: Array, v: Array, fresh: Array) -> Array:
    """Return the normals v1 of the first part of a step with normals v, with which they have the covariance
    K = L^{-1} e^{Ar} M: given v they are normal with mean K^T v and covariance I - K^T K."""
    K = _solved(L, across)[0]
    return K.T @ v + cholesky(jnp.eye(len(v)) - K.T @ K) @ fresh


def _solved(factor: Array, b: Array) -> tuple[Array, Array]:
    """Return L^{-1} b, and marks of what has no variance of its own, whose normals have no effect."""
    idle = jnp.where(jnp.diag(factor) > 0.0, 0.0, 1.0)
    return solve_triangular(factor + jnp.diag(idle), b, lower=True), idle


@dataclass(frozen=True)
class ExactLinearDrift(Scheme):
    """For a drift a = A x + b, with A and b functions of parameters, time and inputs, the step of length delta is::

        x' = x + int_0^delta e^{As} ds a + L v,   L L^T = int_0^delta e^{As} B B^T e^{A^T s} ds,   v ~ N(0, I_X)

    with B the diffusion at the beginning of the step. If B does not depend on the state this is exact: one step between
    observations is enough, also for states that noise reaches through others alone, and for stiff drifts (up to rates
    of 2,000 / delta; faster ones are stable, but decay too slowly). Oscillations lose digits if a step has several
    periods: the transition is off by 2e-4 with 5 of them, and wrong with 16. Take shorter steps there. If B depends on
    the state, means are exact, and the scheme converges to the Ito solution with strong order 1/2 as Euler-Maruyama
    does, with errors that do not grow with the rates of the drift. That the drift is linear is checked at prior draws.

    Where A, B or b depend on time or inputs, they are those at the beginning of the step, and b changes over the step
    at the slope that it has there: inputs with kind="linear" are followed exactly between their times, while an input
    that jumps within a step is seen from the next step on.

    Matrix exponential and covariance are computed once for all fine steps of an interval, or of the whole data where
    all have one length, unless A depends on time or inputs. Their cost grows fast with the number of coupled states:
    the scheme is meant for a few (Shoji and Ozaki 1998; Jimenez 2002, on local linearisation).
    """

    weak_order = 1.0
    explicit = False

    def noise_dim(self, wiener_dim, state_dim):
        return state_dim

    def loading(self, sde, z, x, t):
        B = sde.diffusion(x, z, t)
        return cholesky(B @ B.T)

    def step(self, sde, z, x, v, delta, t):
        A = jax.jacfwd(lambda x: sde.drift(x, z, t))(x)
        B = sde.diffusion(x, z, t)
        over = integrals(A, delta)
        x_new = x + over.once @ sde.drift(x, z, t) + over.twice @ time_slope(sde.drift, x, z, t)
        return x_new + cholesky(over.covariance(B @ B.T)) @ v

    def halve(self, v, fresh, at_steps):
        return at_steps(halves)

    def part(self, sde, z, x, v, fresh, delta, t, share):
        return _of_first(*_factors(sde, z, x, delta, t, share)[:2], v, fresh)

    def check(self, sde, points):
        def bend(x, z, t):
            here, *elsewhere = (jax.jacfwd(lambda x: sde.drift(x, z, t))(y) for y in (x, -x, 3 * x + 1))
            apart = jnp.stack([slope - here for slope in elsewhere])
            return jnp.where(jnp.isfinite(apart), apart, 1.0 + jnp.abs(here)), here

        require_zero(
            bend,
            points,
            "pf.ExactLinearDrift() needs a drift that is linear in the state, A x + b with A and b functions of "
            "parameters, time and inputs, and this drift's Jacobian depends on x; use pf.StrongOrder1p5() or "
            "pf.EulerMaruyama(), for a stiff model pf.LinearlyImplicit()",
        )
