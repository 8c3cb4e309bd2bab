"""Observed series, as the user gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pathfold.data.censoring import ABOVE, BELOW, BETWEEN, read_censored
from pathfold.data.covariates import Label, read_covariates
from pathfold.data.data_table import naming_series
from pathfold.data.dates import Calendar, check_one_unit, in_unit, told_time
from pathfold.data.events import check_event_times, read_events
from pathfold.data.inputs import Input, check_inputs
from pathfold.data.long_table import LongTable
from pathfold.data.real_arrays import check_same_rows, is_frame, is_labelled, real_array, real_number
from pathfold.errors import DataError, told

TIMES = ("t", "time", "times", "date", "dates", "datetime", "timestamp", "day", "month", "year")  # names of columns
LARGEST = 1e100  # its square, and functions of that in a model, are still numbers


@dataclass(frozen=True, init=False, eq=False)
class Observations:
    """One observed series.

    Parameters
    ----------
    times
        Increasing times (T,): numbers, or dates (also as text, 2026-03-31) or durations with a `unit`. Or a pandas
        DataFrame or Series (times in its index, which must not be the one that counts rows) or an xarray.DataArray
        (with a coordinate of times), given alone, without `values`; the names of its columns label the components.
    values
        Observed values (T, Y), or (T,) for one component. NaN and masked entries are missing ones.
    initial_time
        The time at which the model's initial state holds, not after the first of the times. What is observed then
        observes the initial state.
    inputs
        A dict of name -> `pf.Input`, in the place of the model's inputs of the same name.
    unit
        What dates and durations are counted in: "seconds", "minutes", "hours", "days", "weeks", or "years" of 365.25
        days; short "s", "min", "h", "d", "w", "y". Dates count from `initial_time` if that is a date, which then is
        time 0, and else from the first of them.
    censored
        Which values are bounds: an array (T, Y) of -1 (the true value is at most this), 0, and 1 (at least this); or a
        pair (low, high) of arrays of bounds, infinite on an open side, NaN where the value is what was observed.
    events
        A dict of name -> (times, amounts) for the model's events of these names. An event at an observation time comes
        before the observation.
    covariates
        A dict of name -> number, or name of a group, or a row of a table (a pandas Series): what is known of the series
        as a whole, such as `{"weight": 70.0, "sex": "F"}`. All series of a panel have the same ones.
    name
        What the results call the series.

    Examples
    --------
    >>> data = pf.Observations([0.5, 1.0, 2.5], [[1.2, 0.3], [1.1, float("nan")], [0.9, 0.2]])
    >>> data.observation_dim
    2
    """

    times: np.ndarray
    values: np.ndarray
    initial_time: float
    components: tuple[str, ...] | None
    inputs: dict[str, Input]
    censored: np.ndarray
    upper: np.ndarray
    events: dict[str, tuple[np.ndarray, np.ndarray]]
    covariates: dict[str, Label]
    name: str | int | None
    calendar: Calendar | None
    unseen: int  # rows of the table it comes from that have inputs alone

    def __init__(
        self,
        times: Any,
        values: Any = None,
        initial_time: Any = 0.0,
        inputs: Mapping[str, Input] | None = None,
        *,
        unit: str | Calendar | None = None,
        censored: Any = None,
        events: Mapping[str, tuple[Any, Any]] | None = None,
        covariates: Mapping[str, Any] | None = None,
        name: str | int | None = None,
    ):
        components = None
        check_same_rows({"times": times, "values": values, "censored": censored})
        censored = _in_order(censored, times if values is None else values)
        if values is None:
            times, values, components = _taken_apart(times)
        times, initial_time, calendar = in_unit(times, initial_time, unit)
        events = read_events(events, calendar)
        initial_time = real_number("initial_time", initial_time)
        times = _regularised(real_array("times", times), initial_time)
        values = real_array("values", values, missing=True).astype(np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if times.ndim != 1 or values.ndim != 2:
            raise DataError(f"times have shape {times.shape} and values {values.shape}, expected (T,) and (T, Y)")
        if times.size == 0 or values.shape[1] == 0:
            raise DataError("the series is empty; give at least one time and one value")
        if len(times) != len(values):
            raise DataError(f"there are {len(times)} times and {len(values)} rows of values; give one row per time")
        if not np.all(np.isfinite(times)):
            raise DataError("times must be finite; leave out a time that is not known")
        if np.any(np.diff(times) <= 0):
            index = int(np.argmax(np.diff(times) <= 0)) + 1
            raise DataError(
                f"times must increase, but times[{index}] = {told_time(times[index], calendar)} comes after "
                f"{told_time(times[index - 1], calendar)}; "
                "sort them, and merge what was observed at one time into one row (a table of several series is for "
                "pf.Observations.from_frame(table, series=..., time=..., values=...))"
            )
        if times[0] < initial_time:
            raise DataError(
                f"the first time, {told_time(times[0], calendar)}, is before initial_time = "
                f"{told_time(initial_time, calendar)}; give an earlier initial_time"
            )
        values, kinds, upper = read_censored(values, censored)
        check_event_times(events, times, initial_time)
        if np.any(np.isinf(values)):
            raise DataError("values contain an infinity; write NaN for a missing entry")
        if np.all(np.isnan(values)):
            raise DataError("every value is missing (NaN); give at least one")
        for what, array in (("times", np.append(times, initial_time)), ("values", values), ("bounds", upper)):
            if (most := np.nanmax(np.abs(array))) > LARGEST:
                raise DataError(f"{what} are as large as {most:g}, whose powers overflow; change the unit")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "initial_time", initial_time)
        object.__setattr__(self, "components", components)
        given = check_inputs({} if inputs is None else inputs)
        object.__setattr__(self, "inputs", {name: each.counted(name, calendar) for name, each in given.items()})
        object.__setattr__(self, "censored", kinds)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "events", events)
        object.__setattr__(self, "covariates", read_covariates(covariates))
        object.__setattr__(self, "name", None if name is None else _series_name(name))
        object.__setattr__(self, "calendar", calendar)
        object.__setattr__(self, "unseen", 0)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        time: Any,
        values: Any,
        series: Any = None,
        censored: Any = None,
        events: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        covariates: str | Sequence[str] = (),
        initial_time: Any = 0.0,
        unit: str | None = None,
    ) -> Any:
        """Read one series, or a panel, from a long table: a row for each time of each series, in any order.

        Parameters
        ----------
        frame
            A pandas DataFrame, what pandas makes one of (a dict of columns), or the path of a CSV file (commas, UTF-8)
            with a line of names. Empty cells are missing.
        time
            The column of times, or the name of the index: numbers, or dates or durations with a `unit`.
        values
            The column, or a list of the columns, of observed values.
        series
            The column that names the series. Without it the table is one series. In a file, 007 and 7 are two series.
        censored
            The column that says which values are bounds, by -1, 0 and 1 as in `pf.Observations`; or, where there are
            several columns of values, a dict from these to theirs.
        events
            A dict from the model's events to the columns of their amounts: an event happens where its cell is not
            empty. Such a row needs no values, and then is no time of the data.
        inputs
            A dict from the model's inputs to the columns of their values, which go into a `pf.Input` of kind "linear",
            or to a pair of column and kind. Every row has a value, save with "hold": there the value before holds. A
            row with inputs needs no other values, and then is no time of the data.
        covariates
            The column, or a list of the columns, of covariates: numbers or names of groups, each the same in all rows
            of a series. What changes within a series is an input.
        initial_time
            When each series begins, as in `pf.Observations`; with None, in its first row.
        unit
            What dates and durations are counted in.

        Returns
        -------
        Observations or dict
            One series; or, if `series` names a column, a panel of them by name.

        Examples
        --------
        >>> table = {
        ...     "plant": ["a", "b", "a", "b"],
        ...     "day": [2, 1, 1, 3],
        ...     "height": [4.1, 2.0, 3.2, None],
        ... }
        >>> panel = pf.Observations.from_frame(table, series="plant", time="day", values="height")
        >>> panel["a"].times
        array([1., 2.])
        """
        table = LongTable.read(frame, time, values, censored, events, inputs, covariates, initial_time, unit)
        if series is None:
            return cls._of_rows(table, np.arange(len(table.times)), None)
        panel = Panel()
        for name, rows in table.table.series(series):
            with naming_series(name):
                panel[name] = cls._of_rows(table, rows, name)
        return panel

    @classmethod
    def _of_rows(cls, table: LongTable, rows: np.ndarray, name: Any) -> Observations:
        arguments = table.of_series(rows)
        unseen = arguments.pop("unseen")
        series = cls(**arguments, name=name)
        object.__setattr__(series, "unseen", unseen)
        return series

    def with_values(self, values: Any) -> Observations:
        """Return the series with other values, none of which is a bound."""
        given = {"events": self.events, "covariates": self.covariates, "unit": self.calendar}
        return Observations(self.times, values, self.initial_time, self.inputs, **given)

    def with_covariates(self, covariates: Mapping[str, Any]) -> Observations:
        """Return the series with other covariates."""
        other = copy(self)
        object.__setattr__(other, "covariates", read_covariates(covariates))
        return other

    @property
    def observation_dim(self) -> int:
        """Y, the number of observed components."""
        return self.values.shape[1]

    def __repr__(self) -> str:
        return f"Observations({_described([self])})"


def without_values(times: np.ndarray, dim: int, *given: Any, **known: Any) -> Observations:
    """Return times, and what else is known of a series, with zeros in the place of its values."""
    return Observations(times, np.zeros((times.size, dim)), *given, **known)


class Panel(dict[Any, Observations]):
    """Series by name, which print as what they have in sum."""

    def __repr__(self) -> str:
        return f"panel of {len(self)} series: {_described([*self.values()])}"


def _described(series: Sequence[Observations]) -> str:
    """Count the times, values, bounds and events of some series, and name events, inputs and covariates."""
    if not series:
        return "none"
    times, values, kinds = (
        np.concatenate([np.ravel(getattr(each, name)) for each in series]) for name in ("times", "values", "censored")
    )
    parts = [f"{np.isfinite(values).sum()} values at {times.size} times from {times.min():g} to {times.max():g}"]
    for kind, word in ((BELOW, "below"), (ABOVE, "above"), (BETWEEN, "between bounds")):
        bounds = np.unique(values[kinds == kind])
        which = f" {bounds[0]:g}" if bounds.size == 1 and kind != BETWEEN else ""
        parts += [f"{np.sum(kinds == kind)} {word}{which}"] if bounds.size else []
    events = Counter({name: 0 for each in series for name in each.events})
    for each in series:
        events.update({name: len(when) for name, (when, _) in each.events.items()})
    parts += [f"{count} {name} events" for name, count in events.items()]
    for what in ("inputs", "covariates"):
        names = dict.fromkeys(name for each in series for name in getattr(each, what))
        parts += [f"{what} {', '.join(names)}"] if names else []
    return ", ".join(parts)


type Data = Observations | Sequence[Observations] | Mapping[Any, Observations]
"""One series, or a panel of them: a list, or a dict by name."""


def are_data(given: Any) -> bool:
    """Tell whether these are series, not times alone; raise DataError if they could be either."""
    if is_labelled(given):
        raise DataError(
            f"a {type(given).__module__.split('.')[0]}.{type(given).__name__} could be times, or a series with its "
            "times beside it: give pf.Observations(...) of the series, or the times as a numpy array"
        )
    some = given[0] if isinstance(given, Sequence) and len(given) > 0 else given
    return isinstance(some, Observations | Mapping)


def panel_of(data: Any) -> dict[str | int, Observations]:
    """Return the series of the user's data by name: the keys of a dict, their own names, or else their numbers."""
    if isinstance(data, Mapping):
        names, panel = [_series_name(name) for name in data], list(data.values())
    else:
        panel = list(data) if isinstance(data, Sequence) else [data]
        names = [i if getattr(series, "name", None) is None else series.name for i, series in enumerate(panel)]
    if not panel:
        raise DataError(f"data are an empty {type(data).__name__}; give at least one pf.Observations")
    if odd := [series for series in panel if not isinstance(series, Observations)]:
        raise DataError(
            f"data must be pf.Observations, or a list or dict of them, not {told(odd[0])}; write pf.Observations(...) "
            "for one series, or pf.Observations.from_frame(table, ...) for a table of several"
        )
    if any(isinstance(name, str) for name in names):
        names = list(map(str, names))  # a coordinate in a file has one type
    if again := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"two series of the panel are called {again[0]!r}; give each a name of its own")
    by_name = dict(zip(names, panel, strict=True))
    check_one_unit({f"series {name!r}": each.calendar and each.calendar.unit for name, each in by_name.items()})
    return by_name


