"""Scalar functions that the programs use and Numba or NumPy lack."""

from __future__ import annotations

import math

from numpy import (  # noqa: F401 (the programs use them)
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cbrt,
    ceil,
    cos,
    cosh,
    exp,
    expm1,
    fabs,
    floor,
    fmod,
    isfinite,
    log,
    log1p,
    rint,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)

from .jit import compiled

NAN = math.nan
INFINITY = math.inf


@compiled
def maximum(a, b):
    """The larger; NaN if either is."""
    return a if a >= b or a != a else b


@compiled
def minimum(a, b):
    """The smaller; NaN if either is."""
    return a if a <= b or a != a else b


@compiled
def sign(a):
    return 1.0 if a > 0.0 else (-1.0 if a < 0.0 else a)


@compiled
def logistic(a):
    return 1.0 / (1.0 + exp(-a))


@compiled
def erf(a):
    return math.erf(a)


@compiled
def erfc(a):
    return math.erfc(a)


@compiled
def lgamma(a):
    """log|Gamma(a)|, infinite at its poles."""
    if a <= 0.0 and a == floor(a):
        return INFINITY
    return math.lgamma(a)


@compiled
def _tail_quantile(r):
    """Normal quantile for a tail probability exp(-r^2): Wichura's algorithm AS 241 (1988), outer regions."""
    if r <= 5.0:
        r -= 1.6
        top = 7.7454501427834140764e-4
        for a in (
            2.27238449892691845833e-2,
            2.41780725177450611770e-1,
            1.27045825245236838258e0,
            3.64784832476320460504e0,
            5.76949722146069140550e0,
            4.63033784615654529590e0,
            1.42343711074968357734e0,
        ):
            top = top * r + a
        bottom = 1.05075007164441684324e-9
        for b in (
            5.47593808499534494600e-4,
            1.51986665636164571966e-2,
            1.48103976427480074590e-1,
            6.89767334985100004550e-1,
            1.67638483018380384940e0,
            2.05319162663775882187e0,
            1.0,
        ):
            bottom = bottom * r + b
        return top / bottom
    r -= 5.0
    top = 2.01033439929228813265e-7
    for a in (
        2.71155556874348757815e-5,
        1.24266094738807843860e-3,
        2.65321895265761230930e-2,
        2.96560571828504891230e-1,
        1.78482653991729133580e0,
        5.46378491116411436990e0,
        6.65790464350110377720e0,
    ):
        top = top * r + a
    bottom = 2.04426310338993978564e-15
    for b in (
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        1.48753612908506148525e-2,
        1.36929880922735805310e-1,
        5.99832206555887937690e-1,
        1.0,
    ):
        bottom = bottom * r + b
    return top / bottom


@compiled
def _normal_quantile(q, tail):
    """Normal quantile at 1/2 + q, where tail = 1/2 - |q| is given exactly: Wichura's algorithm AS 241 (1988)."""
    if not (tail >= 0.0):
        return NAN
    if tail == 0.0:
        return INFINITY if q > 0.0 else -INFINITY
    if fabs(q) > 0.425:
        x = _tail_quantile(sqrt(-log(tail)))
        return x if q > 0.0 else -x
    r = 0.180625 - q * q
    top = 2.5090809287301226727e3
    for a in (
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ):
        top = top * r + a
    bottom = 5.2264952788528545610e3
    for b in (
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ):
        bottom = bottom * r + b
    return q * top / bottom


@compiled
def ndtri(p):
    """Quantile function of the standard normal."""
    return _normal_quantile(p - 0.5, p if p < 0.5 else 1.0 - p)


@compiled
def erf_inv(a):
    return _normal_quantile(0.5 * a, 0.5 * (1.0 - fabs(a))) * 0.7071067811865476


@compiled
def polygamma(m, x):
    """psi^(m)(x), m = 0, 1, 2, ...: recurrence up to x >= 20, then the series in 1/x (Abramowitz and Stegun 6.4.11)."""
    if not isfinite(x) or (x <= 0.0 and x == floor(x)) or x < -10_000.0:
        return NAN
    order = int(m)
    factorial = 1.0
    for i in range(2, order + 1):
        factorial *= i
    parity = -1.0 if order % 2 == 0 else 1.0
    total = 0.0
    while x < 20.0:
        total += parity * factorial * x ** (-(order + 1.0))
        x += 1.0
    if order == 0:
        series = log(x) - 0.5 / x
    else:
        series = parity * (factorial / order * x ** (-float(order)) + 0.5 * factorial * x ** (-(order + 1.0)))
    k = 0
    coefficient = factorial * (order + 1.0) / 2.0  # (2k + m - 1)! / (2k)! at k = 1
    for bernoulli in (
        1.0 / 6.0,
        -1.0 / 30.0,
        1.0 / 42.0,
        -1.0 / 30.0,
        5.0 / 66.0,
        -691.0 / 2730.0,
        7.0 / 6.0,
        -3617.0 / 510.0,
    ):
        k += 1
        if k > 1:
            coefficient *= (2.0 * k + order - 1.0) * (2.0 * k + order - 2.0) / ((2.0 * k) * (2.0 * k - 1.0))
        series += parity * coefficient * bernoulli * x ** (-(2.0 * k + order))
    return total + series
