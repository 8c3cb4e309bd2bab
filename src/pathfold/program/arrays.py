"""Arrays that stay in memory, and the statements (loops) that compute them.

A large product is not written out: its result is an array in memory, and its entries are input nodes of the graph, as
the entries of fields and carried quantities are. What moves entries, picks them or combines them one by one goes on as
before; only where an array is needed in memory again (as a factor, or to be kept) are its nodes rolled back into loops
(`roll.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pathfold.program.graph import Graph

Memory = tuple  # ("field", name), ("carry", name) or ("array", number)


@dataclass(frozen=True)
class View:
    """Entries of memory at start + sum_k strides[k] i_k."""

    memory: Memory
    start: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Scalar:
    """One node, the same for all entries."""

    node: int


@dataclass(frozen=True)
class Apply:
    """An operation on terms, entry by entry; `node` is one of the nodes it stands for."""

    node: int
    terms: tuple


Term = View | Scalar | Apply


@dataclass(frozen=True)
class Box:
    """target[start + strides . i] = term(i); where `mirror` is given, for i_1 <= i_0, and at start + mirror . i too."""

    shape: tuple[int, ...]
    start: int
    strides: tuple[int, ...]
    term: Term
    mirror: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Fill:
    """An array by boxes, and then by single entries (place, node), which take the place of what boxes put there."""

    size: int
    boxes: tuple[Box, ...]
    entries: tuple[tuple[int, int], ...]

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
    """out[i, j] = sum_k a[i, k] b[k, j]; `neighbours` says that the entries of a row of b are neighbours in memory."""

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
    """out[i, j] = sum_k a[i, k] b[k, j] over the entries (k, node) of each row i of a, written out; j is a loop."""

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
    """Inverse of a matrix and its pivots, one after the other in memory, by elimination without exchanges."""

    order: int
    matrix: View

    @property
    def size(self) -> int:
        return self.order * (self.order + 1)

    def nodes(self) -> Iterator[int]:
        return iter(())

    def views(self) -> Iterator[View]:
        yield self.matrix


Statement = Fill | Product | SparseProduct | Elimination


def leaves(term: Term) -> Iterator[View | Scalar]:
    if isinstance(term, Apply):
        for part in term.terms:
            yield from leaves(part)
    else:
        yield term


def result_of(g: Graph, statement: Statement) -> np.ndarray:
    """The nodes of a new array in memory, flat."""
    g.statements.append(statement)
    memory = ("array", len(g.statements) - 1)
    g.sizes[memory] = statement.size
    return entries_of(g, memory)


def entries_of(g: Graph, memory: Memory) -> np.ndarray:
    """The nodes of all entries of a part of memory."""
    return np.array([g.input(*memory, i) for i in range(g.sizes[memory])], dtype=np.int64)


def is_entry(g: Graph, nodes: np.ndarray) -> np.ndarray:
    """Where nodes are not the constant zero."""
    return (nodes != g.const(0.0)) & (nodes != g.const(-0.0))


def arguments(g: Graph, node: int) -> tuple[int, ...] | list[int]:
    """The nodes that come before a node: for the first entry of an array what its statement needs, then the first."""
    op = g.ops[node]
    if op[0] == "const" or (op[0] == "input" and op[1] != "array"):
        return ()
    if op[0] != "input":
        return op[1:]
    return needs(g, g.statements[op[2]]) if op[3] == 0 else (g.input("array", op[2], 0),)


def needs(g: Graph, statement: Statement) -> list[int]:
    """The nodes a statement needs; of an array it reads, the first entry stands for all."""
    arrays = [g.input(*view.memory, 0) for view in statement.views() if view.memory[0] == "array"]
    return [*statement.nodes(), *arrays]


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape)))
