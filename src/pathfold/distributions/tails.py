"""Distribution functions in logarithms, (log P(Y <= y), log P(Y > y)), each with its own relative accuracy.

They are accurate however far out y is, on either side, and so are their derivatives by the parameters. Some have closed
forms; the others use the incomplete beta function, of which the incomplete gamma function is a limit.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from pathfold.distributions.deviance import TINY, logit_root, stirling
from pathfold.errors import ModelError

type Tails = tuple[Any, Any]

FRACTION_FROM = 5.0  # standard deviations, beyond which a continued fraction is used
FRACTION_LEVELS = 18  # of the continued fraction: its error at FRACTION_FROM is below rounding
MANY = 2.0**70  # with so many trials a binomial is Poisson, and a beta a gamma, to rounding

# The trapezoidal rule after s = exp(t - exp(-t)) resolves an integrand on all scales from s = 0 to some hundreds
# (the double exponential formula; Takahasi and Mori, Publications of RIMS 9, 1974).
_STEP = 0.14
_GRID = np.arange(-3.75, 6.5, _STEP)
_NODES = np.exp(_GRID - np.exp(-_GRID))
_WEIGHTS = _STEP * (1 + np.exp(-_GRID)) * _NODES

_ALL_BELOW, _ALL_ABOVE = (0.0, -math.inf), (-math.inf, 0.0)


def log_tails(d: Any, y: Array) -> Tails:
    """Return log P(Y <= y) and log P(Y > y) for a distribution of single values; y may be infinite."""
    if not has_tails(d):
        raise no_tails(d)
    known = jnp.abs(y) < jnp.inf
    return _where(known, TAILS[type(d)](d, jnp.where(known, y, 0.5)), _where(y > 0, _ALL_BELOW, _ALL_ABOVE))


def has_tails(d: Any) -> bool:
    return type(d) in TAILS


def no_tails(d: Any) -> ModelError:
    return ModelError(
        f"{type(d).__name__} has no distribution function that pathfold can use, so its values cannot be censored; "
        f"leave these out, or use one of {', '.join(t.__name__ for t in TAILS)} or a transform of one"
    )


def _where(condition: Any, yes: Tails, no: Tails) -> Tails:
    return jnp.where(condition, yes[0], no[0]), jnp.where(condition, yes[1], no[1])


def _mirrored(upper: Callable[[Array], Array]) -> Callable[[Any, Array], Tails]:
    """Make the tails of a symmetric distribution with location and scale from log P(Y > r) of the standard one."""

    def tails(d: Any, y: Array) -> Tails:
        r = (y - d.loc) / d.scale
        return upper(-r), upper(r)

    return tails


@jax.custom_jvp
def _upper_normal(r: Array) -> Array:
    """Return log P(Y > r) of the standard normal, by the error function, and far out by h = phi(r) / P(Y > r).

    Its derivative is -h, with h the hazard.
    """
    negative, far = r < 0, r > FRACTION_FROM
    x = jnp.where(far, r, FRACTION_FROM)
    tail = 0.5 * jax.lax.erfc(math.sqrt(0.5) * jnp.where(negative, -r, jnp.where(far, FRACTION_FROM, r)))
    near = jnp.where(negative, jnp.log1p(-tail), jnp.log(jnp.where(negative, 1.0, tail)))
    return jnp.where(far, _log_normal(x) - jnp.log(x + _fraction(x)), near)


@jax.custom_jvp
def _hazard(r: Array) -> Array:
    far = r > FRACTION_FROM
    return jnp.where(far, r + _fraction(jnp.where(far, r, FRACTION_FROM)), jnp.exp(_log_normal(r) - _upper_normal(r)))


@jax.custom_jvp
def _hazard_above(r: Array) -> Array:
    """Return h - r, the hazard of the standard normal less r."""
    far = r > FRACTION_FROM
    return jnp.where(far, _fraction(jnp.where(far, r, FRACTION_FROM)), _hazard(r) - r)


_upper_normal.defjvps(lambda dr, _, r: -_hazard(r) * dr)
_hazard.defjvps(lambda dr, h, r: h * _hazard_above(r) * dr)
_hazard_above.defjvps(lambda dr, g, r: (_hazard(r) * g - 1) * dr)


def _log_normal(r: Array) -> Array:
    return -0.5 * r * r - 0.5 * math.log(2 * math.pi)


def _fraction(r: Array) -> Array:
    """Return h - r = 1 / (r + 2 / (r + 3 / (r + ...))), a continued fraction (Abramowitz and Stegun 26.2.14)."""
    bottom = r
    for level in range(FRACTION_LEVELS, 1, -1):
        bottom = r + level / bottom
    return 1 / bottom


def _upper_laplace(r: Array) -> Array:
    negative = r < 0
    return jnp.where(negative, jnp.log1p(-0.5 * jnp.exp(jnp.where(negative, r, 0.0))), -r - math.log(2.0))


def _upper_cauchy(r: Array) -> Array:
    tail, rest = jnp.atan2(1.0, r) / math.pi, jnp.atan2(1.0, -r) / math.pi
    return jnp.where(r < 0, jnp.log1p(-rest), jnp.log(tail))


def _upper_logistic(r: Array) -> Array:
    return -jax.nn.softplus(r)


def _gumbel(d: Any, y: Array) -> Tails:
    above, below = _by_hazard(jnp.exp((d.loc - y) / d.scale))
    return below, above


def _exponential(d: Any, y: Array) -> Tails:
    return _by_hazard(d.rate * jnp.maximum(y, 0.0))


def _weibull(d: Any, y: Array) -> Tails:
    some = y > 0
    return _by_hazard(jnp.where(some, jnp.exp(d.concentration * jnp.log(jnp.where(some, y, 1.0) / d.scale)), 0.0))


def _geometric(d: Any, y: Array) -> Tails:
    return _by_hazard(jnp.maximum(y + 1, 0.0) * jax.nn.softplus(d.logits))


def _by_hazard(total: Array) -> Tails:
    """Return the tails from the integrated hazard, -log P(Y > y)."""
    some = total > 0
    return jnp.where(some, jnp.log(-jnp.expm1(-jnp.where(some, total, 1.0))), -jnp.inf), -total


def _gamma(d: Any, y: Array) -> Tails:
    some = y > 0
    return _where(some, _incomplete_gamma(d.concentration, d.rate * jnp.where(some, y, 1.0)), _ALL_ABOVE)


def _poisson(d: Any, y: Array) -> Tails:
    """Return the tails by those of a gamma: there are at most y events if y + 1 of them take longer than `rate`."""
    some = y >= 0
    above, below = _incomplete_gamma(jnp.where(some, y, 0.0) + 1, d.rate)
    return _where(some, (below, above), _ALL_ABOVE)


def _student(d: Any, y: Array) -> Tails:
    """Return the tails by r = (B - 1/2) sqrt(df / (B (1 - B))), where B is beta with both concentrations df / 2."""
    r = (y - d.loc) / d.scale
    return _incomplete_beta(0.5 * d.df, 0.5 * d.df, 2 * jnp.asinh(r / jnp.sqrt(d.df)))


def _beta(d: Any, y: Array) -> Tails:
    some, within = y > 0, (y > 0) & (y < 1)
    x = jnp.where(within, y, 0.5)
    tails = _incomplete_beta(d.concentration1, d.concentration0, jnp.log(x / (1 - x)))
    return _where(within, tails, _where(some, _ALL_BELOW, _ALL_ABOVE))


def _binomial(d: Any, y: Array) -> Tails:
    n = jnp.asarray(getattr(d, "total_count", 1.0), jnp.float64)
    some, within = y >= 0, (y >= 0) & (y < n)
    failures, successes = jnp.where(within, n - y, 1.0), jnp.where(within, y + 1, 1.0)
    return _where(within, _incomplete_beta(failures, successes, -d.logits), _where(some, _ALL_BELOW, _ALL_ABOVE))


def _negative_binomial(d: Any, y: Array) -> Tails:
    some = y >= 0
    return _where(some, _incomplete_beta(d.concentration, jnp.where(some, y, 0.0) + 1, jnp.log(d.rate)), _ALL_ABOVE)


def _ordered(d: Any, y: Array) -> Tails:
    """Of a logistic variable about the predictor, whether it lies below the cutpoint above category y."""
    some, within = y >= 0, (y >= 0) & (y < d.cutpoints.shape[-1])
    e = d.predictor - of_category(d.cutpoints, y)
    return _where(within, (-jax.nn.softplus(e), -jax.nn.softplus(-e)), _where(some, _ALL_BELOW, _ALL_ABOVE))


def of_category(terms: Array, y: Array) -> Array:
    """Of terms (..., K), the one of the category y; 0 where there is none. y is data, and no index."""
    place = jnp.floor(y)[..., None]
    return jnp.sum(jnp.where(place == np.arange(terms.shape[-1]), terms, 0.0), axis=-1)


def _incomplete_gamma(shape: Any, x: Any) -> Tails:
    """Return log P(shape, x) and log Q(shape, x), the regularised incomplete gamma functions."""
    x = jnp.maximum(x, TINY)
    return _incomplete_beta(shape, MANY, jnp.log(x) - math.log(MANY), jnp.log(x / shape))


def _incomplete_beta(a: Any, b: Any, logit: Array, above: Array | None = None) -> Tails:
    """Return log I_x(a, b) and log I_{1-x}(b, a), the regularised incomplete beta functions, at x = sigmoid(logit).

    The one on the side of x is integrated. Below the mean, with o = x / (1 - x) and the integration variable x exp(-s),

        I_x(a, b) = x^a (1-x)^(b-1) / B(a, b) * integral of exp(-a s) [1 + o (1 - exp(-s))]^(b-1) over s > 0.

    The value is computed at a point that is held fixed; derivatives are those of the factor before the integral and of
    the integral, each divided by its value there. `above` is the logit less that of the mean a / (a + b), for where the
    difference would lose digits.
    """
    e = jax.lax.stop_gradient(logit - jnp.log(a / b) if above is None else above)
    lower = e < 0
    a, b, logit = jnp.where(lower, a, b), jnp.where(lower, b, a), jnp.where(lower, logit, -logit)
    a0, b0, logit0 = (jax.lax.stop_gradient(value) for value in (a, b, logit))
    odds = jnp.exp(logit0)
    scale = 1 / (a0 - (b0 - 1) * odds + jnp.sqrt(jnp.maximum(b0 - 1, 0.0) * odds * (1 + odds)))  # about that of s
    s = scale[..., None] * _NODES
    growth = jnp.log1p(-odds[..., None] * jnp.expm1(-s))
    parts = jnp.exp((b0 - 1)[..., None] * growth - a0[..., None] * s) * _WEIGHTS
    total = jnp.sum(parts, axis=-1)
    integral = (1 + odds) * scale * total
    root = logit_root(jnp.where(lower, e, -e), a0, b0)
    value = jnp.log(integral) - 0.5 * root * root - _log_beta(a0, b0) - 0.5 * math.log(2 * math.pi)
    factor = _log_likelihood(a, b, logit0) - a * jnp.log(a / (a + b)) - b * jnp.log(b / (a + b)) - _log_beta(a, b)
    point = _Point(a0, b0, logit0, s, growth, parts / total[..., None], 1 / integral)
    ratio = _integral(_of_shape, _at_end, point, (a, b), logit)
    less = value + factor - jax.lax.stop_gradient(factor) + jnp.log(ratio)
    more = jnp.log1p(-jnp.exp(less))
    return _where(lower, (less, more), (more, less))


def _log_beta(a: Array, b: Array) -> Array:
    """Return log B(a, b) without its leading part, a log(a / (a + b)) + b log(b / (a + b)), and a constant."""
    return stirling(a) + stirling(b) - stirling(a + b) - 0.5 * jnp.log(a * (b / (a + b)))


def _log_likelihood(a: Array, b: Array, logit: Array) -> Array:
    """Return log [x^a (1-x)^b]."""
    return -a * jax.nn.softplus(-logit) - b * jax.nn.softplus(logit)


class _Point(NamedTuple):
    """The point at which derivatives are taken, with the quantities of the integral there.

    It has the arguments a, b and logit, the nodes s with `growth` = log [1 + o (1 - exp(-s))], their shares of the
    integral, and the density: the integrand at the end, with respect to the logit, divided by the integral.
    """

    a: Array
    b: Array
    logit: Array
    s: Array
    growth: Array
    shares: Array
    density: Array


def _of_shape(at: _Point, shape: tuple[Array, Array]) -> Array:
    """Return the integral for another shape, divided by its value at the point."""
    a, b = shape[0] - at.a, shape[1] - at.b
    return jnp.sum(at.shares * jnp.exp(b[..., None] * at.growth - a[..., None] * at.s), axis=-1)


def _at_end(at: _Point, shape: tuple[Array, Array], logit: Array) -> Array:
    """Return the integrand of `_of_shape` at the end, with respect to the logit."""
    return at.density * jnp.exp(_log_likelihood(*shape, logit) - _log_likelihood(*shape, at.logit))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _integral(of_shape: Callable, at_end: Callable, at: _Point, shape: Any, logit: Array) -> Array:
    """Return an integral up to `logit`, whose derivative by the logit is the integrand at the end.

    The same holds for its derivatives by the shape, which are integrals too. So `of_shape` is never differentiated by
    the logit.
    """
    return of_shape(at, shape)


@_integral.defjvp
def _integral_jvp(of_shape, at_end, primals, tangents):
    (at, shape, logit), (_, change, move) = primals, tangents
    by_shape = _integral(_along(of_shape), _along(at_end), at, (shape, change), logit)
    return _integral(of_shape, at_end, at, shape, logit), by_shape + at_end(at, shape, logit) * move


def _along(function: Callable) -> Callable:
    """Return the derivative of a function by the shape, along a change that is given with the shape."""

    def derivative(at, pair, *rest):
        return jax.jvp(lambda shape: function(at, shape, *rest), (pair[0],), (pair[1],))[1]

    return derivative


TAILS: dict[type, Callable[[Any, Array], Tails]] = {
    dist.Normal: _mirrored(_upper_normal),
    dist.Laplace: _mirrored(_upper_laplace),
    dist.Cauchy: _mirrored(_upper_cauchy),
    dist.Logistic: _mirrored(_upper_logistic),
    dist.StudentT: _student,
    dist.Gumbel: _gumbel,
    dist.Exponential: _exponential,
    dist.Weibull: _weibull,
    dist.Gamma: _gamma,
    dist.Chi2: _gamma,
    dist.Beta: _beta,
    dist.BetaProportion: _beta,
    dist.Poisson: _poisson,
    dist.BernoulliProbs: _binomial,
    dist.BernoulliLogits: _binomial,
    dist.BinomialProbs: _binomial,
    dist.BinomialLogits: _binomial,
    dist.GammaPoisson: _negative_binomial,
    dist.NegativeBinomial2: _negative_binomial,
    dist.NegativeBinomialProbs: _negative_binomial,
    dist.NegativeBinomialLogits: _negative_binomial,
    dist.GeometricProbs: _geometric,
    dist.GeometricLogits: _geometric,
    dist.OrderedLogistic: _ordered,
}
