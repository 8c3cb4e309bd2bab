"""What JAX has traced, evaluated by NumPy: XLA takes seconds to compile a function that is called a few times.

Derivatives and batches are JAX's own, made when the function is traced. A primitive that is not listed here is left to
JAX, by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal  # pyright: ignore[reportPrivateImportUsage]
from scipy import special

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "add_any": np.add,
    "and": np.bitwise_and,
    "cos": np.cos,
    "digamma": special.digamma,
    "div": np.divide,
    "eq": np.equal,
    "erf": special.erf,
    "erf_inv": special.erfinv,
    "erfc": special.erfc,
    "exp": np.exp,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lgamma": special.gammaln,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": special.expit,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "one_minus_square": lambda x: (1.0 - x) * (1.0 + x),
    "or": np.bitwise_or,
    "pow": np.power,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "square": np.square,
    "stop_gradient": lambda x: x,
    "sub": np.subtract,
    "tanh": np.tanh,
}


def _broadcast(x, *, shape, broadcast_dimensions, **_):
    kept = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, np.shape(x), strict=True):
        kept[axis] = size
    filled = np.empty(shape, np.asarray(x).dtype)  # which is faster than np.broadcast_to
    filled[...] = np.reshape(x, kept)
    return filled


def _reshape(x, *, new_sizes, dimensions, **_):
    return np.reshape(x if dimensions is None else np.transpose(x, dimensions), new_sizes)


def _slice(x, *, start_indices, limit_indices, strides):
    strides = strides or (1,) * x.ndim
    return x[tuple(slice(*each) for each in zip(start_indices, limit_indices, strides, strict=True))]


def _pad(x, value, *, padding_config):
    """With numbers between the entries as well; a negative number at an end takes entries away."""
    low, high, inside = zip(*padding_config, strict=True)
    sizes = [
        max(a, 0) + max(b, 0) + n + max(n - 1, 0) * i for a, b, i, n in zip(low, high, inside, x.shape, strict=True)
    ]
    padded = np.full(sizes, value, dtype=x.dtype)
    steps = [(max(a, 0), i, n) for a, i, n in zip(low, inside, x.shape, strict=True)]
    padded[tuple(slice(a, a + max(n - 1, 0) * (i + 1) + (n > 0), i + 1) for a, i, n in steps)] = x
    return padded[tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, sizes, strict=True))]


def _dot(x, y, *, dimension_numbers, **_):
    (summed_x, summed_y), (batch_x, batch_y) = dimension_numbers
    free_y = [j for j in range(y.ndim) if j not in (*summed_y, *batch_y)]
    of_y = {**dict(zip(summed_y, summed_x, strict=True)), **dict(zip(batch_y, batch_x, strict=True))}
    of_y |= {j: x.ndim + k for k, j in enumerate(free_y)}
    free_x = [i for i in range(x.ndim) if i not in (*summed_x, *batch_x)]
    out = [*batch_x, *free_x, *(of_y[j] for j in free_y)]
    return np.einsum(x, list(range(x.ndim)), y, [of_y[j] for j in range(y.ndim)], out)


def _iota(*, dtype, shape, dimension, **_):
    return _broadcast(np.arange(shape[dimension], dtype=dtype), shape=shape, broadcast_dimensions=(dimension,))


STRUCTURAL: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda *parts, dimension: np.concatenate(parts, axis=dimension),
    "convert_element_type": lambda x, *, new_dtype, **_: np.asarray(x, dtype=new_dtype),
    "dot_general": _dot,
    "integer_pow": lambda x, *, y: np.power(x, y) if y > 0 else 1.0 / np.power(x, -y),
    "iota": _iota,
    "pad": _pad,
    "reduce_sum": lambda x, *, axes, **_: np.sum(x, axis=axes),
    "reshape": _reshape,
    "select_n": lambda which, *cases: np.choose(np.asarray(which, dtype=int), cases),
    "slice": _slice,
    "split": lambda x, *, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis=axis),
    "squeeze": lambda x, *, dimensions: np.squeeze(x, axis=dimensions),
    "stack": lambda *parts, axis: np.stack(parts, axis=axis),
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
    "unstack": lambda x, *, axis: list(np.moveaxis(x, axis, 0)),
}


def _scan(*given, jaxpr, length, reverse, ft_in, **_):
    """A loop over the first axis, from the last entry on if it is `reverse`."""
    evaluate, (same, carried, _) = _prepared(jaxpr), (len(list(part)) for part in ft_in.unpack())
    constant, carry, over = given[:same], given[same : same + carried], given[same + carried :]
    rows = []
    for i in reversed(range(length)) if reverse else range(length):
        found = evaluate(*constant, *carry, *(each[i] for each in over))
        carry = found[:carried]
        rows.append(found[carried:])
    rows = rows[::-1] if reverse else rows
    return [*carry, *(np.array(column) for column in zip(*rows, strict=True))]


@cache
def _prepared(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function that goes through the equations: what each calls, and where its values are, is looked up once."""
    jaxpr, known = closed.jaxpr, [*closed.consts]
    places = {variable: i for i, variable in enumerate([*jaxpr.constvars, *jaxpr.invars])}
    first, last = len(known), len(places)
    known += [None] * (last - first)
    steps = []

    def place(atom):
        if not isinstance(atom, Literal):
            return places[atom]
        known.append(atom.val)
        return len(known) - 1

    for equation in jaxpr.eqns:
        given = [place(atom) for atom in equation.invars]
        places |= {variable: len(known) + i for i, variable in enumerate(equation.outvars)}
        several, begin = equation.primitive.multiple_results, len(known)
        known += [None] * len(equation.outvars)
        steps.append((_called(equation), given, slice(begin, len(known)) if several else begin))
    results = [place(atom) for atom in jaxpr.outvars]

    def evaluate(*args):
        values = known.copy()
        values[first:last] = args
        for called, given, out in steps:
            values[out] = called(*[values[i] for i in given])
        return [values[i] for i in results]

    return evaluate


def _called(equation: Any) -> Callable[..., Any]:
    """What an equation does, by NumPy where it is listed."""
    name, params = equation.primitive.name, equation.params
    if name in ELEMENTWISE:
        return ELEMENTWISE[name]
    if name in STRUCTURAL:
        return partial(STRUCTURAL[name], **params)
    if name == "scan" and params["length"]:
        return partial(_scan, **params)
    if name != "scan" and (inner := params.get("jaxpr", params.get("call_jaxpr"))) is not None:
        return _prepared(inner)
    return lambda *given: jax.tree.map(np.asarray, equation.primitive.bind(*given, **params))


def by_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of arrays of double precision, traced once for arguments of the same shapes."""

    @cache
    def traced(*shapes: tuple[int, ...]) -> tuple[Callable[..., list[Any]], Any]:
        given = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes]
        jaxpr, out = jax.make_jaxpr(function, return_shape=True)(*given)
        return _prepared(jaxpr), jax.tree.structure(out)

    @wraps(function)
    def evaluated(*args):
        with jax.enable_x64(True), np.errstate(all="ignore"):
            evaluate, structure = traced(*(np.shape(each) for each in args))
            out = evaluate(*(np.asarray(each, dtype=float) for each in args))
        return jax.tree.unflatten(structure, [np.asarray(each) for each in out])

    return evaluated
