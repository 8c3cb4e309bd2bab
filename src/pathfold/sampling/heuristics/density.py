"""Points (u, v_0, v) of high density under additive Gaussian observation noise, by Adam."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from pathfold.errors import InitialisationError
from pathfold.model import GaussianNoise
from pathfold.sampling.heuristics.minimise import adam_update, minimise
from pathfold.sampling.heuristics.prior_paths import Attempt, Failure, Paths, Position

ITERATIONS = 5000
MISFIT = 1.0  # the search ends with a mean square of the observation noise below this


def adam(paths: Paths) -> Attempt:
    f, grid = paths.f, paths.grid
    if not isinstance(f.model.observation, GaussianNoise):
        raise InitialisationError(
            "initial_states='adam' is for additive Gaussian observation noise, pf.GaussianNoise; this model has "
            f"pf.{type(f.model.observation).__name__}: use 'adam-states' or 'projection'"
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
        prior = 0.5 * q @ q + f.parameter_excess(u) + jnp.sum(jax.vmap(f.start_excess, (None, 0))(z, v0))
        return prior + 0.5 * jnp.sum(w**2) + jnp.sum(log_scales), (jnp.sum(w**2) / grid.mask.sum(), (w, nodes))

    update = adam_update(objective)

    def attempt(rng):
        q, criterion, (w, nodes) = minimise(update, ravel_pytree(paths.draw(rng))[0], MISFIT, ITERATIONS)
        if not criterion < MISFIT:
            stage = f"Adam came to a mean square of {criterion:.2g} of the observation noise; largest are"
            remedy = "Take a wider prior for the scale of the noise, or more steps_per_interval"
            return Failure(stage, np.abs(w).max(axis=1), remedy)
        u, v0, v = unravel(q)
        return Position(u, v0, w, v, nodes)

    return attempt
