"""Milstein: strong order 1 for commutative noise."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from pathfold.schemes.ito import noise_operator
from pathfold.schemes.scheme import ByIncrements, require_zero


@dataclass(frozen=True)
class Milstein(ByIncrements):
    """x' = x + delta a + b dW + 1/2 sum_ij L^i b_j (dW_i dW_j - [i = j] delta),  dW = sqrt(delta) v.

    Converges to the Ito solution with strong order 1 when the noise commutes, L^i b_j = L^j b_i, which is checked at
    prior draws. Scalar noise and diagonal noise (b_jj a function of x_j alone) commute
    (Kloeden and Platen 1992, section 10.3).
    """

    weak_order = 1.0

    def step(self, sde, z, x, v, delta, t):
        dw, b = jnp.sqrt(delta) * v, sde.diffusion(x, z, t)
        x_new = x + delta * sde.drift(x, z, t) + b @ dw
        for i in range(b.shape[1]):
            li_b = noise_operator(sde, i, sde.diffusion)(x, z, t)
            x_new = x_new + 0.5 * ((li_b @ dw) * dw[i] - delta * li_b[:, i])
        return x_new

    def check(self, sde, points):
        if jax.eval_shape(sde.diffusion, *points[0]).shape[1] == 1:
            return

        def commutator(x, z, t):
            columns = range(sde.diffusion(x, z, t).shape[1])
            l_b = jnp.stack([noise_operator(sde, i, sde.diffusion)(x, z, t) for i in columns])  # [i, :, j] = L^i b_j
            return l_b - l_b.transpose(2, 1, 0), l_b

        require_zero(
            commutator,
            points,
            "pf.Milstein() needs commutative noise, L^i b_j = L^j b_i for the columns b_j of the diffusion, and this "
            "diffusion's columns do not commute; use pf.EulerMaruyama()",
        )
