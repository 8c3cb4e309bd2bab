"""What results say of themselves, by the names of groups, coordinates and attributes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import Input
from pathfold.data.covariates import Label
from pathfold.data.dates import Calendar, dates_of
from pathfold.sampling.static_sampler import INTEGRATED

FIT = "Laplace"  # the attribute `sampler` of what pf.fit returns
NEW = "new"  # the name of a series that is not of the data, in predictions
SEEN = "time_seen"  # the dimension of its observations
BY_CHAIN = ("chain_seconds", "main_seconds", "integration_times")  # lists, in order of chain_numbers


def fine_times(starts: np.ndarray, ends: np.ndarray, delta: np.ndarray, steps: int) -> np.ndarray:
    """Return the times (N, S) after every fine step; in an interval of length zero all but the last are NaN."""
    times = starts[:, None] + delta[:, None] * np.arange(1, steps + 1)
    times[delta == 0.0] = np.nan
    times[:, -1] = ends
    return times


def along_time(
    names: Sequence[Any], calendars: Sequence[Calendar | None], times: np.ndarray, series: np.ndarray, *, panel: bool
) -> tuple[str, dict[str, Any]]:
    """Return the dimension of times (R,) of series of these numbers, and its coordinates: times, series, dates."""
    dim = "node" if panel else "time"
    coordinates: dict[str, Any] = {"time": (dim, times)}
    if panel:
        coordinates["node_series"] = (dim, np.array(names)[series])
    if (dates := dates_of(calendars, times, series)) is not None:
        coordinates["date"] = (dim, dates)
    return dim, coordinates


def of_draws(values: xr.DataArray) -> np.ndarray:
    """Return the draws of all chains together, (draw, ...)."""
    return values.values.reshape(-1, *values.shape[2:])


def component_names(group: xr.DataTree | xr.Dataset) -> list[str]:
    """Return the names of the state's components in a group, or else x[0], x[1], ..."""
    return _labels(np.asarray(group["component"]), "x")


def observation_names(tree: xr.DataTree) -> list[str]:
    return _labels(tree.observed_data["observation"].values, "y")


def series_names(tree: xr.DataTree) -> list[str]:
    """Return the names of the series, or else their numbers."""
    first = tree.constant_data["first_interval"]
    return [str(name) for name in (first["series"].values if "series" in first.coords else range(first.size))]


def _labels(values: np.ndarray, letter: str) -> list[str]:
    return [str(label) if isinstance(label, str) else f"{letter}[{label}]" for label in values.tolist()]


def node_places(tree: xr.DataTree) -> np.ndarray:
    """Return the places of the states at the ends of intervals, among those that are kept."""
    steps = np.where(tree.constant_data["fine_step"].values > 0.0, tree.attrs["steps_per_interval"], 1)
    return np.cumsum(np.ones_like(steps) if tree.attrs["keep_path"] == "nodes" else steps) - 1


def is_panel(tree: xr.DataTree) -> bool:
    return tree.constant_data["first_interval"].size > 1


def inputs_of(tree: xr.DataTree) -> list[dict[str, Input]]:
    """Return the inputs that each series has of its own."""
    written = json.loads(tree.constant_data.attrs.get("inputs", "null"))
    if written is None:
        return [{} for _ in series_names(tree)]
    return [{name: Input(**given) for name, given in own.items()} for own in written]


def covariates_of(tree: xr.DataTree) -> list[dict[str, Label]]:
    """Return the covariates of each series by name."""
    constant = tree.constant_data
    names = [str(name) for name, each in constant.data_vars.items() if each.dims == ("series",)]
    values = {name: constant[name].values.tolist() for name in names if name != "first_interval"}
    return [{name: each[k] for name, each in values.items()} for k in range(constant["first_interval"].size)]


def calendars_of(tree: xr.DataTree) -> list[Calendar | None]:
    """Return the calendar by which the dates of each series are counted, if it has any."""
    written = json.loads(tree.constant_data.attrs.get("calendars", "null"))
    if written is None:
        return [None for _ in series_names(tree)]
    return [calendar and Calendar.read(calendar) for calendar in written]


def is_fit(tree: xr.DataTree) -> bool:
    """Return whether results are an approximation, by pf.fit, and no draws of chains."""
    return tree.attrs.get("sampler") == FIT


def has_integrated(tree: xr.DataTree) -> bool:
    """Return whether paths were integrated out without an error."""
    return tree.attrs.get("method") == INTEGRATED


def reasons_of(tree: xr.DataTree) -> list[str]:
    """Return the sentences that the verdict of a fit goes with."""
    return np.atleast_1d(tree.attrs["reasons"]).tolist()  # a file has a list of one as it is
