"""Inputs: quantities known as functions of time that the model's functions may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from pathfold.data.dates import Calendar, as_dates, counted, told_time
from pathfold.data.events import close
from pathfold.data.names import check_name
from pathfold.data.real_arrays import check_same_rows, real_array
from pathfold.errors import DataError, ModelError, told

InputKind = Literal["linear", "previous", "hold"]

REGULAR = 1e-6  # steps that differ by less, relative to the longest, are equal
LONGER, ROWS = 20.0, 10  # lengths of a series, and values: a table that goes on for so long is counted otherwise


@dataclass(frozen=True, init=False, eq=False)
class Input:
    """A known function of time that drives the model: a dose, a temperature, a stimulus.

    It is known from its first to its last time, and what needs it at another time is refused. With equal steps between
    three or more times, the last value of a "previous" input lasts one step. A single value is a constant, known at all
    times.

    Parameters
    ----------
    times
        Increasing times (K,), in the unit of the observations; or dates, for observations that have dates.
    values
        Values (K,).
    kind
        "linear": straight lines between the values; "previous": each value holds until the next time; "hold": the same,
        and the first value holds at all times before, the last one at all times after.
    """

    times: np.ndarray
    values: np.ndarray
    kind: InputKind
    dated: bool  # whether times are, or were, dates, whose unit cannot be mistaken

    def __init__(self, times: Any, values: Any, kind: InputKind = "linear"):
        if not isinstance(kind, str) or kind not in get_args(InputKind):
            raise DataError(f"an input's kind must be 'linear', 'previous' or 'hold', not {told(kind)}")
        check_same_rows({"an input's times": times, "an input's values": values})
        if (dates := as_dates("an input's times", times)) is None:
            times = steps = real_array("an input's times", times).astype(np.float64)
        else:
            times = np.asarray(times)
            steps = np.where(np.isnat(dates.array), np.nan, dates.array.astype(np.int64))
        values = real_array("an input's values", values).astype(np.float64)
        if steps.ndim != 1 or steps.size == 0 or steps.shape != values.shape:
            raise DataError(f"an input has times {steps.shape} and values {values.shape}, expected one value per time")
        if not (np.all(np.isfinite(steps)) and np.all(np.isfinite(values)) and np.all(np.diff(steps) > 0)):
            raise DataError("an input's times must increase, and times and values be finite: fill in what is missing")
        for name, value in (("times", times), ("values", values), ("kind", kind), ("dated", dates is not None)):
            object.__setattr__(self, name, value)

    def counted(self, name: str, calendar: Calendar | None) -> Input:
        """Return the input of this name with times that are numbers, counted like those of a series."""
        if self.times.dtype == np.float64:
            return self
        numbers = Input(counted(f"the times of the input {name!r}", self.times, calendar), self.values, self.kind)
        object.__setattr__(numbers, "dated", True)
        return numbers

    def after(self, earlier: Input | None) -> Input:
        """Return this input with what an earlier one of its kind knows before it, if that is known until it begins."""
        begin, end = self.span
        if (
            earlier is None
            or earlier.kind != self.kind
            or not earlier.span[0] < begin <= earlier.span[1] + close(begin)
        ):
            return self
        old = earlier.times < begin - close(begin)
        times, values = np.append(earlier.times[old], self.times), np.append(earlier.values[old], self.values)
        joined = Input(times, values, self.kind)
        if joined.span[1] < end:  # its last step, where steps are not equal any more
            joined = Input(np.append(times, end), np.append(values, values[-1]), self.kind)
        return joined

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last time at which the input is known."""
        if self.kind == "hold" or self.times.size == 1:
            return -np.inf, np.inf
        steps = np.diff(self.times)
        lasts = self.kind == "previous" and steps.size > 1 and np.ptp(steps) <= REGULAR * steps.max()
        return self.times[0], self.times[-1] + (steps.mean() if lasts else 0.0)

    def looks_otherwise_counted(self, start: float, end: float) -> bool:
        """Tell whether the input begins with the series but goes on so long that its unit seems to be another."""
        length, (first, last) = end - start, (self.times[0], self.times[-1])
        is_table = self.times.size >= ROWS and not self.dated
        return is_table and abs(first - start) <= length and last - first > LONGER * length

    def example(self, i: int) -> float:
        """Return a value at which the model is tried."""
        return self.values[i % self.values.size]

    def at(self, t: np.ndarray) -> np.ndarray:
        if self.kind == "linear":
            return np.interp(t, self.times, self.values)
        rounding = close(t)  # for a fine step that is meant to begin where the value changes
        return self.values[np.maximum(np.searchsorted(self.times, t + rounding, side="right") - 1, 0)]

    def written(self) -> dict[str, Any]:
        """Return the arguments that make the same input, as numbers and text."""
        return {"times": self.times.tolist(), "values": self.values.tolist(), "kind": self.kind}


def check_inputs(inputs: Any) -> dict[str, Input]:
    """Return the user's dict of inputs by name, or raise DataError if it is not one."""
    if not isinstance(inputs, Mapping) or not all(isinstance(series, Input) for series in inputs.values()):
        raise DataError(f"inputs must be a dict of name -> pf.Input(times, values), not {told(inputs)}")
    for name in inputs:
        check_name("the input", name, DataError)
    return dict(inputs)


def check_model_inputs(given: Any) -> dict[str, Input | None]:
    """Return the inputs of a model by name from the user's dict, or names; None for those that data have to give."""
    names = (given,) if isinstance(given, str) else given
    for name in names if isinstance(names, Mapping | Sequence) else ():
        check_name("the input", name, ModelError)
    by_name = dict.fromkeys(names) if isinstance(names, Sequence) else names
    if not isinstance(by_name, Mapping) or not all(isinstance(each, Input | None) for each in by_name.values()):
        raise ModelError(f"inputs must be a dict of name -> pf.Input(times, values), or names, not {told(given)}")
    if dated := [name for name, each in by_name.items() if each and each.dated]:
        raise ModelError(
            f"the input {dated[0]!r} has dates, which only data with dates can count: name it in the model, inputs="
            f"{{{dated[0]!r}: None}}, and give it to the data, pf.Observations(..., inputs=)"
        )
    return dict(by_name)


def known_inputs(
    declared: Mapping[str, Input | None],
    own: Mapping[str, Input],
    start: float,
    end: float,
    calendar: Calendar | None,
) -> dict[str, Input]:
    """Return the inputs of a series by name, its own or the model's; raise DataError unless each is known from start
    to end, up to rounding."""
    known = {}
    for name, given in {**declared, **own}.items():
        if given is None:
            raise DataError(
                f"the series has no input {name!r}, which the model uses: give it with the data, as in "
                f"pf.Observations(..., inputs={{{name!r}: pf.Input(times, values)}})"
            )
        first, last = given.span
        before, after = start < first - close(start), end > last + close(end)
        if before or after:
            span, needed = (" to ".join(told_time(t, calendar) for t in ends) for ends in ((first, last), (start, end)))
            earlier = "values before that, or a later initial_time (in from_frame, None)" if before else ""
            later = f"values after that (pf.predict takes inputs={{{name!r}: pf.Input(...)}})" if after else ""
            raise DataError(
                f"the input {name!r} is known from {span}, but needed from {needed}: give it "
                f"{' and '.join(filter(None, (earlier, later)))}, or kind='hold' if its first and last value hold on"
            )
        known[name] = given
    return known
