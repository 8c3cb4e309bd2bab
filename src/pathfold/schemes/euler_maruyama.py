"""Euler-Maruyama: strong order 1/2."""

from dataclasses import dataclass

import jax.numpy as jnp

from pathfold.schemes.scheme import ByIncrements


@dataclass(frozen=True)
class EulerMaruyama(ByIncrements):
    """x' = x + delta a + sqrt(delta) b v,  v ~ N(0, I_B).

    Converges to the Ito solution with strong order 1/2 (order 1 for additive noise). Any diffusion will do
    (paper, section 2).
    """

    weak_order = 1.0

    def step(self, sde, z, x, v, delta, t):
        return x + delta * sde.drift(x, z, t) + jnp.sqrt(delta) * (sde.diffusion(x, z, t) @ v)
