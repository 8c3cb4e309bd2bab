"""Arrays that stay in memory, and the statements (loops) that compute them.

A large product is not written out: its result is an array in memory, and its entries are input nodes of the graph, as
the entries of fields and carried quantities are. Operations that move entries, pick them or combine them one by one
work on these nodes as on any others; only where an array is needed in memory again (as a factor, or to be kept) are its
nodes rolled back into loops (`roll.py`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np

from pathfold.program.graph import Graph

Memory = tuple  # ("field", name), ("carry", name) or ("array", number)


@dataclass(frozen=True)
class View:
    """The entries of memory at start + sum_k strides[k] i_k."""

    memory: Memory
    start: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Scalar:
    """One node that all entries of a box share."""

    node: int


@dataclass(frozen=True)
class Apply:
    """An operation that is applied to terms entry by entry; `node` is one of the nodes that it stands for."""

    node: int
    terms: tuple


Term = View | Scalar | Apply


@dataclass(frozen=True)
class Box:
    """The assignment target[start + strides . i] = term(i) for all i within `shape`.

    Where `mirror` is given, the last of i runs up to the one before it alone, and the value is stored at
    start + mirror . i as well.
    """

    shape: tuple[int, ...]
    start: int
    strides: tuple[int, ...]
    term: Term
    mirror: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Fill:
    """Fills an array with boxes, and then overwrites single entries (place, node)."""

    size: int
    boxes: tuple[Box, ...]
    entries: tuple[tuple[int, int], ...]

    def part(self, wanted: Container[int]) -> Fill:
        """Return what fills the wanted entries: all where there are boxes, so that others come with them."""
        return self if self.boxes else Fill(self.size, (), tuple(each for each in self.entries if each[0] in wanted))

    def nodes(self) -> Iterator[int]:
        yield from (node for _, node in self.entries)
        yield from (leaf.node for leaf in self._leaves() if isinstance(leaf, Scalar))

    def views(self) -> Iterator[View]:
        yield from (leaf for leaf in self._leaves() if isinstance(leaf, View))

    def _leaves(self) -> Iterator[View | Scalar]:
        for box in self.boxes:
            yield from leaves(box.term)


@dataclass(frozen=True)
class Product:
    """Computes out[i, j] = sum_k a[i, k] b[k, j]; `neighbours`: the entries of a row of b are neighbours in memory."""

    shape: tuple[int, int, int]  # of i, j, k
    a: View
    b: View
    neighbours: bool

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def nodes(self) -> Iterator[int]:
        return iter(())

    def views(self) -> Iterator[View]:
        yield from (self.a, self.b)


@dataclass(frozen=True)
class SparseProduct:
    """Computes out[i, j] = sum_k a[i, k] b[k, j] with a loop over j; a's rows, entries (k, node), are written out."""

    rows: tuple[tuple[tuple[int, int], ...], ...]
    columns: int
    b: View
    neighbours: bool

    @property
    def size(self) -> int:
        return len(self.rows) * self.columns

    def nodes(self) -> Iterator[int]:
        yield from (node for row in self.rows for _, node in row)

    def views(self) -> Iterator[View]:
        yield self.b


@dataclass(frozen=True)
class Elimination:
    """Computes the inverse of a matrix, followed in memory by its pivots, by elimination without exchanges."""

    order: int
    matrix: View

    @property
    def size(self) -> int:
        return self.order * (self.order + 1)

    def nodes(self) -> Iterator[int]:
        return iter(())

    def views(self) -> Iterator[View]:
        yield self.matrix


@dataclass(frozen=True)
class Turning:
    """Stands for memory that a loop carries, or for the entries of its present turn."""

    size: int

    def nodes(self) -> Iterator[int]:
        return iter(())

    def views(self) -> Iterator[View]:
        return iter(())


@dataclass(frozen=True)
class Repeat:
    """A loop over memory, which repeats a turn.

    `first` and `following` fill what is carried, before the loop and at the end of a turn. Once the node `condition` is
    false, all further turns leave it as it is. `over` are views of the entries of all turns, (turn, entry); `results`
    fills a row of each turn. A turn reads the nodes `fixed` and the memory `read` from outside; the arrays `inner` are
    its own.
    """

    length: int
    reverse: bool
    first: tuple[tuple[Memory, Fill], ...]
    following: tuple[tuple[Memory, Fill], ...]
    condition: int | None
    over: tuple[tuple[Memory, View], ...]
    results: tuple[tuple[Memory, Fill], ...]
    fixed: tuple[int, ...]
    read: tuple[View, ...]
    inner: frozenset[int]


@dataclass(frozen=True)
class Outcome:
    """What a loop carries in the end, or one of its results, (turn, entry); `memory` stands for it within the loop."""

    size: int
    loop: Repeat
    memory: Memory

    def nodes(self) -> Iterator[int]:
        yield from self.loop.fixed
        for _, filling in self.loop.first:
            yield from filling.nodes()

    def views(self) -> Iterator[View]:
        yield from self.loop.read
        yield from (view for _, view in self.loop.over)
        for _, filling in self.loop.first:
            yield from filling.views()


Statement = Fill | Product | SparseProduct | Elimination | Turning | Outcome


def leaves(term: Term) -> Iterator[View | Scalar]:
    if isinstance(term, Apply):
        for part in term.terms:
            yield from leaves(part)
    else:
        yield term


def result_of(g: Graph, statement: Statement) -> np.ndarray:
    """Add an array that the statement computes to the graph, and return the nodes of its entries (flat)."""
    g.statements.append(statement)
    memory = ("array", len(g.statements) - 1)
    g.sizes[memory] = statement.size
    return entries_of(g, memory)


def entries_of(g: Graph, memory: Memory) -> np.ndarray:
    """Return the input nodes of all entries of a part of memory."""
    return np.array([g.input(*memory, i) for i in range(g.sizes[memory])], dtype=np.int64)


def is_entry(g: Graph, nodes: np.ndarray) -> np.ndarray:
    """Mark the nodes that are not the constant zero."""
    return (nodes != g.const(0.0)) & (nodes != g.const(-0.0))


def arguments(g: Graph, node: int) -> tuple[int, ...] | list[int]:
    """Return the nodes that must be computed before a node.

    The first entry of an array comes after all that its statement needs, every other entry after the first.
    """
    op = g.ops[node]
    if op[0] == "const" or (op[0] == "input" and op[1] != "array"):
        return ()
    if op[0] != "input":
        return op[1:]
    return needs(g, g.statements[op[2]]) if op[3] == 0 else (g.input("array", op[2], 0),)


def needs(g: Graph, statement: Statement) -> list[int]:
    """Return the nodes that a statement needs; the first entry of an array that it reads stands for all of them."""
    arrays = [g.input(*view.memory, 0) for view in statement.views() if view.memory[0] == "array"]
    return [*statement.nodes(), *arrays]


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape)))
