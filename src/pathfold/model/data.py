"""Observed series, and the grid of intervals the sampler works on."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Self

import numpy as np

from pathfold.errors import DataError


@dataclass(frozen=True, init=False, eq=False)
class Observations:
    """Values (T, Y) at increasing times (T,) after `initial_time`; NaN is a missing entry. (T,) values mean Y = 1."""

    times: np.ndarray
    values: np.ndarray
    initial_time: float

    def __init__(self, times: Any, values: Any, initial_time: float = 0.0):
        initial_time = float(initial_time)
        times = _regularised(_real("times", times), initial_time)
        values = _real("values", values).astype(np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if times.ndim != 1 or values.ndim != 2:
            raise DataError(f"times have shape {times.shape} and values {values.shape}, expected (T,) and (T, Y)")
        if times.size == 0 or values.shape[1] == 0:
            raise DataError("the series is empty; give at least one time and one value")
        if len(times) != len(values):
            raise DataError(f"there are {len(times)} times and {len(values)} rows of values; give one row a time")
        if not (np.all(np.isfinite(times)) and np.isfinite(initial_time)):
            raise DataError("times must be finite; leave out a time that is not known")
        if np.any(np.diff(times) <= 0):
            index = int(np.argmax(np.diff(times) <= 0)) + 1
            raise DataError(
                f"times must increase, but times[{index}] = {times[index]} comes after {times[index - 1]}; "
                "sort them, and merge what was observed at one time into one row"
            )
        if times[0] <= initial_time:
            raise DataError(
                f"the first time, {times[0]}, is not after initial_time = {initial_time}; give an earlier initial_time"
            )
        if np.any(np.isinf(values)):
            raise DataError("values contain an infinity; write NaN for a missing entry")
        if np.all(np.isnan(values)):
            raise DataError("every value is missing (NaN); give at least one")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "initial_time", initial_time)

    @property
    def observation_dim(self) -> int:
        """Y."""
        return self.values.shape[1]


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """N intervals, each of `steps` fine steps, with the observation (if any) at its end; a panel's series follow on.

    starts, ends (N,); values (N, Y), zero where missing; mask (N, Y), True where observed; first (K,), the index of the
    first interval of each series.
    """

    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    mask: np.ndarray
    first: np.ndarray
    steps: int

    @classmethod
    def build(
        cls,
        series: Observations | Sequence[Observations],
        *,
        steps_per_interval: int | None = None,
        max_step: float | None = None,
    ) -> Self:
        """Cut each interval between observations into S = `steps_per_interval` fine steps; or into steps no longer than
        `max_step`, with S = ceil(median interval / max_step) and longer intervals split at nodes without observation.
        """
        panel = [series] if isinstance(series, Observations) else list(series)
        if not panel:
            raise DataError("the panel is empty; give at least one Observations")
        if not all(isinstance(each, Observations) for each in panel):
            raise DataError("data must be pf.Observations, or a list of them")
        if len(widths := sorted({each.observation_dim for each in panel})) > 1:
            raise DataError(f"the series of the panel have different widths, {widths}; write NaN for a missing entry")
        if (steps_per_interval is None) == (max_step is None):
            raise DataError("give exactly one of steps_per_interval and max_step")

        nodes = [np.concatenate([[each.initial_time], each.times]) for each in panel]
        lengths = np.concatenate([np.diff(each) for each in nodes])
        if max_step is None:
            if not isinstance(steps_per_interval, int | np.integer) or steps_per_interval < 1:
                raise DataError(f"steps_per_interval must be a positive integer, not {steps_per_interval!r}")
            steps, longest = int(steps_per_interval), np.inf
        else:
            if not (np.isfinite(max_step) and max_step > 0):
                raise DataError(f"max_step must be a positive number, not {max_step!r}")
            steps = _ceil(np.median(lengths) / max_step)
            longest = steps * max_step

        starts, ends, values, first = [], [], [], []
        for each, times in zip(panel, nodes, strict=True):
            first.append(len(starts))
            for start, end, value in zip(times[:-1], times[1:], each.values, strict=True):
                cuts = np.linspace(start, end, _ceil((end - start) / longest) + 1)
                starts.extend(cuts[:-1])
                ends.extend(cuts[1:])
                values.extend([np.full_like(value, np.nan)] * (len(cuts) - 2) + [value])
        mask = ~np.isnan(values)
        return cls(
            np.array(starts), np.array(ends), np.where(mask, values, 0.0), mask, np.array(first, dtype=np.int64), steps
        )

    @property
    def delta(self) -> np.ndarray:
        """The fine step of each interval, (N,)."""
        return (self.ends - self.starts) / self.steps

    def refined(self) -> "TimeGrid":
        """The same with every fine step an interval of its own."""
        S, last = self.steps, np.arange(1, len(self.starts) + 1) * self.steps - 1
        edges = self.starts[:, None] + self.delta[:, None] * np.arange(S + 1)
        edges[:, -1] = self.ends
        values, mask = np.zeros((2, len(self.starts) * S, self.values.shape[1]))
        values[last], mask[last] = self.values, self.mask
        return TimeGrid(edges[:, :-1].ravel(), edges[:, 1:].ravel(), values, mask > 0, S * self.first, 1)

    @property
    def regular(self) -> bool:
        """Whether all fine steps are equal, to rounding."""
        return bool(np.ptp(self.delta) <= 1e-12 * np.max(self.delta))


def _ceil(ratio: float) -> int:
    """The next integer, at least 1, forgiving rounding error in a ratio meant to be whole."""
    return max(1, ceil(ratio * (1 - 1e-9)))


def _real(name: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given)
        if np.issubdtype(array.dtype, np.complexfloating):
            raise DataError(f"{name} are complex; give real numbers")
        return array if array.dtype == np.float32 else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be an array of real numbers, not {given!r}") from error


def _regularised(times: np.ndarray, initial_time: float) -> np.ndarray:
    """Single precision times that lie on a regular grid up to their rounding, as jnp makes them, are put on it."""
    precise = times.astype(np.float64)
    if times.dtype != np.float32 or times.ndim != 1 or times.size == 0:
        return precise
    grid = np.linspace(initial_time, precise[-1], len(times) + 1)[1:]
    tolerance = 4 * np.finfo(np.float32).eps * np.max(np.abs(precise))
    return grid if np.all(np.abs(grid - precise) <= tolerance) else precise
