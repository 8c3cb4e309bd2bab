"""Interprets a jaxpr over arrays of graph nodes, with one rule for each primitive.

Every array of the jaxpr becomes an array of node numbers of the same shape. Arithmetic makes nodes element by element;
primitives that only move elements (reshape, transpose, gather with constant indices, ...) move node numbers and cost
nothing in the program. Loops of fixed length are unrolled, conditionals become selections. Integers are floating-point
numbers here; those that depend on the inputs come from comparisons alone.

The rules, functions of (graph, equation, argument nodes), are in the files `rules_of_*`, which add them to RULES.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.program.graph import Graph
from pathfold.program.unsupported import UnsupportedPrimitive

Nodes = np.ndarray  # of int64: node numbers
RULES: dict[str, Callable] = {}


def evaluate(g: Graph, jaxpr, consts: Sequence, args: Sequence[Nodes]) -> list[Nodes]:
    env: dict[Any, Nodes] = {}

    def read(atom) -> Nodes:
        return constants_of(g, atom.val) if hasattr(atom, "val") else env[atom]

    for var, value in zip(jaxpr.constvars, consts, strict=True):
        env[var] = constants_of(g, value)
    for var, value in zip(jaxpr.invars, args, strict=True):
        env[var] = value
    for eqn in jaxpr.eqns:
        rule = RULES.get(eqn.primitive.name, evaluate_constant)
        out = rule(g, eqn, [read(a) for a in eqn.invars])
        outs = out if isinstance(out, list) else [out]
        for var, value in zip(eqn.outvars, outs, strict=True):
            env[var] = np.asarray(value, dtype=np.int64)
    return [read(v) for v in jaxpr.outvars]


def evaluate_closed(g: Graph, jaxpr, args) -> list[Nodes]:
    if hasattr(jaxpr, "jaxpr"):
        return evaluate(g, jaxpr.jaxpr, jaxpr.consts, args)
    return evaluate(g, jaxpr, (), args)


def evaluate_constant(g: Graph, eqn, args):
    """Let JAX compute an operation that has no rule of its own, whose arguments must all be constants."""
    name = eqn.primitive.name
    if eqn.effects or name.startswith(("random", "threefry", "rng")) or not eqn.invars:
        raise UnsupportedPrimitive(name)
    values = [np.asarray(known(g, a, name), dtype=v.aval.dtype) for a, v in zip(args, eqn.invars, strict=True)]
    out = eqn.primitive.bind(*values, **eqn.params)
    return [constants_of(g, v) for v in (out if eqn.primitive.multiple_results else [out])]


def input_nodes(graph: Graph, name: str, shape: tuple[int, ...]) -> Nodes:
    """Return an array of the input nodes (name, flat index)."""
    size = int(np.prod(shape, dtype=int))
    return np.array([graph.input(name, i) for i in range(size)], dtype=np.int64).reshape(shape)


def constants_of(graph: Graph, values: Any) -> Nodes:
    if isinstance(values, jax.Array) and jnp.issubdtype(values.dtype, jax.dtypes.prng_key):
        raise UnsupportedPrimitive("random_bits")
    values = np.asarray(values)
    if values.dtype == jax.dtypes.float0:  # the derivative of integers and truth values
        values = np.zeros(values.shape)
    if np.iscomplexobj(values):
        raise UnsupportedPrimitive("complex")
    flat = [graph.const(v) for v in values.ravel().tolist()]
    return np.array(flat, dtype=np.int64).reshape(values.shape)


def known(g: Graph, nodes: Nodes, primitive: str, advice: str | None = None) -> np.ndarray:
    """Return the values of nodes that must be constants (indices, predicates of loops)."""
    values = [g.value(n) for n in nodes.ravel().tolist()]
    if any(v is None for v in values):
        raise UnsupportedPrimitive(primitive, advice)
    return np.array(values).reshape(nodes.shape)


def by_element(f: Callable[..., int], *arrays: Nodes) -> Nodes:
    """Apply a function of nodes to each entry of arrays; what is alike is done once: most of a Jacobian is zero."""
    if any(each.shape != arrays[0].shape for each in arrays):
        arrays = tuple(np.broadcast_arrays(*arrays))
    done: dict[tuple, int] = {}
    out = []
    for nodes in zip(*(a.ravel().tolist() for a in arrays), strict=True):
        node = done.get(nodes)
        if node is None:
            node = done[nodes] = f(*nodes)
        out.append(node)
    return np.array(out, dtype=np.int64).reshape(arrays[0].shape)


def elementwise(f: Callable) -> Callable:
    return lambda g, eqn, args: by_element(partial(f, g), *args)


# The logical operation that an operation on numbers becomes when it is applied to truth values.
OF_TRUTHS = {"add": "or", "max": "or", "mul": "and", "min": "and"}
