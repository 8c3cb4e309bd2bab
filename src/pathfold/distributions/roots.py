"""Likelihoods as unit-noise constraints: -log p(y) = root^2 / 2 + remainder (method.md, section 14).

A row root + w = 0 with w ~ N(0, 1) has the likelihood exp(-root^2 / 2); times exp(-remainder) it is that of y, exactly.
The root is the signed root of the deviance, which is twice the difference between the log likelihoods of the best mean
and of this one: it is positive where the mean is below y, and analytic where they meet. The remainder is minus the log
likelihood of the best mean, which depends on a scale or a dispersion. Constants that depend on y alone are left out.
In a family with a scale alone it is the scale that is best. A root is finite at `time_grid.MISSING`, which stands for
values that are missing.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike

from pathfold.distributions.deviance import TINY, exp_root, interval_root, log_ratio, logit_root, root_of, stirling
from pathfold.distributions.tails import has_tails, log_tails, of_category
from pathfold.errors import ModelError, told

_CATEGORIES = (dist.OrderedLogistic, dist.CategoricalProbs, dist.CategoricalLogits)
"""In numpyro their values are indices, which data are not; root and remainder leave out no constant of them."""


class Split(NamedTuple):
    """The root and remainder of each value: -log p(y) = root^2 / 2 + remainder, up to a constant that depends on y."""

    root: Array
    remainder: Array


def split(d: dist.Distribution, y: ArrayLike) -> Split | None:
    """Return the root and the remainder for values y, or None if the family has no root and is a plain factor."""
    single, y = single_of(d), jnp.asarray(y, jnp.float64)
    if is_transformed(single):
        x, volume = inverse(single, y)
        base = split(single.base_dist, x)
        return None if base is None else Split(base.root, base.remainder + volume)
    family = ROOTS.get(type(single))
    if family is None:
        return None
    shape = jnp.broadcast_shapes(d.shape(), y.shape)
    return Split(*(jnp.broadcast_to(jnp.asarray(part, jnp.float64), shape) for part in family(single, y)))


def plain(d: dist.Distribution, y: ArrayLike) -> Split:
    """Return -log p(y) as a remainder without a root; a multivariate distribution has one for each event."""
    if type(single_of(d)) in _CATEGORIES:
        rooted = split(d, y)
        assert rooted is not None
        remainder = 0.5 * rooted.root**2 + rooted.remainder
    else:
        remainder = -single_of(d).log_prob(y)
    return Split(jnp.zeros_like(remainder), remainder)


def censored(d: dist.Distribution, low: ArrayLike, high: ArrayLike) -> Split:
    """Return the root of -log P(low <= Y <= high), which falls to 0 where Y surely lies within, and no remainder.

    A value known to be at most c has low = -inf and high = c, one known to be at least c has low = c and high = inf.
    The ends are included, which matters where Y is a whole number: "fewer than 5" is at most 4. A finite bound lies in
    the support of the distribution or on its edge; that of a whole number need not be one.
    """
    root = root_of(_interval(*_bounds(d, low, high)[2]))
    return Split(root, jnp.zeros_like(root))


def can_be_censored(d: dist.Distribution) -> bool:
    """Tell whether the distribution function, which bounds need, is known."""
    single = single_of(d)
    return can_be_censored(single.base_dist) if is_transformed(single) else has_tails(single)


def can_lie_within(d: dist.Distribution, low: ArrayLike, high: ArrayLike) -> Array:
    """Tell whether P(low <= Y <= high) is positive."""
    low, high, (_, from_low, to_high, _) = _bounds(d, low, high)
    return (low <= high) & (from_low != -jnp.inf) & (to_high != -jnp.inf)


def log_ranks(d: dist.Distribution, low: ArrayLike, high: ArrayLike, uniform: ArrayLike) -> Array:
    """Return the logs of u and 1 - u for u = P(Y < low) + uniform P(low <= Y <= high), which is uniform a priori.

    Of a value that is known exactly both bounds are the value.
    """
    below, from_low, to_high, above = _bounds(d, low, high)[2]
    less, more = jnp.log1p(-jnp.asarray(uniform)), jnp.log(uniform)
    return jnp.stack([jnp.logaddexp(less + below, more + to_high), jnp.logaddexp(less + from_low, more + above)])


def _bounds(d: dist.Distribution, low: ArrayLike, high: ArrayLike) -> tuple[Array, Array, tuple[Array, ...]]:
    """Return the bounds that Y can attain, and log P of Y < low, Y >= low, Y <= high and Y > high."""
    low, high = jnp.broadcast_arrays(jnp.asarray(low, jnp.float64), jnp.asarray(high, jnp.float64))
    single = single_of(d)
    if is_transformed(single):
        return _bounds(single.base_dist, *_bounds_of_base(single, low, high))
    if not single.is_discrete:
        return low, high, (*log_tails(single, low), *log_tails(single, high))
    low, high = jnp.ceil(low), jnp.floor(high)
    return low, high, (*log_tails(single, low - 1), *log_tails(single, high))


def _interval(below: Array, from_low: Array, to_high: Array, above: Array) -> Array:
    """Return -log P(low <= Y <= high) from log P of Y < low, Y >= low, Y <= high and Y > high.

    It is computed from the probability outside if that is small, otherwise as a difference in the tail that has the
    smaller probabilities.
    """
    outside = jnp.exp(below) + jnp.exp(above)
    little = outside < 0.5
    left = to_high < from_low
    more, less = jnp.where(left, to_high, from_low), jnp.where(left, below, above)
    return -jnp.where(little, jnp.log1p(-jnp.where(little, outside, 0.0)), more + jnp.log(-jnp.expm1(less - more)))


def single_of(d: Any) -> Any:
    """Return the distribution of single values, of which events and batches are arrays."""
    while isinstance(d, dist.Independent | dist.ExpandedDistribution):
        d = d.base_dist
    return d


def is_transformed(d: Any) -> bool:
    """Tell whether the values are a function of another distribution's values, one by one."""
    return (
        isinstance(d, dist.TransformedDistribution)
        and type(d).log_prob is dist.TransformedDistribution.log_prob
        and all(t.domain.event_dim == t.codomain.event_dim == 0 for t in d.transforms)
    )


