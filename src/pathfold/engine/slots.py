"""Where intervals, series and their segments lie in the lanes, and how many go abreast in scans over nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ABREAST = 4  # series in a group; two and eight gain no more
NODE_COST = 15.0  # what goes on at a node, alone, costs as much as so many fine steps of an interval; in a group ...
IN_GROUP = 5.0  # ... as so many of them; both are estimates


@dataclass(frozen=True)
class Slots:
    """The slots of intervals and the places of series in their groups (program/layout.py; for the words see table.py).

    A series in segments has a place for each of them, one after the other.
    """

    abreast: int  # places of a group
    of_interval: np.ndarray  # of_interval[n]: slot of interval n
    of_series: np.ndarray  # of_series[k]: place of series k, or of its first segment
    rows: np.ndarray  # rows[g]: first row of group g; the total at the end
    active: np.ndarray  # active[r]: series with an interval in row r
    before: np.ndarray  # before[p]: slot of the interval before the segment at place p, -1 if none goes on there
    cuts: np.ndarray | None = None  # groups that parts begin with, and the total, if parts have whole groups and chunks

    @property
    def count(self) -> int:
        """The slots of all rows, idle ones included."""
        return self.abreast * int(self.rows[-1])

    @property
    def groups(self) -> int:
        return len(self.rows) - 1

    @property
    def places(self) -> int:
        """The places of all groups, idle ones included."""
        return self.abreast * self.groups


def arrange(first: np.ndarray, intervals: int, abreast: int, rows_of_chunk: int = 1, least: int = 0) -> Slots:
    """Arrange series, which begin at the intervals `first`, in groups, the longest series first.

    With `least`, groups are cut into parts that have at least so many rows and begin with a chunk of rows: the group
    before has idle rows at its end.
    """
    lengths = np.diff([*first, intervals])
    order = np.argsort(-lengths, kind="stable") if abreast > 1 else np.arange(len(lengths))
    of_series = np.empty_like(order)
    of_series[order] = np.arange(len(order))
    idle = np.zeros(-len(order) % abreast, dtype=np.int64)
    begins, lengths = np.append(np.asarray(first)[order], idle), np.append(lengths[order], idle)
    return _lay_out(begins, lengths, of_series, abreast, rows_of_chunk, least)


def arrange_segments(first: np.ndarray, intervals: int, abreast: int, longest: int, rows_of_chunk: int) -> Slots:
    """Arrange series in segments of about `longest` intervals, and these in groups, of which each is a part.

    A series has as many segments as fill its groups; one that is not that long is left whole, alone in its group.
    """
    begins, lengths, of_series = [], [], []
    for begin, length in zip(first, np.diff([*first, intervals]), strict=True):
        of_series.append(len(begins))
        groups = round(length / (abreast * longest))
        whole = np.array([length, *(abreast - 1) * [0]])
        of_segments = length // (n := groups * abreast) + (np.arange(n) < length % n) if groups else whole
        lengths.extend(of_segments)
        begins.extend(begin + np.cumsum(of_segments) - of_segments)
    return _lay_out(np.array(begins), np.array(lengths), np.array(of_series), abreast, rows_of_chunk, 1)


def _lay_out(
    begins: np.ndarray, lengths: np.ndarray, of_series: np.ndarray, abreast: int, rows_of_chunk: int, least: int
) -> Slots:
    """Lay out runs of intervals, one a place; in a group, the longest comes first."""
    in_groups = lengths.reshape(-1, abreast)
    longest = in_groups.max(axis=1)
    cuts = _cut(longest, rows_of_chunk, least) if least else None
    rows = np.append(0, np.cumsum(longest))
    within = np.arange(rows[-1]) - np.repeat(rows[:-1], longest)
    active = (np.repeat(in_groups, longest, axis=0) > within[:, None]).sum(axis=1)
    place = np.repeat(np.arange(len(lengths)), lengths)
    number = np.arange(len(place)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    of_interval = np.empty(len(place), dtype=np.int64)
    of_interval[begins[place] + number] = abreast * (rows[place // abreast] + number) + place % abreast
    goes_on = lengths > 0
    goes_on[of_series] = False
    before = np.where(goes_on, of_interval[begins - 1], -1)
    return Slots(abreast, of_interval, of_series, rows, active, before, cuts)


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
