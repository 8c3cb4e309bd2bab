"""From a JAX function to a scalar program: its jaxpr, interpreted over arrays of graph nodes.

Every array of the jaxpr becomes an array of node numbers of the same shape. Arithmetic makes nodes element by element;
what only moves elements (reshape, transpose, gather with constant indices, ...) moves node numbers and costs nothing in
the program. Loops of fixed length are unrolled, conditionals become selections. Integers are floating-point numbers
here; those that depend on the inputs come from comparisons alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.errors import ModelError
from pathfold.program import special
from pathfold.program.graph import Graph
from pathfold.program.unsupported import ADVICE, UnsupportedPrimitive

Nodes = np.ndarray  # of int64: node numbers


def trace(graph: Graph, function: Callable, *args: Any) -> Any:
    """Apply `function` to pytrees of node arrays; returns its result as a pytree of node arrays."""
    leaves, tree = jax.tree.flatten(args)
    with jax.enable_x64(True):
        shapes = [jax.ShapeDtypeStruct(np.shape(leaf), np.float64) for leaf in leaves]
        closed, shape = jax.make_jaxpr(lambda *a: function(*jax.tree.unflatten(tree, a)), return_shape=True)(*shapes)
        out = _evaluate(graph, closed.jaxpr, closed.consts, [np.asarray(leaf, dtype=np.int64) for leaf in leaves])
    return jax.tree.unflatten(jax.tree.structure(shape), out)


def check_compilable(name: str, function: Callable, shapes: Any) -> None:
    """Raise a ModelError naming the user's function when its scalar program, or its derivatives', cannot be made."""
    leaves, tree = jax.tree.flatten(shapes)

    def value(*args):
        out = function(*jax.tree.unflatten(tree, args))
        return [jnp.asarray(leaf, dtype=float) for leaf in jax.tree.leaves(out)]

    def second_derivative(*args):
        """Along `args`; it takes every operation of the value and of both derivatives."""
        return jax.jvp(lambda *x: jax.jvp(value, x, args), args, args)

    _attempt(name, value, leaves)
    try:
        _attempt(f"a derivative of {name}", second_derivative, leaves)
    except (NotImplementedError, TypeError, ValueError) as problem:
        raise ModelError(
            f"{name} cannot be differentiated twice by jax.jvp ({problem}); give the function that stands in the way, "
            "such as one with jax.custom_vjp, a rule by jax.custom_jvp."
        ) from problem


def _attempt(name: str, function: Callable, shapes: Sequence) -> None:
    graph = Graph()
    try:
        trace(graph, function, *(inputs_of(graph, str(i), shape.shape) for i, shape in enumerate(shapes)))
    except UnsupportedPrimitive as problem:
        raise ModelError(f"{name} cannot be compiled to a scalar program: {problem}") from None


def inputs_of(graph: Graph, name: str, shape: tuple[int, ...]) -> Nodes:
    """An array of fresh input nodes (name, flat index)."""
    size = int(np.prod(shape, dtype=int))
    return np.array([graph.input(name, i) for i in range(size)], dtype=np.int64).reshape(shape)


def constants_of(graph: Graph, values: Any) -> Nodes:
    if isinstance(values, jax.Array) and jnp.issubdtype(values.dtype, jax.dtypes.prng_key):
        raise UnsupportedPrimitive("random_bits")
    values = np.asarray(values)
    if np.iscomplexobj(values):
        raise UnsupportedPrimitive("complex")
    flat = [graph.const(v) for v in values.ravel().tolist()]
    return np.array(flat, dtype=np.int64).reshape(values.shape)


def _evaluate(g: Graph, jaxpr, consts: Sequence, args: Sequence[Nodes]) -> list[Nodes]:
    env: dict[Any, Nodes] = {}

    def read(atom) -> Nodes:
        return constants_of(g, atom.val) if hasattr(atom, "val") else env[atom]

    for var, value in zip(jaxpr.constvars, consts, strict=True):
        env[var] = constants_of(g, value)
    for var, value in zip(jaxpr.invars, args, strict=True):
        env[var] = value
    for eqn in jaxpr.eqns:
        rule = _RULES.get(eqn.primitive.name, _constant)
        out = rule(g, eqn, [read(a) for a in eqn.invars])
        outs = out if isinstance(out, list) else [out]
        for var, value in zip(eqn.outvars, outs, strict=True):
            env[var] = np.asarray(value, dtype=np.int64)
    return [read(v) for v in jaxpr.outvars]


def _constant(g: Graph, eqn, args):
    """An operation without a rule of its own: JAX computes it here and now if all its arguments are constants."""
    name = eqn.primitive.name
    if eqn.effects or name.startswith(("random", "threefry", "rng")) or not eqn.invars:
        raise UnsupportedPrimitive(name)
    values = [np.asarray(_known(g, a, name), dtype=v.aval.dtype) for a, v in zip(args, eqn.invars, strict=True)]
    out = eqn.primitive.bind(*values, **eqn.params)
    return [constants_of(g, v) for v in (out if eqn.primitive.multiple_results else [out])]


def _known(g: Graph, nodes: Nodes, primitive: str, advice: str | None = None) -> np.ndarray:
    """The values of nodes that must be constants (indices, predicates of loops)."""
    values = [g.value(n) for n in nodes.ravel().tolist()]
    if any(v is None for v in values):
        raise UnsupportedPrimitive(primitive, advice)
    return np.array(values).reshape(nodes.shape)


# --- element by element -----------------------------------------------------------------------------------------------


def _elementwise(f: Callable) -> Callable:
    def rule(g: Graph, eqn, args):
        arrays = np.broadcast_arrays(*args)
        out = [f(g, *nodes) for nodes in zip(*(a.ravel().tolist() for a in arrays), strict=True)]
        return np.array(out, dtype=np.int64).reshape(arrays[0].shape)

    return rule


def _op(name: str) -> Callable:
    """An operation of the graph; of truth values, the logical one."""
    number, truth = (
        _elementwise(lambda g, *nodes, op=op: g.op(op, *nodes)) for op in (name, _OF_TRUTHS.get(name, name))
    )

    def rule(g: Graph, eqn, args):
        return (truth if eqn.invars[0].aval.dtype == np.bool_ else number)(g, eqn, args)

    return rule


_OF_TRUTHS = {"add": "or", "max": "or", "mul": "and", "min": "and"}


def _logical(name: str) -> Callable:
    """Of truth values; the operation on bits of integers needs constants."""
    of_truths = _op(name)

    def rule(g: Graph, eqn, args):
        return (of_truths if eqn.invars[0].aval.dtype == np.bool_ else _constant)(g, eqn, args)

    return rule


def _round(g: Graph, eqn, args):
    to_even = eqn.params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return (_op("round") if to_even else _elementwise(special.round_away))(g, eqn, args)


def _polynomial(g: Graph, eqn, args):
    return _elementwise(lambda g, x, *coefficients: special.polynomial(g, x, coefficients))(g, eqn, args)


def _div(g: Graph, eqn, args):
    if np.issubdtype(eqn.outvars[0].aval.dtype, np.integer):
        a, b = (_known(g, x, "div", "divide floating-point numbers") for x in args)
        return constants_of(g, np.trunc(a / b))
    return _elementwise(lambda g, a, b: g.div(a, b))(g, eqn, args)


def _integer_pow(g: Graph, eqn, args):
    return _elementwise(lambda g, a: g.integer_power(a, eqn.params["y"]))(g, eqn, args)


def _convert(g: Graph, eqn, args):
    source, target = eqn.invars[0].aval.dtype, eqn.params["new_dtype"]
    if np.issubdtype(target, np.complexfloating):
        raise UnsupportedPrimitive("complex")
    if source == np.bool_ and target != np.bool_:
        one, zero = g.const(1.0), g.const(0.0)
        return _elementwise(lambda g, a: g.op("select", a, one, zero))(g, eqn, args)
    if target == np.bool_ and source != np.bool_:
        zero = g.const(0.0)
        return _elementwise(lambda g, a: g.op("ne", a, zero))(g, eqn, args)
    if np.issubdtype(target, np.integer) and np.issubdtype(source, np.floating):
        values = _known(g, args[0], "convert_element_type", ADVICE["convert_element_type"])
        return constants_of(g, np.trunc(values))
    return args[0]


def _select_n(g: Graph, eqn, args):
    which, *cases = args
    if eqn.invars[0].aval.dtype == np.bool_:
        no, yes = cases
        return _elementwise(lambda g, c, a, b: g.op("select", c, a, b))(g, eqn, [which, yes, no])
    out = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        index = g.const(float(i))
        pick = _elementwise(lambda g, w, a, b, index=index: g.op("select", g.op("eq", w, index), a, b))
        out = pick(g, eqn, [which, case, out])
    return out


# --- moving elements --------------------------------------------------------------------------------------------------


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
    """Where a start is no constant, a selection among all slices."""
    operand, *starts = args
    for axis, (start, size) in enumerate(zip(starts, eqn.params["slice_sizes"], strict=True)):
        slices = [np.take(operand, range(k, k + size), axis) for k in range(operand.shape[axis] - size + 1)]
        operand = _choose(g, eqn, slices, start)
    return operand


def _choose(g: Graph, eqn, cases: Sequence[Nodes], index: Nodes) -> Nodes:
    """cases[index] element by element, the index clipped to the cases there are."""
    out = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        bound = g.const(float(i))
        pick = _elementwise(lambda g, w, a, b, bound=bound: g.op("select", g.op("le", w, bound), a, b))
        out = pick(g, eqn, [index, case, out])
    return out


def _gather(g: Graph, eqn, args):
    """Where an index is no constant, a selection among all its values."""
    operand, indices = args
    p, fill = eqn.params, _fill(g, eqn)
    values = [g.value(n) for n in indices.ravel().tolist()]
    if all(v is not None for v in values):
        return _gathered(eqn, operand, np.array(values).reshape(indices.shape), fill)
    numbers = p["dimension_numbers"]
    windows = [p["slice_sizes"][axis] for axis in numbers.start_index_map]
    counts = [operand.shape[axis] - w + 1 for axis, w in zip(numbers.start_index_map, windows, strict=True)]
    # Each component of the index as an array that meets the result element by element.
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
            inside = _elementwise(lambda g, i, a, n=count: _within(g, i, n, a, fill))
            out = inside(g, eqn, [component, out])
    return out


def _gathered(eqn, operand: Nodes, indices: np.ndarray, fill: int) -> Nodes:
    """The primitive itself, run on node numbers."""
    moved = eqn.primitive.bind(operand, indices.astype(eqn.invars[1].aval.dtype), **eqn.params | {"fill_value": -1})
    return np.where(np.asarray(moved) < 0, fill, moved)


def _within(g: Graph, index: int, count: int, inside: int, outside: int) -> int:
    low, high = g.op("le", g.const(0.0), index), g.op("le", index, g.const(count - 1.0))
    return g.op("select", g.op("and", low, high), inside, outside)


def _fill(g: Graph, eqn) -> int:
    """What stands for elements outside the array."""
    fill, dtype = eqn.params["fill_value"], eqn.outvars[0].aval.dtype
    if fill is not None:
        return g.const(bool(fill) if dtype == np.bool_ else float(fill))
    if np.issubdtype(dtype, np.floating):
        return g.const(float("nan"))
    return g.const(True if dtype == np.bool_ else float(np.iinfo(dtype).min))


_INDEX_ADVICE = "index with constants; where the position depends on the state, choose with jnp.where"


def _dynamic_update_slice(g: Graph, eqn, args):
    """Where a start is no constant, a selection among all places."""
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
    """Combine updates with what is there by an operation, or put them in its place (the last one written stays).

    Where each update lands is found by adding it alone to zeros.
    """

    def rule(g: Graph, eqn, args):
        operand, indices, updates = args
        where = np.asarray(_known(g, indices, eqn.primitive.name, _INDEX_ADVICE), dtype=eqn.invars[1].aval.dtype)
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
    """Room that nothing reads before it is written."""
    return constants_of(g, np.zeros(eqn.outvars[0].aval.shape))


def _iota(g: Graph, eqn, args):
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    index = np.arange(shape[axis], dtype=float).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return constants_of(g, np.broadcast_to(index, shape))


# --- reductions and linear algebra ------------------------------------------------------------------------------------


def _reduce(name: str) -> Callable:
    def rule(g: Graph, eqn, args):
        axes = eqn.params["axes"]
        kept = [i for i in range(args[0].ndim) if i not in axes]
        shape = [args[0].shape[i] for i in kept]
        count = int(np.prod([args[0].shape[i] for i in axes], dtype=int))
        moved = np.transpose(args[0], [*kept, *axes]).reshape([*shape, count])
        op = _OF_TRUTHS.get(name, name) if eqn.invars[0].aval.dtype == np.bool_ else name
        out = np.empty(shape, dtype=np.int64)
        for i in np.ndindex(*out.shape):
            out[i] = _fold(g, op, moved[i].tolist())
        return out

    return rule


def _arg(better: Callable[[Graph, int, int], int]) -> Callable:
    """Where the extreme element is: the first of equals, or the first that is not a number."""

    def rule(g: Graph, eqn, args):
        (axis,) = eqn.params["axes"]
        moved = np.moveaxis(args[0], axis, -1)
        out = np.empty(moved.shape[:-1], dtype=np.int64)
        for i in np.ndindex(*out.shape):
            best, *others = moved[i].tolist()
            index = g.const(0.0)
            for k, node in enumerate(others, start=1):
                replace = better(g, node, best)
                if eqn.invars[0].aval.dtype != np.bool_:
                    first_nan = g.op("and", g.op("eq", best, best), g.op("ne", node, node))
                    replace = g.op("or", replace, first_nan)
                best = g.op("select", replace, node, best)
                index = g.op("select", replace, g.const(float(k)), index)
            out[i] = index
        return out

    return rule


_EMPTY = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf, "and": True, "or": False}


def _fold(g: Graph, name: str, nodes: list[int]) -> int:
    if not nodes:
        return g.const(_EMPTY[name])
    total = nodes[0]
    for node in nodes[1:]:
        total = g.op(name, total, node)
    return total


def _cumulative(combine: Callable[[Graph, int, int], int]) -> Callable:
    def rule(g: Graph, eqn, args):
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        moved = np.moveaxis(args[0], axis, 0)
        moved = (moved[::-1] if reverse else moved).copy()
        for i in range(1, moved.shape[0]):
            for j in np.ndindex(*moved.shape[1:]):
                moved[(i, *j)] = combine(g, int(moved[(i - 1, *j)]), int(moved[(i, *j)]))
        return np.moveaxis(moved[::-1] if reverse else moved, 0, axis)

    return rule


def _dot_general(g: Graph, eqn, args):
    ((lc, rc), (lb, rb)) = eqn.params["dimension_numbers"]
    left, right = args
    lf = [i for i in range(left.ndim) if i not in (*lc, *lb)]
    rf = [i for i in range(right.ndim) if i not in (*rc, *rb)]
    batch = [left.shape[i] for i in lb]
    inner = int(np.prod([left.shape[i] for i in lc], dtype=int))
    rows, columns = [left.shape[i] for i in lf], [right.shape[i] for i in rf]
    a = np.transpose(left, [*lb, *lf, *lc]).reshape([*batch, int(np.prod(rows, dtype=int)), inner])
    b = np.transpose(right, [*rb, *rf, *rc]).reshape([*batch, int(np.prod(columns, dtype=int)), inner])
    out = np.empty([*batch, a.shape[-2], b.shape[-2]], dtype=np.int64)
    for index in np.ndindex(*out.shape):
        *k, i, j = index
        out[index] = g.sum(g.op("mul", p, q) for p, q in zip(a[(*k, i)].tolist(), b[(*k, j)].tolist(), strict=True))
    return out.reshape([*batch, *rows, *columns])


def _search_sorted(g: Graph, prim, args):
    """How many elements of a sorted array come before each query."""
    if prim.batch_dims or len(prim.in_avals[0].shape) != 1:
        raise UnsupportedPrimitive("searchsorted", "search in an array of one dimension")
    grid, queries = args
    out = np.empty(queries.shape, dtype=np.int64)
    for i in np.ndindex(*queries.shape):
        query = int(queries[i])
        before = [g.op("lt", n, query) if prim.side == "left" else g.op("le", n, query) for n in grid.tolist()]
        out[i] = g.sum(g.op("select", b, g.const(1.0), g.const(0.0)) for b in before)
    return out


def cholesky_nodes(g: Graph, a: Nodes) -> Nodes:
    """Lower factor of one small symmetric matrix; only its lower triangle is read."""
    n = a.shape[0]
    factor = np.full((n, n), g.const(0.0), dtype=np.int64)
    for j in range(n):
        for i in range(j, n):
            rest = g.sum(g.op("mul", int(factor[i, k]), int(factor[j, k])) for k in range(j))
            entry = g.op("sub", int(a[i, j]), rest)
            factor[i, j] = g.op("sqrt", entry) if i == j else g.div(entry, int(factor[j, j]))
    return factor


def _cholesky(g: Graph, eqn, args):
    out = np.empty_like(args[0])
    for k in np.ndindex(*args[0].shape[:-2]):
        out[k] = cholesky_nodes(g, args[0][k])
    return out


def _triangular_solve(g: Graph, eqn, args):
    p = eqn.params
    a, b = args
    out = np.empty_like(b)
    for k in np.ndindex(*a.shape[:-2]):
        matrix, rhs = a[k], b[k]
        lower = p["lower"]
        if p["transpose_a"]:
            matrix, lower = matrix.T, not lower
        if not p["left_side"]:  # x a = b  <=>  a^T x^T = b^T
            matrix, lower, rhs = matrix.T, not lower, rhs.T
        n = matrix.shape[0]
        x = rhs.copy()
        for i in range(n) if lower else reversed(range(n)):
            known = range(i) if lower else range(i + 1, n)
            for c in range(rhs.shape[1]):
                rest = g.sum(g.op("mul", int(matrix[i, j]), int(x[j, c])) for j in known)
                entry = g.op("sub", int(rhs[i, c]), rest)
                x[i, c] = entry if p["unit_diagonal"] else g.div(entry, int(matrix[i, i]))
        out[k] = x if p["left_side"] else x.T
    return out


# --- functions within functions ---------------------------------------------------------------------------------------


def _call(key: str) -> Callable:
    def rule(g: Graph, eqn, args):
        jaxpr = eqn.params[key]
        ours = _in_our_words(jaxpr)
        return _evaluate_closed(g, jaxpr, args) if ours is None else [_elementwise(ours)(g, eqn, args)]

    return rule


def _evaluate_closed(g: Graph, jaxpr, args) -> list[Nodes]:
    if hasattr(jaxpr, "jaxpr"):
        return _evaluate(g, jaxpr.jaxpr, jaxpr.consts, args)
    return _evaluate(g, jaxpr, (), args)


def _in_our_words(jaxpr) -> Callable | None:
    """The scalar program for one of JAX's own functions that work on bit patterns."""
    source = getattr(jaxpr, "jaxpr", jaxpr).debug_info
    ours = _BITWISE.get(source.func_name)
    if ours is not None and Path(source.func_filename or "").is_relative_to(Path(jax.__file__).parent):
        return ours
    return None


