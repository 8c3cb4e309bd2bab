"""Noise that leads from each of the states that meet the observations to the next, by Adam."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from pathfold.sampling.heuristics.minimise import adam_update, minimise
from pathfold.sampling.heuristics.prior_paths import Attempt, Failure, Paths, Position

ITERATIONS = 1000
GAP = 1e-6  # the search ends with a mean square of the gaps, relative to the states, below this


def adam_states(paths: Paths) -> Attempt:
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
        q, criterion, gaps = minimise(update, ravel_pytree(tuple(q))[0], GAP, ITERATIONS, nodes)
        if not criterion < GAP:
            stage = f"Adam came to a mean square of {criterion:.2g} of the gaps in the path; largest are"
            remedy = "Take more steps_per_interval, another seed, or priors under which the noise can reach the data"
            return Failure(stage, np.abs(gaps).max(axis=1), remedy)
        u, v0, v = unravel(q)
        return Position(u, v0, paths.no_noise, v, nodes)

    return attempt
