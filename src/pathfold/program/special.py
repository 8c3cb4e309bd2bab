"""Functions for which neither the machine nor its library has an operation, written in operations of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pathfold.program.graph import Graph, Node
from pathfold.program.unsupported import UnsupportedPrimitive


def sign(g: Graph, a: Node) -> Node:
    zero = g.const(0.0)
    negative = g.op("select", g.op("lt", a, zero), g.const(-1.0), a)
    return g.op("select", g.op("lt", zero, a), g.const(1.0), negative)


def is_finite(g: Graph, a: Node) -> Node:
    return g.op("lt", g.op("abs", a), g.const(math.inf))


def logistic(g: Graph, a: Node) -> Node:
    return g.op("recip", g.op("add", g.const(1.0), g.op("exp", g.op("neg", a))))


def one_minus_square(g: Graph, a: Node) -> Node:
    """1 - a^2 without cancellation near |a| = 1."""
    one = g.const(1.0)
    return g.op("mul", g.op("sub", one, a), g.op("add", one, a))


def log_add_exp(g: Graph, a: Node, b: Node) -> Node:
    """log(e^a + e^b); where a and b are the same infinity, which have no difference, it is the result."""
    high, low = g.op("max", a, b), g.op("min", a, b)
    gap = g.op("select", g.op("eq", high, low), g.const(0.0), g.op("sub", low, high))
    return g.op("add", high, g.op("log1p", g.op("exp", gap)))


def round_away(g: Graph, a: Node) -> Node:
    """Round to the nearest integer, halves away from zero."""
    size = g.op("abs", a)
    below = g.op("floor", size)
    up = g.op("le", g.const(0.5), g.op("sub", size, below))
    nearest = g.op("select", up, g.op("add", below, g.const(1.0)), below)
    return g.op("select", g.op("lt", a, g.const(0.0)), g.op("neg", nearest), nearest)


def polynomial(g: Graph, x: Node, coefficients: Sequence[Node]) -> Node:
    """sum_i coefficients[i] x^i, by Horner's rule."""
    total = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = g.op("add", g.op("mul", total, x), c)
    return total


# Rational approximations of the normal quantile, numerator and denominator by rising powers: centre, near and far tail.
# Wichura, Algorithm AS 241, Applied Statistics 37 (1988), PPND16.
_CENTRE = (
    (
        3.3871328727963666080e0,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ),
    (
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ),
)
_NEAR = (
    (
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_FAR = (
    (
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)


def _normal_quantile(g: Graph, q: Node, tail: Node) -> Node:
    """The standard normal quantile at 1/2 + q, where tail = 1/2 - |q|."""

    def ratio(x: Node, parts: tuple[tuple[float, ...], ...]) -> Node:
        numerator, denominator = (polynomial(g, x, [g.const(c) for c in part]) for part in parts)
        return g.div(numerator, denominator)

    centre = g.op("mul", q, ratio(g.op("sub", g.const(0.180625), g.op("mul", q, q)), _CENTRE))
    r = g.op("sqrt", g.op("neg", g.op("log", tail)))
    near = ratio(g.op("sub", r, g.const(1.6)), _NEAR)
    far = ratio(g.op("sub", r, g.const(5.0)), _FAR)
    outer = g.op("select", g.op("le", r, g.const(5.0)), near, far)
    outer = g.op("select", g.op("eq", tail, g.const(0.0)), g.const(math.inf), outer)
    outer = g.op("select", g.op("lt", q, g.const(0.0)), g.op("neg", outer), outer)
    return g.op("select", g.op("le", g.op("abs", q), g.const(0.425)), centre, outer)


def ndtri(g: Graph, p: Node) -> Node:
    """The quantile function of the standard normal distribution at p."""
    half, one = g.const(0.5), g.const(1.0)
    return _normal_quantile(g, g.op("sub", p, half), g.op("min", p, g.op("sub", one, p)))


def erf_inv(g: Graph, a: Node) -> Node:
    half, one = g.const(0.5), g.const(1.0)
    tail = g.op("mul", half, g.op("sub", one, g.op("abs", a)))
    return g.op("mul", g.const(math.sqrt(0.5)), _normal_quantile(g, g.op("mul", half, a), tail))


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 20


def polygamma(g: Graph, order: Node, x: Node) -> Node:
    """psi^(m)(x) for a constant m and x > -10 (NaN below): twenty steps of the recurrence, then the series in 1/x.

    psi^(m)(x) = (-1)^(m+1) [sum_{i<20} m! / (x+i)^(m+1)
                             + (m-1)!/y^m + m!/(2 y^(m+1)) + sum_k B_2k (2k+m-1)!/((2k)! y^(2k+m))]
    with y = x + 20, and -log(y) for the second term when m = 0 (Abramowitz and Stegun 6.4.11).
    """
    value = g.value(order)
    if value is None:
        raise UnsupportedPrimitive("polygamma", "use a constant order")
    m = int(value)
    y = g.op("add", x, g.const(float(_SHIFT)))
    terms = []
    for i in range(_SHIFT):
        power = g.integer_power(g.op("add", x, g.const(float(i))), m + 1)
        terms.append(g.div(g.const(float(math.factorial(m))), power))
    if m == 0:
        terms.append(g.op("neg", g.op("log", y)))
    else:
        terms.append(g.div(g.const(float(math.factorial(m - 1))), g.integer_power(y, m)))
    terms.append(g.div(g.const(0.5 * math.factorial(m)), g.integer_power(y, m + 1)))
    for k, bernoulli in enumerate(_BERNOULLI, start=1):
        coefficient = bernoulli * math.factorial(2 * k + m - 1) / math.factorial(2 * k)
        terms.append(g.div(g.const(coefficient), g.integer_power(y, 2 * k + m)))
    total = g.sum(terms)
    result = g.op("neg", total) if m % 2 == 0 else total
    return g.op("select", g.op("lt", g.const(-10.0), x), result, g.const(math.nan))
