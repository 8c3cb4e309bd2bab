"""Roots, remainders and censored likelihoods, against decimals of a hundred digits (tests/distributions/exact.py)."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats

from pathfold.distributions import roots
from pathfold.distributions.roots import censored, plain, split
from pathfold.errors import ModelError
from pathfold.program.graph import Graph
from pathfold.program.trace import trace
from tests.distributions import exact
from tests.distributions.exact import log_gamma, sign, xlog
from tests.program import kernels
from tests.thorough import sparing

HALF = Decimal("0.5")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


APART = [0.0, 1e-9, -1e-9, 0.2, -0.2, 0.2999, -0.2999, 0.3001, -0.3001, 1.0, -1.0, 8.0, -8.0]  # the series ends at 0.3


def jets(function: Callable, *points: np.ndarray) -> np.ndarray:
    """What a function returns and its first three derivatives by its first argument, [output, order, point].

    Compiled as the engine does it, so that it is seen to be possible, and what it does to accuracy.
    """

    def derivative(f):
        return lambda t, *given: jax.jvp(lambda t: f(t, *given), (t,), (jnp.ones_like(t),))

    def orders(*point):
        (low, _), (_, high) = derivative(derivative(derivative(function)))(*point)
        return jnp.stack([jnp.stack(part) for part in (*low, *high)], axis=1)

    return np.moveaxis(kernels.evaluate(orders, *points)[0], 0, -1)


def computed(function: Callable[[], Any]) -> Any:
    """What a function of nothing returns, by the constants of its scalar program: nothing need be compiled."""
    g = Graph()
    return jax.tree.map(np.vectorize(g.value, otypes=[float]), trace(g, function))


def rooted(nll: Decimal, best: Decimal, side: Decimal) -> tuple[Decimal, Decimal]:
    """The root of the deviance on this side, and what the best value leaves."""
    return sign(side) * (2 * (nll - best)).sqrt(), best


def poisson(t, y):
    return rooted(t.exp() - y * t, y - xlog(y, y), y - t.exp())


def binomial(t, n, y):
    p = 1 / (1 + (-t).exp())
    best = xlog(y, y / n) + xlog(n - y, 1 - y / n)
    return rooted(best - xlog(y, p) - xlog(n - y, 1 - p), Decimal(0), y - n * p)


def gamma_poisson(m, k, y):
    def nll(m):
        return log_gamma(k) - log_gamma(k + y) - xlog(y, m / (m + k)) - k * (k / (m + k)).ln()

    return rooted(nll(m), nll(y), y - m)


def student(t, df, y):
    terms = log_gamma(df / 2) - log_gamma((df + 1) / 2) + df.ln() / 2
    return rooted(terms + (df + 1) / 2 * (1 + (y - t) ** 2 / df).ln(), terms, y - t)


def gamma(shape, rate, y):
    def nll(rate):
        return log_gamma(shape) - shape * rate.ln() + rate * y - (shape - 1) * y.ln()

    return rooted(nll(rate), nll(shape / y), y - shape / rate)


def beta(t, b, y):
    a = t.exp()
    nll = log_gamma(a) + log_gamma(b) - log_gamma(a + b) - (a - 1) * y.ln() - (b - 1) * (1 - y).ln()
    divergence = a * (a / ((a + b) * y)).ln() + b * (b / ((a + b) * (1 - y))).ln()
    return sign(y - a / (a + b)) * (2 * divergence).sqrt(), nll - divergence


def logistic(t, y):
    r = y - t
    return rooted(r + 2 * (1 + (-r).exp()).ln(), 2 * Decimal(2).ln(), r)


def gumbel(t, y):
    r = y - t
    return rooted(r + (-r).exp(), Decimal(1), r)


def weibull(t, scale, y):
    power = t.exp() * (y / scale).ln()
    return rooted(power.exp() - power - t, 1 - t, power)


def cauchy(t, y):
    r = y - t
    return rooted((1 + r * r).ln(), Decimal(0), r)


def ordered(t, low, high, y):
    """Cutpoints 0, 0 + low, and that + high."""

    def below(c):
        return 1 / (1 + (t - c).exp())

    cuts = [Decimal(0), low, low + high]
    if y < 1:
        return rooted(-below(cuts[0]).ln(), Decimal(0), -Decimal(1))
    if y >= 3:
        return rooted(-(1 / (1 + (cuts[2] - t).exp())).ln(), Decimal(0), Decimal(1))
    low, high = cuts[int(y) - 1], cuts[int(y)]
    half = ((high - low) / 4).exp()
    best = -((half - 1 / half) / (half + 1 / half)).ln()
    return rooted(max(-(below(high) - below(low)).ln(), best), best, (low + high) / 2 - t)  # rounding aside


def categorical(t, y):
    logits = [Decimal(0), t, -2 * t]
    odds = sum(((each - logits[int(y)]).exp() for each in logits), start=Decimal(0))
    return rooted(odds.ln(), Decimal(0), Decimal(1))


COUNTS = [1.0, 3.0, 1e6]
SHAPES = [1e-2, 0.7, 9.99, 10.01, 300.0, 1e6]

# A distribution of what is varied, t, and what is given; its root and remainder; points (t, *given, y).
FAMILIES: dict[str, tuple[Callable, Callable, list]] = {
    "Poisson": (
        lambda t: dist.Poisson(jnp.exp(t)),
        poisson,
        [(np.log(y) + e, y) for y in COUNTS for e in APART] + [(t, 0) for t in (-50, -8, 0, 8)] + [(1.0, 0.5)],
    ),
    "Binomial": (
        lambda t, n: dist.Binomial(n, logits=t),
        binomial,
        [(np.log(y / (n - y)) + e, n, y) for n, y in [(2, 1), (9, 7), (1e6, 1), (1e6, 4e5), (1, 0.5)] for e in APART]
        + [(t, n, y) for n in (1, 9, 1e6) for y in (0, n) for t in (-50, -1, 0, 0.5, 30)],
    ),
    "NegativeBinomial2": (
        lambda t, by_mean, o: dist.NegativeBinomial2(
            jnp.where(by_mean, jnp.exp(t), o), jnp.where(by_mean, o, jnp.exp(t))
        ),
        lambda t, by_mean, o, y: gamma_poisson(t.exp(), o, y) if by_mean else gamma_poisson(o, t.exp(), y),
        [(np.log(y) + e, 1, k, y) for y, k in [(3, 1e-2), (3, 3), (3, 5), (3, 1e6), (1e6, 5)] for e in APART]
        + [(t, 1, k, 0) for k in (1e-2, 3.0, 1e6) for t in (-30, 0, 8)]
        + [(np.log(k), 0, m, y) for k in SHAPES[:-1] for m, y in [(0.5, 0), (0.5, 1), (40, 0.5), (40, 33), (40, 1000)]],
    ),
    "StudentT": (
        lambda t, by_loc, o: dist.StudentT(jnp.where(by_loc, o, jnp.exp(t)), jnp.where(by_loc, t, o), 1.0),
        lambda t, by_loc, o, y: student(t, o, y) if by_loc else student(o, t.exp(), y),
        [(t, 1, df, 0.5) for df in (0.5, 4.0, 1e6) for t in (-1e3, -5, 0.2, 0.5, 0.5001, 0.9, 1.4, 30, 1e4)]
        + [(np.log(df), 0, r, 0) for df in SHAPES for r in (0, 0.1, 1, 30)],
    ),
    "Gamma": (
        lambda t, by_rate, o: dist.Gamma(jnp.where(by_rate, o, jnp.exp(t)), jnp.where(by_rate, jnp.exp(t), o)),
        lambda t, by_rate, o, y: gamma(o, t.exp(), y) if by_rate else gamma(t.exp(), o, y),
        [(np.log(shape / 0.5) + e, 1, shape, 0.5) for shape in (1e-2, 0.7, 1e6) for e in APART]
        + [(np.log(shape), 0, shape / m, 3.0) for shape in SHAPES for m in (0.1, 2.9, 3, 7.0)],
    ),
    "Beta": (
        lambda t, b: dist.Beta(jnp.exp(t), b),
        beta,
        [(np.log(a), b, y) for a in SHAPES[:-1] for b in (0.5, 20.0) for y in (0.01, 0.5, 0.9)],
    ),
    "Logistic": (lambda t: dist.Logistic(t, 1.0), logistic, [(0.5 + e, 0.5) for e in APART]),
    "Gumbel": (lambda t: dist.Gumbel(t, 1.0), gumbel, [(0.5 + e, 0.5) for e in APART]),
    "Weibull": (
        lambda t, scale: dist.Weibull(scale, jnp.exp(t)),
        weibull,
        [(t, s, 0.5) for t in (-2, 0, 1) for s in (0.01, 0.4, 0.5, 0.6, 3)],
    ),
    "Cauchy": (lambda t: dist.Cauchy(t, 1.0), cauchy, [(0.5 + e, 0.5) for e in [*APART, 100]]),
    "OrderedLogistic": (
        lambda t, low, high: dist.OrderedLogistic(t, jnp.array([0.0 * low, low, low + high])),
        ordered,
        [(t, 1.0, 0.01, y) for t in (-30, -1, 0.3, 4, 60) for y in (0, 3, 0.5)]
        + [(w / 2 + e, w, 2.0, 1) for w in (1e-3, 1.0, 9.0) for e in [*APART, 0.999, 1.001, 60]]
        + [(1.0 + e, 1.0, 3.0, 2) for e in (-3, 0.5, 1.5, 7)],
    ),
    "Categorical": (
        lambda t: dist.Categorical(logits=jnp.array([0.0 * t, t, -2.0 * t])),
        categorical,
        [(t, y) for t in (-20, -1, 0, 0.3, 4, 30) for y in (0, 1, 2, 0.5)],
    ),
}


@pytest.mark.parametrize("name", sparing(FAMILIES, "NegativeBinomial2"))
def test_roots_and_remainders_have_three_accurate_derivatives(name):
    make, reference, points = FAMILIES[name]
    found = jets(lambda *values: split(make(*values[:-1]), values[-1]), *np.array(points, dtype=float).T)
    assert np.isfinite(found).all()
    constants: dict[float, Decimal] = {}  # remainders leave out one for each y
    for i, (t, *given) in enumerate(points):
        rest = [Decimal(value) for value in given]
        both = exact.derivatives(lambda t, rest=rest: reference(t, *rest), t)
        with localcontext(prec=exact.DIGITS):
            both[1][0] -= constants.setdefault(given[-1], both[1][0] - Decimal(found[1, 0, i]))
        for part, expected in zip(("root", "remainder"), np.array(both, dtype=float), strict=True):
            ours = found[("root", "remainder").index(part), :, i]
            unit = max(abs(expected[1]), 1e-2)
            # The parameter is rounded, which moves the value; a derivative may be 0.
            allowed = np.array([1e-13, 1e-10, 1e-10, 1e-10]) * np.abs(expected)
            allowed += [4e-16 * max(unit, 1) * max(abs(t), 1) if part == "root" else 1e-13, *[1e-12 * unit] * 3]
            assert np.all(np.abs(ours - expected) <= allowed), f"{part} at {points[i]}: {ours}, not {expected}"


def interval(cdf: Callable, low: Decimal, high: Decimal) -> Decimal:
    """sqrt(-2 log P(low < Y <= high))."""
    one, zero = Decimal(1), Decimal(0)
    return (-2 * ((cdf(high) if high < INF else one) - (cdf(low) if low > -INF else zero)).ln()).sqrt()


def laplace_cdf(r):
    return r.exp() / 2 if r < 0 else 1 - (-r).exp() / 2


def counts_cdf(cdf: Callable) -> Callable:
    return lambda y: cdf(y) if y >= 0 else Decimal(0)


def negative_binomial_cdf(m, k):
    return counts_cdf(lambda y: exact.lower_beta(k, y + 1, k / (k + m)))


INF = float("inf")
SPREAD = [(t, *b) for t in (-9, -3, -0.2, 0, 0.4, 2.1, 6, 10) for b in [(-INF, 0), (0, INF), (0, 2), (-INF, INF)]]
POSITIVE = [(t, *bounds) for t in (-0.5, 0.1, 4) for bounds in [(-INF, 1), (1, INF), (1, 2), (0, 1)]]
COUNTED = [(-INF, 0), (-INF, 4), (4, INF), (1, 4), (3, 3), (0, INF)]

# The root as a function of what is varied and what is given; the same in decimals; points.
CENSORED: dict[str, tuple[Callable, Callable, list]] = {
    "Normal": (
        lambda t, low, high: censored(dist.Normal(t, 1.0), low, high).root,
        lambda t, low, high: interval(lambda y: exact.normal_cdf(y - t), low, high),
        [*SPREAD, (0, 1, 1.01), (4.999, -INF, 0), (5.001, -INF, 0), (0.3, 9, 9.5)],
    ),
    "Laplace": (
        lambda t, low, high: censored(dist.Laplace(t, 1.0), low, high).root,
        lambda t, low, high: interval(lambda y: laplace_cdf(y - t), low, high),
        [point for point in SPREAD if point[0] != 0],
    ),
    "Logistic": (
        lambda t, low, high: censored(dist.Logistic(t, 1.0), low, high).root,
        lambda t, low, high: interval(lambda y: 1 / (1 + (t - y).exp()), low, high),
        SPREAD,
    ),
    "Cauchy": (
        lambda t, low, high: censored(dist.Cauchy(t, 1.0), low, high).root,
        lambda t, low, high: interval(lambda y: HALF + exact.arc_tangent(y - t) / exact.PI, low, high),
        [*SPREAD, (1e5, -INF, 0), (1e5, 0, INF)],
    ),
    "Gumbel": (
        lambda t, low, high: censored(dist.Gumbel(t, 1.0), low, high).root,
        lambda t, low, high: interval(lambda y: (-(t - y).exp()).exp(), low, high),
        [point for point in SPREAD if point[0] < 4],
    ),
    "Weibull": (
        lambda t, low, high: censored(dist.Weibull(jnp.exp(t), 3.0), low, high).root,
        lambda t, low, high: interval(lambda y: 1 - (-((y / t.exp()) ** 3)).exp(), low, high),
        POSITIVE,
    ),
    "Exponential": (
        lambda t, low, high: censored(dist.Exponential(jnp.exp(t)), low, high).root,
        lambda t, low, high: interval(lambda y: 1 - (-y * t.exp()).exp(), low, high),
        POSITIVE,
    ),
    "Geometric": (
        lambda t, low, high: censored(dist.GeometricLogits(t), low, high).root,
        lambda t, low, high: interval(lambda y: 1 - (1 + t.exp()) ** -(y + 1), low - 1, high),
        [(t, *bounds) for t in (-8, 0.3, 5) for bounds in COUNTED],
    ),
    "Poisson": (
        lambda t, low, high: censored(dist.Poisson(jnp.exp(t)), low, high).root,
        lambda t, low, high: interval(counts_cdf(lambda y: 1 - exact.lower_gamma(y + 1, t.exp())), low - 1, high),
        [(t, *bounds) for t in (-8, 0.3, 1.5, 3) for bounds in COUNTED] + [(7, -INF, 1000), (6.9, 1000, 1100)],
    ),
    "NegativeBinomial2": (
        lambda t, by_mean, o, high: censored(FAMILIES["NegativeBinomial2"][0](t, by_mean, o), -INF, high).root,
        lambda t, by_mean, o, high: interval(
            negative_binomial_cdf(t.exp(), o) if by_mean else negative_binomial_cdf(o, t.exp()), Decimal(-INF), high
        ),
        [(t, 1, k, high) for t in (-3, 1.2, 3) for k in (0.5, 8) for high in (0, 4)]
        + [(np.log(k), 0, m, high) for k in (0.5, 30) for m in (1, 9) for high in (0, 4, 30)],
    ),
    "Gamma": (
        lambda t, rate, low: censored(dist.Gamma(jnp.exp(t), rate), low, INF).root,
        lambda t, rate, low: interval(lambda y: exact.lower_gamma(t.exp(), rate * y), low, Decimal(INF)),
        [(np.log(shape), shape / m, low) for shape in (0.2, 3, 400) for m in (0.8, 1.3) for low in (1, 1.2)],
    ),
}


@pytest.mark.parametrize("name", sparing(CENSORED, "Gamma", "NegativeBinomial2"))
def test_censored_roots_have_three_accurate_derivatives(name):
    function, reference, points = CENSORED[name]
    (found,) = jets(lambda *point: (function(*point),), *np.array(points, dtype=float).T)
    assert np.isfinite(found).all()
    for i, (t, *given) in enumerate(points):
        rest = [Decimal(value) for value in given]
        expected = np.array(exact.derivatives(lambda t, rest=rest: (reference(t, *rest),), t)[0], dtype=float)
        allowed = np.array([1e-13, 1e-10, 1e-10, 1e-10]) * np.abs(expected)
        allowed += [2e-50, 0, *[1e-11 * abs(expected[1])] * 2]  # a derivative may be 0, and so may the root, nearly
        assert np.all(np.abs(found[:, i] - expected) <= allowed), f"{points[i]}: {found[:, i]}, not {expected}"


PROBABILITIES: list[tuple[Callable, Any, list[float]]] = [
    (lambda: dist.StudentT(3.5, 0.3, 2.0), scipy.stats.t(3.5, 0.3, 2.0), [-40, -0.5, 0.3, 5]),
    (lambda: dist.BetaProportion(0.05, 8.0), scipy.stats.beta(0.4, 7.6), [1e-6, 0.03, 0.1, 0.9]),
    (lambda: dist.BinomialProbs(0.2, 30), scipy.stats.binom(30, 0.2), [0, 5, 6, 20]),
    (lambda: dist.BernoulliLogits(0.4), scipy.stats.bernoulli(1 / (1 + np.exp(-0.4))), [0, 0, 0, 0]),
    (lambda: dist.GammaPoisson(0.7, 0.1), scipy.stats.nbinom(0.7, 0.1 / 1.1), [0, 1, 7, 100]),
    (lambda: dist.GeometricProbs(0.2), scipy.stats.geom(0.2, -1), [0, 1, 7, 50]),
    (
        lambda: dist.OrderedLogistic(0.4, jnp.array([-1.0, 0.2, 3.0])),
        scipy.stats.rv_discrete(values=(range(4), np.diff([0, *scipy.special.expit([-1.4, -0.2, 2.6]), 1]))),
        [0, 1, 2, 2],
    ),
    (lambda: dist.InverseGamma(3.0, 2.0), scipy.stats.invgamma(3.0, scale=2.0), [0.1, 0.7, 1, 30]),
]


def test_probabilities_below_and_above():
    """Y <= y and Y > y, which for whole numbers is Y >= y + 1."""
    for make, theirs, values in PROBABILITIES:
        y = np.array(values, dtype=float)
        below, above = computed(
            lambda d=make, y=y: (censored(d(), -INF, y).root, censored(d(), y + d().is_discrete, INF).root)
        )
        small = theirs.cdf(y) < 0.5  # SciPy takes the logarithm of the larger one as it is
        with np.errstate(divide="ignore"):
            low = np.where(small, theirs.logcdf(y), np.log1p(-theirs.sf(y)))
            high = np.where(small, np.log1p(-theirs.cdf(y)), theirs.logsf(y))
        np.testing.assert_allclose(-(below**2) / 2, low, rtol=1e-11, err_msg=str(type(make())))
        np.testing.assert_allclose(-(above**2) / 2, high, rtol=1e-11, err_msg=str(type(make())))


REAL, POSITIVES, UNIT, WHOLE = [-2.0, 0.5, 30.0], [0.1, 0.5, 30.0], [0.01, 0.5, 0.9], [0.0, 1.0, 6.0]
FILLER = 0.5  # stands for a missing value, in every family
PLACES = np.array([(0.3, 0.2, 0.4), (-1.2, 0.7, -0.8), (2.0, -0.9, 1.5), (0.1, 1.2, 3.0)])

# Every family with a root, as a function of a location (or logit), a scale (or mean) and a shape; and values.
EVERY: dict[type, tuple[Callable[..., dist.Distribution], list[float]]] = {
    dist.Normal: (lambda loc, scale, shape: dist.Normal(loc, scale), REAL),
    dist.StudentT: (lambda loc, scale, shape: dist.StudentT(shape, loc, scale), REAL),
    dist.Cauchy: (lambda loc, scale, shape: dist.Cauchy(loc, scale), REAL),
    dist.Logistic: (lambda loc, scale, shape: dist.Logistic(loc, scale), REAL),
    dist.Gumbel: (lambda loc, scale, shape: dist.Gumbel(loc, scale), [-2.0, 0.5, 3.0]),
    dist.Exponential: (lambda loc, scale, shape: dist.Exponential(scale), POSITIVES),
    dist.Weibull: (lambda loc, scale, shape: dist.Weibull(scale, shape), [0.3, 0.5, 2.0]),
    dist.Gamma: (lambda loc, scale, shape: dist.Gamma(shape, scale), POSITIVES),
    dist.Chi2: (lambda loc, scale, shape: dist.Chi2(shape), POSITIVES),
    dist.Beta: (lambda loc, scale, shape: dist.Beta(shape, scale), UNIT),
    dist.BetaProportion: (lambda loc, scale, shape: dist.BetaProportion(jax.nn.sigmoid(loc), shape), UNIT),
    dist.Poisson: (lambda loc, scale, shape: dist.Poisson(scale), WHOLE),
    dist.BernoulliProbs: (lambda loc, scale, shape: dist.BernoulliProbs(jax.nn.sigmoid(loc)), [0.0, 1.0]),
    dist.BernoulliLogits: (lambda loc, scale, shape: dist.BernoulliLogits(loc), [0.0, 1.0]),
    dist.BinomialProbs: (lambda loc, scale, shape: dist.BinomialProbs(jax.nn.sigmoid(loc), 6), WHOLE),
    dist.BinomialLogits: (lambda loc, scale, shape: dist.BinomialLogits(loc, 6), WHOLE),
    dist.GammaPoisson: (lambda loc, scale, shape: dist.GammaPoisson(shape, scale), WHOLE),
    dist.NegativeBinomial2: (lambda loc, scale, shape: dist.NegativeBinomial2(scale, shape), WHOLE),
    dist.NegativeBinomialProbs: (
        lambda loc, scale, shape: dist.NegativeBinomialProbs(shape, jax.nn.sigmoid(loc)),
        WHOLE,
    ),
    dist.NegativeBinomialLogits: (lambda loc, scale, shape: dist.NegativeBinomialLogits(shape, loc), WHOLE),
    dist.GeometricProbs: (lambda loc, scale, shape: dist.GeometricProbs(jax.nn.sigmoid(loc)), WHOLE),
    dist.GeometricLogits: (lambda loc, scale, shape: dist.GeometricLogits(loc), WHOLE),
    dist.OrderedLogistic: (
        lambda loc, scale, shape: dist.OrderedLogistic(
            loc, jnp.stack([-scale, 0.0 * scale, jnp.log1p(shape)], axis=-1)
        ),
        [0.0, 1.0, 2.0, 3.0],
    ),
    dist.CategoricalProbs: (
        lambda loc, scale, shape: dist.CategoricalProbs(jax.nn.softmax(jnp.stack([loc, scale, shape], axis=-1))),
        [0.0, 1.0, 2.0],
    ),
    dist.CategoricalLogits: (
        lambda loc, scale, shape: dist.CategoricalLogits(jnp.stack([loc, scale, shape], axis=-1)),
        [0.0, 1.0, 2.0],
    ),
    dist.LogNormal: (lambda loc, scale, shape: dist.LogNormal(loc, scale), POSITIVES),
    dist.InverseGamma: (lambda loc, scale, shape: dist.InverseGamma(shape, scale), POSITIVES),
    dist.RelaxedBernoulliLogits: (lambda loc, scale, shape: dist.RelaxedBernoulliLogits(scale, loc), UNIT),
}


def test_every_family_is_tested():
    assert set(EVERY) >= set(roots.ROOTS)


@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.__name__)
def test_root_and_remainder_make_the_likelihood(family):
    """Compared with numpyro, but for GammaPoisson with SciPy: there jax's log B(a, b) is wrong in the seventh digit."""
    make, values = EVERY[family]
    y = np.array(values)[:, None]

    def parts():
        loc, scale, shape = jnp.asarray(PLACES[:, 0]), jnp.exp(PLACES[:, 1]), jnp.exp(PLACES[:, 2])
        d = make(loc, scale, shape)
        arguments = (d.concentration, d.rate) if isinstance(d, dist.GammaPoisson) else ()  # type: ignore[attr-defined]
        by_index = family in roots._CATEGORIES
        return split(d, y), split(d, FILLER), d.log_prob(y.astype(int) if by_index else y), arguments

    (root, remainder), filled, log_prob, arguments = computed(parts)
    if arguments:
        log_prob = scipy.stats.nbinom.logpmf(y, arguments[0], arguments[1] / (1 + arguments[1]))
    rest = root**2 / 2 + remainder + log_prob
    np.testing.assert_allclose(rest, np.broadcast_to(rest[:, :1], rest.shape), atol=2e-12)
    assert np.isfinite(filled).all()


