"""Adam (Kingma and Ba 2015), and the two heuristics that search with it.

One searches for noise of a high density, the other for noise that leads from state to state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from pathfold.errors import InitialisationError
from pathfold.model import GaussianNoise
from pathfold.paper.heuristics.prior_paths import Attempt, Failure, Paths, Position

ADAM_STEP, DECAYS, STABILITY = 0.1, (0.8, 0.999), 1e-8  # paper, summary of algorithmic parameters
# A search ends with a mean square below the first number, or gives up after so many iterations.
MISFIT, ITERATIONS_OF_DENSITY = 1.0, 5000  # "adam": of the observation noise
GAP, ITERATIONS_OF_STATES = 1e-6, 1000  # "adam-states": of the gaps, relative to the states


def adam_update(objective: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes one iteration of Adam (Kingma and Ba 2015, algorithm 1).

    It also returns what the objective gives besides its value.
    """
    (decay1, decay2), slope = DECAYS, jax.grad(objective, has_aux=True)

    @jax.jit
    def update(i, q, m1, m2, *args):
        g, besides = slope(q, *args)
        m1, m2 = decay1 * m1 + (1 - decay1) * g, decay2 * m2 + (1 - decay2) * g**2
        change = ADAM_STEP * (m1 / (1 - decay1**i)) / (jnp.sqrt(m2 / (1 - decay2**i)) + STABILITY)
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


def adam(paths: Paths) -> Attempt:
    """Search for (u, v_0, v) of high density under additive Gaussian observation noise."""
    f, grid = paths.f, paths.grid
    if not isinstance(f.model.observation, GaussianNoise):
        raise InitialisationError(
            "initial_states='adam' is for additive Gaussian observation noise, pf.GaussianNoise; this model has "
            f"pf.{type(f.model.observation).__name__}: use 'adam-states' or 'descent'"
        )
    _, unravel = ravel_pytree(paths.draw(np.random.default_rng()))

    def noise(z, x, w, t, seen):
        """Return the smallest w with mean + L w = y where observed, and the log size of the observed rows of L."""
        misfit, L = f.rows(z, x, w, t, seen), jax.jacfwd(f.rows, argnums=2)(z, x, w, t, seen)
        covariance = L @ L.T + jnp.diag(1.0 - seen.mask)
        return -L.T @ jnp.linalg.solve(covariance, misfit), 0.5 * jnp.linalg.slogdet(covariance)[1]

    def objective(q):
        """Return minus the log of the Lebesgue density of q = (u, v_0, v) given the observations."""
        u, v0, v = unravel(q)
        z = f.parameters(u)
        nodes = paths.nodes(z, v0, v)
        w, log_scales = jax.vmap(noise, (None, 0, 0, 0, 0))(z, nodes, paths.no_noise, *paths.observed)
        prior = 0.5 * q @ q + f.parameter_excess(u) + jnp.sum(paths.start_excess(z, v0))
        return prior + 0.5 * jnp.sum(w**2) + jnp.sum(log_scales), (jnp.sum(w**2) / grid.mask.sum(), (w, nodes))

    update = adam_update(objective)

    def attempt(rng):
        q, criterion, (w, nodes) = minimise(update, ravel_pytree(paths.draw(rng))[0], MISFIT, ITERATIONS_OF_DENSITY)
        if not criterion < MISFIT:
            stage = f"Adam came to a mean square of {criterion:.2g} of the observation noise; largest are"
            remedy = "Take a wider prior for the scale of the noise, or more steps_per_interval"
            return Failure(stage, np.abs(w).max(axis=1), remedy)
        u, v0, v = unravel(q)
        return Position(u, v0, w, v, nodes)

    return attempt


def adam_states(paths: Paths) -> Attempt:
    """Search for noise that leads from each of the states that meet the observations to the next."""
    f, grid = paths.f, paths.grid
    _, unravel = ravel_pytree(paths.draw(np.random.default_rng()))

    def objective(q, nodes):
        """Return the mean square of the gaps between the ends of the intervals and the states there, relative to these.

        Every interval begins at the state before it, not where the path comes to as in the paper: the projection that
        follows takes gaps as well as misfits, and without a long path Adam needs a fraction of the iterations.
        """
        u, v0, v = unravel(q)
        z = f.parameters(u)
        intervals = jax.vmap(paths.interval, (None, 0, 0, 0, 0))
        gaps = intervals(z, paths.beginnings(z, v0, nodes), v, grid.delta, paths.times) - nodes
        scale = jnp.sqrt(jnp.mean(nodes**2, axis=0))
        criterion = jnp.mean((gaps / jnp.where(scale > 0.0, scale, 1.0)) ** 2)
        return criterion, (criterion, gaps)

    update = adam_update(objective)

    def attempt(rng):
        drawn = paths.draw_consistent(rng)
        if isinstance(drawn, Failure):
            return drawn
        *q, nodes = drawn
        q, criterion, gaps = minimise(update, ravel_pytree(tuple(q))[0], GAP, ITERATIONS_OF_STATES, nodes)
        if not criterion < GAP:
            stage = f"Adam came to a mean square of {criterion:.2g} of the gaps in the path; largest are"
            remedy = "Take more steps_per_interval, another seed, or priors under which the noise can reach the data"
            return Failure(stage, np.abs(gaps).max(axis=1), remedy)
        u, v0, v = unravel(q)
        return Position(u, v0, paths.no_noise, v, nodes)

    return attempt
