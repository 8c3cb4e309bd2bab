"""Adam (Kingma and Ba 2015), until a criterion is met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

STEP_SIZE, DECAYS, STABILITY = 0.1, (0.8, 0.999), 1e-8  # paper, summary of algorithmic parameters


def adam_update(objective: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes one iteration of Adam (Kingma and Ba 2015, algorithm 1).

    It also returns what the objective gives besides its value.
    """
    (decay1, decay2), slope = DECAYS, jax.grad(objective, has_aux=True)

    @jax.jit
    def update(i, q, m1, m2, *args):
        g, besides = slope(q, *args)
        m1, m2 = decay1 * m1 + (1 - decay1) * g, decay2 * m2 + (1 - decay2) * g**2
        change = STEP_SIZE * (m1 / (1 - decay1**i)) / (jnp.sqrt(m2 / (1 - decay2**i)) + STABILITY)
        return besides, q - change, m1, m2

    return update


def minimise(update: Callable[..., Any], q, enough: float, iterations: int, *args) -> tuple[Any, float, Any]:
    """Iterate until the criterion is below `enough`, or not finite; return the last q, its criterion and the rest."""
    q_next, m1, m2 = q, jnp.zeros_like(q), jnp.zeros_like(q)
    criterion, rest = np.inf, None
    for i in range(1, iterations + 1):
        q = q_next
        (criterion, rest), q_next, m1, m2 = update(i, q, m1, m2, *args)
        if not criterion >= enough:
            break
    return q, float(criterion), jax.tree.map(np.asarray, rest)