def test_the_root_is_positive_where_the_mean_is_below():
    def roots_of(shift):
        return [
            split(d, y).root  # type: ignore[union-attr]
            for d, y in [
                (dist.Poisson(3 + shift), 3.0),
                (dist.BinomialLogits(shift, 6), 3.0),
                (dist.NegativeBinomial2(3 + shift, 5.0), 3.0),
                (dist.StudentT(3.0, shift, 1.0), 0.0),
                (dist.Gamma(3 + shift, 1.0), 3.0),
                (dist.Beta(3 + shift, 3.0), 0.5),
                (dist.Logistic(shift, 1.0), 0.0),
                (dist.Gumbel(shift, 1.0), 0.0),
            ]
        ]

    below, same, above = (np.array(computed(lambda shift=shift: roots_of(shift))) for shift in (-1.0, 0.0, 1.0))
    assert np.all(below > 0)
    np.testing.assert_allclose(same, 0.0, atol=1e-15)
    assert np.all(above < 0)


EXTREME = [-900.0, -300.0, -40.0, 40.0, 900.0]

FAR_OUT = {
    "Binomial": (lambda t, y: split(dist.BinomialLogits(t, 3), y), EXTREME),
    "Bernoulli": (
        lambda t, y: split(dist.BernoulliProbs(jax.nn.sigmoid(t)), jnp.minimum(y, 1.0)),
        [-200.0, -40.0, 40.0, 900.0],
    ),
    "OrderedLogistic": (lambda t, y: split(dist.OrderedLogistic(t, jnp.array([-1.0, 0.5, 2.0])), y), EXTREME),
    "Categorical": (lambda t, y: split(dist.Categorical(logits=jnp.array([0.0 * t, t, -t, 3.0])), y), EXTREME),
    "Poisson": (lambda t, y: split(dist.Poisson(jnp.exp(t)), y), [-900.0, -300.0, -40.0, 40.0]),
    "StudentT": (lambda t, y: split(dist.StudentT(3.0, t, 1.0), y), EXTREME),
    "censored Normal": (lambda t, y: censored(dist.Normal(t, 1.0), y, jnp.where(y > 0, jnp.inf, 1.0)), EXTREME),
    "censored Poisson": (
        lambda t, y: censored(dist.Poisson(jnp.exp(t)), -jnp.inf, y),
        [-900.0, -300.0, -40.0, 10.0],
    ),
}


