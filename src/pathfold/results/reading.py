"""Reading results as they were made, whatever a user did to them since, by names of dimensions and coordinates.

xarray lets one transpose, reorder, select and save results. All functions after the posterior read them through
`check_posterior`, which puts dimensions and coordinates back in the order of the model and of the data, or says what is
missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import Input
from pathfold.data.covariates import Label
from pathfold.data.dates import Calendar
from pathfold.errors import SettingsError, told

LAPLACE = "laplace"  # the attribute `method` of what pf.fit returns
NEW = "new"  # the name of a series that is not of the data, in predictions
SEEN = "time_seen"  # the dimension of its observations
NEEDED = ("labels", "priors", "steps_per_interval", "keep_path")  # attributes without which results cannot be read
BY_CHAIN = ("chain_seconds", "main_seconds", "integration_times")  # lists, in order of chain_numbers
LISTS = ("chain_numbers", *BY_CHAIN, "plain_factors", "iterations")
OF_SAMPLE = "give the results of pf.sample as they are, made by this version of pathfold and with draws after warm-up"
REMEDIES = {
    "posterior_predictive": "give what pf.posterior_predictive(model, posterior) returns, with simulated data",
    "predictions": "give what pf.predict(model, posterior, times) returns",
}
DRAWN = ("posterior", "sample_stats", "noise", "paths", "predictions")
# The order of dimensions in all variables; those of a parameter, which bear its name, stand between these.
FIRST = ("chain", "draw", "series", "event", "interval", "step", "node", "time")
LAST = ("component", "observation", "coordinate")


def check_posterior(posterior: Any, *groups: str, name: str = "posterior") -> xr.DataTree:
    """Return results of pf.sample with the groups named, as they were made; a SettingsError says what is missing."""
    if not isinstance(posterior, xr.DataTree) or "posterior" not in posterior.children:
        raise SettingsError(f"{name} must be what pf.sample returned, not {told(posterior)}")
    if missing := [group for group in groups if group not in posterior.children]:
        raise SettingsError(f"{name} has no group {missing[0]!r}: {REMEDIES.get(missing[0], OF_SAMPLE)}")
    if missing := [attribute for attribute in NEEDED if attribute not in posterior.attrs]:
        raise SettingsError(
            f"{name} has no attribute {missing[0]!r}, without which nobody can tell what its draws are: give the "
            "results of pf.sample with their attributes (tree.attrs), made by this version of pathfold"
        )
    return _Reader(posterior, ("posterior", *groups), name).in_order()


class _Reader:
    """A reader that puts results in order, group by group, and leaves alone what is in order already."""

    def __init__(self, tree: xr.DataTree, needed: tuple[str, ...], name: str) -> None:
        self.tree, self.needed, self.name = tree, needed, name
        self.labels: dict[str, list[Any]] = json.loads(tree.attrs["labels"])

    def in_order(self) -> xr.DataTree:
        groups = {str(name): child.to_dataset() for name, child in self.tree.children.items()}
        in_order = {name: self._group(name, dataset) for name, dataset in groups.items()}
        if "constant_data" in in_order:
            if not in_order["constant_data"]["first_interval"].ndim:
                raise SettingsError(
                    f"{self.name} has no dimension 'series': give results of all series, and select from what comes out"
                )
            for name in {"posterior", "observed_data"} & in_order.keys():
                in_order[name] = self._nodes_in_order(name, in_order[name], in_order["constant_data"])
        lists = {name: _as_list(self.tree.attrs[name]) for name in LISTS if name in self.tree.attrs}
        same = all(in_order[name] is groups[name] for name in groups)
        if same and all(type(self.tree.attrs[name]) is list for name in lists):
            return self.tree
        tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in in_order.items()})
        tree.attrs = dict(self.tree.attrs) | lists
        return tree

    def _group(self, name: str, dataset: xr.Dataset) -> xr.Dataset:
        if name in DRAWN and name in self.needed:
            self._check_drawn(name, dataset)
        for dim in dataset.dims:
            if dim in self.labels and dim in dataset.coords:
                dataset = self._in_order_of_labels(name, dataset, str(dim))
        if "rung" in dataset.dims and np.any(np.diff(dataset["rung"].values) < 0):
            dataset = dataset.sortby("rung")
        order = _ordered(dataset.dims)
        same = all([*var.dims] == [dim for dim in order if dim in var.dims] for var in dataset.variables.values())
        return dataset if same else dataset.transpose(*order)

    def _check_drawn(self, name: str, dataset: xr.Dataset) -> None:
        for dim in ("chain", "draw"):
            if dim not in dataset.dims:
                raise SettingsError(
                    f"the group {name!r} of {self.name} has no dimension {dim!r}: unstack what was stacked, and select "
                    f"one with a list, as in sel({dim}=[0]), so that the dimension stays"
                )
            if not dataset.sizes[dim]:
                raise SettingsError(f"the group {name!r} of {self.name} has no {dim}s; select at least one")
            if dim in dataset.coords and not (index := dataset.indexes[dim]).is_unique:
                raise SettingsError(
                    f"the group {name!r} of {self.name} has the {dim} {index[index.duplicated()][0]} twice: number "
                    f"what was joined anew, as in assign_coords({dim}=range({len(index)})) in every group"
                )

    def _in_order_of_labels(self, name: str, dataset: xr.Dataset, dim: str) -> xr.Dataset:
        """Sort along a dimension whose labels are known; components may be left out, by `keep` or by selection."""
        there, labels = dataset[dim].values.tolist(), self.labels[dim]
        if there == labels:
            return dataset
        places = {label: i for i, label in enumerate(there)}
        wanted = [label for label in labels if label in places]
        if len(wanted) < len(there):
            odd = next((label for label in there if label not in labels), "twice the same")
            raise SettingsError(
                f"the group {name!r} of {self.name} has as {dim} {odd!r}, which model and data do not have; give the "
                "results as pf.sample made them"
            )
        if len(wanted) < len(labels) and dim != "component":
            gone = next(label for label in labels if label not in places)
            raise SettingsError(
                f"the group {name!r} of {self.name} lacks the {dim} {gone!r}: give the results whole, and select from "
                "what comes out"
            )
        return dataset if there == wanted else dataset.isel({dim: [places[label] for label in wanted]})

    def _nodes_in_order(self, name: str, dataset: xr.Dataset, constant: xr.Dataset) -> xr.Dataset:
        """Sort states in the order of the grid, of which none may be missing, and rows of data, of which some may."""
        dim = "node" if "node" in dataset.dims else "time"
        if dim not in dataset.dims:
            return dataset
        fine = name == "posterior" and self.tree.attrs["keep_path"] == "all"
        series, times = self._nodes(constant, fine)
        there = dataset["time"].values
        if dim == "node":
            own = dataset["node_series"].values.astype(str)
        else:
            own = np.full(there.size, series[0] if series.size else "")
        if np.array_equal(there, times) and np.array_equal(own, series):
            return dataset
        places = {key: i for i, key in enumerate(zip(own.tolist(), there.tolist(), strict=True))}
        wanted = list(zip(series.tolist(), times.tolist(), strict=True))
        rows = [places[key] for key in wanted if key in places]
        if len(rows) < there.size:
            raise SettingsError(
                f"the group {name!r} of {self.name} has times that were not sampled, or one of them twice; give the "
                "results as pf.sample made them"
            )
        if name == "posterior" and len(rows) < len(wanted):
            gone = next(time for key, time in wanted if (key, time) not in places)
            raise SettingsError(
                f"{self.name} has no states at t = {gone:g}, which were sampled: give the results with all times, and "
                "select from what comes out"
            )
        return dataset if rows == [*range(there.size)] else dataset.isel({dim: rows})

    def _nodes(self, constant: xr.Dataset, fine: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return series and times of the states that are kept, in the order of the grid."""
        ends, steps = constant["interval_end"].values, int(self.tree.attrs["steps_per_interval"])
        names = np.array([str(label) for label in self.labels["series"]])
        series = names[np.searchsorted(constant["first_interval"].values, np.arange(ends.size), side="right") - 1]
        if not fine:
            return series, ends
        times = fine_times(constant["interval_start"].values, ends, constant["fine_step"].values, steps)
        kept = np.isfinite(times)
        return np.repeat(series, kept.sum(axis=1)), times[kept]


