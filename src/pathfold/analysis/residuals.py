"""One-step-ahead residuals: where each value lies among those expected from the values before it.

Given the parameters, F(y_n | y_1, ..., y_{n-1}, z) is uniform if the model is right, and independent from one time to
the next (Rosenblatt 1952), and so is that of a posterior draw of z. The values expected are simulated, from particles
that have seen what was observed before, by paths that know nothing of y_n.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from pathfold.analysis.chosen import Chosen
from pathfold.analysis.log_likelihood import shared_parameters
from pathfold.analysis.particle_filter import ParticleFilter
from pathfold.analysis.predictive_scores import POOLED, Placed, normal_scores, placed
from pathfold.data import Data, TimeGrid
from pathfold.data.checks import cores, whole
from pathfold.errors import warn
from pathfold.model import DiffusionModel
from pathfold.model.ensemble import Ensemble
from pathfold.model.memory import check_memory
from pathfold.results.grid import grid_of_data
from pathfold.results.in_order import results_of
from pathfold.results.overview import extended
from pathfold.sampling.spread import spread

DRAWS, PARTICLES = 4, 1000  # draws of each chain and particles of each, unless they are given


def residuals(
    model: DiffusionModel,
    data: Data,
    posterior: xr.DataTree,
    *,
    draws: int | None = None,
    particles: int = PARTICLES,
    seed: int = 0,
    threads: int | None = None,
) -> xr.DataTree:
    """Compute one-step-ahead residuals: each value among those expected from the values before, as a standard normal.

    They are the classical second opinion on a model: `pf.check`, `pf.plot_check` and `pf.report` look at them where
    results have them. They see outliers, heavy tails and changes of variance better than the noise of posterior draws,
    which is pulled towards what the model expects. The values expected come from the particle filter of
    `pf.log_likelihood(..., ahead=True)`, and exist for the same models.

    Parameters
    ----------
    model
        The `pf.DiffusionModel` that `posterior` is of.
    data
        The observations that `posterior` is of.
    posterior
        Results of `pf.sample`, whose parameters are taken.
    draws
        How many draws of each chain to take, evenly spread: 4 by default.
    particles
        Of the filter: the more, the closer residuals are to standard normals if the model is right, and the further out
        outliers. A warning says how many would do if there are so few that residuals depend on them.
    seed
        A whole number: the same gives the same particles.
    threads
        How many threads run the filter; one per core by default.

    Returns
    -------
    xarray.DataTree
        The results with a group `residuals`: `y`, the residuals, and `expected`, the mean of the values expected, for
        each draw chosen in the dimensions of `observed_data`; NaN where a value is missing or censored, as `seen` says.
    """
    tree = results_of(posterior, model=model)
    grid = grid_of_data(tree, model, data)
    particles, seed = whole("particles", particles, least=2), whole("seed", seed, least=0)
    threads = cores(threads)
    chosen = Chosen.of(tree, min(DRAWS, tree.posterior.sizes["draw"]) if draws is None else draws)
    z = shared_parameters(model, chosen)
    scores, expected = scores_at(model, grid, z, particles, seed, threads)
    estimates = ParticleFilter(model, grid, particles).judged(z, seed, threads=threads)
    if estimates.enough > particles:
        warn(f"{estimates}; pf.check does not judge these residuals")
    observed, rows = tree.observed_data["y"], np.flatnonzero(grid.mask.any(axis=1))
    dims = [str(dim) for dim in observed.dims]
    coords = {str(name): (c.dims, c.values) for name, c in tree.observed_data.coords.items()}
    coords["interval"] = (observed.dims[:1], rows)
    drawn = {"y": (dims, scores), "expected": (dims, expected)}
    group = chosen.dataset(drawn, coords, particles=particles, enough_particles=estimates.enough)
    return extended(tree, {"residuals": group.assign(seen=(dims, _seen(grid, rows).astype(np.int64)))})


def scores_at(
    model: DiffusionModel, grid: TimeGrid, z: np.ndarray, particles: int, seed: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return residuals at parameters (draw, Z) and the means of the values expected, both (draw, observation, Y)."""
    seen = _seen(grid, np.flatnonzero(grid.mask.any(axis=1)))
    each = 8 * particles * len(seen) * (2 * model.augmented_dim + 6 * model.observation_dim)
    check_memory("the residuals", each * min(threads, len(z)), "fewer particles or threads")
    score, every = ParticleFilter(model, grid, particles), 1 + len(z) * particles * len(seen) // POOLED
    by_draw = spread(lambda draw: _of_draw(model, grid, score, z[draw], seed, draw, every), len(z), threads)
    by_column, expected = zip(*by_draw, strict=True)
    scores = np.full((len(z), *seen.shape), np.nan)
    for j, draws in enumerate(zip(*by_column, strict=True)):
        scores[:, seen[:, j], j] = normal_scores(draws)
    return scores, np.stack(expected)


def _seen(grid: TimeGrid, rows: np.ndarray) -> np.ndarray:
    """Return a mask of the values (row, Y) that are known, and not by bounds alone."""
    return grid.mask[rows] & (grid.censored[rows] == 0)


def _of_draw(
    model: DiffusionModel, grid: TimeGrid, score: ParticleFilter, z: np.ndarray, seed: int, draw: int, every: int
) -> tuple[list[Placed], np.ndarray]:
    """Return where the values of each column lie among those expected by a draw, and their means (observation, Y)."""
    rng = np.random.default_rng([seed, draw])
    states, weights = score.expected(z, seed, draw)
    score.refuse_lost(weights.sum(axis=1) == 0.0)
    rows = np.flatnonzero(grid.mask.any(axis=1))
    values, seen = grid.values[rows], _seen(grid, rows)
    drawn = np.moveaxis(_observed(model, grid, rows, z, states.swapaxes(0, 1), rng), 0, 2)
    expected = np.einsum("np,nyp->ny", weights, np.where(weights[:, None] > 0.0, drawn, 0.0))
    uniform, columns = rng.random(values.shape), []
    for j, some in enumerate(seen.T):
        columns.append(placed(values[some, j], drawn[some, j], weights[some], uniform[some, j], every=every))
    return columns, np.where(seen, expected, np.nan)


def _observed(
    model: DiffusionModel, grid: TimeGrid, rows: np.ndarray, z: np.ndarray, states: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw observations (particle, row, Y) of states (particle, row, X), which are followed by what varies."""
    particles, count = states.shape[:2]
    shared = {name: np.asarray(value) for name, value in model.parameters.unflatten(z).items()}
    repeated = {name: np.broadcast_to(value, (particles, *value.shape)) for name, value in shared.items()}
    covariates = {name: each[grid.series_of_intervals[rows]] for name, each in model.covariates_of(grid).items()}
    ensemble = Ensemble(model, particles, count, repeated, model.own_of(states), covariates)
    return ensemble.observe(states[:, :, : model.state_dim], model.clocks_at(grid, rows), np.arange(count), rng)
