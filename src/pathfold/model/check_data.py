"""Checks that a model can have produced the data, before anything is done with a series."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data.data import Data, Observations, panel_of
from pathfold.data.data_table import naming_series
from pathfold.data.dates import told_time
from pathfold.data.inputs import known_inputs
from pathfold.data.seen import Seen
from pathfold.data.time_grid import MISSING, TimeGrid
from pathfold.errors import DataError, warn
from pathfold.model.diffusion_model import DiffusionModel
from pathfold.model.observation import Points

FAR = 100.0  # a first interval that is longer than the others by this factor was hardly meant


def check_panel(model: DiffusionModel, data: Data, *, in_results: bool = False) -> None:
    """Check every series; if there are several, the error names the one it is about.

    A warning tells of what was hardly meant, save where results of the data exist: it came before them.
    """
    panel = panel_of(data)
    for name, observations in panel.items():
        with naming_series(name) if len(panel) > 1 else nullcontext():
            check_data(model, observations)
            if not in_results:
                _warn_of_a_far_start(observations)
                _warn_of_another_unit(model, observations)
    if not in_results:
        _warn_of_other_columns(model, panel)
    events = any(observations.events for observations in panel.values())
    if model.jumps.events and not events and not in_results:
        name = next(iter(model.jumps.events))
        warn(
            f"the model has an event {name!r}, and the data have none: give "
            f"pf.Observations(..., events={{{name!r}: (times, amounts)}}) if it ever happened"
        )


def check_data(model: DiffusionModel, observations: Observations) -> None:
    """Raise DataError unless the values have one column for each observed component and the start can meet them."""
    if observations.observation_dim != model.observation_dim:
        raise DataError(
            f"values have {observations.observation_dim} columns, but the model's observation has "
            f"{model.observation_dim}; give values of shape (T, {model.observation_dim}), NaN where missing"
        )
    _check_columns(observations.components or (), model.observed or ())
    check_inputs_and_events(model, observations)
    _check_totals(model, observations)
    with jax.enable_x64(True):
        values, known = observations.values, ~np.isnan(observations.values)
        data = Seen(np.where(known, values, MISSING), known, observations.censored, observations.upper)
        model.observation.check_values(
            data,
            partial(_points, model, observations),
            model.kept,
            lambda row: told_time(observations.times[row], observations.calendar),
        )
    at_start = observations.values[observations.times == observations.initial_time]
    if np.isfinite(at_start).sum() > model.start_dim + model.observation_noise_dim:
        raise DataError(
            f"the initial state, observed at initial_time = {observations.initial_time}, is fixed or nearly so and "
            "cannot meet the data; give initial_state a distribution, an earlier initial_time if the series began "
            "before it was observed, or leave that observation out"
        )


def check_inputs_and_events(model: DiffusionModel, observations: Observations) -> None:
    """Raise DataError unless the inputs are known for as long as the series runs, and the model has its events.

    And unless the series has the covariates of the model.
    """
    model.numbers(observations.covariates)
    if unknown := [name for name in observations.events if name not in model.jumps.events]:
        raise DataError(f"the event {unknown[0]!r} is none of the model's: say in the model's events what it does")
    if unknown := [name for name in observations.inputs if name not in model.inputs]:
        raise DataError(f"the input {unknown[0]!r} is none of the model's: name it in the model's inputs, too")
    span = observations.initial_time, observations.times[-1]
    known_inputs(model.inputs, observations.inputs, *span, observations.calendar)


def _check_totals(model: DiffusionModel, observations: Observations) -> None:
    """Raise DataError if a total over two intervals, one of them missing, could be taken for one over one interval.

    In a table, rows with inputs alone may or may not be times at which a total is missing. Equal intervals tell.
    """
    intervals = np.diff(observations.times, prepend=observations.initial_time)
    intervals = intervals[intervals > 0.0]
    if model.jumps.accumulators and observations.unseen and np.ptp(intervals) > 1e-6 * intervals.max():
        raise DataError(
            f"the model has accumulators, and {observations.unseen} rows of the table have inputs alone: it is not "
            f"known at which of them a total is missing (totals are {intervals.min():g} to {intervals.max():g} apart). "
            "Give pf.Observations(times, values, inputs=...), with the times of all totals and NaN where one is missing"
        )


def _warn_of_a_far_start(observations: Observations) -> None:
    """Warn if a series begins at time 0, as it does by default, and is observed long after that, as in 1966."""
    first, times = observations.initial_time, observations.times
    if first == 0.0 and times.size > 1 and times[0] > FAR * np.diff(times).max():
        warn(
            f"the first observation is at {times[0]:g}, long after initial_time, which is 0 by default: the model runs "
            f"for all that time unseen; give initial_time={times[0]:g}, or a time shortly before, if it begins there"
        )


def _warn_of_another_unit(model: DiffusionModel, observations: Observations) -> None:
    """Warn if an input begins with the series and goes on so much longer that it seems to be counted otherwise."""
    begin, end = observations.initial_time, observations.times[-1]
    for name, given in (model.inputs | observations.inputs).items():
        if given and given.looks_otherwise_counted(begin, end):
            warn(
                f"the input {name!r} runs from {given.times[0]:g} to {given.times[-1]:g}, the series from {begin:g} to "
                f"{end:g}: count both in one unit, such as hours; if they are, leave out values that come much later"
            )


def _warn_of_other_columns(model: DiffusionModel, panel: Mapping[str | int, Observations]) -> None:
    """Warn if a column has another name than what it is taken for: it may be another column than the one meant."""
    columns = next((series.components for series in panel.values() if series.components), ())
    for column, observed in zip(columns, model.observed or (), strict=False):
        if column != observed:
            warn(
                f"the column {column!r} of the data is taken for {observed!r}, which the model observes: if it is, "
                "give both one name"
            )


def _check_columns(columns: tuple[str, ...], observed: tuple[str, ...]) -> None:
    """Raise DataError if a column has the name of another component."""
    for i, column in enumerate(columns):
        if observed and column != observed[i] and column in observed:
            raise DataError(
                f"the columns of the data are {columns}, but the model observes {observed}; give the columns in this "
                "order"
            )


def _points(model: DiffusionModel, observations: Observations) -> Points:
    """Return states and parameters drawn from the prior, and the times of the data, to try a likelihood at."""
    grid, points = TimeGrid.build(observations, steps_per_interval=1), model.kept.get(model.points)
    return [jnp.asarray(x) for x, _, _ in points], [z for _, z, _ in points], model.clocks_at(grid, grid.rows)