_BITWISE = {
    "_ndtri": special.ndtri,
    "exp_neg_sq": lambda g, a: g.op("exp", g.op("neg", g.op("mul", a, a))),
    "signbit": lambda g, a: g.op("lt", a, g.const(0.0)),  # zeros have no sign here
}


def _hi_primitive(g: Graph, eqn, args):
    """A primitive that says what it does in terms of others."""
    prim = eqn.params["_prim"]
    if type(prim).__name__ == "SearchSorted":
        return _search_sorted(g, prim, args)

    def expand(*leaves):
        return jax.tree.leaves(prim.expand(*jax.tree.unflatten(prim.in_tree, leaves)))

    return _evaluate_closed(g, jax.make_jaxpr(expand)(*prim.in_avals_flat), args)


def _scan(g: Graph, eqn, args):
    p = eqn.params
    if "ft_in" in p:
        n_consts, n_carry, _ = (len(list(part)) for part in p["ft_in"].unpack())
    else:
        n_consts, n_carry = p["num_consts"], p["num_carry"]
    consts, carry, xs = args[:n_consts], list(args[n_consts : n_consts + n_carry]), args[n_consts + n_carry :]
    length = p["length"]
    collected: list = [None] * length
    for i in reversed(range(length)) if p["reverse"] else range(length):
        out = _evaluate_closed(g, p["jaxpr"], [*consts, *carry, *(x[i] for x in xs)])
        carry, collected[i] = list(out[:n_carry]), out[n_carry:]
    shapes = [v.aval.shape for v in eqn.outvars[n_carry:]]
    stacked = [
        np.stack([c[j] for c in collected]) if length else np.zeros(shape, dtype=np.int64)
        for j, shape in enumerate(shapes)
    ]
    return [*carry, *stacked]


