"""Log likelihoods of the observations at posterior draws, by which models are compared.

Given states and parameters, observations with noise are independent, and each has its own log p(y | x, z). Given the
parameters alone, log p(y | z) is the sum over time of log p(y_n | y_1, ..., y_{n-1}, z), which also exists where
observations have no noise. It is exact for linear models, and estimated by guided particles for others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from pathfold.analysis.ahead import Ahead
from pathfold.analysis.chosen import Chosen
from pathfold.analysis.innovations import filter_of
from pathfold.data import Data, TimeGrid
from pathfold.data.checks import cores, truth, whole
from pathfold.errors import ModelError, warn
from pathfold.model import DiffusionModel
from pathfold.model.diffusion_model import check_model
from pathfold.results.grid import grid_of_data
from pathfold.results.in_order import results_of
from pathfold.results.overview import extended
from pathfold.results.reading import node_places
from pathfold.sampling.progress import Counted

PARTICLES = 200
AHEAD_DRAWS = 100  # of each chain, unless they are given
TOGETHER = 100  # draws that are evaluated at once


def log_likelihood(
    model: DiffusionModel,
    data: Data,
    posterior: xr.DataTree,
    *,
    ahead: bool = False,
    draws: int | None = None,
    particles: int = PARTICLES,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = True,
) -> xr.DataTree:
    """Compute log likelihoods of the observations at posterior draws, for `arviz.loo` and `arviz.compare`.

    By default of each observed value given the state and the parameters, exactly. With `ahead`, of all that was
    observed at one time given the parameters and what was observed before: the sum over time is log p(y | z).

    Ahead, linear models are exact, as by Kalman's filter: where step, observation and initial state are linear in state
    and noise given the parameters, and no value is censored. For others a particle filter estimates it, with particles
    that are guided to the next observation, and the estimate of p(y | z) has no bias. Exact observations then need
    noise of the last fine step before them that moves all of them, by an affine map: with `pf.EulerMaruyama`, or
    `pf.StrongOrder1p5` and additive noise.

    Parameters
    ----------
    model
        The `pf.DiffusionModel` that `posterior` is of.
    data
        The observations that `posterior` is of.
    posterior
        Results of `pf.sample`; their states are needed (`keep_path="nodes"` or `"all"`), unless `ahead`.
    ahead
        Whether to give log p(y_n | y_1, ..., y_{n-1}, z) for each time instead.
    draws
        How many draws of each chain to evaluate, evenly spread: all by default, or 100 if `ahead`.
    particles
        Of the filter, if `ahead` and the model is not linear: the error of the sum falls with the square root of their
        number. A warning says how many would do if sums differ by more than about one between runs with other
        particles.
    seed
        A whole number: the same gives the same particles.
    threads
        How many threads run the filter; one per core by default.
    progress
        Whether to say how far the filter is, and how long it will take, once that is longer than a second.

    Returns
    -------
    xarray.DataTree
        The results with a group `log_likelihood`. Its variable `y` has the dimensions of `observed_data`, or its times
        alone if `ahead`; then the attribute `method` is "exact" or "particles". Where values are missing, or
        independent only as a whole, the dimension is `entry`, with the coordinates `time` and `observation`, so that
        every entry is one observation.
    """
    check_model(model)
    if not truth("ahead", ahead) and model.exactly_observed.any():
        raise ModelError(
            "what is observed exactly has no density given the state; use pf.log_likelihood(..., ahead=True), the "
            "density given what was observed before"
        )
    tree = results_of(posterior, model=model)
    grid = grid_of_data(tree, model, data)
    particles, seed = whole("particles", particles, least=1), whole("seed", seed, least=0)
    threads = cores(threads)
    if ahead:
        chosen = Chosen.of(tree, min(AHEAD_DRAWS, tree.posterior.sizes["draw"]) if draws is None else draws)
        score = filter_of(model, grid, particles)
        counted = Counted(f"draws by {score.told}", chosen.count, show=truth("progress", progress))
        scored = _ahead(score, chosen, seed, threads, counted)
    else:
        scored = _given_states(model, grid, Chosen.of(tree, draws))
    return extended(tree, {"log_likelihood": scored})


def _ahead(score: Ahead, chosen: Chosen, seed: int, threads: int, progress: Counted) -> xr.Dataset:
    observed, z = chosen.tree.observed_data, shared_parameters(score.model, chosen)
    values = score(z, seed, threads=threads, progress=progress)
    score.refuse_lost(~np.isfinite(values).all(axis=0))
    estimates = score.judged(z, seed, threads=threads)
    if estimates.enough > estimates.particles:
        warn(str(estimates))
    dim = str(observed["y"].dims[0])
    coords = {name: (dim, c.values) for name, c in observed.coords.items() if c.dims == (dim,)}
    return chosen.dataset({"y": ([dim], values)}, coords, method=score.method)


def shared_parameters(model: DiffusionModel, chosen: Chosen) -> np.ndarray:
    """Return the parameters that series share, (D, Z)."""
    parts = [chosen[name].reshape(chosen.count, -1) for name in model.parameters.names]
    return np.concatenate([np.zeros((chosen.count, 0)), *parts], axis=1)


def _given_states(model: DiffusionModel, grid: TimeGrid, chosen: Chosen) -> xr.Dataset:
    tree = chosen.tree
    at_nodes = chosen.states(model, "sample with keep_path='nodes' or 'all' and all components, or use ahead=True")
    rows = np.flatnonzero(grid.mask.any(axis=1))
    series = grid.series_of_intervals[rows]
    own = [chosen[name].reshape(chosen.count, len(grid.first), -1)[:, series] for name in model.varying.names]
    states = np.concatenate([at_nodes[:, node_places(tree)[rows]], *own], axis=-1)
    values = _log_densities(model, grid, rows, shared_parameters(model, chosen), states)
    dims = [str(dim) for dim in tree.observed_data["y"].dims]
    coords = {str(name): (c.dims, c.values) for name, c in tree.observed_data.coords.items()}
    if not np.isnan(values).any():
        return chosen.dataset({"y": (dims, values)}, coords)
    row, column = np.nonzero(~np.isnan(values).any(axis=0))
    along = {name: ("entry", c[row if where[0] == dims[0] else column]) for name, (where, c) in coords.items()}
    return chosen.dataset({"y": (["entry"], values[:, row, column])}, along)


def _log_densities(
    model: DiffusionModel, grid: TimeGrid, rows: np.ndarray, shared: np.ndarray, states: np.ndarray
) -> np.ndarray:
    """Return the log density of every value (draw, row, Y), NaN where it has none of its own."""

    def of_draw(z, x, clock, seen):
        def of_row(x, t, seen):
            state, named = model.in_series(model.parameters.unflatten(z), x, t)
            return model.observation.log_density(state, named, t, seen)

        return jax.vmap(of_row)(x, clock, seen)

    with jax.enable_x64(True):
        at_rows = jax.tree.map(lambda array: jnp.asarray(array[rows], float), (model.clocks(grid)[1], grid.seen()))
        compiled = jax.jit(jax.vmap(of_draw, (0, 0, None, None)))
        whole_parts = range(0, len(shared), TOGETHER)
        return np.concatenate(
            [np.asarray(compiled(shared[i : i + TOGETHER], states[i : i + TOGETHER], *at_rows)) for i in whole_parts]
        )
