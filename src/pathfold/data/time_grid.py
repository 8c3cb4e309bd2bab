"""The time grid that the sampler works on: intervals between observations, cut into fine steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Self

import numpy as np

from pathfold.data.checks import positive, whole
from pathfold.data.covariates import Label, check_all_have
from pathfold.data.data import Data, Observations, panel_of
from pathfold.data.dates import Calendar
from pathfold.data.events import close
from pathfold.data.inputs import Input, known_inputs
from pathfold.data.seen import Seen
from pathfold.errors import DataError, SettingsError, warn
from pathfold.schemes.ito import Clock

MOST_STEPS = 10**9  # no machine has memory for more fine steps
MISSING = 0.5  # takes the place of a missing value: every likelihood is finite there


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """N intervals of `steps` fine steps, each with its observation (if any) at the end; series follow one another.

    starts, ends (N,); values (N, Y), MISSING where missing; mask (N, Y), True where observed; censored, upper (N, Y),
    kinds and upper bounds of censored values; rows (N,), True at the times of the data, whatever is missing there;
    events, by name their amounts (N,) at the ends of intervals, NaN where there is none; first (K,), the index of the
    first interval of each series; series, their names or numbers; components, the names of the Y observed components
    or their numbers; inputs, those that each series has of its own; covariates, those of each series; calendars, how
    its dates are counted, if it has any. An observation or event at the initial time ends an interval of length zero,
    over which every scheme leaves the state as it is.
    """

    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    mask: np.ndarray
    censored: np.ndarray
    upper: np.ndarray
    rows: np.ndarray
    events: dict[str, np.ndarray]
    first: np.ndarray
    series: tuple[str | int, ...]
    steps: int
    components: tuple[str, ...] | tuple[int, ...]
    inputs: tuple[dict[str, Input], ...]
    covariates: tuple[dict[str, Label], ...]
    calendars: tuple[Calendar | None, ...]

    @classmethod
    def build(
        cls,
        data: Data,
        *,
        steps_per_interval: int | None = None,
        max_step: float | None = None,
    ) -> Self:
        """Cut each interval between observations into S fine steps.

        S is `steps_per_interval`; or, for steps no longer than `max_step`, S = ceil(median interval / max_step), and
        longer intervals are split at nodes without observation.
        """
        by_name = panel_of(data)
        panel = [*by_name.values()]
        if len(widths := sorted({series.observation_dim for series in panel})) > 1:
            raise DataError(f"the series of the panel have different widths, {widths}; write NaN for a missing entry")
        if len(names := {series.components for series in panel if series.components is not None}) > 1:
            columns = " and ".join(sorted(map(str, names)))
            raise DataError(f"the series of the panel have different columns, {columns}; give all the same, in order")
        check_all_have({name: series.covariates for name, series in by_name.items()})
        if (steps_per_interval is None) == (max_step is None):
            raise SettingsError(
                "give exactly one of steps_per_interval and max_step: how many fine steps there are between "
                "observations, such as steps_per_interval=10, or how long they may be"
            )

        nodes = [_Nodes.of(series) for series in panel]
        lengths = np.concatenate([own.lengths for own in nodes])
        if max_step is None:
            steps, longest = whole("steps_per_interval", steps_per_interval, least=1), np.inf
            _check_count(f"steps_per_interval = {steps}", float(steps) * len(lengths))
        else:
            max_step = positive("max_step", max_step)
            _check_count(f"max_step = {max_step:g}", float(np.sum(np.maximum(1.0, lengths / max_step))))
            steps = _ceil(np.median(lengths[lengths > 0]) / max_step) if lengths.any() else 1
            longest = steps * max_step

        cut = [own.cut(longest) for own in nodes]
        values = np.concatenate([own.values for own in cut])
        mask = ~np.isnan(values)
        counts = [len(own.ends) for own in cut]
        return cls(
            starts=np.concatenate([own.starts for own in cut]),
            ends=np.concatenate([own.ends for own in cut]),
            values=np.where(mask, values, MISSING),
            mask=mask,
            censored=np.concatenate([own.censored for own in cut]),
            upper=np.concatenate([own.upper for own in cut]),
            rows=np.concatenate([own.rows for own in cut]),
            events=_events(panel, cut),
            first=np.cumsum([0, *counts[:-1]], dtype=np.int64),
            series=tuple(by_name),
            steps=steps,
            components=names.pop() if names else tuple(range(widths[0])),
            inputs=tuple(series.inputs for series in panel),
            covariates=tuple(series.covariates for series in panel),
            calendars=tuple(series.calendar for series in panel),
        )

    @property
    def delta(self) -> np.ndarray:
        """The fine step of each interval, (N,)."""
        return (self.ends - self.starts) / self.steps

    def refined(self) -> TimeGrid:
        """Return the grid on which every fine step is an interval of its own."""
        S, size = self.steps, len(self.starts) * self.steps
        last = np.arange(S - 1, size, S)
        edges = self.starts[:, None] + self.delta[:, None] * np.arange(S + 1)
        edges[:, -1] = self.ends
        return replace(
            self,
            starts=edges[:, :-1].ravel(),
            ends=edges[:, 1:].ravel(),
            values=_spread(self.values, last, size, MISSING),
            mask=_spread(self.mask, last, size, False),
            censored=_spread(self.censored, last, size, 0.0),
            upper=_spread(self.upper, last, size, 0.0),
            rows=_spread(self.rows, last, size, False),
            events={name: _spread(amounts, last, size, np.nan) for name, amounts in self.events.items()},
            first=S * self.first,
            steps=1,
        )

    @property
    def series_of_intervals(self) -> np.ndarray:
        """The number of the series that each interval belongs to, (N,)."""
        return np.searchsorted(self.first, np.arange(len(self.starts)), side="right") - 1

    def seen(self, columns: slice = slice(None)) -> Seen:
        """What was observed at the nodes (N, Y), for some of the components."""
        bounds = (self.censored, self.upper) if self.censored.any() else 2 * (np.zeros((len(self.ends), 0)),)
        return Seen(*(field[:, columns] if field.shape[1] else field for field in (self.values, self.mask, *bounds)))

    @property
    def regular(self) -> bool:
        """True if all fine steps are equal, to rounding."""
        return bool(np.ptp(self.delta) <= 1e-12 * np.max(self.delta))


def clocks(inputs: Mapping[str, Input | None], covariates: dict[str, np.ndarray], grid: TimeGrid) -> tuple[Any, Any]:
    """Return the times at which fine steps begin (N, S), and those of nodes (N,).

    With inputs, or with numbers (K,) of series by name as `covariates`, they are clocks of these shapes. For a step, an
    input has its value at the beginning and, if linear, the mean slope over the step.
    """
    starts = grid.starts[:, None] + grid.delta[:, None] * np.arange(grid.steps)
    if not inputs and not covariates:
        return starts, grid.ends
    delta = np.broadcast_to(grid.delta[:, None], starts.shape)
    values, slopes, ends = ({name: np.zeros(t.shape) for name in inputs} for t in (starts, starts, grid.ends))
    parts = np.split(np.arange(len(grid.starts)), grid.first[1:])
    for rows, own, calendar in zip(parts, grid.inputs, grid.calendars, strict=True):
        known = known_inputs(inputs, own, float(grid.starts[rows[0]]), float(grid.ends[rows[-1]]), calendar)
        for name, given in known.items():
            values[name][rows] = before = given.at(starts[rows])
            ends[name][rows] = given.at(grid.ends[rows])
            if given.kind == "linear":
                change = given.at(starts[rows] + delta[rows]) - before
                slopes[name][rows] = np.divide(change, delta[rows], out=np.zeros_like(change), where=delta[rows] > 0)
    of_nodes = {name: numbers[grid.series_of_intervals] for name, numbers in covariates.items()}
    of_steps = {name: np.repeat(numbers[:, None], grid.steps, axis=1) for name, numbers in of_nodes.items()}
    nothing = {name: np.zeros(len(grid.ends)) for name in inputs}
    return Clock(starts, values, slopes, of_steps), Clock(grid.ends, ends, nothing, of_nodes)


def warn_of_skipped_values(inputs: Mapping[str, Input | None], grid: TimeGrid) -> None:
    """Warn if an input changes twice or more within a fine step, which uses the value at its start alone."""
    starts, lengths = (np.split(each, grid.first[1:]) for each in (grid.starts, grid.delta))
    for start, delta, own in zip(starts, lengths, grid.inputs, strict=True):
        series = {name: given for name, given in {**inputs, **own}.items() if given}
        begins = (start[:, None] + delta[:, None] * np.arange(grid.steps)).ravel() if series else start
        for name, given in series.items():
            changes = given.times[1:][np.diff(given.values) != 0.0]
            places = np.searchsorted(begins, changes + close(changes), side="right")
            if (most := np.bincount(places[(places > 0) & (places < begins.size)]).max(initial=0)) > 1:
                warn(
                    f"the input {name!r} changes up to {most} times within a fine step, which uses its value at the "
                    f"start alone: take max_step={np.diff(given.times).min():.3g}, or means over longer times as input"
                )
                return


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of one series: its observation times and, between them, the times of events.

    Each node has values (NaN where nothing was observed), kinds and upper bounds of censored ones, and `rows`, which
    says whether it is a time of the data.
    """

    starts: np.ndarray
    ends: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    censored: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, series: Observations) -> _Nodes:
        times = series.times
        known = np.concatenate([[], *(at for at, _ in series.events.values())])
        known = known[known <= times[-1]]
        apart = np.array([np.abs(times - t).min() > close(t) for t in known], dtype=bool)
        ends = np.unique(np.concatenate([times, known[apart]]))
        starts, rows = np.concatenate([[series.initial_time], ends[:-1]]), np.isin(ends, times)
        arrays = [np.full((len(ends), series.observation_dim), otherwise) for otherwise in (np.nan, 0.0, 0.0)]
        for array, given in zip(arrays, (series.values, series.censored, series.upper), strict=True):
            array[rows] = given
        return cls(starts, ends, rows, *arrays)

    @property
    def lengths(self) -> np.ndarray:
        return self.ends - self.starts

    def cut(self, longest: float) -> _Nodes:
        """Add nodes within intervals that are longer than `longest`, so that none is."""
        if np.isinf(longest):
            return self
        counts = [_ceil(length / longest) for length in self.lengths]
        edges = [np.linspace(*interval) for interval in zip(self.starts, self.ends, np.add(counts, 1), strict=True)]
        last, size = np.cumsum(counts) - 1, sum(counts)
        return _Nodes(
            np.concatenate([points[:-1] for points in edges]),
            np.concatenate([points[1:] for points in edges]),
            _spread(self.rows, last, size, False),
            _spread(self.values, last, size, np.nan),
            _spread(self.censored, last, size, 0.0),
            _spread(self.upper, last, size, 0.0),
        )


