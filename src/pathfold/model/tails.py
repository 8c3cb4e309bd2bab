"""Distribution functions in logarithms, (log P(Y <= y), log P(Y > y)), each with its own relative accuracy.

They are accurate however far out y is, on either side, and so are their derivatives by the parameters. There are closed
forms for some; for others the incomplete beta function, of which the incomplete gamma function is a limit.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from pathfold.errors import ModelError
from pathfold.model.deviance import TINY, logit_root, stirling

type Tails = tuple[Any, Any]

FAR = 5.0  # standard deviations, beyond which a continued fraction is taken
LEVELS = 18  # of the continued fraction: enough for rounding at FAR
MANY = 2.0**70  # trials, of which a binomial is Poisson, and a beta a gamma, to rounding

# The trapezoidal rule after s = exp(t - exp(-t)) resolves whatever happens between s = 0 and some hundreds
# (the double exponential formula; Takahasi and Mori, Publications of RIMS 9, 1974).
_STEP = 0.14
_GRID = np.arange(-3.75, 6.5, _STEP)
_NODES = np.exp(_GRID - np.exp(-_GRID))
_WEIGHTS = _STEP * (1 + np.exp(-_GRID)) * _NODES

_ALL_BELOW, _ALL_ABOVE = (0.0, -math.inf), (-math.inf, 0.0)


def log_tails(d: Any, y: Array) -> Tails:
    """log P(Y <= y) and log P(Y > y) of a distribution of single values; y may be infinite."""
    family = _FAMILIES.get(type(d))
    if family is None:
        raise ModelError(
            f"{type(d).__name__} has no distribution function that pathfold can use, so its values cannot be censored; "
            f"leave these out, or use one of {', '.join(t.__name__ for t in _FAMILIES)} or a transform of one"
        )
    known = jnp.abs(y) < jnp.inf
    return _where(known, family(d, jnp.where(known, y, 0.5)), _where(y > 0, _ALL_BELOW, _ALL_ABOVE))


def _where(condition: Any, yes: Tails, no: Tails) -> Tails:
    return jnp.where(condition, yes[0], no[0]), jnp.where(condition, yes[1], no[1])


def _mirrored(upper: Callable[[Array], Array]) -> Callable[[Any, Array], Tails]:
    """Of a symmetric distribution with location and scale, from log P(Y > r) of the standard one."""

    def tails(d: Any, y: Array) -> Tails:
        r = (y - d.loc) / d.scale
        return upper(-r), upper(r)

    return tails


def _upper_normal(r: Array) -> Array:
    """By the error function, and far out by the continued fraction of Laplace (Abramowitz and Stegun 26.2.14),

    P(Y > r) = phi(r) / (r + 1 / (r + 2 / (r + 3 / ...))).
    """
    negative, far = r < 0, r > FAR
    x = jnp.where(far, r, FAR)
    fraction = x
    for level in range(LEVELS, 0, -1):
        fraction = x + level / fraction
    tail = 0.5 * jax.lax.erfc(math.sqrt(0.5) * jnp.where(negative, -r, jnp.where(far, FAR, r)))
    near = jnp.where(negative, jnp.log1p(-tail), jnp.log(jnp.where(negative, 1.0, tail)))
    return jnp.where(far, -0.5 * x * x - 0.5 * math.log(2 * math.pi) - jnp.log(fraction), near)


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
    """From the integrated hazard, -log P(Y > y)."""
    some = total > 0
    return jnp.where(some, jnp.log(-jnp.expm1(-jnp.where(some, total, 1.0))), -jnp.inf), -total


def _gamma(d: Any, y: Array) -> Tails:
    some = y > 0
    return _where(some, _incomplete_gamma(d.concentration, d.rate * jnp.where(some, y, 1.0)), _ALL_ABOVE)


def _poisson(d: Any, y: Array) -> Tails:
    """At most y events, so long as it takes longer than `rate` for y + 1 of them."""
    some = y >= 0
    above, below = _incomplete_gamma(jnp.where(some, y, 0.0) + 1, d.rate)
    return _where(some, (below, above), _ALL_ABOVE)


def _student(d: Any, y: Array) -> Tails:
    """r = (B - 1/2) sqrt(df / (B (1 - B))) with B of a beta distribution, both of its concentrations df / 2."""
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


def _incomplete_gamma(shape: Any, x: Any) -> Tails:
    """log P(shape, x) and log Q(shape, x), the regularised incomplete gamma functions."""
    return _incomplete_beta(shape, MANY, jnp.log(jnp.maximum(x, TINY) / MANY))


def _incomplete_beta(a: Any, b: Any, logit: Array) -> Tails:
    """log I_x(a, b) and log I_{1-x}(b, a), the regularised incomplete beta functions, at x = sigmoid(logit).

    The smaller of the two is integrated. On the side below the mean, with o = x / (1 - x) and t = x exp(-s),

        I_x(a, b) = x^a (1-x)^(b-1) / B(a, b) * integral of exp(-a s) [1 + o (1 - exp(-s))]^(b-1) over s > 0.
    """
    e = logit - jnp.log(a / b)
    lower = e < 0
    a, b, odds = jnp.where(lower, a, b), jnp.where(lower, b, a), jnp.exp(jnp.where(lower, logit, -logit))
    bend = jnp.maximum(b - 1, 0.0) * odds * (1 + odds)
    scale = jax.lax.stop_gradient(1 / (a - (b - 1) * odds + jnp.sqrt(bend)))  # of s: any will do
    a_, b_, odds_, s = a[..., None], b[..., None], odds[..., None], scale[..., None] * _NODES
    integrand = jnp.exp((b_ - 1) * jnp.log1p(-odds_ * jnp.expm1(-s)) - a_ * s)
    integral = scale * jnp.sum(_WEIGHTS * integrand, axis=-1) * (1 + odds)
    root = logit_root(e, jnp.where(lower, a, b), jnp.where(lower, b, a))
    log_beta = stirling(a) + stirling(b) - stirling(a + b)
    less = -0.5 * root * root + 0.5 * jnp.log(a / (2 * math.pi) * (b / (a + b))) - log_beta + jnp.log(integral)
    more = jnp.log1p(-jnp.exp(less))
    return _where(lower, (less, more), (more, less))


_FAMILIES: dict[type, Callable[[Any, Array], Tails]] = {
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
}