def _in_order(censored: Any, values: Any) -> Any:
    """Return `censored` with the columns of the values, if both are tables; raise DataError if it has others."""
    if isinstance(censored, tuple):
        return tuple(_in_order(each, values) for each in censored)
    columns, own = (getattr(table, "columns", None) for table in (values, censored))
    if columns is None or own is None or [*own] == [*columns]:
        return censored
    if sorted(map(str, own)) != sorted(map(str, columns)):
        raise DataError(f"censored has the columns {told([*own])}, the values {told([*columns])}; give it the same")
    return censored[[*columns]]


def _series_name(name: Any) -> str | int:
    if isinstance(name, str) and name.strip() and name.isprintable():
        return name
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        return int(name)
    raise DataError(f"a series is called {told(name)}; give a string that can be printed, or a whole number")


def _taken_apart(data: Any) -> tuple[Any, Any, tuple[str, ...] | None]:
    """Return times, values and names of components of a labelled series, which is recognised by its attributes."""
    if is_frame(data):
        _refuse_row_numbers(data)
        _refuse_text(data)
        times, values, names = data.index, data.to_numpy(), getattr(data, "columns", [getattr(data, "name", None)])
    elif hasattr(data, "data_vars"):
        raise DataError(f"times are an xarray.{type(data).__name__}; give one of its variables, a DataArray")
    elif is_labelled(data):  # an xarray DataArray
        if not 1 <= data.ndim <= 2:
            raise DataError(f"the DataArray has dimensions {data.dims}, expected a time and at most one of components")
        dim = "time" if "time" in data.dims else data.dims[0]
        if dim not in data.coords:
            raise DataError(f"the DataArray has no coordinate {dim!r}; give it the times of its rows")
        data = data.transpose(dim, ...)
        times, values = data.coords[dim], data.values
        names = data.coords[data.dims[1]].values.tolist() if data.ndim == 2 and data.dims[1] in data.coords else [None]
    else:
        raise DataError(
            f"values are missing beside {told(data)}: give pf.Observations(times, values), or a DataFrame or DataArray "
            "alone"
        )
    if again := [name for name, count in Counter(map(str, names)).items() if count > 1]:
        raise DataError(f"two columns of the data are called {again[0]!r}; give each a name of its own")
    return times, values, None if list(names) == [None] else tuple(map(str, names))


