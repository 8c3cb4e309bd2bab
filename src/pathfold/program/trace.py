"""From a JAX function to a scalar program: its jaxpr, interpreted over arrays of graph nodes.

Every array of the jaxpr becomes an array of node numbers of the same shape. Arithmetic makes nodes element by element;
what only moves elements (reshape, transpose, gather with constant indices, ...) moves node numbers and costs nothing in
the program. Loops of fixed length are unrolled, conditionals become selections.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
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
    """Raise a ModelError naming the user's function when its scalar program cannot be made."""
    graph = Graph()
    inputs = jax.tree.map(lambda s: inputs_of(graph, str(id(s)), s.shape), shapes)
    try:
        trace(graph, function, *inputs)
    except UnsupportedPrimitive as problem:
        raise ModelError(
            f"{name} uses the operation '{problem.name}', which cannot be compiled to a scalar program: {problem.advice}."
        ) from None


def inputs_of(graph: Graph, name: str, shape: tuple[int, ...]) -> Nodes:
    """An array of fresh input nodes (name, flat index)."""
    size = int(np.prod(shape, dtype=int))
    return np.array([graph.input(name, i) for i in range(size)], dtype=np.int64).reshape(shape)


def constants_of(graph: Graph, values: Any) -> Nodes:
    values = np.asarray(values)
    if np.iscomplexobj(values):
        raise UnsupportedPrimitive("complex", "use real arithmetic")
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
        name = eqn.primitive.name
        rule = _RULES.get(name)
        if rule is None:
            raise UnsupportedPrimitive(name)
        out = rule(g, eqn, [read(a) for a in eqn.invars])
        outs = out if isinstance(out, list) else [out]
        for var, value in zip(eqn.outvars, outs, strict=True):
            env[var] = np.asarray(value, dtype=np.int64)
    return [read(v) for v in jaxpr.outvars]


def _known(g: Graph, nodes: Nodes, primitive: str, advice: str) -> np.ndarray:
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
    return _elementwise(lambda g, *nodes: g.op(name, *nodes))


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
        raise UnsupportedPrimitive("complex numbers", "use real arithmetic")
    if source == np.bool_ and target != np.bool_:
        one, zero = g.const(1.0), g.const(0.0)
        return _elementwise(lambda g, a: g.op("select", a, one, zero))(g, eqn, args)
    if target == np.bool_ and source != np.bool_:
        zero = g.const(0.0)
        return _elementwise(lambda g, a: g.op("ne", a, zero))(g, eqn, args)
    if np.issubdtype(target, np.integer) and np.issubdtype(source, np.floating):
        values = _known(g, args[0], "convert_element_type", "use jnp.floor rather than a conversion to integers")
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


def _move_by_constant_indices(*index_operands: int | slice) -> Callable:
    """Run the primitive itself on node numbers: right for whatever only moves elements, once the indices are known."""

    def rule(g: Graph, eqn, args):
        advice = "index with constants; where the position depends on the state, choose with jnp.where"
        operands: list = list(args)
        positions = set(itertools.chain.from_iterable(np.atleast_1d(np.arange(len(args))[i]) for i in index_operands))
        for i in positions:
            values = _known(g, args[i], eqn.primitive.name, advice)
            operands[i] = np.asarray(values, dtype=eqn.invars[i].aval.dtype)
        moved = np.array(eqn.primitive.bind(*operands, **eqn.params))
        nan = g.const(float("nan"))
        return np.where(moved < 0, nan, moved)  # JAX marks what lies outside by the most negative integer

    return rule


def _scatter_add(g: Graph, eqn, args):
    """Where each update lands is found by scattering it alone into zeros."""
    operand, indices, updates = args
    advice = "index with constants"
    where = np.asarray(_known(g, indices, eqn.primitive.name, advice), dtype=eqn.invars[1].aval.dtype)
    out = operand.copy()
    for position in np.ndindex(*updates.shape):
        alone = np.zeros(updates.shape)
        alone[position] = 1.0
        landed = np.array(eqn.primitive.bind(np.zeros(operand.shape), where, alone, **eqn.params))
        for target in np.argwhere(landed):
            out[tuple(target)] = g.op("add", int(out[tuple(target)]), int(updates[position]))
    return out


