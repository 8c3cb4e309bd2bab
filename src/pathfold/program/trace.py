"""From a JAX function to a scalar program: its jaxpr, interpreted over arrays of graph nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from pathfold.program.interpret import evaluate, inputs_of
from pathfold.program.unsupported import UnsupportedPrimitive


def trace(graph: Graph, function: Callable, *args: Any) -> Any:
    """Apply `function` to pytrees of node arrays; returns its result as a pytree of node arrays."""
    leaves, tree = jax.tree.flatten(args)
    with jax.enable_x64(True):
        shapes = [jax.ShapeDtypeStruct(np.shape(leaf), np.float64) for leaf in leaves]
        closed, shape = jax.make_jaxpr(lambda *a: function(*jax.tree.unflatten(tree, a)), return_shape=True)(*shapes)
        out = evaluate(graph, closed.jaxpr, closed.consts, [np.asarray(leaf, dtype=np.int64) for leaf in leaves])
    return jax.tree.unflatten(jax.tree.structure(shape), out)


def second_derivative(function: Callable, count: int) -> Callable:
    """Of `count` arguments, along as many first and as many second directions; with the value and first derivatives.

    It takes every operation of the function and of its derivatives.
    """

    def derivative(*values: Any) -> Any:
        at, first, second = values[:count], values[count : 2 * count], values[2 * count :]
        return jax.jvp(lambda *x: jax.jvp(function, x, first), at, second)

    return derivative


def check_compilable(name: str, function: Callable, shapes: Any) -> None:
    """Raise a ModelError naming the user's function when its scalar program, or its derivatives', cannot be made."""
    leaves, tree = jax.tree.flatten(shapes)

    def value(*args):
        out = function(*jax.tree.unflatten(tree, args))
        return [jnp.asarray(leaf, dtype=float) for leaf in jax.tree.leaves(out)]

    second = second_derivative(value, len(leaves))
    _attempt(name, value, leaves)
    try:
        _attempt(f"a derivative of {name}", lambda *args: second(*args, *args, *args), leaves)
    except (NotImplementedError, TypeError, ValueError) as problem:
        raise ModelError(
            f"{name} cannot be differentiated twice by jax.jvp ({problem}); give the function that stands in the way, "
            "such as one with jax.custom_vjp, a rule by jax.custom_jvp."
        ) from problem


def is_compilable(function: Callable, *shapes: Any) -> bool:
    """Whether a function, and its derivatives, can be made a scalar program."""
    try:
        check_compilable("it", function, shapes)
    except ModelError:
        return False
    return True


def _attempt(name: str, function: Callable, shapes: Sequence) -> None:
    graph = Graph()
    try:
        trace(graph, function, *(inputs_of(graph, str(i), shape.shape) for i, shape in enumerate(shapes)))
    except UnsupportedPrimitive as problem:
        raise ModelError(f"{name} cannot be compiled to a scalar program: {problem}") from None
