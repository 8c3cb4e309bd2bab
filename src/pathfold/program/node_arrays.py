"""Arrays of graph nodes that NumPy's operators and functions take: equations written with NumPy are traced by running.

`A @ B.T + np.eye(3)` makes the nodes of the result in the graph that A belongs to; numbers and NumPy's own arrays are
constants. Anything NumPy has that is not in the tables below raises TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pathfold.program.graph import Graph
from pathfold.program.interpret import Nodes, by_element, constants_of
from pathfold.program.rules_of_algebra import cholesky_nodes, fold
from pathfold.program.rules_of_products import product


class NodeArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of nodes of a graph."""

    __slots__ = ("graph", "nodes")

    def __init__(self, graph: Graph, nodes: Nodes) -> None:
        self.graph, self.nodes = graph, nodes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.nodes.shape

    @property
    def ndim(self) -> int:
        return self.nodes.ndim

    @property
    def size(self) -> int:
        return self.nodes.size

    @property
    def T(self) -> NodeArray:
        return NodeArray(self.graph, self.nodes.T)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[NodeArray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> NodeArray:
        return NodeArray(self.graph, np.asarray(self.nodes[index]))

    def reshaped(self, shape: tuple[int, ...]) -> NodeArray:
        return NodeArray(self.graph, self.nodes.reshape(shape))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> NodeArray:
        g, of_nodes = self.graph, _UFUNCS.get(ufunc)
        if method != "__call__" or settings or of_nodes is None:
            raise TypeError(f"equations do not use {ufunc.__name__} in this way")
        return NodeArray(g, of_nodes(g, *(nodes_in(g, each) for each in inputs)))

    def __array_function__(self, function: Any, types: Any, arguments: Sequence, settings: dict) -> Any:
        if function not in _FUNCTIONS:
            raise TypeError(f"equations do not use {function.__name__}")
        return _FUNCTIONS[function](*arguments, **settings)


def nodes_in(g: Graph, value: Any) -> Nodes:
    """Return the nodes of an array, or of constants."""
    return value.nodes if isinstance(value, NodeArray) else constants_of(g, value)


def graph_of(*values: Any) -> Graph:
    return next(each.graph for each in values if isinstance(each, NodeArray))


def _op(name: str) -> Callable:
    return lambda g, *arrays: by_element(partial(g.op, name), *arrays)


def _matmul(g: Graph, a: Nodes, b: Nodes) -> Nodes:
    rows = a if a.ndim == 2 else a[None]
    columns = b if b.ndim == 2 else b[:, None]
    out = product(g, rows, columns)
    return out.reshape((*a.shape[:-1], *b.shape[1:]))


_UFUNCS: dict[Any, Callable] = {
    np.add: _op("add"),
    np.subtract: _op("sub"),
    np.multiply: _op("mul"),
    np.divide: lambda g, a, b: by_element(g.div, a, b),
    np.negative: _op("neg"),
    np.power: _op("pow"),
    np.absolute: _op("abs"),
    np.maximum: _op("max"),
    np.minimum: _op("min"),
    np.log: _op("log"),
    np.exp: _op("exp"),
    np.sqrt: _op("sqrt"),
    np.sin: _op("sin"),
    np.tanh: _op("tanh"),
    np.equal: _op("eq"),
    np.not_equal: _op("ne"),
    np.less: _op("lt"),
    np.less_equal: _op("le"),
    np.greater: lambda g, a, b: _op("lt")(g, b, a),
    np.greater_equal: lambda g, a, b: _op("le")(g, b, a),
    np.bitwise_and: _op("and"),
    np.bitwise_or: _op("or"),
    np.matmul: _matmul,
}


def _where(chosen: Any, a: Any, b: Any) -> NodeArray:
    g = graph_of(chosen, a, b)
    return NodeArray(g, _op("select")(g, *(nodes_in(g, each) for each in (chosen, a, b))))


def _diag(a: NodeArray) -> NodeArray:
    if a.ndim == 2:
        return NodeArray(a.graph, np.diag(a.nodes))
    out = np.full((a.size, a.size), a.graph.const(0.0), dtype=np.int64)
    np.fill_diagonal(out, a.nodes)
    return NodeArray(a.graph, out)


def _concatenate(arrays: Sequence, axis: int = 0) -> NodeArray:
    g = graph_of(*arrays)
    return NodeArray(g, np.concatenate([nodes_in(g, each) for each in arrays], axis=axis))


def _stack(arrays: Sequence, axis: int = 0) -> NodeArray:
    g = graph_of(*arrays)
    return NodeArray(g, np.stack([nodes_in(g, each) for each in arrays], axis=axis))


def _split(a: NodeArray, ends: Sequence[int], axis: int = 0) -> list[NodeArray]:
    return [NodeArray(a.graph, part) for part in np.split(a.nodes, ends, axis=axis)]


def _block(rows: Sequence[Sequence]) -> NodeArray:
    g = graph_of(*(each for row in rows for each in row))
    return NodeArray(g, np.block([[nodes_in(g, each) for each in row] for row in rows]))


def _folded(name: str) -> Callable:
    return lambda a: NodeArray(a.graph, np.asarray(fold(a.graph, name, a.nodes.ravel().tolist()), dtype=np.int64))


_FUNCTIONS: dict[Any, Callable] = {
    np.where: _where,
    np.diag: _diag,
    np.block: _block,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.split: _split,
    np.sum: _folded("add"),
    np.max: _folded("max"),
    np.any: _folded("or"),
    np.linalg.cholesky: lambda a: NodeArray(a.graph, cholesky_nodes(a.graph, a.nodes)),
}