def _refuse_row_numbers(data: Any) -> None:
    """Raise DataError if rows have the numbers that pandas gives them, which are no times.

    These count from 0, in a part of a table from later, where a column called like times says that it has these.
    """
    index, columns = data.index, getattr(data, "columns", ())
    called = [name for name in columns if str(name).lower() in TIMES]
    counts = isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
    if index.name is not None or not (counts or (called and index.dtype.kind == "i")):
        return
    where = told(called[0] if called else "day")
    raise DataError(
        f"the index of the {type(data).__name__} counts its rows and has no times: give table.set_index({where}), or "
        f"pf.Observations.from_frame(table, time={where}, values=...); if its numbers are the times, name it: "
        ".rename_axis('time')"
    )


def _refuse_text(data: Any) -> None:
    """Raise DataError if a column of a table has text, such as names of series."""
    for i, name in enumerate(getattr(data, "columns", ())):
        if any(isinstance(cell, str) for cell in data.iloc[:, i]):
            raise DataError(
                f"the column {told(name)} of the table is text: give the columns of values alone, or name what columns "
                f"are in pf.Observations.from_frame(table, time=..., values=..., series={told(name)})"
            )


def _regularised(times: np.ndarray, initial_time: float) -> np.ndarray:
    """Put single precision times that lie on a regular grid up to their rounding, as jnp makes them, onto the grid.

    If the rounding is not small compared with a step of the grid, no grid can be told, and times stay as they are.
    """
    precise = times.astype(np.float64)
    if times.dtype != np.float32 or times.ndim != 1 or times.size == 0:
        return precise
    begin = 0 if precise[0] == initial_time else 1
    grid = np.linspace(initial_time, precise[-1], len(times) + begin)[begin:]
    rounding = 2 * np.spacing(np.max(np.abs(times)))
    step = (precise[-1] - initial_time) / len(precise)
    return grid if rounding < 0.01 * step and np.all(np.abs(grid - precise) <= rounding) else precise
