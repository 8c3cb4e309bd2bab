"""Rolls arrays of nodes back into loops.

Entries that are the same expression of evenly spaced entries of memory form a box that one loop fills. The entries of
a symmetric matrix, or of several, are computed once and stored twice. Entries that differ (a diagonal, say) are stored
one by one after the box, or they split it: evenly spaced rows or columns of the same kind are boxes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from pathfold.program.arrays import (
    Apply,
    Box,
    Fill,
    Memory,
    Scalar,
    Term,
    View,
    entries_of,
    leaves,
    result_of,
    row_major,
)
from pathfold.program.graph import Graph

FEW = 8  # up to so many entries are written one by one
LARGEST_TERM = 40  # the most operations in the expression of one box


def seen(g: Graph, nodes: np.ndarray) -> View | None:
    """Return the view of memory whose entries these nodes are, or None if they are not evenly spaced entries of one."""
    term = _Roller(g, nodes.shape, np.ones(nodes.shape, dtype=bool)).roll(nodes.ravel().tolist())
    return term if isinstance(term, View) else None


def in_memory(g: Graph, nodes: np.ndarray, *, neighbours: bool = False) -> View:
    """Return a view of memory that holds the nodes, which are put into a new array if need be.

    With `neighbours`, entries along the last axis are next to each other in memory.
    """
    view = seen(g, nodes)
    if view is not None and not (neighbours and is_scattered(g, view, nodes.shape)):
        return view
    return put(g, nodes)


def put(g: Graph, nodes: np.ndarray) -> View:
    """Put the nodes into an array in memory, unless one has them already, and return a view of it."""
    key = (nodes.shape, nodes.tobytes())
    if key not in g.filled:
        result_of(g, fill(g, nodes))
        g.filled[key] = len(g.statements) - 1
    return View(("array", g.filled[key]), 0, row_major(nodes.shape))


def is_scattered(g: Graph, view: View, shape: tuple[int, ...]) -> bool:
    return view.memory in g.scattered or (shape[-1] > 1 and view.strides[-1] != 1)


def fill(g: Graph, nodes: np.ndarray) -> Fill:
    """Return the statement that puts nodes into memory."""
    boxes: list[Box] = []
    entries: list[tuple[int, int]] = []
    _cover(g, nodes, np.arange(nodes.size).reshape(nodes.shape), boxes, entries)
    return Fill(nodes.size, tuple(boxes), tuple(entries))


def fill_all(g: Graph, written: dict[Memory, np.ndarray]) -> list[tuple[Memory, Fill]]:
    """Return the statements that write nodes into these parts of memory, to be run one after the other.

    One that would read memory which has been overwritten by then first computes its nodes in an array of its own.
    """
    out = []
    for memory, nodes in written.items():
        filling = fill(g, nodes)
        if any(view.memory in written and not _in_place(filling, memory, view) for view in filling.views()):
            aside = put(g, nodes).memory
            filling = fill(g, entries_of(g, aside).reshape(nodes.shape))
        out.append((memory, filling))
    return out


def _in_place(filling: Fill, memory: Memory, view: View) -> bool:
    """Tell whether the view is of the memory that is written, and every entry is read only where it is written next."""
    return view.memory == memory and all(
        leaf.memory != memory or (leaf.start, leaf.strides) == (box.start, box.strides)
        for box in filling.boxes
        for leaf in leaves(box.term)
        if isinstance(leaf, View)
    )


def _cover(g: Graph, nodes: np.ndarray, where: np.ndarray, boxes: list[Box], entries: list[tuple[int, int]]) -> None:
    """Add boxes and entries that put the nodes at the places `where`."""
    if nodes.size > FEW:
        signatures = _signatures(g, nodes)
        if _box(g, nodes, signatures, where, boxes, entries):
            return
        shape = _unmerged(g, nodes, signatures)
        if shape != nodes.shape:
            _cover(g, nodes.reshape(shape), where.reshape(shape), boxes, entries)
            return
        parts = _parts(signatures)
        for part in parts:
            _cover(g, nodes[part], where[part], boxes, entries)
        if parts:
            return
    entries += zip(where.ravel().tolist(), nodes.ravel().tolist(), strict=True)


def _box(g: Graph, nodes: np.ndarray, signatures: np.ndarray, where: np.ndarray, boxes: list, entries: list) -> bool:
    """Add a box for the nodes, and entries for those few that differ; return False if most do not fit in one box."""
    symmetric = nodes.ndim > 1 and np.array_equal(nodes, np.swapaxes(nodes, -1, -2))
    chosen = np.ones(nodes.shape, dtype=bool)
    if symmetric:
        chosen &= np.tri(nodes.shape[-1], dtype=bool)
    kinds, counts = np.unique(signatures[chosen], return_counts=True)
    usual = chosen & (signatures == kinds[counts.argmax()])
    others = np.argwhere(chosen & ~usual)
    if len(others) > min(4 * max(nodes.shape), nodes.size // 4) or usual.sum() <= FEW:
        return False
    term = _Roller(g, nodes.shape, usual).roll(nodes[usual].tolist())
    if term is None:
        return False
    start, strides = int(where.flat[0]), _strides(where)
    mirror = (*strides[:-2], strides[-1], strides[-2]) if symmetric else None
    boxes.append(Box(nodes.shape, start, strides, term, mirror))
    for at in others.tolist():
        entries.append((int(where[tuple(at)]), int(nodes[tuple(at)])))
        if symmetric and at[-2] != at[-1]:
            entries.append((int(np.swapaxes(where, -1, -2)[tuple(at)]), int(nodes[tuple(at)])))
    return True


def _unmerged(g: Graph, nodes: np.ndarray, signatures: np.ndarray) -> tuple[int, ...]:
    """Return a shape in which axes that were merged, along which forms or places are periodic, are apart again."""
    shape: list[int] = []
    for axis, length in enumerate(nodes.shape):
        rows = np.moveaxis(signatures, axis, 0).reshape(length, -1)
        if (rows == rows[:1]).all():
            lines = np.moveaxis(nodes, axis, 0).reshape(length, -1)
            line = next((line for line in lines.T if g.value(line[0]) is None), lines[:, 0])
            steps = np.diff([list(islice(_read(g, node), LARGEST_TERM)) for node in line.tolist()], axis=0)
            changes = np.flatnonzero((steps != steps[:1]).any(axis=1))
            period = int(changes[0]) + 1 if changes.size else length
        else:
            repeats = (
                d for d in range(2, length) if length % d == 0 and (rows == np.tile(rows[:d], (length // d, 1))).all()
            )
            period = next(repeats, length)
        shape += [length // period, period] if length % period == 0 and period < length else [length]
    return tuple(shape)


def _read(g: Graph, node: int) -> Iterator[int]:
    """Yield the places in memory of all that a node is computed from, in the order of its expression."""
    op = g.ops[node]
    if op[0] == "input" and op[1:3] in g.sizes:
        yield op[3]
    elif op[0] not in ("input", "const"):
        for a in op[1:]:
            yield from _read(g, a)


def _strides(where: np.ndarray) -> tuple[int, ...]:
    first = where[tuple(slice(0, 2) for _ in where.shape)]
    return tuple(int(np.diff(first, axis=k).flat[0]) if where.shape[k] > 1 else 0 for k in range(where.ndim))


def _parts(signatures: np.ndarray) -> list[tuple[slice, ...]]:
    """Split an array into evenly spaced rows (or columns) of the same kind; return no parts if all are of one kind."""
    best: list[tuple[slice, ...]] = []
    for axis in range(signatures.ndim):
        kinds = _kinds(np.moveaxis(signatures, axis, 0).reshape(signatures.shape[axis], -1))
        if kinds.max() > 0:
            runs = [run for kind in range(kinds.max() + 1) for run in _runs(np.flatnonzero(kinds == kind))]
            parts = [tuple(run if k == axis else slice(None) for k in range(signatures.ndim)) for run in runs]
            best = parts if not best or len(parts) < len(best) else best
    return best


def _kinds(rows: np.ndarray) -> np.ndarray:
    """Number the kinds of rows: rows are of the same kind if they differ in a few entries at most (a diagonal, say)."""
    few = min(4, rows.shape[1] // 3)
    kinds = np.full(len(rows), -1)
    while (left := np.flatnonzero(kinds < 0)).size:
        alike = (rows[left] != rows[left[0]]).sum(axis=1) <= few
        kinds[left[alike]] = kinds.max() + 1
    return kinds


def _runs(places: np.ndarray) -> Iterator[slice]:
    """Yield slices that cover the increasing places."""
    steps = np.diff(places)
    if len(steps) and np.all(steps == steps[0]):
        yield slice(int(places[0]), int(places[-1]) + 1, int(steps[0]))
    else:
        for run in np.split(places, np.flatnonzero(steps != 1) + 1):
            yield slice(int(run[0]), int(run[-1]) + 1)


def _signatures(g: Graph, nodes: np.ndarray) -> np.ndarray:
    """Number the forms of nodes: the form is a node's operations, constants and the memory it reads, but not where."""
    known, forms = g.signatures, g.forms
    for op in g.ops[len(known) :]:
        if op[0] == "const":
            form = op
        elif op[0] == "input":
            form = op[:3]
        else:
            form = (op[0], *(known[a] for a in op[1:]))
        known.append(forms.setdefault(form, len(forms)))
    return np.array([known[n] for n in nodes.ravel().tolist()]).reshape(nodes.shape)