def fine_times(starts: np.ndarray, ends: np.ndarray, delta: np.ndarray, steps: int) -> np.ndarray:
    """Return the times (N, S) after every fine step; in an interval of length zero all but the last are NaN."""
    times = starts[:, None] + delta[:, None] * np.arange(1, steps + 1)
    times[delta == 0.0] = np.nan
    times[:, -1] = ends
    return times


def _ordered(dims: Iterable[Any]) -> list[Any]:
    """Return the dimensions in the order that pf.sample gives them."""

    def rank(dim: Any) -> tuple[int, int]:
        if dim in FIRST:
            return FIRST.index(dim), 0
        if dim in LAST:
            return len(FIRST) + 1 + LAST.index(dim), 0
        number = re.search(r"_dim_(\d+)$", str(dim))
        return len(FIRST), int(number[1]) if number else -1  # groups come before the dimensions of a value

    return sorted(dims, key=rank)


def _as_list(value: Any) -> list[Any]:
    """Return an attribute as a list; from a file it comes as an array, or as its only entry."""
    return value if isinstance(value, list) else np.atleast_1d(value).tolist()


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
    return tree.attrs.get("method") == LAPLACE


def reasons_of(tree: xr.DataTree) -> list[str]:
    """Return the sentences that the verdict of a fit goes with."""
    return np.atleast_1d(tree.attrs["reasons"]).tolist()  # a file has a list of one as it is
