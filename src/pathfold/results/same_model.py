"""Checking that results belong to a model and its data; an error says what is not the same.

A model is known by hashes of its parts as they were traced (`pathfold.model.identity`). These depend on the versions of
what traces; results of other versions are compared by the text of the model, as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import Data, Input, TimeGrid
from pathfold.data.censoring import BETWEEN
from pathfold.errors import DataError, SettingsError
from pathfold.model import DiffusionModel
from pathfold.model.check_data import check_panel
from pathfold.model.diffusion_model import check_model
from pathfold.model.identity import identity
from pathfold.model.model_text import model_text
from pathfold.results.prior import parameter_names
from pathfold.results.reading import check_posterior, covariates_of, inputs_of

TRACED_BY = ("pathfold", "jax", "numpyro")


def results_of(posterior: Any, model: DiffusionModel) -> xr.DataTree:
    """Return the results in order; raise SettingsError if they are not of this model."""
    check_model(model)
    tree = check_posterior(posterior, "observed_data", "constant_data")
    there, here = parameter_names(tree), [*model.priors]
    if there != here:
        raise SettingsError(
            f"posterior is of another model: its parameters are {', '.join(there)}, and this one's {', '.join(here)}"
        )
    for what, theirs, own in (
        ("states", len(json.loads(tree.attrs["labels"])["component"]), model.state_dim),
        ("observed values per time", len(json.loads(tree.attrs["labels"])["observation"]), model.observation_dim),
    ):
        if theirs != own:
            raise SettingsError(f"posterior is of another model: it has {theirs} {what}, and this one {own}")
    same_versions = all(tree.attrs.get(f"{package}_version") == metadata.version(package) for package in TRACED_BY)
    key, own = ("model_key", identity(model)) if same_versions else ("model", model_text(model))
    if odd := differing(json.loads(tree.attrs.get(key, "{}")), own):
        raise SettingsError(
            f"posterior is of another model, with another {', another '.join(odd)}. Give the model that was sampled; "
            "pf.predict has arguments for what is to be other than it was (set, inputs, events)"
        )
    return tree


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that two models do not have in common."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def checked(model: DiffusionModel, data: Data, posterior: Any) -> tuple[xr.DataTree, TimeGrid]:
    """Return the results, and the grid that they were made on; raise an error if model or data are others."""
    check_model(model)
    tree = results_of(posterior, model)
    check_panel(model, data, in_results=True)
    return tree, _grid_of(tree, data)


def _grid_of(tree: xr.DataTree, data: Data) -> TimeGrid:
    """Rebuild the grid from the number of steps, or from the longest step, which cuts intervals as `max_step` did."""
    constant, steps = tree.constant_data, int(tree.attrs["steps_per_interval"])
    grid = TimeGrid.build(data, steps_per_interval=steps)
    if len(grid.ends) < constant["interval_end"].size:
        grid = TimeGrid.build(data, max_step=float(constant["fine_step"].values.max()))
    if odd := _other_data(tree, grid):
        raise DataError(f"the data are not those that posterior is of: {odd}; give the same data to both")
    return grid


def _other_data(tree: xr.DataTree, grid: TimeGrid) -> str:
    """Return the first difference between the data of a grid and those of the results; empty if there is none."""
    constant = tree.constant_data
    names, first = [str(name) for name in constant["series"].values], constant["first_interval"].values
    if names != [str(name) for name in grid.series]:
        return f"their series are {', '.join(map(str, grid.series))}, and those of posterior {', '.join(names)}"
    if not np.array_equal(first, grid.first) or constant["interval_end"].size != len(grid.ends):
        return "a series has more or fewer times"
    for name, inputs, own in zip(names, inputs_of(tree), grid.inputs, strict=True):
        if odd := [key for key in {**inputs, **own} if not _same_input(inputs.get(key), own.get(key))]:
            return f"the input {odd[0]!r} of series {name} is another"
    for name, there, own in zip(names, covariates_of(tree), grid.covariates, strict=True):
        if odd := [key for key in {**there, **own} if there.get(key) != own.get(key)]:
            return f"the covariate {odd[0]!r} of series {name} is another"
    for what, differs in _differences(tree, grid):
        if differs.any():
            n = int(np.argmax(differs))
            series = f" of series {names[int(grid.series_of_intervals[n])]}" if len(names) > 1 else ""
            return f"{what}{series} {'is' if what == 'initial_time' else 'are'} not the same at t = {grid.ends[n]:g}"
    return ""


def _same_input(one: Input | None, other: Input | None) -> bool:
    return one is not None and other is not None and one.written() == other.written()


def _differences(tree: xr.DataTree, grid: TimeGrid) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the parts of the data by name, with a mask (N,) of the nodes at which results and grid differ in them."""
    constant, observed = tree.constant_data, tree.observed_data
    first = np.isin(np.arange(len(grid.ends)), grid.first)
    yield "times", ~np.isclose(constant["interval_end"].values, grid.ends, rtol=1e-9, atol=0.0)
    begin = ~np.isclose(constant["interval_start"].values, grid.starts, rtol=1e-9, atol=0.0)
    yield "initial_time", begin & first
    seen = grid.mask.any(axis=1)
    if observed["y"].shape != grid.values[seen].shape:
        yield "missing values", seen
        return
    for what, name, values, otherwise in (
        ("values", "y", np.where(grid.mask, grid.values, np.nan), np.nan),
        ("censored values", "censored", grid.censored, 0.0),
        ("bounds of censored values", "upper", np.where(grid.censored == BETWEEN, grid.upper, np.nan), np.nan),
    ):
        there = np.full(grid.values.shape, otherwise)
        if name in observed:
            there[seen] = observed[name].values
        yield what, ~_equal(there, np.where(seen[:, None], values, otherwise)).all(axis=1)
    none = np.full(len(grid.ends), np.nan)
    labels = constant["event"].values if "event_amount" in constant else ()
    events = {str(name): constant["event_amount"].values[i] for i, name in enumerate(labels)}
    for name in {**events, **grid.events}:
        yield f"events {name!r}", ~_equal(events.get(name, none), grid.events.get(name, none))


def _equal(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a mask of where two arrays are equal; NaN is equal to NaN."""
    return (one == other) | (np.isnan(one) & np.isnan(other))
