"""Simulated data, one series or many: pf.simulate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Literal, cast, overload

import numpy as np
import xarray as xr

from pathfold.analysis.carried import carried_forward, warn_of_lost, warn_of_step
from pathfold.data import Input, Observations, TimeGrid
from pathfold.data.checks import choice
from pathfold.data.time_grid import warn_of_skipped_values
from pathfold.model import DiffusionModel
from pathfold.model import simulate as simulate_one
from pathfold.model.ensemble import Ensemble
from pathfold.model.model_text import model_text
from pathfold.model.simulation import begin
from pathfold.results.posterior import constant_dataset, draws_dataset, kept_states, observed_dataset
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
    parameters: Mapping[str, Any] | None,
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
    keep_path: Literal["nodes", "all"] = "nodes",
) -> xr.DataTree: ...


def simulate(
    model: DiffusionModel,
    parameters: Mapping[str, Any] | None,
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
    keep_path: Literal["nodes", "all"] = "nodes",
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
        value may be an array with a row for each of them, and None draws all from the priors.
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
    keep_path
        With `draws`, which states come with them: at the "nodes" (observation times), or "all" after every fine step.

    Returns
    -------
    Observations or xarray.DataTree
        The simulated series, ready for `pf.sample`; with `draws`, groups `prior` (parameters, `initial_state`, `state`)
        and `prior_predictive` (`y`), as of `pf.prior_predictive`.
    """
    known: dict[str, Any] = {
        "initial_state": initial_state,
        "initial_time": initial_time,
        "steps_per_interval": steps_per_interval,
        "max_step": max_step,
        "seed": seed,
        "inputs": inputs,
        "events": events,
        "covariates": covariates,
        "unit": unit,
    }
    if draws is None:
        return simulate_one(model, cast(Mapping[str, Any], parameters), times, **known)
    path = cast(Literal["nodes", "all"], choice("keep_path", keep_path, ("nodes", "all")))
    _, grid, ensemble, starts, rng = begin(model, parameters, times, draws=draws, **known)
    starts = ensemble.draw_starts(rng) if starts is None else starts
    return simulated(ensemble, grid, starts, rng, seed, keep_path=path)


def simulated(
    ensemble: Ensemble,
    grid: TimeGrid,
    starts: np.ndarray,
    rng: np.random.Generator,
    seed: int,
    *,
    keep_path: Literal["nodes", "all"] = "nodes",
    seen: bool = False,
) -> xr.DataTree:
    """Make the groups prior, prior_predictive and constant_data, as of one chain, from initial states (D, K, X).

    With a grid whose values were `seen`, there are observed_data, and what is missing in them is missing.
    """
    model, kept = ensemble.model, kept_states(grid, keep_path)
    warn_of_skipped_values(model.inputs, grid)
    fine, keep = (grid.refined(), kept.ravel()) if keep_path == "all" else (grid, kept[:, -1])
    states = carried_forward(ensemble, fine, starts, rng, keep=keep)
    warn_of_lost(states, "simulated paths")
    warn_of_step(ensemble, grid, starts, "simulated paths")
    nodes = np.flatnonzero(grid.mask.any(axis=1))
    at_nodes = states[:, (np.cumsum(kept.sum(axis=1)) - 1)[nodes]]
    y = ensemble.observe(at_nodes, model.clocks_at(grid, nodes), grid.series_of_intervals[nodes], rng)
    observed = observed_dataset(model, grid)
    data = observed["y"]
    y = np.where(np.isnan(data.values), np.nan, y)
    augmented = ensemble.augmented(starts, np.arange(ensemble.series))
    drawn = draws_dataset(model, grid, ensemble.z[None], augmented[None], states[None], keep_path)
    chains = {name: drawn[name].values for name in ("chain", "draw")}
    groups = {
        "/prior": drawn,
        "/prior_predictive": xr.Dataset({"y": (["chain", "draw", *data.dims], y[None])}, {**data.coords, **chains}),
        "/constant_data": constant_dataset(grid),
    }
    tree = xr.DataTree.from_dict(groups | ({"/observed_data": observed} if seen else {}))
    tree.attrs = {
        "inference_library": "pathfold",
        "pathfold_version": metadata.version("pathfold"),
        "model": json.dumps(model_text(model)),
        "priors": priors_text(model),
        "steps_per_interval": grid.steps,
        "keep_path": keep_path,
        "seed": int(seed),
    }
    return tree