def _while(g: Graph, eqn, args):
    p = eqn.params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts, carry = args[:nc], args[nc : nc + nb], list(args[nc + nb :])
    for _ in range(100_000):
        (test,) = _evaluate_closed(g, p["cond_jaxpr"], [*cond_consts, *carry])
        if not _known(g, test, "while", ADVICE["while"]):
            return carry
        carry = _evaluate_closed(g, p["body_jaxpr"], [*body_consts, *carry])
    raise UnsupportedPrimitive("while", "a loop of more than 100,000 turns cannot be unrolled")


def _cond(g: Graph, eqn, args):
    index, *operands = args
    which = int(index)
    branches = eqn.params["branches"]
    value = g.value(which)
    if value is not None:
        return _evaluate_closed(g, branches[int(np.clip(value, 0, len(branches) - 1))], operands)
    results = [_evaluate_closed(g, branch, operands) for branch in branches]
    out = results[-1]
    for i in reversed(range(len(branches) - 1)):
        chosen = g.op("le", which, g.const(float(i)))
        pick = _elementwise(lambda g, a, b, c=chosen: g.op("select", c, a, b))
        out = [pick(g, eqn, [a, b]) for a, b in zip(results[i], out, strict=True)]
    return out


def _platform_index(g: Graph, eqn, args):
    """Which branch of what depends on the platform: the one for this processor, or the one for all others."""
    platforms = eqn.params["platforms"]
    for i, names in enumerate(platforms):
        if names is None or "cpu" in names:
            return constants_of(g, float(i))
    raise UnsupportedPrimitive("platform_index")


