"""Series abreast: where a scan over nodes finds the rows of a group of series, and which lanes have a node in a row.

The n-th nodes of the series of a group form a row: neighbours in memory, which vectors are loaded from. The series are
in order of their length, the longest first, so that those which still have a node are the first lanes of a row. The
last group may have fewer series than lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pathfold.program.assembly import Function
from pathfold.program.kernel import LAYOUT_ACTIVE, LAYOUT_ROWS, NodeScan, Traced
from pathfold.program.layout import Use


class Group:
    """The group of series that a scan over nodes is called with, and its rows; one series, if one is all there is."""

    def __init__(self, traced: Traced, f: Function, lanes: int) -> None:
        assert isinstance(traced.kernel, NodeScan)
        self.traced, self.f, self.lanes, self.width = traced, f, lanes, traced.abreast
        self.kernel: NodeScan = traced.kernel
        self.of_series = any(use.record.kind == "series" for use in traced.kernel.uses)
        if traced.body or (self.of_series and self.width > 1):
            table = f.integer("add", f.layout(LAYOUT_ROWS), "%i")
            self.begin, self.end = f.layout(table), f.layout(f.integer("add", table, "1"))
        if traced.body:
            self.rows = f.integer("sub", self.end, self.begin)
            if self.kernel.most is not None:
                self.rows = f.least(self.rows, str(self.kernel.most))

    def apart(self, use: Use) -> int:
        """Return how far apart the entries of a record are."""
        return {"lane": self.lanes, "series": self.width}.get(use.record.kind, 1)

    def base(self, use: Use) -> str:
        """Return where the record of the group begins, or that which all share."""
        if use.record.kind != "series":
            return f"%{use.array}"
        return self.f.address(f"%{use.array}", self.f.integer("mul", "%i", str(use.record.size * self.width)))

    def row(self, turn: str) -> str:
        """Return the row of a turn of the scan."""
        if not self.kernel.reverse:
            return self.f.integer("add", self.begin, turn)
        return self.f.integer("sub", self.f.integer("sub", self.end, "1"), turn)

    def base_in(self, use: Use, row: str) -> str:
        """Return where the record of the nodes in a row begins."""
        f, rows = self.f, str(self.lanes // self.width)
        chunk, lane = f.integer("udiv", row, rows), f.integer("mul", f.integer("urem", row, rows), str(self.width))
        begin = f.integer("mul", chunk, str(use.record.size * self.lanes))
        return f.record(f"%{use.array}", f.integer("add", begin, lane))

    def _count(self, row: str) -> str:
        return self.f.layout(self.f.integer("add", self.f.layout(LAYOUT_ACTIVE), row))

    def some_ended(self, row: str) -> str:
        """Return whether some series of the group have no node in a row."""
        return self.f.value(f"icmp ult i64 {self._count(row)}, {self.width}")

    def active(self, row: str) -> str:
        """Return which lanes have a node in a row."""
        return self.f.lanes_below(self._count(row))

    def keep(self, row: str, carried: Sequence[str]) -> None:
        """Put carried quantities aside before a row in which some series have ended.

        In memory, and read again after the row: in all other rows they need no registers then.
        """
        with self.f.when(self.some_ended(row)):
            for k, value in enumerate(carried):
                self.f.store(value, self._aside(k))

    def without_ended(self, row: str, written: Sequence[tuple[str, int]], carried: Sequence[str]) -> list[str]:
        """Return what is carried after a row; series that have ended carry what they did, and have written zeros.

        Of the fields that were written, the address of the first entry and the number of entries are given.
        """
        f = self.f
        with f.when(self.some_ended(row), carried) as after:
            here = self.active(row)
            for first, size in written:
                with f.loop(str(size)) as (i, _, _):
                    address = f.address(first, f.integer("mul", i, str(self.lanes)))
                    f.store(f.chosen(here, f.load_again(address)), address)
            after += [f.chosen(here, value, f.load_again(self._aside(k))) for k, value in enumerate(carried)]
        return after

    def _aside(self, k: int) -> str:
        return self.f.address("%carry", str(k * self.width))

    def has_series(self) -> str | None:
        """Return which lanes have a series, if some may have none and the kernel works on what belongs to series."""
        return self.active(self.begin) if self.of_series and self.width > 1 else None

    def joined_by(self, name: str) -> str:
        """Return the operation by which the lanes of a sum are joined."""
        return "max" if name.removesuffix(self.traced.use_of(name).suffix) in self.kernel.largest else "add"
