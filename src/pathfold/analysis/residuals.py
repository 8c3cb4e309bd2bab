"""One-step-ahead residuals: where each value lies among those expected from the values before it.

Given the parameters, F(y_n | y_1, ..., y_{n-1}, z) is uniform if the model is right, and independent from one time to
the next (Rosenblatt 1952), and so is that of a posterior draw of z. The values expected are simulated, from particles
that have seen what was observed before, by paths that know nothing of y_n. Among equally weighted ones the rank of y_n
is exactly uniform; beyond most of them the tail is a normal one with their mean excess.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import xarray as xr
from scipy.special import ndtri

from pathfold.analysis.log_likelihood import PARTICLES, shared_parameters
from pathfold.analysis.outlook import Chosen, extended, node_times
from pathfold.analysis.particle_filter import ParticleFilter
from pathfold.errors import SettingsError
from pathfold.model import Data, DiffusionModel, TimeGrid
from pathfold.model.checks import whole
from pathfold.model.ensemble import Ensemble
from pathfold.results.same_model import checked

DRAWS = 8  # of each chain, unless they are given
TAIL = 0.1  # of the values expected, beyond which a normal tail is fitted


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
        How many draws of each chain to take, evenly spread: 8 by default.
    particles
        Of the filter: the more, the closer residuals are to standard normals if the model is right.
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
    tree, grid = checked(model, data, posterior)
    count = min(DRAWS, tree.posterior.sizes["draw"]) if draws is None else whole("draws", draws, least=1)
    particles, seed = whole("particles", particles, least=2), whole("seed", seed, least=0)
    threads = (os.cpu_count() or 1) if threads is None else whole("threads", threads, least=1)
    chosen, score = Chosen.of(tree, count), ParticleFilter(model, grid, particles)
    z = shared_parameters(model, chosen)
    with ThreadPoolExecutor(threads) as pool:
        by_draw = list(pool.map(lambda draw: _of_draw(model, grid, score, z[draw], seed, draw), range(len(z))))
    observed = tree.observed_data["y"]
    dims = ["chain", "draw", *map(str, observed.dims)]
    scores, expected = (chosen.by_chain(np.stack(arrays)) for arrays in zip(*by_draw, strict=True))
    variables = {"y": (dims, scores), "expected": (dims, expected)}
    rows = np.flatnonzero(grid.mask.any(axis=1))
    variables["seen"] = (dims[2:], _seen(grid, rows).astype(np.int64))
    interval = {"interval": (observed.dims[0], rows)}
    coords = {str(name): (c.dims, c.values) for name, c in tree.observed_data.coords.items()}
    return extended(tree, {"residuals": xr.Dataset(variables, chosen.coordinates | coords | interval)})


def _seen(grid: TimeGrid, rows: np.ndarray) -> np.ndarray:
    """Return a mask of the values (row, Y) that are known, and not by bounds alone."""
    return grid.mask[rows] & (grid.censored[rows] == 0)


def _of_draw(
    model: DiffusionModel, grid: TimeGrid, score: ParticleFilter, z: np.ndarray, seed: int, draw: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return residuals and expected values (observation, Y) of a draw."""
    rng = np.random.default_rng([seed, draw])
    states, weights = score.expected(z, seed, draw)
    if lost := np.flatnonzero(weights.sum(axis=1) == 0.0).tolist():
        raise SettingsError(
            f"all particles of a draw were lost on the way to t = {score.times[lost[0]]:g}; give more than "
            f"{score.particles} particles"
        )
    rows = np.flatnonzero(grid.mask.any(axis=1))
    drawn = _observed(model, grid, rows, z, states.swapaxes(0, 1), rng)
    expected = np.einsum("np,pny->ny", weights, np.where(weights.T[..., None] > 0.0, drawn, 0.0))
    scores = np.full(expected.shape, np.nan)
    for n, j in np.argwhere(_seen(grid, rows)):
        some = weights[n] > 0.0
        scores[n, j] = normal_score(float(grid.values[rows[n], j]), drawn[some, n, j], weights[n, some], rng.random())
    return scores, np.where(np.isnan(scores), np.nan, expected)


def _observed(
    model: DiffusionModel, grid: TimeGrid, rows: np.ndarray, z: np.ndarray, states: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw observations (particle, row, Y) of states (particle, row, X), which are followed by what varies."""
    particles, count = states.shape[:2]
    shared = {name: np.asarray(value) for name, value in model.parameters.unflatten(z).items()}
    repeated = {name: np.broadcast_to(value, (particles, *value.shape)) for name, value in shared.items()}
    covariates = {name: each[grid.series_of_intervals[rows]] for name, each in model.covariates_of(grid).items()}
    ensemble = Ensemble(model, particles, count, repeated, model.own_of(states), covariates)
    return ensemble.observe(states[:, :, : model.state_dim], node_times(model, grid, rows), np.arange(count), rng)


def normal_score(y: float, drawn: np.ndarray, weights: np.ndarray, uniform: float) -> float:
    """Turn y into a standard normal, given weighted draws of what was expected and a uniform number.

    Within them it follows from the rank; ties are broken by the uniform number. Beyond a tenth of them, on either side,
    it follows from a normal tail with the mean excess of that tenth, unless values repeat themselves, as counts do.
    """
    size = 1.0 / np.sum(weights**2)
    rank = (size * (weights @ (drawn < y)) + uniform * (size * (weights @ (drawn == y)) + 1.0)) / (size + 1.0)
    sign = 1.0 if rank < 0.5 else -1.0
    order = np.argsort(sign * drawn)
    ordered, mass = sign * drawn[order], np.cumsum(weights[order])
    k = int(np.searchsorted(mass, TAIL))
    excess = ordered[k] - weights[order[: k + 1]] @ ordered[: k + 1] / mass[k]
    if sign * y < ordered[k] and mass[k] < 0.5 and np.all(np.diff(ordered) > 0.0):
        edge = ndtri(mass[k])
        scale = excess / (np.exp(-0.5 * edge**2) / np.sqrt(2.0 * np.pi) / mass[k] + edge)
        return float(sign * (edge + (sign * y - ordered[k]) / scale))
    return float(ndtri(rank))
