"""The terms of the log density of observations that depend on the data alone, which the sampler leaves out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data.time_grid import TimeGrid
from pathfold.model.diffusion_model import DiffusionModel
from pathfold.model.likelihood import Likelihood


def row_constants(model: DiffusionModel, grid: TimeGrid, nodes: np.ndarray) -> np.ndarray:
    """Return what is added to the log density of each node's observations, besides noise, roots and remainders."""
    total = np.zeros(len(nodes))
    for columns, part in model.observation.parts:
        if isinstance(part, Likelihood):
            total += _of_likelihood(model, grid, nodes, columns, part)
        else:
            exactly = grid.mask[nodes, columns] & (grid.censored[nodes, columns] == 0)
            total -= 0.5 * np.log(2 * np.pi) * exactly.sum(axis=1)
    return total


def _of_likelihood(
    model: DiffusionModel, grid: TimeGrid, nodes: np.ndarray, columns: slice, part: Likelihood
) -> np.ndarray:
    """Return log p + 1/2 root^2 + remainder, the same at all states, taken where the least is lost to rounding."""

    def constant(x, z, t, seen):
        split = part.split(x, z, t, seen)
        root = seen.of_observed(0.5 * split.root**2)
        return jnp.nansum(part.log_density(x, z, t, seen)) + root + seen.of_observed(split.remainder), root

    with jax.enable_x64(True):
        seen = jax.tree.map(lambda array: jnp.asarray(array[nodes], float), grid.seen(columns))
        at_point = jax.jit(jax.vmap(constant, (None, None, 0, 0)))
        at_points = [at_point(jnp.asarray(x), z, model.clocks_at(grid, nodes), seen) for x, z, _ in model.points()]
    constants, roots = (np.array(values) for values in zip(*at_points, strict=True))
    roots[~np.isfinite(constants)] = np.inf
    return constants[np.argmin(roots, axis=0), np.arange(len(nodes))]
