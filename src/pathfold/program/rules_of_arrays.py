"""Rules for primitives that move elements: shapes, slices, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.program.graph import Graph
from pathfold.program.interpret import RULES, Nodes, constants_of, elementwise, known


def _broadcast_in_dim(g: Graph, eqn, args):
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    source = args[0]
    expanded = [1] * len(shape)
    for size, dim in zip(source.shape, dims, strict=True):
        expanded[dim] = size
    return np.broadcast_to(source.reshape(expanded), shape)


def _reshape(g: Graph, eqn, args):
    order = eqn.params["dimensions"]
    return (args[0] if order is None else np.transpose(args[0], order)).reshape(eqn.params["new_sizes"])


def _slice(g: Graph, eqn, args):
    p = eqn.params
    strides = p["strides"] or (1,) * args[0].ndim
    return args[0][
        tuple(slice(a, b, c) for a, b, c in zip(p["start_indices"], p["limit_indices"], strides, strict=True))
    ]


def _pad(g: Graph, eqn, args):
    """Negative padding cuts; interior padding spreads the elements out."""
    operand, value = args
    for axis, (low, high, interior) in enumerate(eqn.params["padding_config"]):
        moved = np.moveaxis(operand, axis, 0)
        size = moved.shape[0]
        spread = np.full((max(0, size + (size - 1) * interior), *moved.shape[1:]), value, dtype=np.int64)
        spread[:: interior + 1] = moved
        out = np.full((low + spread.shape[0] + high, *moved.shape[1:]), value, dtype=np.int64)
        for i, row in enumerate(spread):
            if 0 <= i + low < out.shape[0]:
                out[i + low] = row
        operand = np.moveaxis(out, 0, axis)
    return operand


def _split(g: Graph, eqn, args):
    ends = np.cumsum(eqn.params["sizes"])[:-1]
    return list(np.split(args[0], ends, axis=eqn.params["axis"]))


def _dynamic_slice(g: Graph, eqn, args):
    """Return the slice; where a start is not a constant, select among all slices."""
    operand, *starts = args
    for axis, (start, size) in enumerate(zip(starts, eqn.params["slice_sizes"], strict=True)):
        slices = [np.take(operand, range(k, k + size), axis) for k in range(operand.shape[axis] - size + 1)]
        operand = _choose(g, eqn, slices, start)
    return operand


def _choose(g: Graph, eqn, cases: Sequence[Nodes], index: Nodes) -> Nodes:
    """Select cases[index] element by element, with the index clipped to the number of cases."""
    out = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        bound = g.const(float(i))
        pick = elementwise(lambda g, w, a, b, bound=bound: g.op("select", g.op("le", w, bound), a, b))
        out = pick(g, eqn, [index, case, out])
    return out


def _gather(g: Graph, eqn, args):
    """Gather elements; where an index is not a constant, select among the results for all its values."""
    operand, indices = args
    p, fill = eqn.params, _fill(g, eqn)
    values = [g.value(n) for n in indices.ravel().tolist()]
    if all(v is not None for v in values):
        return _gathered(eqn, operand, np.array(values).reshape(indices.shape), fill)
    numbers = p["dimension_numbers"]
    windows = [p["slice_sizes"][axis] for axis in numbers.start_index_map]
    counts = [operand.shape[axis] - w + 1 for axis, w in zip(numbers.start_index_map, windows, strict=True)]
    # Bring each component of the index into the shape of the result.
    shape = iter(indices.shape[:-1])
    out_shape = eqn.outvars[0].aval.shape
    expanded = [1 if axis in numbers.offset_dims else next(shape) for axis in range(len(out_shape))]
    components = [np.broadcast_to(indices[..., j].reshape(expanded), out_shape) for j in range(indices.shape[-1])]

    def among(chosen: tuple[int, ...]) -> Nodes:
        j = len(chosen)
        if j == len(counts):
            return _gathered(eqn, operand, np.broadcast_to(chosen, indices.shape), fill)
        return _choose(g, eqn, [among((*chosen, k)) for k in range(counts[j])], components[j])

    out = among(())
    if p["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP:
        for component, count in zip(components, counts, strict=True):
            inside = elementwise(lambda g, i, a, n=count: _within(g, i, n, a, fill))
            out = inside(g, eqn, [component, out])
    return out


def _gathered(eqn, operand: Nodes, indices: np.ndarray, fill: int) -> Nodes:
    """Gather node numbers with the primitive itself."""
    moved = eqn.primitive.bind(operand, indices.astype(eqn.invars[1].aval.dtype), **eqn.params | {"fill_value": -1})
    return np.where(np.asarray(moved) < 0, fill, moved)


def _within(g: Graph, index: int, count: int, inside: int, outside: int) -> int:
    low, high = g.op("le", g.const(0.0), index), g.op("le", index, g.const(count - 1.0))
    return g.op("select", g.op("and", low, high), inside, outside)


def _fill(g: Graph, eqn) -> int:
    """Return the node that stands for elements outside the array."""
    fill, dtype = eqn.params["fill_value"], eqn.outvars[0].aval.dtype
    if fill is not None:
        return g.const(bool(fill) if dtype == np.bool_ else float(fill))
    if np.issubdtype(dtype, np.floating):
        return g.const(float("nan"))
    return g.const(True if dtype == np.bool_ else float(np.iinfo(dtype).min))


_INDEX_ADVICE = "index with constants; where the position depends on the state, choose with jnp.where"


def _dynamic_update_slice(g: Graph, eqn, args):
    """Update a slice; where a start is not a constant, select among the results for all its values."""
    operand, update, *starts = args

    def among(chosen: tuple[int, ...]) -> Nodes:
        axis = len(chosen)
        if axis == operand.ndim:
            out = operand.copy()
            out[tuple(slice(k, k + size) for k, size in zip(chosen, update.shape, strict=True))] = update
            return out
        places = range(operand.shape[axis] - update.shape[axis] + 1)
        return _choose(g, eqn, [among((*chosen, k)) for k in places], starts[axis])

    return among(())


def _scatter(name: str | None) -> Callable:
    """Make the rule that combines updates with the elements by an operation, or, without one, replaces the elements.

    The place of each update is found by adding it alone to zeros. Of several updates at one place the last one stays.
    """

    def rule(g: Graph, eqn, args):
        operand, indices, updates = args
        where = np.asarray(known(g, indices, eqn.primitive.name, _INDEX_ADVICE), dtype=eqn.invars[1].aval.dtype)
        alone = np.eye(updates.size).reshape(updates.size, *updates.shape)
        numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]

        def land(update):
            return jax.lax.scatter_add(jnp.zeros(operand.shape), where, update, numbers, mode=mode)

        out = operand.copy()
        if not updates.size:
            return out
        for source, *target in np.argwhere(np.asarray(jax.vmap(land)(alone))).tolist():
            at, update = tuple(target), int(updates.flat[source])
            out[at] = update if name is None else g.op(name, int(out[at]), update)
        return out

    return rule


def _tile(g: Graph, eqn, args):
    return np.tile(args[0], eqn.params["reps"])


def _unstack(g: Graph, eqn, args):
    return list(np.moveaxis(args[0], eqn.params["axis"], 0))


def _empty(g: Graph, eqn, args):
    """Return zeros for elements that nothing reads before they are written."""
    return constants_of(g, np.zeros(eqn.outvars[0].aval.shape))


def _iota(g: Graph, eqn, args):
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    index = np.arange(shape[axis], dtype=float).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return constants_of(g, np.broadcast_to(index, shape))


RULES.update(
    {
        "stop_gradient": lambda g, eqn, args: args[0],
        "optimization_barrier": lambda g, eqn, args: list(args),
        "copy": lambda g, eqn, args: args[0],
        "name": lambda g, eqn, args: args[0],
        "device_put": lambda g, eqn, args: list(args),
        "reduce_precision": lambda g, eqn, args: args[0],
        "broadcast_in_dim": _broadcast_in_dim,
        "reshape": _reshape,
        "squeeze": lambda g, eqn, args: args[0].reshape(eqn.outvars[0].aval.shape),
        "transpose": lambda g, eqn, args: np.transpose(args[0], eqn.params["permutation"]),
        "rev": lambda g, eqn, args: np.flip(args[0], eqn.params["dimensions"]),
        "concatenate": lambda g, eqn, args: np.concatenate(args, axis=eqn.params["dimension"]),
        "stack": lambda g, eqn, args: np.stack(args, axis=eqn.params["axis"]),
        "unstack": _unstack,
        "tile": _tile,
        "slice": _slice,
        "split": _split,
        "pad": _pad,
        "iota": _iota,
        "empty": _empty,
        "empty2": _empty,
        "gather": _gather,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "scatter": _scatter(None),
        "scatter-add": _scatter("add"),
        "scatter-sub": _scatter("sub"),
        "scatter-mul": _scatter("mul"),
        "scatter-max": _scatter("max"),
        "scatter-min": _scatter("min"),
    }
)
