"""The Taylor scheme of strong order 3/2 for additive or scalar noise."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.schemes.ito import noise_operator, time_operator
from pathfold.schemes.scheme import Scheme, halve_increments, require_zero


@dataclass(frozen=True)
class StrongOrder1p5(Scheme):
    """x' = x + delta a + b dW + delta^2/2 L0 a + sum_j L^j a dZ_j + sum_j L0 b_j (delta dW_j - dZ_j),

    and for scalar noise (B = 1), which may depend on the state, also

        + 1/2 L1 b (dW^2 - delta) + 1/2 L1 L1 b (dW^2 / 3 - delta) dW.

    With v = [v1; v2] ~ N(0, I_2B), dW = sqrt(delta) v1 and dZ = delta^(3/2)/2 (v1 + v2 / sqrt(3)) have the joint law of
    the Wiener increment and of its time integral. Converges to the Ito solution with strong order 3/2 for additive
    noise (d b / dx = 0, checked at prior draws) and for scalar noise, with weak order 2, since it has all terms of the
    weak Taylor scheme of that order (Kloeden and Platen 1992, sections 10.4 and 14.2;
    paper, appendix on the FitzHugh-Nagumo model).
    """

    weak_order = 2.0

    def noise_dim(self, wiener_dim, state_dim):
        return 2 * wiener_dim

    def halve(self, v, fresh, at_steps):
        """Halve the noise so that dW = dW_1 + dW_2 and dZ = dZ_1 + dZ_2 + (delta / 2) dW_1."""
        (v1, v2), (f1, f2) = np.split(v, 2, axis=-1), np.split(fresh, 2, axis=-1)
        mean = np.concatenate([v1, (v2 - 3**0.5 * f1) / 2], axis=-1)
        difference = np.concatenate([(3**0.5 * v2 + f1) / 2, f2], axis=-1)
        return halve_increments(mean, difference)

    def part(self, sde, z, x, v, fresh, delta, t, share):
        """By the covariance of W(s delta) and its integral with those of the step."""
        (v1, v2), (f1, f2) = jnp.split(v, 2), jnp.split(fresh, 2)
        left = 1.0 - share
        rest = jnp.sqrt(left / (1.0 - 3.0 * share * left))
        first = jnp.sqrt(share) * (v1 + 3**0.5 * left * v2) + left / rest * f1
        second = share**1.5 * v2 - 3**0.5 * share**2 * rest * f1 + left * rest * f2
        return jnp.concatenate([first, second])

    def step(self, sde, z, x, v, delta, t):
        b = sde.diffusion(x, z, t)
        wiener_dim = b.shape[1]
        dw = jnp.sqrt(delta) * v[:wiener_dim]
        dz = 0.5 * delta * jnp.sqrt(delta) * (v[:wiener_dim] + v[wiener_dim:] / 3**0.5)

        x_new = x + delta * sde.drift(x, z, t) + b @ dw
        x_new = x_new + 0.5 * delta**2 * time_operator(sde, sde.drift)(x, z, t)
        x_new = x_new + time_operator(sde, sde.diffusion)(x, z, t) @ (delta * dw - dz)
        for j in range(wiener_dim):
            x_new = x_new + noise_operator(sde, j, sde.drift)(x, z, t) * dz[j]
        if wiener_dim == 1:
            l1_b = noise_operator(sde, 0, sde.diffusion)
            l1_l1_b = noise_operator(sde, 0, l1_b)
            x_new = x_new + 0.5 * (l1_b(x, z, t) @ (dw**2 - delta))
            x_new = x_new + 0.5 * (l1_l1_b(x, z, t) @ ((dw**2 / 3 - delta) * dw))
        return x_new

    def check(self, sde, points):
        if jax.eval_shape(sde.diffusion, *points[0]).shape[1] == 1:
            return

        def slope(x, z, t):
            return jax.jacfwd(lambda x: sde.diffusion(x, z, t))(x), sde.diffusion(x, z, t)

        require_zero(
            slope,
            points,
            "pf.StrongOrder1p5() needs additive noise (a diffusion that does not depend on x) or scalar noise (one "
            "column), and this diffusion has several columns and depends on x; use pf.Milstein() or pf.EulerMaruyama()",
        )
