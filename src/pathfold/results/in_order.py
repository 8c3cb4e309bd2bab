"""The door for results, whatever a user did to them since they were made.

xarray lets one transpose, reorder, select and save results. All functions after the posterior take them by
`results_of`, which puts dimensions and coordinates back in the order of the model and of the data, or says what is
missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr

from pathfold.errors import SettingsError, told
from pathfold.model import DiffusionModel
from pathfold.results.reading import BY_CHAIN, fine_times
from pathfold.results.same_model import refuse_other_model

NEEDED = ("labels", "priors", "steps_per_interval", "keep_path")  # attributes without which results cannot be read
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


def results_of(
    posterior: Any, *groups: str, model: DiffusionModel | None = None, name: str = "posterior"
) -> xr.DataTree:
    """Return results of pf.sample with the groups named, as they were made; a SettingsError says what is missing.

    With a model they have to be of this one, with the groups that describe its data.
    """
    groups = groups if model is None else ("observed_data", "constant_data", *groups)
    if not isinstance(posterior, xr.DataTree) or "posterior" not in posterior.children:
        raise SettingsError(f"{name} must be what pf.sample returned, not {told(posterior)}")
    if missing := [group for group in groups if group not in posterior.children]:
        raise SettingsError(f"{name} has no group {missing[0]!r}: {REMEDIES.get(missing[0], OF_SAMPLE)}")
    if missing := [attribute for attribute in NEEDED if attribute not in posterior.attrs]:
        raise SettingsError(
            f"{name} has no attribute {missing[0]!r}, without which nobody can tell what its draws are: give the "
            "results of pf.sample with their attributes (tree.attrs), made by this version of pathfold"
        )
    tree = _Reader(posterior, ("posterior", *groups), name).in_order()
    if model is not None:
        refuse_other_model(tree, model)
    return tree


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
