"""Records of named fields in flat arrays, where the numbers of a kernel live.

Intervals are processed in chunks of L lanes, of which the last chunk may use fewer. In memory the lane is the last axis
and a record's fields come next, so that one field of one chunk is L consecutive numbers at an offset the compiler
knows:

    shared    [field]                  one set of numbers (parameters, sums)
    series    [group, field, series]   one set a series (initial state)
    lane      [chunk, field, lane]     one set an interval and its end node
    step      [chunk, s, field, lane]  one set a fine step
    vector    [coordinate]             a number for every coordinate of a position; no kernel works on them

The lanes of all chunks, one after the other, are slots for the intervals. Where there are many series, they form groups
of W abreast (group.py): W slots are a row, with the n-th intervals of the series of a group, and its rows follow each
other. With W = 1 the intervals of a series do. W divides L, so that no row crosses chunks; slots of series that have
ended are idle.

Records are parts of a few large blocks (one for a point, one for a vector, ...); a layout table holds the sizes that
are known only with the data, and where each record begins and ends in its block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Kind = Literal["shared", "series", "lane", "step", "vector"]


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

    def columns(self, name: str) -> slice:
        """Return the slice of the record's scalars that a field occupies."""
        return slice(self.offsets[name], self.offsets[name] + size_of(self.fields[name]))


BLOCKS = ("problem", "point", "other", "scratch")  # every kernel's arguments, after an index and the layout table


@dataclass(frozen=True)
class Use:
    """A record as a kernel sees it: in one of the blocks it is given, its fields named with a suffix."""

    record: Record
    block: str  # of BLOCKS
    at: int  # where the layout table holds the beginning of the record in its block
    suffix: str = ""

    @property
    def array(self) -> str:
        return self.record.name + self.suffix

    def has(self, name: str) -> bool:
        return name.endswith(self.suffix) and name.removesuffix(self.suffix) in self.record.fields

    def shape(self, name: str) -> tuple[int, ...]:
        return self.record.fields[name.removesuffix(self.suffix)]

    def offset(self, name: str) -> int:
        return self.record.offsets[name.removesuffix(self.suffix)]

    def known(self, name: str) -> np.ndarray | None:
        return self.record.known.get(name.removesuffix(self.suffix))
