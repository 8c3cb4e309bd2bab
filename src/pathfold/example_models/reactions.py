"""Reaction networks as diffusions, in coordinates without bounds.

For reactions with hazards h(y) that change the amounts y by the columns of the stoichiometry S, the chemical Langevin
equation (Gillespie 2000) is

    dy = S h dt + S diag(sqrt(h)) dW.

With y = g(x), component by component, Ito's lemma gives

    dx = (S h / g' - 1/2 g'' S^2 h / g'^3) dt + diag(1 / g') S diag(sqrt(h)) dW,

S^2 being the squares of the elements; for g = exp this keeps amounts positive at every step of any discretisation.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def langevin(
    stoichiometry: Any, hazards: Callable[[Any, Any], Any], amounts: Callable[[Any], Any] = jnp.exp
) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Drift and diffusion of x, from S (a row for each species), h(y, z) and g, which acts on each component alone."""
    S = jnp.asarray(stoichiometry, float)

    def slope(x):
        return jax.jvp(amounts, (x,), (jnp.ones_like(x),))[1]

    def drift(x, z):
        h, (g1, g2) = hazards(amounts(x), z), jax.jvp(slope, (x,), (jnp.ones_like(x),))
        return (S @ h) / g1 - 0.5 * g2 * (S**2 @ h) / g1**3

    def diffusion(x, z):
        return S * jnp.sqrt(hazards(amounts(x), z)) / slope(x)[:, None]

    return drift, diffusion
