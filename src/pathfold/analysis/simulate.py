"""Simulated data, one series or many: pf.simulate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any, overload

import numpy as np
import xarray as xr

from pathfold.analysis.carried import carried_forward, warn_of_lost, warn_of_step
from pathfold.data import Input, Observations, TimeGrid
from pathfold.data.checks import whole
from pathfold.data.time_grid import warn_of_skipped_values
from pathfold.model import DiffusionModel
from pathfold.model import simulate as simulate_one
from pathfold.model.diffusion_model import check_model
from pathfold.model.ensemble import Ensemble
from pathfold.model.model_text import model_text
from pathfold.model.simulation import given_starts, known_parameters, series_to_simulate
from pathfold.results.posterior import constant_dataset, draws_dataset, observed_dataset
from pathfold.results.prior import priors_text


@overload
def simulate(
    model: DiffusionModel,
    parameters: Mapping[str, Any],
    times: Any,
    *,
    initial_state: Any = None,
    initial_time: Any = 0.0,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    seed: int = 0,
    inputs: Mapping[str, Input] | None = None,
    events: Mapping[str, tuple[Any, Any]] | None = None,
    covariates: Mapping[str, Any] | None = None,
    unit: str | None = None,
    draws: None = None,
) -> Observations: ...


@overload
def simulate(
    model: DiffusionModel,
    parameters: Mapping[str, Any],
    times: Any,
    *,
    initial_state: Any = None,
    initial_time: Any = 0.0,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    seed: int = 0,
    inputs: Mapping[str, Input] | None = None,
    events: Mapping[str, tuple[Any, Any]] | None = None,
    covariates: Mapping[str, Any] | None = None,
    unit: str | None = None,
    draws: int,
) -> xr.DataTree: ...


def simulate(
    model: DiffusionModel,
    parameters: Mapping[str, Any],
    times: Any,
    *,
    initial_state: Any = None,
    initial_time: Any = 0.0,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    seed: int = 0,
    inputs: Mapping[str, Input] | None = None,
    events: Mapping[str, tuple[Any, Any]] | None = None,
    covariates: Mapping[str, Any] | None = None,
    unit: str | None = None,
    draws: int | None = None,
) -> Observations | xr.DataTree:
    """Simulate the model on a fine grid, with its own scheme, and observe it.

    Warnings tell of fine steps that are too long: for an input that changes within one, or for a state that one changes
    by much where two half steps do not; with `draws`, also if means of states would move with half steps.

    Parameters
    ----------
    model
        A `pf.DiffusionModel`.
    parameters
        The values of the parameters by name, in the support of their priors or at its edge. Those that are fixed may be
        left out, and so may those that vary between series, which then are drawn from their priors. With `draws`, a
        value may be an array with a row for each of them; `pf.prior_predictive` draws all from the priors.
    times
        The times (T,) of the observations: numbers, or dates or durations with a `unit`, as in `pf.Observations`.
    initial_state
        The state (X,) at the initial time, or the amounts by species of a model of `pf.Reactions`; drawn from its
        distribution if it is not given. With `draws` it may have a row for each of them.
    initial_time
        When the series begins; a date, if times are dates.
    steps_per_interval
        The number of fine steps between neighbouring observations. Give this or `max_step`.
    max_step
        The greatest length of a fine step.
    seed
        A whole number: the same gives the same series.
    inputs
        A dict of name -> `pf.Input`, in the place of the model's inputs of the same name.
    events
        A dict of name -> (times, amounts) for the model's events of these names.
    covariates
        A dict of the model's covariates: a number, or one of the levels, by name.
    unit
        What dates and durations are counted in.
    draws
        How many series to simulate at once, in compiled code. They come with their parameters and paths.

    Returns
    -------
    Observations or xarray.DataTree
        The simulated series, ready for `pf.sample`; with `draws`, groups `prior` (parameters, `initial_state`, `state`)
        and `prior_predictive` (`y`), as of `pf.prior_predictive`.
    """
    known: dict[str, Any] = {"inputs": inputs, "events": events, "covariates": covariates}
    steps: dict[str, Any] = {"steps_per_interval": steps_per_interval, "max_step": max_step}
    if draws is None:
        begin = {"initial_state": initial_state, "initial_time": initial_time, "unit": unit}
        return simulate_one(model, parameters, times, seed=seed, **begin, **steps, **known)
    check_model(model)
    count, rng = whole("draws", draws, least=1), np.random.default_rng(whole("seed", seed, least=0))
    grid = TimeGrid.build(series_to_simulate(model, times, initial_time, unit, **known), **steps)
    values = known_parameters(model, parameters, (count,))
    starts = None if initial_state is None else given_starts(model, initial_state, (count,))
    return simulated(Ensemble.build(model, values, count, grid.covariates, rng), grid, rng, seed, starts=starts)


def simulated(
    ensemble: Ensemble,
    grid: TimeGrid,
    rng: np.random.Generator,
    seed: int,
    *,
    starts: np.ndarray | None = None,
    seen: bool = False,
) -> xr.DataTree:
    """Simulate a series, or a panel, for every draw, from initial states (D, K, X) if they are given.

    If data were `seen`, values are missing where theirs are.
    """
    model = ensemble.model
    warn_of_skipped_values(model.inputs, grid)
    starts = ensemble.draw_starts(rng) if starts is None else starts
    nodes = np.flatnonzero(grid.mask.any(axis=1))
    states = carried_forward(ensemble, grid, starts, rng, keep=np.ones(len(grid.ends), dtype=bool))
    warn_of_lost(states, "simulated paths")
    warn_of_step(ensemble, grid, starts, "simulated paths")
    y = ensemble.observe(states[:, nodes], model.clocks_at(grid, nodes), grid.series_of_intervals[nodes], rng)
    observed = observed_dataset(model, grid)
    augmented = ensemble.augmented(starts, np.arange(ensemble.series))
    prior = draws_dataset(model, grid, ensemble.z[None], augmented[None], states[None], "nodes")
    data, chains = observed["y"], {name: prior[name].values for name in ("chain", "draw")}
    drawn = {"y": (["chain", "draw", *data.dims], np.where(np.isnan(data.values), np.nan, y)[None])}
    groups = {
        "/prior": prior,
        "/prior_predictive": xr.Dataset(drawn, {**data.coords, **chains}),
        "/constant_data": constant_dataset(grid),
    }
    tree = xr.DataTree.from_dict(groups | ({"/observed_data": observed} if seen else {}))
    tree.attrs = {
        "inference_library": "pathfold",
        "pathfold_version": metadata.version("pathfold"),
        "model": json.dumps(model_text(model)),
        "priors": priors_text(model),
        "steps_per_interval": grid.steps,
        "keep_path": "nodes",
        "seed": int(seed),
    }
    return tree