def _iota(g: Graph, eqn, args):
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    index = np.arange(shape[axis], dtype=float).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return constants_of(g, np.broadcast_to(index, shape))


# --- reductions and linear algebra ------------------------------------------------------------------------------------


def _reduce(name: str) -> Callable:
    def rule(g: Graph, eqn, args):
        axes = eqn.params["axes"]
        kept = [i for i in range(args[0].ndim) if i not in axes]
        moved = np.transpose(args[0], [*kept, *axes]).reshape([args[0].shape[i] for i in kept] + [-1])
        out = np.empty(moved.shape[:-1], dtype=np.int64)
        for i in np.ndindex(*out.shape):
            out[i] = _fold(g, name, moved[i].tolist())
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


def _cumulative(name: str) -> Callable:
    def rule(g: Graph, eqn, args):
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        moved = np.moveaxis(args[0], axis, 0)
        moved = (moved[::-1] if reverse else moved).copy()
        for i in range(1, moved.shape[0]):
            for j in np.ndindex(*moved.shape[1:]):
                moved[(i, *j)] = g.op(name, int(moved[(i - 1, *j)]), int(moved[(i, *j)]))
        return np.moveaxis(moved[::-1] if reverse else moved, 0, axis)

    return rule


def _dot_general(g: Graph, eqn, args):
    ((lc, rc), (lb, rb)) = eqn.params["dimension_numbers"]
    left, right = args
    lf = [i for i in range(left.ndim) if i not in (*lc, *lb)]
    rf = [i for i in range(right.ndim) if i not in (*rc, *rb)]
    batch = [left.shape[i] for i in lb]
    inner = int(np.prod([left.shape[i] for i in lc], dtype=int))
    a = np.transpose(left, [*lb, *lf, *lc]).reshape([*batch, -1, inner] if inner else [*batch, 0, 0])
    b = np.transpose(right, [*rb, *rf, *rc]).reshape([*batch, -1, inner] if inner else [*batch, 0, 0])
    shape = [*batch, *(left.shape[i] for i in lf), *(right.shape[i] for i in rf)]
    if not inner:
        return constants_of(g, np.zeros(shape))
    out = np.empty([*batch, a.shape[-2], b.shape[-2]], dtype=np.int64)
    for index in np.ndindex(*out.shape):
        *k, i, j = index
        out[index] = g.sum(g.op("mul", p, q) for p, q in zip(a[(*k, i)].tolist(), b[(*k, j)].tolist(), strict=True))
    return out.reshape(shape)


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
        return _evaluate_closed(g, eqn.params[key], args)

    return rule


def _evaluate_closed(g: Graph, jaxpr, args) -> list[Nodes]:
    if hasattr(jaxpr, "jaxpr"):
        return _evaluate(g, jaxpr.jaxpr, jaxpr.consts, args)
    return _evaluate(g, jaxpr, (), args)


def _custom_jvp_call(g: Graph, eqn, args):
    by_name = _CUSTOM.get(eqn.params.get("name"))
    if by_name is not None:
        return [_elementwise(by_name)(g, eqn, args)]
    return _evaluate_closed(g, eqn.params["call_jaxpr"], args)


# Functions that JAX writes with bit patterns; here they are plain arithmetic.
_CUSTOM = {
    "_ndtri": special.ndtri,
    "exp_neg_sq": lambda g, a: g.op("exp", g.op("neg", g.op("mul", a, a))),
}


def _custom_vjp_call(g: Graph, eqn, args):
    p = eqn.params
    return _evaluate_closed(g, p["call_jaxpr"] if "call_jaxpr" in p else p["fun_jaxpr"], args)