def _spread(array: np.ndarray, at: np.ndarray, size: int, otherwise: Any) -> np.ndarray:
    """Put the rows of an array at these places of a longer one, filled up with `otherwise`."""
    out = np.full((size, *array.shape[1:]), otherwise, dtype=array.dtype)
    out[at] = array
    return out


def _events(panel: Sequence[Observations], cut: Sequence[_Nodes]) -> dict[str, np.ndarray]:
    """Return the amounts at the nodes by event, NaN where none happens; events after the last node are left out."""
    by_name = {name: [np.full(len(nodes.ends), np.nan) for nodes in cut] for series in panel for name in series.events}
    for k, (series, nodes) in enumerate(zip(panel, cut, strict=True)):
        for name, (times, amounts) in series.events.items():
            for t, amount in zip(times, amounts, strict=True):
                n = int(np.argmin(np.abs(nodes.ends - t)))
                if abs(nodes.ends[n] - t) <= close(t):
                    by_name[name][k][n] = amount
    return {name: np.concatenate(amounts) for name, amounts in by_name.items()}


def _check_count(setting: str, count: float) -> None:
    if not count <= MOST_STEPS:
        raise SettingsError(f"{setting} makes {count:.2g} fine steps, more than any memory holds; take longer steps")


def _ceil(ratio: float) -> int:
    """Round up to an integer of at least 1, allowing for rounding error in a ratio that is meant to be whole."""
    return max(1, ceil(ratio * (1 - 1e-9)))