_SAME_NAME = (
    "add sub mul neg pow rem atan2 max min abs floor ceil sqrt cbrt exp expm1 log log1p sin cos tan asin acos "
    "atan sinh cosh tanh asinh acosh atanh erf erfc lgamma eq ne lt le"
).split()

_RULES: dict[str, Callable] = {name: _op(name) for name in _SAME_NAME}
_RULES |= {
    "add_any": _op("add"),
    "div": _div,
    "integer_pow": _integer_pow,
    "square": _elementwise(lambda g, a: g.op("mul", a, a)),
    "one_minus_square": _elementwise(special.one_minus_square),
    "polynomial": _polynomial,
    "round": _round,
    "rsqrt": _elementwise(lambda g, a: g.op("recip", g.op("sqrt", a))),
    "exp2": _elementwise(lambda g, a: g.op("exp", g.op("mul", a, g.const(np.log(2.0))))),
    "log2": _elementwise(lambda g, a: g.op("mul", g.op("log", a), g.const(1 / np.log(2.0)))),
    "sign": _elementwise(special.sign),
    "is_finite": _elementwise(special.is_finite),
    "logistic": _elementwise(special.logistic),
    "erf_inv": _elementwise(special.erf_inv),
    "digamma": _elementwise(lambda g, a: special.polygamma(g, g.const(0.0), a)),
    "polygamma": _elementwise(special.polygamma),
    "gt": _elementwise(lambda g, a, b: g.op("lt", b, a)),
    "ge": _elementwise(lambda g, a, b: g.op("le", b, a)),
    "and": _logical("and"),
    "or": _logical("or"),
    "not": _logical("not"),
    "xor": _logical("ne"),
    "clamp": _elementwise(lambda g, low, a, high: g.op("min", g.op("max", a, low), high)),
    "select_n": _select_n,
    "convert_element_type": _convert,
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
    "platform_index": _platform_index,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "scatter": _scatter(None),
    "scatter-add": _scatter("add"),
    "scatter-sub": _scatter("sub"),
    "scatter-mul": _scatter("mul"),
    "scatter-max": _scatter("max"),
    "scatter-min": _scatter("min"),
    "reduce_sum": _reduce("add"),
    "reduce_prod": _reduce("mul"),
    "reduce_max": _reduce("max"),
    "reduce_min": _reduce("min"),
    "reduce_and": _reduce("and"),
    "reduce_or": _reduce("or"),
    "argmax": _arg(lambda g, a, b: g.op("lt", b, a)),
    "argmin": _arg(lambda g, a, b: g.op("lt", a, b)),
    "cumsum": _cumulative(lambda g, a, b: g.op("add", a, b)),
    "cumprod": _cumulative(lambda g, a, b: g.op("mul", a, b)),
    "cummax": _cumulative(lambda g, a, b: g.op("max", a, b)),
    "cummin": _cumulative(lambda g, a, b: g.op("min", a, b)),
    "cumlogsumexp": _cumulative(special.log_add_exp),
    "dot_general": _dot_general,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "jit": _call("jaxpr"),
    "pjit": _call("jaxpr"),
    "closed_call": _call("call_jaxpr"),
    "core_call": _call("call_jaxpr"),
    "custom_vmap_call": _call("call"),
    "composite": _call("jaxpr"),
    "call_hi_primitive": _hi_primitive,
    "checkpoint": _call("jaxpr"),
    "remat2": _call("jaxpr"),
    "custom_jvp_call": _call("call_jaxpr"),
    "custom_vjp_call": _call("call_jaxpr"),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
