"""Running kernels on plain arrays: what the tests of the program layer share."""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from pathfold.program.emit import emit
from pathfold.program.kernel import (
    LAYOUT_ACTIVE,
    LAYOUT_HEAD,
    LAYOUT_ROWS,
    LAYOUT_SLOTS,
    LAYOUT_STEPS,
    Kernel,
    LaneScan,
    Tracing,
)
from pathfold.program.layout import BLOCKS, Record, Use
from pathfold.program.machine import Loaded, assemble
from pathfold.program.node_arrays import NodeArray, graph_of
from pathfold.program.trace import trace
from tests.by_numpy import by_numpy

LANES = 5  # odd, so that vectorised loops have a remainder

_number = itertools.count()


@dataclass
class Memory:
    """Arrays for records, indexed as the layout says.

    `first` says in which row each series begins, or group of `abreast` series, and where the last ends; `active` how
    many of them have a node in each row.
    """

    records: Sequence[Record]
    lanes: int = LANES
    chunks: int = 1
    steps: int = 1
    first: Sequence[int] = (0,)
    abreast: int = 1
    active: Sequence[int] = ()
    arrays: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.arrays = {record.name: np.full(self._shape(record), np.nan) for record in self.records}

    def _shape(self, record: Record) -> tuple[int, ...]:
        return {
            "shared": (record.size,),
            "series": (len(self.first) - 1, record.size, self.abreast),
            "lane": (self.chunks, record.size, self.lanes),
            "step": (self.chunks, self.steps, record.size, self.lanes),
        }[record.kind]

    def slots_of(self, place: int) -> list[tuple[int]]:
        """The slots of the nodes of a series, by its place."""
        group, lane = divmod(place, self.abreast)
        rows = range(self.first[group], self.first[group + 1])
        return [(row * self.abreast + lane,) for row in rows if self.abreast == 1 or lane < self.active[row]]

    def uses(self) -> list[Use]:
        """The layout table lists where the records begin: in one block, but for the lane buffer, which is scratch."""
        uses = [Use(record, "point", LAYOUT_HEAD + i) for i, record in enumerate(self.records)]
        return [*uses, Use(CARRY, "scratch", LAYOUT_HEAD + len(uses))]

    def __getitem__(self, key: tuple[str, str]) -> np.ndarray:
        """All values of a field: first [], [place of a series], [slot] or [slot, s], then the field's own axes."""
        record = next(r for r in self.records if r.name == key[0])
        values, columns, shape = self.arrays[record.name], record.columns(key[1]), record.fields[key[1]]
        if record.kind == "shared":
            return values[columns].reshape(shape)
        values = np.moveaxis(values[..., columns, :], -1, 1)  # [chunk, lane, ..., field]
        return values.reshape(-1, *values.shape[2:-1], *shape)

    def __setitem__(self, key: tuple[str, str], given: np.ndarray) -> None:
        record = next(r for r in self.records if r.name == key[0])
        values, columns = self.arrays[record.name], record.columns(key[1])
        if record.kind == "shared":
            values[columns] = np.ravel(given)
        else:
            target = np.moveaxis(values[..., columns, :], -1, 1)  # a view
            target[...] = np.reshape(given, target.shape)

    def run(self, *kernels: Kernel, intervals: int | None = None, largest: int | None = None) -> None:
        """Compile the kernels and run them, one after the other, over all chunks or series."""
        tracing = Tracing(kernels, largest=largest, abreast=self.abreast)
        codes = [emit(tracing(kernel), self.lanes) for kernel in kernels]
        loaded = Loaded({code.name: assemble(code) for code in codes})
        parts = list(self.arrays.values())
        block = np.concatenate([part.ravel() for part in parts])
        begins = np.cumsum([0, *(part.size for part in parts)])
        head = np.zeros(LAYOUT_HEAD, dtype=np.int64)
        head[LAYOUT_STEPS] = self.steps
        head[LAYOUT_SLOTS] = self.chunks * self.lanes if intervals is None else intervals
        head[LAYOUT_ROWS] = LAYOUT_HEAD + len(begins)
        head[LAYOUT_ACTIVE] = head[LAYOUT_ROWS] + len(self.first)
        layout = np.array([*head, *begins[:-1], 0, *self.first, *self.active], dtype=np.int64)
        needed = max(1, *(code.carried * self.lanes for code in codes))
        scratch = np.full(needed + 100, np.nan)
        blocks = {"point": block, "scratch": scratch}
        pointers = [blocks[name].ctypes.data if name in blocks else None for name in BLOCKS]
        for kernel in kernels:
            signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + len(pointers)))
            function = signature(loaded.addresses[kernel.name])
            for i in range(self.chunks if isinstance(kernel, LaneScan) else len(self.first) - 1):
                function(i, layout.ctypes.data, *pointers)
        assert np.isnan(scratch[needed:]).all(), "a kernel writes beyond its lane buffer"
        for part, begin in zip(parts, begins, strict=False):
            part.ravel()[:] = block[begin : begin + part.size]


