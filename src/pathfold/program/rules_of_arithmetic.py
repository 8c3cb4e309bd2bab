"""Rules for primitives that work element by element."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from pathfold.program import special
from pathfold.program.graph import Graph
from pathfold.program.interpret import OF_TRUTHS, RULES, constants_of, elementwise, evaluate_constant, known
from pathfold.program.unsupported import ADVICE, UnsupportedPrimitive


def _op(name: str) -> Callable:
    """Make the rule that applies an operation of the graph, or the logical one where the arguments are truth values."""
    number, truth = (elementwise(lambda g, *nodes, op=op: g.op(op, *nodes)) for op in (name, OF_TRUTHS.get(name, name)))

    def rule(g: Graph, eqn, args):
        return (truth if eqn.invars[0].aval.dtype == np.bool_ else number)(g, eqn, args)

    return rule


def _logical(name: str) -> Callable:
    """Make the rule for an operation on truth values; on the bits of integers it takes constants alone."""
    of_truths = _op(name)

    def rule(g: Graph, eqn, args):
        return (of_truths if eqn.invars[0].aval.dtype == np.bool_ else evaluate_constant)(g, eqn, args)

    return rule


def _round(g: Graph, eqn, args):
    to_even = eqn.params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return (_op("round") if to_even else elementwise(special.round_away))(g, eqn, args)


def _polynomial(g: Graph, eqn, args):
    return elementwise(lambda g, x, *coefficients: special.polynomial(g, x, coefficients))(g, eqn, args)


def _div(g: Graph, eqn, args):
    if np.issubdtype(eqn.outvars[0].aval.dtype, np.integer):
        a, b = (known(g, x, "div", "divide floating-point numbers") for x in args)
        return constants_of(g, np.trunc(a / b))
    return elementwise(lambda g, a, b: g.div(a, b))(g, eqn, args)


def _integer_pow(g: Graph, eqn, args):
    return elementwise(lambda g, a: g.integer_power(a, eqn.params["y"]))(g, eqn, args)


def _convert(g: Graph, eqn, args):
    source, target = eqn.invars[0].aval.dtype, eqn.params["new_dtype"]
    if np.issubdtype(target, np.complexfloating):
        raise UnsupportedPrimitive("complex")
    if source == np.bool_ and target != np.bool_:
        one, zero = g.const(1.0), g.const(0.0)
        return elementwise(lambda g, a: g.op("select", a, one, zero))(g, eqn, args)
    if target == np.bool_ and source != np.bool_:
        zero = g.const(0.0)
        return elementwise(lambda g, a: g.op("ne", a, zero))(g, eqn, args)
    if np.issubdtype(target, np.integer) and np.issubdtype(source, np.floating):
        values = known(g, args[0], "convert_element_type", ADVICE["convert_element_type"])
        return constants_of(g, np.trunc(values))
    return args[0]


def _select_n(g: Graph, eqn, args):
    which, *cases = args
    if eqn.invars[0].aval.dtype == np.bool_:
        no, yes = cases
        return elementwise(lambda g, c, a, b: g.op("select", c, a, b))(g, eqn, [which, yes, no])
    out = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        index = g.const(float(i))
        pick = elementwise(lambda g, w, a, b, index=index: g.op("select", g.op("eq", w, index), a, b))
        out = pick(g, eqn, [which, case, out])
    return out


_SAME_NAME = (
    "add sub mul neg pow rem atan2 max min abs floor ceil sqrt cbrt exp expm1 log log1p sin cos tan asin acos "
    "atan sinh cosh tanh asinh acosh atanh erf erfc lgamma eq ne lt le"
).split()

RULES.update({name: _op(name) for name in _SAME_NAME})
RULES.update(
    {
        "add_any": _op("add"),
        "div": _div,
        "integer_pow": _integer_pow,
        "square": elementwise(lambda g, a: g.op("mul", a, a)),
        "one_minus_square": elementwise(special.one_minus_square),
        "polynomial": _polynomial,
        "round": _round,
        "rsqrt": elementwise(lambda g, a: g.op("recip", g.op("sqrt", a))),
        "exp2": elementwise(lambda g, a: g.op("exp", g.op("mul", a, g.const(np.log(2.0))))),
        "log2": elementwise(lambda g, a: g.op("mul", g.op("log", a), g.const(1 / np.log(2.0)))),
        "sign": elementwise(special.sign),
        "is_finite": elementwise(special.is_finite),
        "logistic": elementwise(special.logistic),
        "erf_inv": elementwise(special.erf_inv),
        "digamma": elementwise(lambda g, a: special.polygamma(g, g.const(0.0), a)),
        "polygamma": elementwise(special.polygamma),
        "gt": elementwise(lambda g, a, b: g.op("lt", b, a)),
        "ge": elementwise(lambda g, a, b: g.op("le", b, a)),
        "and": _logical("and"),
        "or": _logical("or"),
        "not": _logical("not"),
        "xor": _logical("ne"),
        "clamp": elementwise(lambda g, low, a, high: g.op("min", g.op("max", a, low), high)),
        "select_n": _select_n,
        "convert_element_type": _convert,
    }
)