@pytest.mark.parametrize("name", sparing(FAR_OUT, "censored Poisson"))
def test_nothing_is_infinite_far_out(name):
    """Where the likelihood is 0 or 1, for values at the ends of the support, in branches that are not taken."""
    function, places = FAR_OUT[name]
    t, y = np.array([(t, y) for t in places for y in (0.0, FILLER, 1.0, 3.0)]).T
    found = jets(function, t, y)
    assert np.isfinite(found).all()
    if name in ("Poisson", "censored Normal", "censored Poisson"):
        backward = jax.jit(jax.vmap(jax.grad(lambda t, y: function(t, y).root)))
        np.testing.assert_allclose(backward(t, y), found[0, 1], rtol=1e-12)


def test_events_batches_and_transforms():
    y, loc = np.array([0.5, 2.0, 7.0]), np.array([0.1, 0.2, 0.3])
    low = np.array([0.0, 1.0, -INF])

    def both(of_logs):
        return of_logs(dist.Normal(loc, 2.0)), [
            of_logs(dist.LogNormal(loc, 2.0).to_event(1), np.exp),
            of_logs(
                dist.TransformedDistribution(dist.Normal(loc, 2.0).to_event(1), dist.transforms.ExpTransform()), np.exp
            ),
        ]

    expected, found = computed(lambda: both(lambda d, change=np.asarray: split(d, change(np.log(y)))))
    for parts in found:
        np.testing.assert_allclose(parts.root, expected.root, rtol=1e-14)
        np.testing.assert_allclose(parts.remainder, expected.remainder + np.log(y), rtol=1e-14)
    with np.errstate(divide="ignore"):
        bounds = np.log(np.maximum(low, 0.0)), np.log(y)
    expected, found = computed(lambda: both(lambda d, change=np.asarray: censored(d, *(change(b) for b in bounds))))
    for parts in found:
        np.testing.assert_allclose(parts.root, expected.root, rtol=1e-14)
    expanded = jax.eval_shape(lambda: split(dist.Poisson(2.0).expand([2]).to_event(1), 3))
    assert [(part.shape, part.dtype) for part in expanded] == [((2,), np.float64)] * 2
    whole = jax.eval_shape(lambda: plain(dist.MultivariateNormal(np.zeros(2), np.eye(2)), np.zeros(2)))
    assert [part.shape for part in whole] == [(), ()]


