"""Turns a JAX function into a scalar program, by interpreting its jaxpr over arrays of graph nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.errors import ModelError
from pathfold.program import (  # noqa: F401
    matrices,
    rules_of_algebra,
    rules_of_arithmetic,
    rules_of_arrays,
    rules_of_functions,
    rules_of_products,
)
from pathfold.program.graph import Graph
from pathfold.program.interpret import constants_of, evaluate, input_nodes, known
from pathfold.program.unsupported import UnsupportedPrimitive

ALL = 10**12  # multiplications: products of constants are never loops


def trace(graph: Graph, function: Callable, *args: Any) -> Any:
    """Apply `function` to pytrees of node arrays, and return its result as a pytree of node arrays."""
    return Traceable(function, *args)(graph, *args)


class Traceable:
    """A function of pytrees, written down by JAX once, that can be applied to node arrays of several graphs."""

    def __init__(self, function: Callable, *args: Any) -> None:
        leaves, tree = jax.tree.flatten(args)
        with jax.enable_x64(True):
            shapes = [jax.ShapeDtypeStruct(np.shape(leaf), np.float64) for leaf in leaves]
            written = jax.make_jaxpr(lambda *a: function(*jax.tree.unflatten(tree, a)), return_shape=True)
            self._closed, shape = written(*shapes)
        self._tree = jax.tree.structure(shape)

    def __call__(self, graph: Graph, *args: Any) -> Any:
        nodes = [np.asarray(leaf, dtype=np.int64) for leaf in jax.tree.leaves(args)]
        with jax.enable_x64(True):
            out = evaluate(graph, self._closed.jaxpr, self._closed.consts, nodes)
        return jax.tree.unflatten(self._tree, out)


def computed(function: Callable, *values: Any) -> Any:
    """Apply a function to numbers, by the operations that JAX writes down: XLA compiles none of them.

    Where scalar programs do not know an operation, JAX does it all.
    """
    graph = Graph(largest=ALL)
    try:
        out = trace(graph, function, *(jax.tree.map(partial(constants_of, graph), value) for value in values))
    except UnsupportedPrimitive:
        return jax.tree.map(np.asarray, function(*jax.tree.map(jnp.asarray, values)))
    return jax.tree.map(lambda nodes: known(graph, nodes, "a number"), out)


def second_derivative(function: Callable, count: int) -> Callable:
    """Return the second derivative of a function of `count` arguments, with its value and first derivatives.

    It takes the arguments, then as many first and as many second directions. Tracing it meets every operation of the
    function and of its derivatives.
    """

    def derivative(*values: Any) -> Any:
        at, first, second = values[:count], values[count : 2 * count], values[2 * count :]
        return jax.jvp(lambda *x: jax.jvp(function, x, first), at, second)

    return derivative


def check_compilable(name: str, function: Callable, shapes: Any) -> None:
    """Raise a ModelError that names the user's function if it, or its derivatives, cannot be made a scalar program."""
    leaves, tree = jax.tree.flatten(shapes)

    def value(*args):
        out = function(*jax.tree.unflatten(tree, args))
        return [jnp.asarray(leaf, dtype=float) for leaf in jax.tree.leaves(out)]

    second = second_derivative(value, len(leaves))
    _attempt(name, value, leaves)
    with differentiating(name):
        _attempt(f"a derivative of {name}", lambda *args: second(*args, *args, *args), leaves)


@contextmanager
def differentiating(name: str = "a function of the model") -> Iterator[None]:
    """Turn what JAX raises where it cannot differentiate a function into a ModelError."""
    try:
        yield
    except (NotImplementedError, TypeError, ValueError) as problem:
        raise ModelError(
            f"{name} cannot be differentiated twice by jax.jvp ({problem}); if it uses a function with jax.custom_vjp, "
            "give that function's derivative by jax.custom_jvp instead."
        ) from problem


def is_compilable(function: Callable, *shapes: Any) -> bool:
    """Tell whether a function and its derivatives can be made a scalar program."""
    try:
        check_compilable("it", function, shapes)
    except ModelError:
        return False
    return True


def _attempt(name: str, function: Callable, shapes: Sequence) -> None:
    graph = Graph()
    try:
        trace(graph, function, *(input_nodes(graph, str(i), shape.shape) for i, shape in enumerate(shapes)))
    except UnsupportedPrimitive as problem:
        raise ModelError(f"{name} cannot be compiled to a scalar program: {problem}") from None
