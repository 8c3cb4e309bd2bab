"""Rolls scans of many turns: one turn is traced, and a loop over memory repeats it.

Quantities that no turn changes are known by their first nodes, and vanish where they are constants: of the derivatives
of a carried matrix, those by quantities that it does not depend on. What is left is in memory from turn to turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pathfold.program.arrays import Fill, Memory, Repeat, Turning, View, arguments, entries_of, needs, result_of
from pathfold.program.graph import Graph
from pathfold.program.interpret import Nodes
from pathfold.program.roll import fill, fill_all, in_memory

LARGEST = 20_000  # operations of a scan that is written out, turn by turn

type Turn = Callable[[Sequence[Nodes], Sequence[Nodes]], tuple[list[Nodes], list[Nodes]]]
"""A turn of a scan: what is carried, and the entries of this turn, to what is carried next and the results."""


def repeated(g: Graph, turn: Turn, length: int, first: list[Nodes], over: list[Nodes], *, reverse: bool) -> list[Nodes]:
    """Return what a scan carries in the end, and its results of all turns."""
    given = [_Part(g, each[0], np.asarray((each != each[:1]).any(axis=0))) for each in over]
    carried = [_Part(g, nodes, np.zeros(nodes.shape, dtype=bool)) for nodes in first]
    while True:
        new, results = turn([part.inside for part in carried], [part.inside for part in given])
        changes = [part.inside != nodes for part, nodes in zip(carried, new, strict=True)]
        if not any(np.any(change & ~part.varies) for change, part in zip(changes, carried, strict=True)):
            break
        carried = [_Part(g, part.first, change | part.varies) for change, part in zip(changes, carried, strict=True)]

    own = [part.memory for part in (*carried, *given) if part.size]
    varying = _varying(g, (n for nodes in (*new, *results) for n in nodes.ravel().tolist()), own)
    rows = [_Part(g, nodes, np.vectorize(varying.__contains__, otypes=[bool])(nodes)) for nodes in results]
    following = fill_all(g, {part.memory: part.of(n) for part, n in zip(carried, new, strict=True) if part.size})
    written = [fill(g, part.of(part.first)) for part in rows if part.size]
    varying = _varying(g, (n for f in (*(f for _, f in following), *written) for n in needs(g, f)), own)
    inner = {g.ops[n][2] for n in varying if g.ops[n][:2] == ("input", "array")}
    fills = [*(filling for _, filling in following), *written]
    read = {a for n in varying for a in arguments(g, n)} | {n for filling in fills for n in needs(g, filling)}
    views = [view for s in (*fills, *(g.statements[k] for k in sorted(inner))) for view in s.views()]
    statement = Repeat(
        length,
        reverse,
        tuple((part.memory, fill(g, part.of(part.first))) for part in carried if part.size),
        tuple(following),
        tuple((part.memory, _stack(g, part, each)) for part, each in zip(given, over, strict=True) if part.size),
        tuple(written),
        tuple(sorted(n for n in read - varying if g.value(n) is None)),
        tuple(view for view in views if view.memory[0] != "array" or view.memory[1] not in inner),
        frozenset(inner),
    )
    entries, out = result_of(g, statement), []
    for part in carried:
        out.append(part.filled(entries[: part.size]))
        entries = entries[part.size :]
    entries = entries.reshape(length, -1)
    for part in rows:
        out.append(np.stack([part.filled(row[: part.size]) for row in entries]))
        entries = entries[:, part.size :]
    return out


class _Part:
    """An array of nodes, of which what varies from turn to turn is in memory: the smallest box that has all of it."""

    def __init__(self, g: Graph, first: Nodes, varies: np.ndarray) -> None:
        axes = range(varies.ndim)
        kept = [np.flatnonzero(varies.any(axis=tuple(i for i in axes if i != k))) for k in axes]
        self.first, self._at = np.asarray(first), np.ix_(*kept)
        self.varies = np.zeros_like(varies)
        self.size = int(varies.any()) * int(np.prod([len(each) for each in kept], dtype=int))
        self.memory: Memory = ()
        self.inside = first
        if self.size:
            self.varies[self._at] = True
            entries = result_of(g, Turning(self.size))
            self.memory, self.inside = g.ops[entries[0]][1:3], self.filled(entries)

    def of(self, nodes: Nodes) -> Nodes:
        """Return the nodes of what varies."""
        return nodes[self._at]

    def filled(self, entries: Nodes) -> Nodes:
        """Return the whole array, with these nodes for what varies."""
        out = self.first.copy()
        if self.size:
            out[self._at] = entries.reshape(self.of(out).shape)
        return out


def _stack(g: Graph, part: _Part, over: Nodes) -> View:
    """Return the view of memory that has what varies of an array: a row of neighbours for each turn."""
    return in_memory(g, np.stack([part.of(each).ravel() for each in over]), neighbours=True)


def _varying(g: Graph, roots: Iterable[int], own: Sequence[Memory]) -> set[int]:
    """Return the nodes among the roots, and among all that they need, that depend on memory of the loop's own."""
    seen, stack = set(), list(roots)
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            stack.extend(arguments(g, n))
    varying: set[int] = set()
    for n in sorted(seen):
        if g.ops[n][1:3] in own or not varying.isdisjoint(arguments(g, n)):
            varying.add(n)
    return varying
