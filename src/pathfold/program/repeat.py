"""Rolls scans of many turns: one turn is traced, and a loop over memory repeats it.

Quantities that no turn changes are known by their first nodes, and vanish where they are constants: of the derivatives
of a carried matrix, those by quantities that it does not depend on. What is left is in memory from turn to turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pathfold.program.arrays import Memory, Outcome, Repeat, Turning, View, arguments, needs, result_of
from pathfold.program.graph import Graph
from pathfold.program.interpret import Nodes
from pathfold.program.roll import fill, fill_all, in_memory

LARGEST = 1000  # operations of a scan that is written out, turn by turn
LARGEST_PRODUCT = 64  # multiplications of a product that is written out within a turn

type Turn = Callable[[Sequence[Nodes], Sequence[Nodes]], tuple[list[Nodes], list[Nodes]]]
"""A turn of a scan: what is carried, and the entries of this turn, to what is carried next and the results."""


def scan(
    g: Graph,
    turn: Turn,
    length: int,
    first: list[Nodes],
    over: list[Nodes],
    *,
    reverse: bool,
    written_out: bool = False,
) -> list[Nodes]:
    """Return what a scan carries in the end, and its results of all turns.

    A small scan is written out, turn by turn. A large one is a loop, and so is one of which turns may be left out.
    """
    turns = [*reversed(range(length))] if reverse else [*range(length)]
    carry, rows, begun = first, {}, (len(g.ops), len(g.statements))
    for i in turns:
        new, rows[i] = turn(carry, [each[i] for each in over])
        large = len(g.statements) > begun[1] or len(g.ops) - begun[0] > LARGEST
        if not written_out and (large or _condition(g, zip(carry, new, strict=True)) is not None):
            kept, g.largest = g.largest, min(g.largest, LARGEST_PRODUCT)
            try:
                changed = [a != b for a, b in zip(first, new, strict=True)]
                return _repeated(g, turn, length, first, changed, over, reverse)
            finally:
                g.largest = kept
        carry = new
    return [*carry, *(np.stack([rows[i][k] for i in range(length)]) for k in range(len(rows[0])))]


def _repeated(
    g: Graph,
    turn: Turn,
    length: int,
    first: list[Nodes],
    changed: list[np.ndarray],
    over: list[Nodes],
    reverse: bool,
) -> list[Nodes]:
    """Return what `scan` does, by a loop; `changed` marks entries that a turn changes, not necessarily all."""
    given = [_Part(g, each[0], np.asarray((each != each[:1]).any(axis=0))) for each in over]
    carried = [_Part(g, nodes, np.asarray(change)) for nodes, change in zip(first, changed, strict=True)]
    while True:
        new, results = turn([part.inside for part in carried], [part.inside for part in given])
        changed = [part.inside != nodes for part, nodes in zip(carried, new, strict=True)]
        if not any(np.any(change & ~part.varies) for change, part in zip(changed, carried, strict=True)):
            break
        carried = [_Part(g, part.first, change | part.varies) for change, part in zip(changed, carried, strict=True)]

    own = {part.memory for part in (*carried, *given) if part.size}
    varying = _varying(g, (n for nodes in results for n in nodes.ravel().tolist()), own)
    rows = [_Part(g, n, np.isin(n, list(varying)), ("result", k)) for k, n in enumerate(results)]
    condition = None if rows else _condition(g, ((part.inside, n) for part, n in zip(carried, new, strict=True)))
    following = fill_all(g, {part.memory: part.of(n) for part, n in zip(carried, new, strict=True) if part.size})
    written = [(part.memory, fill(g, part.of(part.first))) for part in rows if part.size]
    fillings = [filling for _, filling in (*following, *written)]
    roots = [n for filling in fillings for n in needs(g, filling)] + [condition] * (condition is not None)
    varying = _varying(g, roots, own)
    inner = {g.ops[n][2] for n in varying if g.ops[n][:2] == ("input", "array")}
    read = {*roots, *(a for n in varying for a in arguments(g, n))} - varying
    views = [view for s in (*fillings, *(g.statements[k] for k in sorted(inner))) for view in s.views()]
    loop = Repeat(
        length,
        reverse,
        tuple((part.memory, fill(g, part.of(part.first))) for part in carried if part.size),
        tuple(following),
        condition,
        tuple((part.memory, _stack(g, part, each)) for part, each in zip(given, over, strict=True) if part.size),
        tuple(written),
        tuple(sorted(n for n in read if g.value(n) is None)),
        tuple(view for view in views if view.memory[0] != "array" or view.memory[1] not in inner),
        frozenset(inner),
    )
    return [*(part.outcome(g, loop) for part in carried), *(part.outcome(g, loop, length) for part in rows)]


class _Part:
    """An array of nodes, of which what varies from turn to turn is in memory: the smallest box that has all of it."""

    def __init__(self, g: Graph, first: Nodes, varies: np.ndarray, memory: Memory = ()) -> None:
        axes = range(varies.ndim)
        kept = [np.flatnonzero(varies.any(axis=tuple(i for i in axes if i != k))) for k in axes]
        self.first, self._at = np.asarray(first), np.ix_(*kept)
        self.size = int(varies.any()) * int(np.prod([len(each) for each in kept], dtype=int))
        self.memory, self.inside, self.varies = memory, self.first, np.zeros_like(varies)
        if self.size:
            self.varies[self._at] = True
            if not memory:
                entries = result_of(g, Turning(self.size))
                self.memory, self.inside = g.ops[entries[0]][1:3], self._with(entries)

    def of(self, nodes: Nodes) -> Nodes:
        """Return the nodes of what varies."""
        return nodes[self._at]

    def outcome(self, g: Graph, loop: Repeat, length: int | None = None) -> Nodes:
        """Return the array after the loop, or, with a length, those of all turns."""
        entries = result_of(g, Outcome(self.size * (length or 1), loop, self.memory)) if self.size else self.first
        rows = (
            [self._with(row) for row in entries.reshape(length or 1, -1)] if self.size else [self.first] * (length or 1)
        )
        return np.stack(rows) if length else rows[0]

    def _with(self, entries: Nodes) -> Nodes:
        """Return the whole array, with these nodes for what varies."""
        out = self.first.copy()
        out[self._at] = entries.reshape(self.of(out).shape)
        return out


def _stack(g: Graph, part: _Part, over: Nodes) -> View:
    """Return the view of memory that has what varies of an array: a row of neighbours for each turn."""
    return in_memory(g, np.stack([part.of(each).ravel() for each in over]), neighbours=True)


def _condition(g: Graph, pairs: Iterable[tuple[Nodes, Nodes]]) -> int | None:
    """Return the node without which a turn leaves all that is carried as it was, given what it was and what it is."""
    found = None
    for old, new in pairs:
        for was, node in zip(old.ravel().tolist(), new.ravel().tolist(), strict=True):
            if node == was:
                continue
            op = g.ops[node]
            if op[0] != "select" or op[3] != was or found not in (None, op[1]):
                return None
            found = op[1]
    return found


def _varying(g: Graph, roots: Iterable[int], own: set[Memory]) -> set[int]:
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
