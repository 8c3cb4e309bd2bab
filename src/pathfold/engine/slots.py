"""Where intervals and series lie in the lanes, and how many series the scans over nodes take abreast."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ABREAST = 4  # series in a group; two and eight gain no more
NODE_COST = 15.0  # what goes on at a node, alone, costs as much as so many fine steps of an interval; in a group ...
IN_GROUP = 5.0  # ... as so many of them; both are estimates


@dataclass(frozen=True)
class Slots:
    """The slots of intervals and the places of series in their groups (program/layout.py).

    Rows are listed by the group that they begin, with the number of all after the last; `active` has the number of
    series with an interval in each row. `cuts` are the groups that parts begin with, and the number of all, if parts
    have whole groups and chunks.
    """

    abreast: int
    of_interval: np.ndarray
    of_series: np.ndarray
    rows: np.ndarray
    active: np.ndarray
    cuts: np.ndarray | None = None

    @property
    def count(self) -> int:
        """The slots of all rows, idle ones included."""
        return self.abreast * int(self.rows[-1])

    @property
    def groups(self) -> int:
        return len(self.rows) - 1


def arrange(first: np.ndarray, intervals: int, abreast: int, rows_of_chunk: int = 1, least: int = 0) -> Slots:
    """Arrange series, which begin at the intervals `first`, in groups, the longest series first.

    With `least`, groups are cut into parts that have at least so many rows and begin with a chunk of rows: the group
    before has idle rows at its end.
    """
    lengths = np.diff([*first, intervals])
    order = np.argsort(-lengths, kind="stable") if abreast > 1 else np.arange(len(lengths))
    of_series = np.empty_like(order)
    of_series[order] = np.arange(len(order))
    in_groups = np.append(lengths[order], np.zeros(-len(order) % abreast, dtype=np.int64)).reshape(-1, abreast)
    longest = in_groups.max(axis=1)
    cuts = _cut(longest, rows_of_chunk, least) if least else None
    rows = np.append(0, np.cumsum(longest))
    within = np.arange(rows[-1]) - np.repeat(rows[:-1], longest)
    active = (np.repeat(in_groups, longest, axis=0) > within[:, None]).sum(axis=1)
    series = np.repeat(np.arange(len(lengths)), lengths)
    row = rows[of_series[series] // abreast] + np.arange(intervals) - np.asarray(first)[series]
    return Slots(abreast, abreast * row + of_series[series] % abreast, of_series, rows, active, cuts)


def _cut(longest: np.ndarray, rows_of_chunk: int, least: int) -> np.ndarray:
    """Choose the groups that parts begin with, and give the group before each cut idle rows, in place."""
    cuts, rows = [0], 0
    for group, length in enumerate(longest):
        if rows >= least:
            longest[group - 1] += -rows % rows_of_chunk
            cuts.append(group)
            rows = 0
        rows += length
    return np.array([*cuts, len(longest)])


def choose_abreast(first: np.ndarray, intervals: int, steps: int, lanes: int | None) -> int:
    """Return how many series go abreast: several, unless idle slots would cost more than the nodes gain."""
    abreast = math.gcd(ABREAST, lanes or ABREAST)
    slots = arrange(first, intervals, abreast).count
    return abreast if slots * (steps + IN_GROUP) < intervals * (steps + NODE_COST) else 1