def _scan(g: Graph, eqn, args):
    p = eqn.params
    if "ft_in" in p:
        n_consts, n_carry = len(p["ft_in"][0]), len(p["ft_in"][1])
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


_SAME_NAME = (
    "add sub mul neg pow rem atan2 max min abs floor ceil round sqrt cbrt exp expm1 log log1p sin cos tan asin acos "
    "atan sinh cosh tanh asinh acosh atanh erf erfc lgamma eq ne lt le not and or"
).split()

_RULES: dict[str, Callable] = {name: _op(name) for name in _SAME_NAME}
_RULES |= {
    "add_any": _op("add"),
    "div": _div,
    "integer_pow": _integer_pow,
    "square": _elementwise(lambda g, a: g.op("mul", a, a)),
    "rsqrt": _elementwise(lambda g, a: g.op("recip", g.op("sqrt", a))),
    "exp2": _elementwise(lambda g, a: g.op("exp", g.op("mul", a, g.const(np.log(2.0))))),
    "sign": _elementwise(special.sign),
    "is_finite": _elementwise(special.is_finite),
    "logistic": _elementwise(special.logistic),
    "erf_inv": _elementwise(special.erf_inv),
    "digamma": _elementwise(lambda g, a: special.polygamma(g, g.const(0.0), a)),
    "polygamma": _elementwise(special.polygamma),
    "gt": _elementwise(lambda g, a, b: g.op("lt", b, a)),
    "ge": _elementwise(lambda g, a, b: g.op("le", b, a)),
    "xor": _op("ne"),
    "clamp": _elementwise(lambda g, low, a, high: g.op("min", g.op("max", a, low), high)),
    "select_n": _select_n,
    "convert_element_type": _convert,
    "stop_gradient": lambda g, eqn, args: args[0],
    "optimization_barrier": lambda g, eqn, args: list(args),
    "copy": lambda g, eqn, args: args[0],
    "copy_p": lambda g, eqn, args: args[0],
    "reduce_precision": lambda g, eqn, args: args[0],
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda g, eqn, args: args[0].reshape(eqn.params["new_sizes"]),
    "squeeze": lambda g, eqn, args: args[0].reshape(eqn.outvars[0].aval.shape),
    "expand_dims": lambda g, eqn, args: args[0].reshape(eqn.outvars[0].aval.shape),
    "transpose": lambda g, eqn, args: np.transpose(args[0], eqn.params["permutation"]),
    "rev": lambda g, eqn, args: np.flip(args[0], eqn.params["dimensions"]),
    "concatenate": lambda g, eqn, args: np.concatenate(args, axis=eqn.params["dimension"]),
    "stack": lambda g, eqn, args: np.stack(args, axis=eqn.params["axis"]),
    "slice": _slice,
    "split": _split,
    "pad": _pad,
    "iota": _iota,
    "gather": _move_by_constant_indices(1),
    "scatter": _move_by_constant_indices(1),
    "dynamic_slice": _move_by_constant_indices(slice(1, None)),
    "dynamic_update_slice": _move_by_constant_indices(slice(2, None)),
    "scatter-add": _scatter_add,
    "reduce_sum": _reduce("add"),
    "reduce_prod": _reduce("mul"),
    "reduce_max": _reduce("max"),
    "reduce_min": _reduce("min"),
    "reduce_and": _reduce("and"),
    "reduce_or": _reduce("or"),
    "cumsum": _cumulative("add"),
    "cumprod": _cumulative("mul"),
    "cummax": _cumulative("max"),
    "cummin": _cumulative("min"),
    "dot_general": _dot_general,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "jit": _call("jaxpr"),
    "pjit": _call("jaxpr"),
    "closed_call": _call("call_jaxpr"),
    "core_call": _call("call_jaxpr"),
    "checkpoint": _call("jaxpr"),
    "remat2": _call("jaxpr"),
    "custom_jvp_call": _custom_jvp_call,
    "custom_vjp_call": _custom_vjp_call,
    "custom_vjp_call_jaxpr": _custom_vjp_call,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
