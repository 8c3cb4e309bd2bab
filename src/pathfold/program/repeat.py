"""Rolls scans of many turns: one turn is traced, and a loop over memory repeats it.

Quantities that no turn changes are known by their first nodes, and vanish where they are constants: of the derivatives
of a carried matrix, those by quantities that it does not depend on. What is left is in memory from turn to turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from pathfold.program.arrays import Fill, Memory, Outcome, Repeat, Turning, View, arguments, needs, result_of
from pathfold.program.graph import Graph
from pathfold.program.interpret import Nodes
from pathfold.program.roll import fill, fill_all, in_memory

LARGEST = 1000  # operations of a scan that is written out, turn by turn
FEW_KINDS = 400  # different entries that a loop carries, up to which each of them is dealt with by itself
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
        if not written_out and (large or _condition(g, _flat(carry), _flat(new)) is not None):
            kept = g.largest
            try:
                return _repeated(g, turn, length, first, new, over, reverse)
            finally:
                g.largest = kept
        carry = new
    return [*carry, *(np.stack([rows[i][k] for i in range(length)]) for k in range(len(rows[0])))]


def _repeated(
    g: Graph, turn: Turn, length: int, first: list[Nodes], later: list[Nodes], over: list[Nodes], reverse: bool
) -> list[Nodes]:
    """Return what `scan` does, by a loop; `later` is what is carried after a turn or more."""
    given = [_Part(g, each[0], np.asarray((each != each[:1]).any(axis=0))) for each in over]
    carried = _Carried(g, first, _kinds(_flat(first), _flat(later)), _flat(first) != _flat(later))
    while True:
        g.largest = g.largest if carried.small else min(g.largest, LARGEST_PRODUCT)
        new, results = turn(carried.inside(), [part.inside for part in given])
        after = _flat(new)
        kinds, varies = _kinds(carried.kinds, after), carried.varies | (after != carried.nodes)
        if carried.kinds.max(initial=0) == kinds.max(initial=0) and np.array_equal(carried.varies, varies):
            break
        carried = _Carried(g, first, kinds, varies)

    own = {*carried.units, *(part.memory for part in given if part.size)}
    varying = _varying(g, (n for nodes in results for n in nodes.ravel().tolist()), own)
    rows = [_Part(g, n, np.isin(n, list(varying)), ("result", k)) for k, n in enumerate(results)]
    condition = None if rows or reverse else _condition(g, carried.nodes, after)
    if condition is not None and not _counted(g, condition, given, over, own):
        condition = None
    following = carried.fillings(after)
    written = [(part.memory, fill(g, part.of(part.first))) for part in rows if part.size]
    fillings = [filling for _, filling in (*following, *written)]
    roots = [n for filling in fillings for n in needs(g, filling)] + ([] if condition is None else [condition])
    varying = _varying(g, roots, own)
    inner = {g.ops[n][2] for n in varying if g.ops[n][:2] == ("input", "array")}
    read = {*roots, *(a for n in varying for a in arguments(g, n))} - varying
    views = [view for s in (*fillings, *(g.statements[k] for k in sorted(inner))) for view in s.views()]
    loop = Repeat(
        length,
        reverse,
        tuple(carried.fillings(_flat(first))),
        tuple(following),
        condition,
        tuple((part.memory, _stack(g, part, each)) for part, each in zip(given, over, strict=True) if part.size),
        tuple(written),
        tuple(sorted(n for n in read if g.value(n) is None)),
        tuple(view for view in views if view.memory[0] != "array" or view.memory[1] not in inner),
        frozenset(inner),
    )
    return [*carried.outcome(loop), *(part.outcome(g, loop, length) for part in rows)]


def _flat(arrays: Sequence[Nodes]) -> Nodes:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(nodes.ravel() for nodes in arrays)])


def _kinds(*keys: Nodes) -> np.ndarray:
    """Number the kinds of entries: those of one kind agree in all keys."""
    return np.unique(np.stack(keys), axis=1, return_inverse=True)[1].ravel()


def _hull(varies: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the indices, by axis, of the smallest box that has all that varies."""
    axes = range(varies.ndim)
    return np.ix_(*(np.flatnonzero(varies.any(axis=tuple(i for i in axes if i != k))) for k in axes))


