"""The time grid that the sampler works on: intervals between observations, cut into fine steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Self

import numpy as np

from pathfold.errors import DataError, SettingsError
from pathfold.model.data import Data, panel_of
from pathfold.model.inputs import Input
from pathfold.model.settings import positive, whole
from pathfold.schemes.ito import Clock

MOST_STEPS = 10**9  # more fine steps than any machine has memory for


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """N intervals, each of `steps` fine steps, with the observation (if any) at its end; a panel's series follow on.

    starts, ends (N,); values (N, Y), zero where missing; mask (N, Y), True where observed; first (K,), the index of the
    first interval of each series; series, their names or numbers; components, the names of the Y observed components
    or their numbers; inputs, those that each series has of its own. An observation at the initial time ends an interval
    of length zero, over which every scheme leaves the state as it is.
    """

    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    mask: np.ndarray
    first: np.ndarray
    series: tuple[str | int, ...]
    steps: int
    components: tuple[str, ...] | tuple[int, ...]
    inputs: tuple[dict[str, Input], ...]

    @classmethod
    def build(
        cls,
        data: Data,
        *,
        steps_per_interval: int | None = None,
        max_step: float | None = None,
    ) -> Self:
        """Cut each interval between observations into S = `steps_per_interval` fine steps; or into steps no longer than
        `max_step`, with S = ceil(median interval / max_step) and longer intervals split at nodes without observation.
        """
        by_name = panel_of(data)
        panel = [*by_name.values()]
        if len(widths := sorted({each.observation_dim for each in panel})) > 1:
            raise DataError(f"the series of the panel have different widths, {widths}; write NaN for a missing entry")
        if len(names := {each.components for each in panel if each.components is not None}) > 1:
            columns = " and ".join(sorted(map(str, names)))
            raise DataError(f"the series of the panel have different columns, {columns}; give all the same, in order")
        if (steps_per_interval is None) == (max_step is None):
            raise SettingsError("give exactly one of steps_per_interval and max_step")

        nodes = [np.concatenate([[each.initial_time], each.times]) for each in panel]
        lengths = np.concatenate([np.diff(each) for each in nodes])
        if max_step is None:
            steps, longest = whole("steps_per_interval", steps_per_interval, least=1), np.inf
            _check_count(f"steps_per_interval = {steps}", float(steps) * len(lengths))
        else:
            max_step = positive("max_step", max_step)
            _check_count(f"max_step = {max_step:g}", float(np.sum(np.maximum(1.0, lengths / max_step))))
            steps = _ceil(np.median(lengths[lengths > 0]) / max_step) if lengths.any() else 1
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
            starts=np.array(starts),
            ends=np.array(ends),
            values=np.where(mask, values, 0.0),
            mask=mask,
            first=np.array(first, dtype=np.int64),
            series=tuple(by_name),
            steps=steps,
            components=names.pop() if names else tuple(range(widths[0])),
            inputs=tuple(each.inputs for each in panel),
        )

    @property
    def delta(self) -> np.ndarray:
        """The fine step of each interval, (N,)."""
        return (self.ends - self.starts) / self.steps

    def refined(self) -> TimeGrid:
        """The same with every fine step an interval of its own."""
        S, last = self.steps, np.arange(1, len(self.starts) + 1) * self.steps - 1
        edges = self.starts[:, None] + self.delta[:, None] * np.arange(S + 1)
        edges[:, -1] = self.ends
        values, mask = np.zeros((2, len(self.starts) * S, self.values.shape[1]))
        values[last], mask[last] = self.values, self.mask
        starts, ends = edges[:, :-1].ravel(), edges[:, 1:].ravel()
        return replace(self, starts=starts, ends=ends, values=values, mask=mask > 0, first=S * self.first, steps=1)

    @property
    def regular(self) -> bool:
        """Whether all fine steps are equal, to rounding."""
        return bool(np.ptp(self.delta) <= 1e-12 * np.max(self.delta))


def clocks(inputs: dict[str, Input], grid: TimeGrid) -> tuple[Any, Any]:
    """The time at the beginning of every fine step (N, S) and at the nodes (N,); with inputs, clocks of these shapes.

    Over a step an input has the value it begins with and, if linear, the slope to where it ends.
    """
    starts = grid.starts[:, None] + grid.delta[:, None] * np.arange(grid.steps)
    if not inputs:
        return starts, grid.ends
    delta = np.broadcast_to(grid.delta[:, None], starts.shape)
    values, slopes, ends = ({name: np.zeros(t.shape) for name in inputs} for t in (starts, starts, grid.ends))
    parts = np.split(np.arange(len(grid.starts)), grid.first[1:])
    for rows, own in zip(parts, grid.inputs, strict=True):
        for name, given in (inputs | own).items():
            values[name][rows] = before = given.at(starts[rows])
            ends[name][rows] = given.at(grid.ends[rows])
            if given.kind == "linear":
                change = given.at(starts[rows] + delta[rows]) - before
                slopes[name][rows] = np.divide(change, delta[rows], out=np.zeros_like(change), where=delta[rows] > 0)
    return Clock(starts, values, slopes), Clock(grid.ends, ends, {name: np.zeros(len(grid.ends)) for name in inputs})


def _check_count(setting: str, count: float) -> None:
    if not count <= MOST_STEPS:
        raise SettingsError(f"{setting} makes {count:.2g} fine steps, more than any memory holds; take longer steps")


def _ceil(ratio: float) -> int:
    """The next integer, at least 1, forgiving rounding error in a ratio meant to be whole."""
    return max(1, ceil(ratio * (1 - 1e-9)))
