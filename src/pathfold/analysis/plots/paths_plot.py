"""Paths through the observations, and what comes after them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pathfold.analysis.plots.style import (
    DATA,
    FORECAST,
    POSTERIOR,
    REPLICATED,
    TRUTH,
    draw_bands,
    first_few,
    grid_of_axes,
    legend_outside,
    say_how_many,
)
from pathfold.data.censoring import ABOVE, BELOW
from pathfold.data.checks import selected
from pathfold.errors import SettingsError
from pathfold.results.in_order import results_of
from pathfold.results.reading import NEW, SEEN, component_names, observation_names, of_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_paths(
    posterior: xr.DataTree,
    names: Sequence[str | int] | str | int | None = None,
    *,
    series: Sequence[str | int] | str | int | None = None,
    truth: Any = None,
    observed: Mapping[int, int] | None = None,
    natural: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Figure:
    """Draw bands that hold 50 and 95 % of the posterior of every component of the state over time.

    What lies after the last observation is in another tone, and so are the `predictions`, if the results have them. The
    states of `pf.paths` are drawn with the others.
    Draws of `pf.posterior_predictive` are drawn too, in the units of the data, below: those of all columns that show no
    component as it is. Every series of a panel has axes of its own.

    Parameters
    ----------
    posterior
        Results of `pf.sample`, `pf.paths`, `pf.predict` or `pf.posterior_predictive`.
    names
        The components, and columns of replicated data, to draw, by name or number (columns are counted after the
        components); all by default.
    series
        The series to draw, by name or number; the first twelve by default.
    truth
        States (time, component) at the times of the posterior's, where they are known.
    observed
        Which observation column shows which component directly (column by component); by default those that the model
        observes as they are.
    natural
        Maps states (..., component) to the units they are drawn, and observed, in; "log rate" is then called "rate".
    """
    tree = results_of(posterior, "observed_data", "constant_data")
    if "state" not in tree.posterior:
        raise SettingsError("there are no paths to draw: keep_path or keep left them out; keep 'nodes' or 'all'")
    transform = natural or (lambda x: x)
    known = component_names(tree.posterior)
    shown = _shown(tree) if observed is None and natural is None else dict(observed or {})
    of_states, of_data = series_of(tree.posterior), series_of(tree.observed_data)
    every = [*dict.fromkeys(of_states)]
    columns = [every[k] for k in first_few(series, every)]
    replicated = _replicated(tree, set(shown.values()))
    chosen = selected("component", names, [*known, *replicated])
    components = [k for k in chosen if k < len(known)]
    replicated = {name: each for k, (name, each) in enumerate(replicated.items(), start=len(known)) if k in chosen}
    labels = [known[k] if natural is None else known[k].removeprefix("log ") for k in components]
    figure, axes = grid_of_axes([*labels, *replicated], columns, tree)
    say_how_many(figure, series, every)
    for j, column in enumerate(columns):
        times, states = _with_start(tree, np.flatnonzero(of_states == column), every.index(column))
        if "paths" in tree.children:
            times, states = _with_paths(times, states, tree["paths"].to_dataset(), column)
        states = transform(states)
        seen = of_data == column
        last = tree.observed_data["time"].values[seen].max(initial=-np.inf)
        for ax, k in zip(axes[:, j], components, strict=False):
            past, after = times <= last, times >= times[times <= last].max(initial=times[0])
            draw_bands(ax, times[past], states[:, past, k], POSTERIOR, "posterior")
            if np.any(times > last):
                draw_bands(ax, times[after], states[:, after, k], FORECAST, "forecast")
            _draw_predicted_states(ax, tree, k, column, transform)
            if truth is not None:
                true = transform(np.asarray(truth, dtype=float))[of_states == column]
                ax.plot(
                    tree.posterior["time"].values[of_states == column],
                    true[:, k],
                    color=TRUTH,
                    lw=1,
                    ls="--",
                    label="truth",
                )
            if k in shown:
                draw_data(ax, tree.observed_data, seen, shown[k])
        for ax, (k, values) in zip(axes[len(components) :, j], replicated.values(), strict=True):
            draw_bands(ax, tree.observed_data["time"].values[seen], values[:, seen], REPLICATED, "data replicated")
            draw_data(ax, tree.observed_data, seen, k)
    legend_outside(figure)
    return figure


def plot_predictions(
    posterior: xr.DataTree,
    names: Sequence[str | int] | str | int | None = None,
    *,
    series: Sequence[str | int] | str | int | None = None,
) -> Figure:
    """Draw the data, and bands that hold 50 and 95 % of the observations predicted; each series has axes of its own.

    Parameters
    ----------
    posterior
        What `pf.predict` returned.
    names
        The observed components to draw, by name or number; all by default.
    series
        The series to draw, by name or number; by default the first twelve of those predicted. A new series is called
        "new".
    """
    tree = results_of(posterior, "observed_data", "constant_data", "predictions", "predictions_constant_data")
    predictions: xr.Dataset = tree["predictions"].to_dataset()
    known = observation_names(tree)
    rows = selected("observation", names, known)
    of_predictions, of_data = _series_predicted(predictions), series_of(tree.observed_data)
    predicted = [*dict.fromkeys(of_predictions)]
    every = predicted if series is None else [*dict.fromkeys([*of_data, *of_predictions])]
    columns = [every[k] for k in first_few(series, every)]
    values = of_draws(predictions["y"])
    figure, axes = grid_of_axes([known[k] for k in rows], columns, tree)
    say_how_many(figure, series, every)
    for j, column in enumerate(columns):
        mine = of_predictions == column
        data, seen = tree.observed_data.to_dataset(), of_data == column
        constant = tree["predictions_constant_data"].to_dataset()
        if column == NEW and SEEN in constant:
            data, seen = constant.drop_vars("time").rename({SEEN: "time"}), np.full(constant.sizes[SEEN], True)
        for ax, k in zip(axes[:, j], rows, strict=True):
            draw_data(ax, data, seen, k)
            if np.any(mine):
                draw_bands(ax, predictions["time"].values[mine], values[:, mine, k], FORECAST, "predictions")
    legend_outside(figure)
    return figure


def plot_data(tree: xr.DataTree, series: Sequence[int]) -> Figure:
    """Draw the observations alone, of the series of these numbers."""
    of_data, names = series_of(tree.observed_data), observation_names(tree)
    every = [*dict.fromkeys(of_data)]
    columns = [every[k] for k in series if k < len(every)]
    figure, axes = grid_of_axes(names, columns, tree)
    for (k, j), ax in np.ndenumerate(axes):
        draw_data(ax, tree.observed_data, of_data == columns[j], k)
    return figure


def draw_data(ax: Axes, data: Any, rows: np.ndarray, column: int) -> None:
    """Draw the values of one component in these rows; hollow arrows where they are limits, on the side of the value."""
    times, values = data["time"].values[rows], data["y"].values[rows, column]
    kinds = data["censored"].values[rows, column] if "censored" in data else np.zeros(times.shape)
    for kind, side in ((BELOW, "below"), (ABOVE, "above")):
        draw_limits(ax, times[kinds == kind], values[kinds == kind], side)
    exact = ~np.isin(kinds, (BELOW, ABOVE))
    ax.plot(times[exact], values[exact], "o", color=DATA, ms=2.5, label="observed")


def draw_limits(ax: Axes, times: np.ndarray, values: np.ndarray, side: str) -> None:
    """Draw limits, if there are any, as hollow arrows to the side on which the values are."""
    if times.size:
        style = {"below": "v", "above": "^"}[side]
        ax.plot(times, values, style, color=DATA, mfc="none", ms=4, mew=0.8, label=f"known to be {side}")


def _replicated(tree: xr.DataTree, shown: set[int]) -> dict[str, tuple[int, np.ndarray]]:
    """Return replicated observations (draw, time), with their column, by name: of the columns not shown already."""
    if "posterior_predictive" not in tree.children:
        return {}
    y = of_draws(tree["posterior_predictive"].to_dataset()["y"])
    return {name: (k, y[..., k]) for k, name in enumerate(observation_names(tree)) if k not in shown}


def _draw_predicted_states(ax: Axes, tree: xr.DataTree, component: int, series: str, transform: Any) -> None:
    if "predictions" not in tree.children:
        return
    predictions: xr.Dataset = tree["predictions"].to_dataset()
    mine = _series_predicted(predictions) == series
    if not np.any(mine):
        return
    states = transform(of_draws(predictions["state"]))
    draw_bands(ax, predictions["time"].values[mine], states[:, mine, component], FORECAST, "forecast")


def _with_start(tree: xr.DataTree, rows: np.ndarray, series: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times and states (draw, time, component) of one series, the initial state first."""
    first = int(tree.constant_data["first_interval"].values[series])
    begin = tree.constant_data["interval_start"].values[first]
    states = tree.posterior["state"][:, :, rows].values
    initial = tree.posterior["initial_state"].values
    initial = initial[:, :, series] if "series" in tree.posterior["initial_state"].dims else initial
    times = tree.posterior["time"].values[rows]
    whole = np.concatenate([initial[:, :, None], states], axis=2)
    return np.append(begin, times), whole.reshape(-1, *whole.shape[2:])


