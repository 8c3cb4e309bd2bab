"""Simulated data from posterior or prior: pf.posterior_predictive and pf.prior_predictive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from pathfold.analysis.carried import carried_forward, warn_of_lost
from pathfold.analysis.chosen import Chosen
from pathfold.analysis.simulate import simulated
from pathfold.data import Data, Input, TimeGrid
from pathfold.data.checks import choice, whole
from pathfold.data.data import are_data
from pathfold.errors import SettingsError
from pathfold.model import DiffusionModel
from pathfold.model.check_data import check_panel
from pathfold.model.diffusion_model import check_model
from pathfold.model.ensemble import Ensemble
from pathfold.model.simulation import series_to_simulate
from pathfold.results.grid import grid_of
from pathfold.results.in_order import results_of
from pathfold.results.overview import extended
from pathfold.results.posterior import kept_states
from pathfold.results.reading import along_time, is_panel, node_places

BETWEEN = 8  # times between two nodes at which data are simulated for pictures, ...
PATHS = 200  # ... from about so many draws, ...
MOST = 2_000_000  # ... if these are fewer numbers


def posterior_predictive(
    model: DiffusionModel,
    posterior: xr.DataTree,
    *,
    given: Literal["path", "parameters", "population"] = "path",
    draws: int | None = None,
    seed: int = 0,
) -> xr.DataTree:
    """Simulate data as they could have been, one set for every draw, at the times of the data.

    Values are missing where those of the data are. Where these are censored, the new ones are what would have been seen
    without a limit.

    Parameters
    ----------
    model
        The `pf.DiffusionModel` that was sampled.
    posterior
        Results of `pf.sample`.
    given
        What is taken from a draw: the "path", so that the observation noise alone is new (which needs
        `keep_path="nodes"` or `"all"`), or the "parameters" alone, what varies between series included: then initial
        state and path are new too, in the fine steps of the posterior, with the events and inputs of the data. With
        "population" what varies between series is new as well: data of others, from the same population.
    draws
        So many draws of each chain, evenly spread; all by default.
    seed
        A whole number: the same gives the same data.

    Returns
    -------
    xarray.DataTree
        The results with one group more, `posterior_predictive`, with `y` (chain, draw, time, observation), for
        `arviz.plot_ppc_dist` and its like. If the data have events or inputs, and there are not too many, a group
        `replicated_path` has `y` between the times of the data too, which `pf.plot_individuals` draws.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["ornstein_uhlenbeck"]
    >>> model = example.model()
    >>> posterior = pf.sample(
    ...     model, example.data(), steps_per_interval=5, chains=2, progress=False
    ... )
    >>> replicated = pf.posterior_predictive(model, posterior, given="parameters", draws=100)
    >>> replicated.posterior_predictive["y"].dims
    ('chain', 'draw', 'time', 'observation')
    """
    choice("given", given, ("path", "parameters", "population"))
    tree, rng = results_of(posterior, model=model), np.random.default_rng(whole("seed", seed, least=0))
    chosen, grid = Chosen.of(tree, draws), grid_of(tree)
    nodes = grid.mask.any(axis=1)
    if given == "population" and not model.varying.names:
        raise SettingsError(
            "no parameter varies between the series, so that others of the population have the same ones: take "
            "given='parameters', or give a parameter a prior by pf.Varying"
        )
    ensemble = chosen.ensemble(model, grid, rng, besides=model.varying.names if given == "population" else ())
    if given == "path":
        states = chosen.states(model, "say given='parameters', or keep 'nodes' with all components")
        states = states[:, node_places(tree)[nodes]]
    else:
        states = carried_forward(ensemble, grid, ensemble.draw_starts(rng), rng, keep=nodes)
        warn_of_lost(states, "replicated paths")
    y = ensemble.observe(states, model.clocks_at(grid, nodes), grid.series_of_intervals[nodes], rng)
    data = tree.observed_data["y"]
    y, dims = np.where(np.isnan(data.values), np.nan, y), [str(dim) for dim in data.dims]
    groups = {"posterior_predictive": chosen.dataset({"y": (dims, y)}, dict(data.coords), given=given, seed=int(seed))}
    moved = (grid.events or model.inputs) and not model.jumps.accumulators
    tree = tree.drop_nodes("replicated_path", errors="ignore")
    some = Chosen.of(tree, min(chosen.shape[1], -(-PATHS // chosen.shape[0])))
    if moved and given != "population" and some.count * len(grid.ends) * BETWEEN * model.observation_dim < MOST:
        groups["replicated_path"] = _between(some, model, grid, given, rng)
    return extended(tree, groups)


def _between(chosen: Chosen, model: DiffusionModel, grid: TimeGrid, given: str, rng: np.random.Generator) -> xr.Dataset:
    """Return data simulated at all nodes of the grid and at BETWEEN times or more before each.

    Given the path, a draw goes on from its own state at every node to the next, if its states between are not known.
    """
    tree = chosen.tree
    whole_path = given == "path" and tree.attrs["keep_path"] == "all"
    grid = grid if whole_path else replace(grid, steps=grid.steps * -(-BETWEEN // grid.steps))
    keep = np.zeros((len(grid.ends), grid.steps), dtype=bool)
    keep[grid.delta > 0.0, max(1, grid.steps // BETWEEN) - 1 :: max(1, grid.steps // BETWEEN)] = True
    keep[grid.delta > 0.0, -2:] = True  # the last step before an event and that after it
    keep[:, -1] = True
    fine, kept = grid.refined(), keep.ravel()
    ensemble = chosen.ensemble(model, grid, rng)
    if whole_path:
        states = chosen.states(model, "keep all components")[:, keep[kept_states(grid, "all")]]
    elif given == "path":
        nodes = chosen.states(model, "keep all components")
        begins = np.roll(nodes, 1, axis=1)
        begins[:, grid.first] = chosen["initial_state"].reshape(chosen.count, -1, model.state_dim)
        of_intervals = grid.series_of_intervals
        of_each = {
            name: tuple(getattr(grid, name)[k] for k in of_intervals) for name in ("inputs", "covariates", "calendars")
        }
        apart = replace(fine, first=np.arange(0, len(fine.ends), grid.steps), **of_each)
        states = carried_forward(ensemble, apart, begins, rng, series=of_intervals, keep=kept)
        states[:, np.flatnonzero(np.flatnonzero(kept) % grid.steps == grid.steps - 1)] = nodes
    else:
        states = carried_forward(ensemble, fine, ensemble.draw_starts(rng), rng, keep=kept)
    of_series = fine.series_of_intervals[kept]
    y = ensemble.observe(states, model.clocks_at(fine, kept), of_series, rng)
    dim, coordinates = along_time(fine.series, fine.calendars, fine.ends[kept], of_series, panel=is_panel(tree))
    coordinates["observation"] = tree.observed_data["observation"].values
    return chosen.dataset({"y": ([dim, "observation"], y)}, coordinates)


def prior_predictive(
    model: DiffusionModel,
    data: Data | Any,
    *,
    draws: int = 500,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    initial_time: float = 0.0,
    inputs: Mapping[str, Input] | None = None,
    events: Mapping[str, tuple[Any, Any]] | None = None,
    covariates: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> xr.DataTree:
    """Simulate data that the priors lead one to expect: parameters, initial states, paths and observations, drawn anew.

    Paths that the fine steps cannot follow are told of by a warning, and are NaN from there on. Warnings also tell of
    states that half steps would change, and of inputs that change within a fine step.

    Parameters
    ----------
    model
        A `pf.DiffusionModel`.
    data
        `pf.Observations`, or a panel of them: the new data have their times, events, inputs and missing values. Or
        times (T,) alone.
    draws
        How many.
    steps_per_interval
        The number of fine steps between neighbouring times. Give this or `max_step`.
    max_step
        The greatest length of a fine step.
    initial_time
        When the series begins, where times alone are given.
    inputs
        A dict of name -> `pf.Input`, in the place of the model's, where times alone are given.
    events
        A dict of name -> (times, amounts), where times alone are given.
    covariates
        A dict of the model's covariates by name, where times alone are given.
    seed
        A whole number: the same gives the same draws.

    Returns
    -------
    xarray.DataTree
        Groups `prior`, shaped as the posterior of `pf.sample` would be, with one chain; `prior_predictive`, with `y`;
        `constant_data`; and `observed_data`, where there are data.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["ornstein_uhlenbeck"]
    >>> expected = pf.prior_predictive(example.model(), [1.0, 2.0], draws=100, max_step=0.1)
    >>> dict(expected.prior_predictive["y"].sizes)
    {'chain': 1, 'draw': 100, 'time': 2, 'observation': 1}
    """
    check_model(model)
    rng, draws = np.random.default_rng(whole("seed", seed, least=0)), whole("draws", draws, least=1)
    if not (seen := are_data(data)):
        known = {"inputs": inputs, "events": events, "covariates": covariates}
        data = series_to_simulate(model, data, initial_time, **known)
    elif initial_time != 0.0 or any(given is not None for given in (inputs, events, covariates)):
        raise SettingsError(
            "data have an initial_time, inputs, events and covariates of their own: give these to pf.Observations"
        )
    else:
        check_panel(model, data)
    grid = TimeGrid.build(data, steps_per_interval=steps_per_interval, max_step=max_step)
    ensemble = Ensemble.build(model, {}, draws, grid.covariates, rng)
    return simulated(ensemble, grid, rng, seed, seen=seen)