def test_a_decreasing_transform_exchanges_the_bounds():
    def parts():
        d = dist.TransformedDistribution(dist.Normal(1.0, 2.0), dist.transforms.AffineTransform(3.0, -0.5))
        other = dist.Normal(2.5, 1.0)
        return [(censored(p, 1.5, INF), censored(p, -INF, 2.0), split(p, 2.0)) for p in (d, other)]

    (above, below, within), expected = computed(parts)
    np.testing.assert_allclose([above.root, below.root], [part.root for part in expected[:2]], rtol=1e-14)
    np.testing.assert_allclose(within.root, -expected[2].root, rtol=1e-14)


class Tempered(dist.Normal):
    """A family of the user's own, derived from one that has a root."""

    def log_prob(self, value):
        return 0.5 * super().log_prob(value)


@pytest.mark.parametrize(
    "d",
    [
        dist.Laplace(0.0, 1.0),
        dist.ZeroInflatedPoisson(0.3, 2.0),
        dist.FoldedDistribution(dist.Normal(0.0, 1.0)),
        dist.MultivariateNormal(np.zeros(2), np.eye(2)),
        Tempered(0.0, 1.0),
    ],
    ids=lambda d: type(d).__name__,
)
def test_other_families_are_plain_factors(d):
    y = np.ones(d.shape())
    assert split(d, y) is None
    np.testing.assert_allclose(plain(d, y).remainder, -d.log_prob(y))
    assert not plain(d, y).root.any()


def test_a_distribution_that_cannot_be_censored_is_named():
    with pytest.raises(ModelError, match="ZeroInflatedPoisson has no distribution function"):
        censored(dist.ZeroInflatedPoisson(0.3, 2.0), 0, 4)
    with pytest.raises(ModelError, match="FoldedDistribution has no distribution function"):
        censored(dist.FoldedDistribution(dist.Normal(0.0, 1.0)), 0, 4)
    no_sign = dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.AbsTransform())
    with pytest.raises(ModelError, match="does not tell whether its transforms increase"):
        censored(no_sign, 0.0, 4.0)
