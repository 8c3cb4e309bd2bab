"""Functions that likelihoods are made of, computed without cancellation: values and derivatives have full accuracy.

Each function is analytic. Where its formula would cancel, a series is used instead; the arguments of the branch that is
not used are replaced by harmless ones, so that none of its derivatives is infinite.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

EXPONENT_NEAR = 0.3  # below it exp(x) - 1 - x loses digits, more with each derivative
LOGARITHM_NEAR = 0.2  # likewise for log1p(u) - u
LARGE = 100.0  # exp(3 LARGE) is still a number
TINY = 1e-100  # a deviance so small that the likelihood is one; derivatives of its square root are still numbers
STIRLING = 10  # from there on eight terms of Stirling's series are enough

_EXP = [2 / math.factorial(n + 2) for n in range(13)]
_ATANH = [1 / (2 * j + 3) for j in range(9)]
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_GAMMA = [b / (2 * n * (2 * n - 1)) for n, b in enumerate(_BERNOULLI, start=1)]


def once(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return f, elementwise, with df = f'(x) dx: the derivative is computed once, and not along each direction anew."""
    known = jax.custom_jvp(f)
    known.defjvps(lambda dx, _, x: once(lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1])(x) * dx)
    return known


def root_of(half: Array | float) -> Array:
    """Return sqrt(2 half), for a function `half` that decreases to 0 without reaching it."""
    return jnp.sqrt(2 * jnp.maximum(half, TINY))


@once
def exp_root(x: Array) -> Array:
    """Return the root r of r^2 / 2 = exp(x) - 1 - x with the sign of x."""
    near = jnp.abs(x) < EXPONENT_NEAR
    far = jnp.where(near, 1.0, x)
    return x * jnp.sqrt(jnp.where(near, _exp_series(jnp.where(near, x, 0.0)), 2 * (jnp.expm1(far) - far) / (far * far)))


@once
def log_ratio(u: Array) -> Array:
    """Return log(1 + u) / u."""
    near = jnp.abs(u) < LOGARITHM_NEAR
    small, far = jnp.where(near, u, 0.0), jnp.where(near, 1.0, u)
    return jnp.where(near, 1 - 0.5 * small * _log_series(small), jnp.log1p(far) / far)


def logit_root(e: Array | float, successes: Array | float, failures: Array | float) -> Array:
    """Return the root r of r^2 / 2 = n [log(1 - p + p exp(e)) - p e], p = successes / n, with the sign of e.

    n = successes + failures. r^2 / 2 is n times the divergence of two Bernoulli distributions, one with p, the other
    with the probability whose logit is higher by e. It is computed with the smaller of p and 1 - p; for few successes
    among many it becomes that of Poisson, successes (exp(e) - 1 - e).
    """
    few, many = jnp.asarray(successes), jnp.asarray(failures)
    swap = few > many
    few = jnp.where(swap, many, few)
    return e * jnp.sqrt(few * _logit_rest(jnp.where(swap, -e, e), few / (successes + failures)))


def interval_root(e: Array | float, width: Array | float) -> Array:
    """The root r of r^2 / 2 = log[(cosh(e) + cosh(width / 2)) / (1 + cosh(width / 2))], with the sign of e.

    It is the deviance of a logistic variable that lies in an interval of this width, e away from its middle; with
    s = sinh(e / 2) / cosh(width / 4) it is log(1 + s^2), the logarithm of s being taken where s may be too large.
    """
    e = jnp.asarray(e)
    near = jnp.abs(e) < 1.0
    small, far = jnp.where(near, e, 0.0), jnp.where(near, 1.0, jnp.abs(e))
    quarter = _log_cosh(0.25 * jnp.asarray(width))
    s = jnp.sinh(0.5 * small) * jnp.exp(-quarter)
    log_s = 0.5 * far + jnp.log1p(-jnp.exp(-far)) - math.log(2.0) - quarter
    beyond = jnp.sqrt(2 * jnp.logaddexp(2 * log_s, 0.0))
    return jnp.where(near, s * jnp.sqrt(2 * log_ratio(s * s)), jnp.where(e > 0, beyond, -beyond))


def _log_cosh(x: Array) -> Array:
    return x + jnp.log1p(jnp.exp(-2 * x)) - math.log(2.0)


def _logit_rest(e: Array, p: Array) -> Array:
    """Return 2 [log1p(p expm1(e)) / p - e] / e^2 for 0 <= p <= 1/2."""
    near = jnp.abs(e) < EXPONENT_NEAR
    small, far = jnp.where(near, e, 0.0), jnp.where(near, 1.0, e)
    rest = _exp_series(small)
    ratio = 1 + 0.5 * small * rest  # expm1(e) / e
    series = rest - p * ratio * ratio * _log_series(p * small * ratio)
    top = jnp.minimum(far, LARGE)
    growth = jnp.expm1(top)
    direct = growth * log_ratio(p * growth) - far + (far - top) / jnp.where(far > LARGE, p, 1.0)
    return jnp.where(near, series, 2 * direct / (far * far))


@once
def stirling(x: Array) -> Array:
    """Return the error of Stirling's formula, log Gamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2] = 1 / (12 x) - ...

    Where x is too small for the series it is taken at x + 10, with log Gamma(x + 10) - log Gamma(x) =
    log(x (x+1) ... (x+9)).
    """
    far = x > STIRLING
    near = jnp.where(far, STIRLING, x)
    shifted = near + STIRLING
    product = jnp.sum(jnp.log(near[..., None] + np.arange(STIRLING)), axis=-1)
    change = (shifted - 0.5) * jnp.log(shifted) - (near - 0.5) * jnp.log(near) - product - STIRLING
    inverse = 1 / jnp.where(far, x, shifted)
    return inverse * _polynomial(inverse * inverse, _GAMMA) + jnp.where(far, 0.0, change)


def _exp_series(x: Array) -> Array:
    """Return 2 (exp(x) - 1 - x) / x^2 near 0."""
    return _polynomial(x, _EXP)


def _log_series(u: Array) -> Array:
    """Return 2 (u - log1p(u)) / u^2 near 0, by log1p(u) = 2 atanh(t), t = u / (2 + u)."""
    t = u / (2 + u)
    return (1 - t) * (1 - t * (1 - t) * _polynomial(t * t, _ATANH))


def _polynomial(x: Array, coefficients: list[float]) -> Array:
    total = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total