class _Roller:
    """Finds the term that nodes at chosen places of a box have in common."""

    def __init__(self, g: Graph, shape: tuple[int, ...], chosen: np.ndarray) -> None:
        self.g, self.shape, self.size = g, shape, 0
        at = np.argwhere(chosen)
        self.places = np.concatenate([np.ones((len(at), 1)), at], axis=1)
        self.solve = np.linalg.pinv(self.places)

    def roll(self, nodes: list[int]) -> Term | None:
        first = nodes[0]
        if all(node == first for node in nodes):
            return Scalar(first)
        ops = [self.g.ops[node] for node in nodes]
        name = ops[0][0]
        if name == "const" or any(op[0] != name for op in ops):
            return None
        if name == "input":
            return self._view(ops)
        self.size += 1
        if self.size > LARGEST_TERM:
            return None
        terms = []
        for k in range(1, len(ops[0])):
            term = self.roll([op[k] for op in ops])
            if term is None:
                return None
            terms.append(term)
        return Apply(first, tuple(terms))

    def _view(self, ops: list[tuple]) -> View | None:
        memory: Memory = ops[0][1:3]
        if memory not in self.g.sizes or any(op[1:3] != memory for op in ops):
            return None
        index = np.array([op[3] for op in ops])
        start, *strides = np.rint(self.solve @ index).astype(int).tolist()
        if not np.array_equal(self.places @ [start, *strides], index):
            return None
        steps = [stride * (length - 1) for stride, length in zip(strides, self.shape, strict=True)]
        low, high = start + sum(min(0, step) for step in steps), start + sum(max(0, step) for step in steps)
        # The box also covers places that are not chosen, and are overwritten; it must not read beyond the memory there.
        return View(memory, start, tuple(strides)) if low >= 0 and high < self.g.sizes[memory] else None
