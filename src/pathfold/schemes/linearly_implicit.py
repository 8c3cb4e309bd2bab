"""Linearly implicit Euler-Maruyama (Rosenbrock and Euler): strong order 1/2, stable for stiff drifts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from pathfold.schemes.ito import time_slope
from pathfold.schemes.scheme import ByIncrements
from pathfold.schemes.small_matrices import inverse


@dataclass(frozen=True)
class LinearlyImplicit(ByIncrements):
    """x' = x + (I - delta J)^{-1} (delta a + delta^2 da/dt + sqrt(delta) b v),  J = da/dx,  v ~ N(0, I_B).

    One Newton iteration for the implicit Euler step x' = x + delta a(x', t + delta) + sqrt(delta) b v. Where the drift
    pulls back at a rate r, a step multiplies the distance by 1 / (1 + delta r) instead of 1 - delta r: it is stable
    however long the step is, where those of explicit schemes explode beyond 2 / r. What is faster than a step is not
    resolved: its noise comes out with a variance too small by 1 / (1 + delta r / 2). Oscillations are damped, so in
    models that are not stiff other schemes are more accurate.

    Converges to the Ito solution with strong order 1/2 (order 1 for additive noise). Any diffusion will do (Rosenbrock
    1963; Hairer and Wanner 1996, section IV.7; Kloeden and Platen 1992, section 12.2).
    """

    weak_order = 1.0
    explicit = False

    def step(self, sde, z, x, v, delta, t):
        slope = jax.jacfwd(lambda x: sde.drift(x, z, t))(x)
        explicit = delta * sde.drift(x, z, t) + delta**2 * time_slope(sde.drift, x, z, t)
        explicit = explicit + jnp.sqrt(delta) * (sde.diffusion(x, z, t) @ v)
        return x + inverse(jnp.eye(x.size) - delta * slope) @ explicit