CARRY = Record("carry", "shared", {})


def in_jax(final: Callable[..., dict]) -> Callable[..., dict]:
    """The same part of a kernel for arrays of nodes, where it is written in JAX."""

    @functools.wraps(final)
    def of_nodes(**values):
        graph = graph_of(*values.values())
        out = trace(graph, lambda given: final(**given), {name: each.nodes for name, each in values.items()})
        return {name: NodeArray(graph, nodes) for name, nodes in out.items()}

    return of_nodes


def evaluate(function: Callable, *arrays: np.ndarray) -> list[np.ndarray]:
    """The flat results of a JAX function, compiled; every argument and result has the lane as its first axis."""
    arrays = tuple(np.asarray(a, dtype=float) for a in arrays)
    lanes = arrays[0].shape[0]
    with jax.enable_x64(True):
        shapes = jax.eval_shape(function, *(jax.ShapeDtypeStruct(a.shape[1:], np.float64) for a in arrays))
    given = Record("given", "lane", {f"in{i}": a.shape[1:] for i, a in enumerate(arrays)})
    result = Record("result", "lane", {f"out{i}": s.shape for i, s in enumerate(jax.tree.leaves(shapes))})

    def final(**values):
        return {
            f"out{i}": out for i, out in enumerate(jax.tree.leaves(function(*(values[name] for name in given.fields))))
        }

    final.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in given.fields]
    )
    memory = Memory([given, result], lanes=lanes)
    for i, a in enumerate(arrays):
        memory["given", f"in{i}"] = a
    memory.run(LaneScan(f"function{next(_number)}", memory.uses(), final=in_jax(final)))
    return [memory["result", name] for name in result.fields]


def reference(function: Callable, *arrays: np.ndarray) -> list[np.ndarray]:
    """The same as JAX traces it, by NumPy, lane by lane; what NumPy has no function for, JAX does itself."""
    traced = by_numpy(function)
    rows = [jax.tree.leaves(traced(*lane)) for lane in zip(*arrays, strict=True)]
    return [np.stack([np.asarray(each, dtype=float) for each in entry]) for entry in zip(*rows, strict=True)]


def check(function: Callable, *arrays: np.ndarray, rtol: float = 1e-12, atol: float = 1e-14) -> None:
    """The compiled function agrees with JAX, in every lane and all parts of its result."""
    arrays = tuple(np.asarray(a, dtype=float) for a in arrays)
    with jax.enable_x64(True):
        paths, _ = jax.tree_util.tree_flatten_with_path(jax.eval_shape(function, *(a[0] for a in arrays)))
    names = [jax.tree_util.keystr(path) for path, _ in paths]
    for name, ours, theirs in zip(names, evaluate(function, *arrays), reference(function, *arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=name)
