"""Rules for reductions and small linear algebra."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pathfold.program import special
from pathfold.program.graph import Graph
from pathfold.program.interpret import OF_TRUTHS, RULES, Nodes


def _reduce(name: str) -> Callable:
    def rule(g: Graph, eqn, args):
        axes = eqn.params["axes"]
        kept = [i for i in range(args[0].ndim) if i not in axes]
        shape = [args[0].shape[i] for i in kept]
        count = int(np.prod([args[0].shape[i] for i in axes], dtype=int))
        moved = np.transpose(args[0], [*kept, *axes]).reshape([*shape, count])
        op = OF_TRUTHS.get(name, name) if eqn.invars[0].aval.dtype == np.bool_ else name
        out = np.empty(shape, dtype=np.int64)
        for i in np.ndindex(*out.shape):
            out[i] = fold(g, op, moved[i].tolist())
        return out

    return rule


def _arg(better: Callable[[Graph, int, int], int]) -> Callable:
    """Make the rule for the index of the extreme element: the first of equals, or the first that is not a number."""

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


def cholesky_nodes(g: Graph, a: Nodes) -> Nodes:
    """Return the lower Cholesky factor of a small symmetric matrix, of which only the lower triangle is read."""
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
        matrix, rhs, lower = a[k], b[k], p["lower"]
        if p["transpose_a"]:
            matrix, lower = matrix.T, not lower
        if not p["left_side"]:  # x a = b  <=>  a^T x^T = b^T
            matrix, lower, rhs = matrix.T, not lower, rhs.T
        x = solve_nodes(g, matrix, rhs, lower=lower, unit=p["unit_diagonal"])
        out[k] = x if p["left_side"] else x.T
    return out


def solve_nodes(g: Graph, matrix: Nodes, rhs: Nodes, *, lower: bool, unit: bool = False) -> Nodes:
    """Solve with a small triangular matrix, whose diagonal may count as ones."""
    n, x = len(matrix), rhs.copy()
    for i in range(n) if lower else reversed(range(n)):
        known = range(i) if lower else range(i + 1, n)
        for c in range(rhs.shape[1]):
            rest = g.sum(g.op("mul", int(matrix[i, j]), int(x[j, c])) for j in known)
            entry = g.op("sub", int(rhs[i, c]), rest)
            x[i, c] = entry if unit else g.div(entry, int(matrix[i, i]))
    return x


def fold(g: Graph, name: str, nodes: list[int]) -> int:
    if not nodes:
        return g.const(_EMPTY[name])
    total = nodes[0]
    for node in nodes[1:]:
        total = g.op(name, total, node)
    return total


RULES.update(
    {
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
        "cholesky": _cholesky,
        "triangular_solve": _triangular_solve,
    }
)
