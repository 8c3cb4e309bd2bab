"""The grid that results were made on, rebuilt from them; an error if data are not those that they are of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import Data, TimeGrid
from pathfold.data.time_grid import MISSING
from pathfold.errors import DataError
from pathfold.model import DiffusionModel
from pathfold.model.check_data import check_panel
from pathfold.model.diffusion_model import check_model
from pathfold.results.reading import calendars_of, covariates_of, inputs_of, series_names


def grid_of(tree: xr.DataTree) -> TimeGrid:
    """Rebuild the grid that was sampled on, with the data."""
    constant, observed, names = tree.constant_data, tree.observed_data.to_dataset(), series_names(tree)
    ends, first = constant["interval_end"].values, constant["first_interval"].values
    components = observed["observation"].values.tolist()
    of_intervals = np.searchsorted(first, np.arange(ends.size), side="right") - 1
    of_rows = observed["node_series"].values.astype(str) if "node_series" in observed.coords else names[:1] * ends.size
    there = {*zip(of_rows, observed["time"].values.tolist(), strict=False)}
    rows = [(names[k], time) in there for k, time in zip(of_intervals, ends.tolist(), strict=True)]

    def at_nodes(name: str, otherwise: float) -> np.ndarray:
        values = np.full((ends.size, len(components)), otherwise)
        if name in observed:
            values[rows] = np.nan_to_num(observed[name].values, nan=otherwise)
        return values

    values = at_nodes("y", np.nan)
    events = constant["event"].values.tolist() if "event_amount" in constant else []
    return TimeGrid(
        starts=constant["interval_start"].values,
        ends=ends,
        values=np.nan_to_num(values, nan=MISSING),
        mask=~np.isnan(values),
        censored=at_nodes("censored", 0.0),
        upper=at_nodes("upper", 0.0),
        rows=constant["ends_at_data"].values > 0,
        events={name: constant["event_amount"].values[i] for i, name in enumerate(events)},
        first=first,
        series=tuple(names),
        steps=int(tree.attrs["steps_per_interval"]),
        components=tuple(components),
        inputs=tuple(inputs_of(tree)),
        covariates=tuple(covariates_of(tree)),
        calendars=tuple(calendars_of(tree)),
    )


def grid_of_data(tree: xr.DataTree, model: DiffusionModel, data: Data) -> TimeGrid:
    """Return the grid of these data, cut as it was for the results; raise DataError if they are of other data."""
    check_model(model)
    check_panel(model, data, in_results=True)
    there = grid_of(tree)
    grid = TimeGrid.build(data, steps_per_interval=there.steps)
    if len(grid.ends) < len(there.ends):
        grid = TimeGrid.build(data, max_step=float(there.delta.max()))
    if odd := difference(there, grid):
        raise DataError(f"the data are not those that posterior is of: {odd}; give the same data to both")
    return grid


def difference(there: TimeGrid, here: TimeGrid) -> str:
    """Return the first difference between the data of results and others, by their grids; empty if there is none."""
    names = [str(name) for name in here.series]
    if names != [*there.series]:
        return f"their series are {', '.join(names)}, and those of posterior {', '.join(map(str, there.series))}"
    if not np.array_equal(there.first, here.first) or len(there.ends) != len(here.ends):
        return "a series has more or fewer times"
    for what in ("input", "covariate"):
        for name, one, other in zip(names, getattr(there, f"{what}s"), getattr(here, f"{what}s"), strict=True):
            if odd := [key for key in {**one, **other} if _written(one.get(key)) != _written(other.get(key))]:
                return f"the {what} {odd[0]!r} of series {name} is another"
    for what, differs in _differences(there, here):
        if differs.any():
            n = int(np.argmax(differs))
            series = f" of series {names[int(here.series_of_intervals[n])]}" if len(names) > 1 else ""
            return f"{what}{series} {'is' if what == 'initial_time' else 'are'} not the same at t = {here.ends[n]:g}"
    return ""


def _written(value: Any) -> Any:
    return value.written() if hasattr(value, "written") else value


def _differences(there: TimeGrid, here: TimeGrid) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the parts of the data by name, with a mask (N,) of the nodes at which the grids differ in them."""
    yield "times", ~np.isclose(there.ends, here.ends, rtol=1e-9, atol=0.0)
    begins = ~np.isclose(there.starts, here.starts, rtol=1e-9, atol=0.0)
    yield "initial_time", begins & np.isin(np.arange(len(here.ends)), here.first)
    yield "missing values", (there.mask != here.mask).any(axis=1)
    for what, name in (("values", "values"), ("censored values", "censored"), ("bounds of censored values", "upper")):
        yield what, (getattr(there, name) != getattr(here, name)).any(axis=1)
    none = np.full(len(here.ends), np.nan)
    for name in {**there.events, **here.events}:
        one, other = there.events.get(name, none), here.events.get(name, none)
        yield f"events {name!r}", ~((one == other) | (np.isnan(one) & np.isnan(other)))
