"""Rules for functions within functions: calls, loops, conditionals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from pathfold.program import special
from pathfold.program.graph import Graph
from pathfold.program.interpret import RULES, constants_of, elementwise, evaluate_closed, known
from pathfold.program.repeat import scan
from pathfold.program.unsupported import ADVICE, UnsupportedPrimitive


def _search_sorted(g: Graph, prim, args):
    """Count the elements of a sorted array that come before each query."""
    if prim.batch_dims or len(prim.in_avals[0].shape) != 1:
        raise UnsupportedPrimitive("searchsorted", "search in an array of one dimension")
    grid, queries = args
    out = np.empty(queries.shape, dtype=np.int64)
    for i in np.ndindex(*queries.shape):
        query = int(queries[i])
        before = [g.op("lt", n, query) if prim.side == "left" else g.op("le", n, query) for n in grid.tolist()]
        out[i] = g.sum(g.op("select", b, g.const(1.0), g.const(0.0)) for b in before)
    return out


def _call(key: str) -> Callable:
    def rule(g: Graph, eqn, args):
        jaxpr = eqn.params[key]
        ours = _in_our_words(jaxpr)
        return evaluate_closed(g, jaxpr, args) if ours is None else [elementwise(ours)(g, eqn, args)]

    return rule


def _in_our_words(jaxpr) -> Callable | None:
    """Return our scalar program for one of JAX's own functions that work on bit patterns, None for other functions."""
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
    """Evaluate a primitive that expands into others."""
    prim = eqn.params["_prim"]
    if type(prim).__name__ == "SearchSorted":
        return _search_sorted(g, prim, args)

    def expand(*leaves):
        return jax.tree.leaves(prim.expand(*jax.tree.unflatten(prim.in_tree, leaves)))

    return evaluate_closed(g, jax.make_jaxpr(expand)(*prim.in_avals_flat), args)


def _scan(g: Graph, eqn, args):
    """Truth values are carried, and stacked, as the numbers 1 and 0."""
    p = eqn.params
    n_consts, n_carry, _ = (len(list(part)) for part in p["ft_in"].unpack())
    kinds = [atom.aval.dtype for atom in eqn.invars[n_consts:]]
    consts, given = args[:n_consts], _as_numbers(g, args[n_consts:], kinds)

    def turn(carry, entries):
        inside = [
            _IS_TRUE(g, eqn, [n, zero]) if k == np.bool_ else n for n, k in zip([*carry, *entries], kinds, strict=True)
        ]
        out = evaluate_closed(g, p["jaxpr"], [*consts, *inside])
        out = _as_numbers(g, out, [atom.aval.dtype for atom in eqn.outvars])
        return out[:n_carry], out[n_carry:]

    if not p["length"]:
        return [*args[n_consts : n_consts + n_carry], *(np.zeros(v.aval.shape, int) for v in eqn.outvars[n_carry:])]
    zero = constants_of(g, 0.0)
    scanned = g, turn, p["length"], given[:n_carry], given[n_carry:]
    try:
        out = scan(*scanned, reverse=p["reverse"])
    except UnsupportedPrimitive:  # it asks for constants that change from turn to turn
        out = scan(*scanned, reverse=p["reverse"], written_out=True)
    return [
        _IS_TRUE(g, eqn, [n, zero]) if atom.aval.dtype == np.bool_ else n
        for n, atom in zip(out, eqn.outvars, strict=True)
    ]


_IS_TRUE = elementwise(lambda g, a, zero: g.op("ne", a, zero))


def _as_numbers(g: Graph, arrays, kinds) -> list:
    one, zero = constants_of(g, 1.0), constants_of(g, 0.0)
    chosen = elementwise(lambda g, a, one, zero: g.op("select", a, one, zero))
    return [chosen(g, None, [n, one, zero]) if k == np.bool_ else n for n, k in zip(arrays, kinds, strict=True)]


def _while(g: Graph, eqn, args):
    p = eqn.params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts, carry = args[:nc], args[nc : nc + nb], list(args[nc + nb :])
    for _ in range(100_000):
        (test,) = evaluate_closed(g, p["cond_jaxpr"], [*cond_consts, *carry])
        if not known(g, test, "while", ADVICE["while"]):
            return carry
        carry = evaluate_closed(g, p["body_jaxpr"], [*body_consts, *carry])
    raise UnsupportedPrimitive("while", "a loop of more than 100,000 turns cannot be unrolled")


def _cond(g: Graph, eqn, args):
    index, *operands = args
    which = int(index)
    branches = eqn.params["branches"]
    value = g.value(which)
    if value is not None:
        return evaluate_closed(g, branches[int(np.clip(value, 0, len(branches) - 1))], operands)
    results = [evaluate_closed(g, branch, operands) for branch in branches]
    out = results[-1]
    for i in reversed(range(len(branches) - 1)):
        chosen = g.op("le", which, g.const(float(i)))
        pick = elementwise(lambda g, a, b, c=chosen: g.op("select", c, a, b))
        out = [pick(g, eqn, [a, b]) for a, b in zip(results[i], out, strict=True)]
    return out


def _platform_index(g: Graph, eqn, args):
    """Return the index of the branch for this platform: the first that names the CPU or holds for all platforms."""
    platforms = eqn.params["platforms"]
    for i, names in enumerate(platforms):
        if names is None or "cpu" in names:
            return constants_of(g, float(i))
    raise UnsupportedPrimitive("platform_index")


RULES.update(
    {
        "platform_index": _platform_index,
        "jit": _call("jaxpr"),
        "custom_vmap_call": _call("call"),
        "composite": _call("call_jaxpr"),
        "call_hi_primitive": _hi_primitive,
        "remat2": _call("jaxpr"),
        "custom_jvp_call": _call("call_jaxpr"),
        "custom_vjp_call": _call("call_jaxpr"),
        "scan": _scan,
        "while": _while,
        "cond": _cond,
    }
)
