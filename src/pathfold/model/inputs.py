"""Inputs: quantities known as functions of time that the model's functions may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from pathfold.errors import DataError, PathfoldError, told
from pathfold.model.names import check_name
from pathfold.model.real_arrays import check_same_rows, real_array

InputKind = Literal["linear", "previous"]


@dataclass(frozen=True, init=False, eq=False)
class Input:
    """A known function of time that drives the model: a dose, a temperature, a stimulus.

    Parameters
    ----------
    times
        Increasing times (K,), in the unit of the observations.
    values
        Values (K,).
    kind
        "linear": straight lines between the values; "previous": each value holds until the next time.
    """

    times: np.ndarray
    values: np.ndarray
    kind: InputKind

    def __init__(self, times: Any, values: Any, kind: InputKind = "linear"):
        if not isinstance(kind, str) or kind not in get_args(InputKind):
            raise DataError(f"an input's kind must be 'linear' or 'previous', not {told(kind)}")
        check_same_rows({"an input's times": times, "an input's values": values})
        times = real_array("an input's times", times).astype(np.float64)
        values = real_array("an input's values", values).astype(np.float64)
        if times.ndim != 1 or times.size == 0 or times.shape != values.shape:
            raise DataError(f"an input has times {times.shape} and values {values.shape}, expected one value per time")
        if not (np.all(np.isfinite(times)) and np.all(np.isfinite(values)) and np.all(np.diff(times) > 0)):
            raise DataError("an input's times must increase, and times and values be finite: fill in what is missing")
        for name, value in (("times", times), ("values", values), ("kind", kind)):
            object.__setattr__(self, name, value)

    def check_cover(self, name: str, start: float, end: float) -> None:
        """Raise DataError unless the input is known from start to end; one of kind "previous" keeps its last value."""
        if start < self.times[0] or (self.kind == "linear" and end > self.times[-1]):
            raise DataError(
                f"the input {name!r} is known from {self.times[0]} to {self.times[-1]}, but the series runs from "
                f"{start} to {end}; give it for all of that time"
            )

    def at(self, t: np.ndarray) -> np.ndarray:
        if self.kind == "linear":
            return np.interp(t, self.times, self.values)
        rounding = 1e-12 * (1.0 + np.abs(t))  # for a fine step that is meant to begin where the value changes
        return self.values[np.maximum(np.searchsorted(self.times, t + rounding, side="right") - 1, 0)]

    def written(self) -> dict[str, Any]:
        """Return the arguments that make the same input, as numbers and text."""
        return {"times": self.times.tolist(), "values": self.values.tolist(), "kind": self.kind}


def check_inputs(inputs: Any, error: type[PathfoldError]) -> dict[str, Input]:
    """Return the user's dict of inputs by name, or raise `error` if it is not one."""
    if not isinstance(inputs, Mapping) or not all(isinstance(series, Input) for series in inputs.values()):
        raise error(f"inputs must be a dict of name -> pf.Input(times, values), not {told(inputs)}")
    for name in inputs:
        check_name("the input", name, error)
    return dict(inputs)