class _Carried:
    """The arrays that a loop carries, of which entries of one kind are always equal, and what varies is in memory.

    Where that is little, each kind is there once. Otherwise it is a box of each array; equal arrays share one.
    """

    def __init__(self, g: Graph, first: list[Nodes], kinds: np.ndarray, varies: np.ndarray) -> None:
        self.g, self.first, self.kinds, self.varies = g, first, kinds, varies.copy()
        self.nodes = _flat(first)
        self.small = len(np.unique(kinds[varies])) <= FEW_KINDS
        self.units: dict[Memory, np.ndarray] = {}  # the places of what is in memory, among all entries
        known: dict[int | bytes, np.ndarray] = {}
        ends = np.cumsum([0, *(nodes.size for nodes in first)])
        for nodes, begin in zip(first, ends, strict=False):
            places = begin + np.arange(nodes.size).reshape(nodes.shape)
            if not varies[places].any():
                continue
            at = places[varies[places]] if self.small else places[_hull(varies[places])]
            self.varies[at] = True
            if self.small:
                new = [int(k) for k in at[np.unique(kinds[at], return_index=True)[1]] if kinds[k] not in known]
                known |= zip(kinds[new].tolist(), self._in_memory(np.array(new, dtype=int)), strict=True)
                self.nodes[at] = [known[kind] for kind in kinds[at].tolist()]
            else:
                key = kinds[at].tobytes()
                if key not in known:
                    known[key] = self._in_memory(at)
                self.nodes[at] = known[key].reshape(at.shape)

    def _in_memory(self, at: np.ndarray) -> Nodes:
        """Put the entries at these places into memory, and return the nodes that stand for them within a turn."""
        if not at.size:
            return at
        entries = result_of(self.g, Turning(at.size))
        self.units[self.g.ops[entries[0]][1:3]] = at
        return entries

    def inside(self) -> list[Nodes]:
        """Return the arrays as a turn finds them."""
        return self._arrays(self.nodes)

    def fillings(self, nodes: Nodes) -> list[tuple[Memory, Fill]]:
        """Return how these nodes of all entries are written; where that is little, one by one."""
        written = {memory: nodes[at] for memory, at in self.units.items()}
        if not self.small:
            return fill_all(self.g, written)
        return [(memory, Fill(each.size, (), tuple(enumerate(each.tolist())))) for memory, each in written.items()]

    def outcome(self, loop: Repeat) -> list[Nodes]:
        """Return the arrays after the loop."""
        last: dict[int, int] = {}
        for memory, at in self.units.items():
            entries = result_of(self.g, Outcome(at.size, loop, memory))
            last |= zip(self.nodes[at].ravel().tolist(), entries.tolist(), strict=True)
        return self._arrays(np.array([last.get(n, n) for n in self.nodes.tolist()], dtype=np.int64))

    def _arrays(self, nodes: Nodes) -> list[Nodes]:
        ends = np.cumsum([nodes.size for nodes in self.first])
        return [part.reshape(a.shape) for part, a in zip(np.split(nodes, ends[:-1]), self.first, strict=True)]


class _Part:
    """An array of nodes, of which what varies from turn to turn is in memory: the smallest box that has all of it."""

    def __init__(self, g: Graph, first: Nodes, varies: np.ndarray, memory: Memory = ()) -> None:
        self.first, self._at = np.asarray(first), _hull(varies)
        self.memory, self.inside = memory, self.first
        self.size = self.of(self.first).size if varies.any() else 0
        if self.size and not memory:
            entries = result_of(g, Turning(self.size))
            self.memory, self.inside = g.ops[entries[0]][1:3], self._with(entries)

    def of(self, nodes: Nodes) -> Nodes:
        """Return the nodes of what varies."""
        return nodes[self._at]

    def outcome(self, g: Graph, loop: Repeat, length: int) -> Nodes:
        """Return the arrays of all turns."""
        if not self.size:
            return np.stack([self.first] * length)
        entries = result_of(g, Outcome(self.size * length, loop, self.memory))
        return np.stack([self._with(row) for row in entries.reshape(length, -1)])

    def _with(self, entries: Nodes) -> Nodes:
        """Return the whole array, with these nodes for what varies."""
        out = self.first.copy()
        out[self._at] = entries.reshape(self.of(out).shape)
        return out


def _stack(g: Graph, part: _Part, over: Nodes) -> View:
    """Return the view of memory that has what varies of an array: a row of neighbours for each turn."""
    return in_memory(g, np.stack([part.of(each).ravel() for each in over]), neighbours=True)


def _condition(g: Graph, before: Nodes, after: Nodes) -> int | None:
    """Return the node k < n without which a turn leaves all that is carried as it was."""
    found = None
    for was, node in zip(before.tolist(), after.tolist(), strict=True):
        if node == was:
            continue
        op = g.ops[node]
        if op[0] != "select" or op[3] != was or found not in (None, op[1]) or g.ops[op[1]][0] != "lt":
            return None
        found = op[1]
    return found


def _counted(g: Graph, condition: int, given: list[_Part], over: list[Nodes], own: set[Memory]) -> bool:
    """Tell whether the condition k < n, once false, stays so: k is an entry that increases, n is the same for all."""
    k, n = g.ops[condition][1:]
    for part, nodes in zip(given, over, strict=True):
        if part.inside.ravel().tolist() == [k]:
            values = [g.value(node) for node in nodes.ravel().tolist()]
            increases = all(a is not None and b is not None and a <= b for a, b in pairwise(values))
            return increases and not _varying(g, [n], own)
    return False


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
