"""Where the numbers of a kernel live: records of named fields in flat arrays.

Intervals are processed in chunks of L lanes. In memory the lane is the last axis and a record's fields come next, so
that one field of one chunk is L consecutive numbers at an offset the compiler knows:

    shared    [field]                  one set of numbers (parameters, sums)
    series    [series, field]          one set a series (initial state)
    lane      [chunk, field, lane]     one set an interval and its end node
    step      [chunk, s, field, lane]  one set a fine step
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Kind = Literal["shared", "series", "lane", "step"]


def size_of(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=int))


@dataclass
class Record:
    """Named fields of small fixed shapes. `known` holds entries that are the same constant wherever they are read."""

    name: str
    kind: Kind
    fields: dict[str, tuple[int, ...]]
    known: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.offsets: dict[str, int] = {}
        at = 0
        for name, shape in self.fields.items():
            self.offsets[name] = at
            at += size_of(shape)
        self.size = at

    def view(self, array: np.ndarray, name: str, lanes: int, *, intervals: int | None = None) -> np.ndarray:
        """One field of a flat array with the axes (series or interval, [s,] *shape): for tests and reports."""
        shape, start = self.fields[name], self.offsets[name]
        columns = slice(start, start + size_of(shape))
        if self.kind == "shared":
            return array[columns].reshape(shape)
        if self.kind == "series":
            rows = array.reshape(-1, self.size)[:, columns]
            return rows.reshape(len(rows), *shape)
        if self.kind == "lane":
            rows = array.reshape(-1, self.size, lanes)[:, columns].transpose(0, 2, 1)
            return rows.reshape(len(rows) * lanes, *shape)[:intervals]
        raise ValueError(f"no view of the {self.kind} record '{self.name}'")


@dataclass(frozen=True)
class Use:
    """A record as a kernel sees it: under an argument name, its fields marked by a suffix."""

    record: Record
    argument: str
    suffix: str = ""

    def has(self, name: str) -> bool:
        return name.endswith(self.suffix) and name.removesuffix(self.suffix) in self.record.fields

    def shape(self, name: str) -> tuple[int, ...]:
        return self.record.fields[name.removesuffix(self.suffix)]

    def offset(self, name: str) -> int:
        return self.record.offsets[name.removesuffix(self.suffix)]

    def known(self, name: str) -> np.ndarray | None:
        return self.record.known.get(name.removesuffix(self.suffix))
