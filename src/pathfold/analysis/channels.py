"""The noise of posterior draws as series of standard normals, one for each source, by which a model is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xarray as xr

from pathfold.results.noise_group import NOTHING
from pathfold.results.reading import component_names, observation_names, of_draws

NoiseKind = Literal["path", "observation", "together", "ahead"]


@dataclass(frozen=True)
class Channel:
    """One source of noise over time, in every draw held; a panel's series follow on.

    `values` (draw, time) are independent standard normals a priori. Those of the path are sums over the fine steps of
    an interval, since that is what data tell of; the state at its beginning, or that which is observed, is in `states`
    (draw, time, component), known before the noise is. Path and error "together" are what makes a value high, which
    data tell better than either; one-step-ahead residuals are the kind "ahead". `intervals` are the numbers of the
    intervals they belong to.
    """

    kind: NoiseKind
    name: str
    values: np.ndarray
    intervals: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    series: np.ndarray
    states: np.ndarray | None = None


def channels(tree: xr.DataTree) -> list[Channel]:
    """Return all noise of path and observations that is standard normal a priori, and residuals if there are any.

    Noise that moves no state is left out.
    """
    noise, constant = tree.noise.to_dataset(), tree.constant_data
    begins, ends = constant["interval_start"].values, constant["interval_end"].values
    first = constant["first_interval"].values
    series = np.searchsorted(first, np.arange(len(ends)), side="right") - 1
    at_ends = of_draws(noise["state"])
    at_begins = _states_before(noise, at_ends, first)
    sources: list[Channel] = []

    def add(kind: NoiseKind, name: str, values: np.ndarray, rows: np.ndarray, states: np.ndarray | None = None) -> None:
        if np.any(rows):
            where = (np.flatnonzero(rows), begins[rows], ends[rows], series[rows])
            sources.append(Channel(kind, name, values[:, rows], *where, None if states is None else states[:, rows]))

    if "path_noise" in noise:
        v = of_draws(noise["path_noise"])
        rows = (ends > begins) & _before_the_last_observation(noise["observed"].values > 0, first)
        names = [(k, name) for k, name in enumerate(_path_names(noise)) if noise["drives"].values[k] != NOTHING]
        for weights, how in _weights(v.shape[2]):
            for k, name in names:
                add("path", name + how, v[:, :, :, k] @ weights, rows, at_begins)
    scored = _scored(noise)
    if "observation_noise" in noise:
        w, seen, names = of_draws(noise["observation_noise"]), noise["observed"].values > 0, observation_names(tree)
        standard = np.atleast_1d(noise["observation_noise"].attrs["standard"])
        for k in np.flatnonzero(standard):
            j = int(noise["observed_column"].values[k])
            name, rows = (names[j], seen[:, j]) if j >= 0 else (f"observation noise {k}", seen.any(axis=1))
            if j not in scored:
                add("observation", name, w[:, :, k], rows, at_ends)
    for j, (scores, rows) in scored.items():
        add("observation", observation_names(tree)[j], scores, rows, at_ends)
    if "residuals" in tree.children:
        for name, values, rows in _residuals(tree, len(ends)):
            add("ahead", name, values, rows)
    together = _together(sources, noise, observation_names(tree)) if "moves" in noise else ()
    return [*sources, *together]


def idle(noise: xr.Dataset) -> list[str]:
    """Return the names of the Wiener processes that move no state."""
    if "path_noise" not in noise:
        return []
    names = zip(_path_names(noise), noise["drives"].values, strict=True)
    return [name for name, component in names if component == NOTHING]


def _scored(noise: xr.Dataset) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return the normal scores (draw, interval) of observed columns that have them, and the intervals with one."""
    if "observation_score" not in noise:
        return {}
    scores = np.moveaxis(of_draws(noise["observation_score"]), 2, 0)
    return {j: (own, rows) for j, own in enumerate(scores) if np.any(rows := ~np.isnan(own).all(axis=0))}


def _together(sources: list[Channel], noise: xr.Dataset, observed: list[str]) -> Iterator[Channel]:
    """Yield (v + w) / sqrt(2), or (v - w), of each path noise v that moves an observed column with an error w."""
    paths = dict(zip(_path_names(noise), noise["moves"].values, strict=True))
    errors = [source for source in sources if source.kind == "observation" and source.name in observed]
    for path in [source for source in sources if source.kind == "path" and source.name in paths]:
        for error in errors:
            sign = paths[path.name][observed.index(error.name)]
            at, i, j = np.intersect1d(path.intervals, error.intervals, return_indices=True)
            if sign != 0 and at.size:
                values = (path.values[:, i] + sign * error.values[:, j]) / np.sqrt(2.0)
                name = f"{path.name} and the error of {error.name}"
                yield Channel("together", name, values, at, path.begins[i], path.ends[i], path.series[i])


def _residuals(tree: xr.DataTree, intervals: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield each column's name, its residuals (draw, interval), and a mask of the intervals that have one."""
    group = tree.residuals.to_dataset()
    values, places = of_draws(group["y"]), group["interval"].values
    for j, name in enumerate(observation_names(tree)):
        residuals, rows = np.full((len(values), intervals), np.nan), np.zeros(intervals, dtype=bool)
        residuals[:, places], rows[places] = values[:, :, j], group["seen"].values[:, j] > 0
        yield name, residuals, rows


def _weights(steps: int) -> list[tuple[np.ndarray, str]]:
    """Return the weights that the noise of an interval is summed with: all alike, and the late against the early.

    Where the path forgets much within an interval the data tell of the late noise alone.
    """
    even, rising = np.full(steps, steps**-0.5), np.arange(steps) - 0.5 * (steps - 1)
    if steps == 1:
        return [(even, "")]
    return [(even, ""), (rising / np.linalg.norm(rising), " (late against early)")]


def _before_the_last_observation(seen: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return a mask of intervals with an observation at their end or later in the series: data tell only of these."""
    parts = np.split(seen.any(axis=1), first[1:])
    return np.concatenate([np.logical_or.accumulate(part[::-1])[::-1] for part in parts])


def _path_names(noise: xr.Dataset) -> list[str]:
    """Return the component that each Wiener process drives, if it is one alone; otherwise its number."""
    drives, components = noise["drives"].values, component_names(noise)
    names = [components[j] if j >= 0 else f"Wiener process {k}" for k, j in enumerate(drives)]
    repeated = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name} (noise {again + 1})" if again else name for name, again in zip(names, repeated, strict=True)]


def _states_before(noise: xr.Dataset, at_ends: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the states at the beginning of intervals: those at the end of the one before, or the initial state."""
    states = np.roll(at_ends, 1, axis=1)
    states[:, first] = of_draws(noise["initial_state"])
    return states