def _with_paths(times: np.ndarray, states: np.ndarray, paths: xr.Dataset, series: str) -> tuple[np.ndarray, np.ndarray]:
    """Put the paths of one series between states (draw, time, component); NaN fills up the fewer draws."""
    mine = series_of(paths) == series
    between = paths["state"].values[:, :, mine].reshape(-1, int(mine.sum()), states.shape[2])
    both = np.full((max(len(states), len(between)), times.size + int(mine.sum()), states.shape[2]), np.nan)
    both[: len(states), : times.size], both[: len(between), times.size :] = states, between
    times = np.append(times, paths["time"].values[mine])
    order = np.argsort(times, kind="stable")
    return times[order], both[:, order]


def _shown(tree: xr.DataTree) -> dict[int, int]:
    """Return the observation columns by the place, in the posterior, of the component that each shows as it is."""
    shows = np.atleast_1d(tree.observed_data["y"].attrs.get("shows", []))
    every, there = json.loads(tree.attrs["labels"])["component"], tree.posterior["component"].values.tolist()
    shown = {every[component]: column for column, component in enumerate(shows) if component >= 0}
    return {there.index(label): column for label, column in shown.items() if label in there}


def _series_predicted(predictions: xr.Dataset) -> np.ndarray:
    """Return the series that each time of predictions belongs to; a new one beside a single series has its own name."""
    return np.full(predictions["time"].size, NEW) if predictions.attrs["new_series"] else series_of(predictions)


def series_of(group: xr.DataTree | xr.Dataset) -> np.ndarray:
    """Return the series that each time belongs to, by name or by its number as text."""
    coordinates = group.coords
    if "node_series" not in coordinates:
        return np.zeros(group["time"].size, dtype=int).astype(str)
    return coordinates["node_series"].values.astype(str)
