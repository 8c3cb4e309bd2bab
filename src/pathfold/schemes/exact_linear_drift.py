"""The exact transition of a drift that is linear in the state: compartments, relaxation, oscillators."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.schemes.ito import SDE, depends, time_slope
from pathfold.schemes.scheme import Scheme, require_zero
from pathfold.schemes.small_matrices import cholesky, integrals, inverse_factor


def pairs(n: int) -> np.ndarray:
    """Return the symmetric matrices (n (n + 1) / 2, n, n) of which S_ij is the share in a symmetric S, i >= j."""
    i, j = np.tril_indices(n)
    units = np.eye(n)[i, :, None] * np.eye(n)[j, None, :]
    return np.maximum(units, np.swapaxes(units, 1, 2))


def halves(sde: SDE, z: dict[str, Array], x: Array, v: Array, fresh: Array, delta: Any, t: Any) -> tuple[Array, Array]:
    """Return the normals v1, v2 of two half steps whose noise adds up to that of the step: L v = e^{Ah} M v1 + M v2.

    What has no variance of its own has normals without effect, which are taken over.
    """
    L, across, M = _factors(sde, z, x, delta, t, 0.5)
    v1 = _of_first(L, across, v, fresh)
    v2 = inverse_factor(M) @ (L @ v - across @ v1)
    return v1, jnp.where(jnp.diag(M) > 0.0, v2, v)


def _factors(sde: SDE, z: dict[str, Array], x: Array, delta: Any, t: Any, share: Any) -> tuple[Array, Array, Array]:
    """Return the factor L of a step, e^{Ar} M with that of its first part, and that of the rest, of length r.

    All have the diffusion at the beginning.
    """
    A = jax.jacfwd(lambda x: sde.drift(x, z, t))(x)
    B = sde.diffusion(x, z, t)
    first, rest = (integrals(A, part * delta, (B @ B.T)[None]) for part in (share, 1.0 - share))
    M, N = cholesky(first.spread[0]), cholesky(rest.spread[0])
    across = M + rest.change @ M
    return cholesky(across @ across.T + N @ N.T), across, N


def _of_first(L: Array, across: Array, v: Array, fresh: Array) -> Array:
    """Return the normals v1 of the first part of a step with normals v, with which they have the covariance
    K = L^{-1} e^{Ar} M: given v they are normal with mean K^T v and covariance I - K^T K."""
    K = inverse_factor(L) @ across
    return K.T @ v + cholesky(jnp.eye(len(v)) - K.T @ K) @ fresh


@dataclass(frozen=True)
class ExactLinearDrift(Scheme):
    """For a drift a = A x + b, with A and b functions of parameters, time and inputs, the step of length delta is::

        x' = e^{A delta} x + int_0^delta e^{As} ds b + L v,   L L^T = int_0^delta e^{As} B B^T e^{A^T s} ds

    with v ~ N(0, I_X) and B the diffusion at the beginning of the step. If B does not depend on the state this is
    exact: one step between observations is enough, also for states that noise reaches through others alone, for stiff
    drifts and for many periods of an oscillation in a step. If B depends on the state, means are exact, and the scheme
    converges to the Ito solution with strong order 1/2 as Euler-Maruyama does, with errors that do not grow with the
    rates of the drift. That the drift is linear is checked at prior draws.

    Where A, B or b depend on time or inputs, they are those at the beginning of the step, and b changes over the step
    at the slope that it has there: inputs with kind="linear" are followed exactly between their times, while an input
    that jumps within a step is seen from the next step on.

    Matrix exponential and covariance are computed once for all fine steps of an interval, or of the whole data where
    all have one length, unless A depends on time or inputs (Shoji and Ozaki 1998; Jimenez 2002, on local
    linearisation). Compiling takes 10 to 20 seconds where eight states are coupled, and more with more.
    """

    weak_order = 1.0
    explicit = False
    linear = True

    def noise_dim(self, wiener_dim, state_dim):
        return state_dim

    def loading(self, sde, z, x, t):
        B = sde.diffusion(x, z, t)
        return cholesky(B @ B.T)

    def step(self, sde, z, x, v, delta, t):
        A = jax.jacfwd(lambda x: sde.drift(x, z, t))(x)
        B = sde.diffusion(x, z, t)
        S = B @ B.T
        noises, shares = S[None], jnp.ones(1)
        if depends(lambda x: sde.diffusion(x, z, t), x):
            noises, shares = pairs(len(x)), S[np.tril_indices(len(x))]
        changes = depends(lambda t: sde.drift(x, z, t), t)
        over = integrals(A, delta, noises, twice=changes)
        x_new = x + over.change @ x + over.once @ sde.drift(jnp.zeros_like(x), z, t)
        if changes:
            x_new = x_new + over.twice @ time_slope(sde.drift, x, z, t)
        return x_new + cholesky(jnp.einsum("p,pab->ab", shares, over.spread)) @ v

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