def is_normal(d: Any) -> bool:
    """Tell whether a law is normal, or of functions of values that are."""
    single = single_of(d)
    return is_normal(single.base_dist) if is_transformed(single) else type(single) is dist.Normal


def of_normals(d: Any, w: Array) -> Array:
    """Return the values of such a law that standard normals become."""
    single = single_of(d)
    if not is_transformed(single):
        return single.loc + single.scale * w
    value = of_normals(single.base_dist, w)
    for transform in single.transforms:
        value = transform(value)
    return value


def inverse(d: Any, y: Array) -> tuple[Array, Array]:
    """Return the value x of the base distribution, and log |dy / dx| there."""
    x, volume = y, jnp.zeros(())
    for transform in reversed(d.transforms):
        y, x = x, transform.inv(x)
        volume = volume + transform.log_abs_det_jacobian(x, y)
    return x, volume


def _bounds_of_base(d: Any, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the interval in values of the base distribution; a decreasing function exchanges its ends."""
    try:
        direction = math.prod(t.sign for t in d.transforms)
    except NotImplementedError as error:
        raise ModelError(
            f"{type(d).__name__} by {told(d.transforms)} does not tell whether its transforms increase, so its values "
            "cannot be censored; leave these out, or use transforms with a sign, such as ExpTransform"
        ) from error
    some = jnp.where(low > -jnp.inf, low, jnp.where(high < jnp.inf, high, 0.5))

    def of_bound(bound: Array) -> Array:
        known = jnp.abs(bound) < jnp.inf
        return jnp.where(known, inverse(d, jnp.where(known, bound, some))[0], direction * bound)

    low, high = of_bound(low), of_bound(high)
    return jnp.where(direction > 0, low, high), jnp.where(direction > 0, high, low)


def _standardised(d: Any, y: Array) -> Array:
    return (y - d.loc) / d.scale


def _normal(d: Any, y: Array):
    return _standardised(d, y), jnp.log(d.scale)


def _student(d: Any, y: Array):
    r = _standardised(d, y)
    root = r * jnp.sqrt((1 + 1 / d.df) * log_ratio(r * r / d.df))
    return root, jnp.log(d.scale) - 0.5 * log_ratio(1 / d.df) + stirling(0.5 * d.df) - stirling(0.5 * d.df + 0.5)


def _cauchy(d: Any, y: Array):
    r = _standardised(d, y)
    return r * jnp.sqrt(2 * log_ratio(r * r)), jnp.log(d.scale)


def _logistic(d: Any, y: Array):
    return logit_root(_standardised(d, y), 1.0, 1.0), jnp.log(d.scale)


def _gumbel(d: Any, y: Array):
    return -exp_root(-_standardised(d, y)), jnp.log(d.scale)


def _exponential(d: Any, y: Array):
    return exp_root(jnp.log(d.rate * y)), 0.0


def _weibull(d: Any, y: Array):
    return exp_root(d.concentration * jnp.log(y / d.scale)), -jnp.log(d.concentration)


def _gamma(d: Any, y: Array):
    shape = d.concentration
    return jnp.sqrt(shape) * exp_root(jnp.log(d.rate * y / shape)), stirling(shape) - 0.5 * jnp.log(shape)


def _beta(d: Any, y: Array):
    """Split by Stirling's formula: -log p = n KL(mean, y) - log(n mean (1 - mean)) / 2 + ..., n the sum a + b."""
    a, b = d.concentration1, d.concentration0
    e = jnp.log(y * b / ((1 - y) * a))
    return logit_root(e, a, b), stirling(a) + stirling(b) - stirling(a + b) - 0.5 * jnp.log(a * b / (a + b))


def _poisson(d: Any, y: Array):
    some, rate = y > 0, _not_negative(d.rate)
    positive, count = jnp.where(some, jnp.maximum(rate, TINY), 1.0), jnp.where(some, y, 1.0)
    return jnp.where(some, -jnp.sqrt(count) * exp_root(jnp.log(positive / count)), -root_of(rate)), 0.0


def _not_negative(mean: Any) -> Array:
    """Replace a negative mean by NaN: it allows no count, not even zero."""
    return jnp.where(mean >= 0.0, mean, jnp.nan)


def _binomial(d: Any, y: Array):
    n = getattr(d, "total_count", 1.0)
    mixed = (y > 0) & (y < n)
    successes, failures = jnp.where(mixed, y, 1.0), jnp.where(mixed, n - y, 1.0)
    within = -logit_root(d.logits - jnp.log(successes / failures), successes, failures)
    none, all_ = -root_of(n * jax.nn.softplus(d.logits)), root_of(n * jax.nn.softplus(-d.logits))
    return jnp.where(mixed, within, jnp.where(y > 0, all_, none)), 0.0


def _negative_binomial(d: Any, y: Array):
    return _gamma_poisson(y, d.concentration, d.concentration / d.rate)


def _geometric(d: Any, y: Array):
    return _gamma_poisson(y, 1.0, jnp.exp(-d.logits))


def _gamma_poisson(y: Array, shape: Any, mean: Any):
    """Split the likelihood of y failures among y + shape trials, where mean / shape are the odds of a failure."""
    some, mean = y > 0, _not_negative(mean)
    count = jnp.where(some, y, 1.0)
    within = -logit_root(jnp.log(jnp.where(some, mean, 1.0) / count), count, shape)
    root = jnp.where(some, within, -root_of(mean * log_ratio(mean / shape)))
    return root, 0.5 * jnp.log1p(y / shape) + stirling(shape) - stirling(y + shape)


def _ordered(d: Any, y: Array):
    """A logistic variable about the predictor lies between the cutpoints of category y; at the ends there is one.

    In the middle of the interval, of width v, its probability is tanh(v / 4), the largest.
    """
    low, high = of_category(d.cutpoints, y - 1), of_category(d.cutpoints, y)
    first, last = y < 1, y >= d.cutpoints.shape[-1]
    inner = ~(first | last)
    width, middle = jnp.where(inner, high - low, 1.0), jnp.where(inner, 0.5 * (low + high), 0.0)
    below, above = root_of(jax.nn.softplus(d.predictor - high)), root_of(jax.nn.softplus(low - d.predictor))
    root = jnp.where(first, -below, jnp.where(last, above, -interval_root(d.predictor - middle, width)))
    return root, jnp.where(inner, -jnp.log(jnp.tanh(0.25 * width)), 0.0)


def _categorical(d: Any, y: Array):
    """-log p = log(1 + odds of the others), which falls to 0 where category y is sure; there is no order to go by."""
    odds = d.logits - of_category(d.logits, y)[..., None]
    other = jnp.floor(y)[..., None] != np.arange(odds.shape[-1])
    most = jax.lax.stop_gradient(jnp.max(jnp.where(other, odds, -jnp.inf), axis=-1))
    rest = jnp.sum(jnp.where(other, jnp.exp(jnp.where(other, odds - most[..., None], 0.0)), 0.0), axis=-1)
    return root_of(jax.nn.softplus(most + jnp.log(rest))), 0.0


ROOTS: dict[type, Callable[[Any, Array], tuple[Array, ArrayLike]]] = {
    dist.Normal: _normal,
    dist.StudentT: _student,
    dist.Cauchy: _cauchy,
    dist.Logistic: _logistic,
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
    dist.CategoricalProbs: _categorical,
    dist.CategoricalLogits: _categorical,
}
