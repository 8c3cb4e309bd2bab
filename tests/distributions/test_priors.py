"""Maps from standard normals: exact ones by their quantiles, the others by the law their density implies."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as st

from pathfold.distributions.priors import fixed, normal_map, product
from pathfold.errors import ModelError
from tests.by_numpy import by_numpy

U = np.array([-3.1, -1.2, 0.0, 0.4, 2.7])


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (dist.Normal(0.3, 1.7), st.norm(0.3, 1.7)),
        (dist.LogNormal(-0.4, 0.6), st.lognorm(0.6, scale=np.exp(-0.4))),
        (dist.Uniform(-1, 3), st.uniform(-1, 4)),
        (dist.LogUniform(0.1, 10.0), st.loguniform(0.1, 10.0)),
        (dist.Exponential(2.5), st.expon(scale=0.4)),
        (dist.HalfNormal(1.3), st.halfnorm(scale=1.3)),
        (dist.HalfCauchy(0.8), st.halfcauchy(scale=0.8)),
        (dist.Cauchy(0.2, 1.1), st.cauchy(0.2, 1.1)),
        (dist.Laplace(0.5, 2.0), st.laplace(0.5, 2.0)),
        (dist.Logistic(0.5, 2.0), st.logistic(0.5, 2.0)),
        (dist.Gumbel(0.5, 2.0), st.gumbel_r(0.5, 2.0)),
        (dist.Pareto(1.5, 3.0), st.pareto(3.0, scale=1.5)),
        (dist.TruncatedNormal(0.5, 1.0, low=0.0), st.truncnorm(-0.5, np.inf, loc=0.5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exact_scalar_maps_give_the_quantiles(prior, law):
    m = normal_map(prior)
    assert (m.size, m.shape, m.excess) == (1, (), None)
    pushed, slopes = by_numpy(jax.vmap(jax.value_and_grad(lambda u: m.push(u[None]))))(U)
    np.testing.assert_allclose(pushed, law.ppf(st.norm.cdf(U)), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(slopes, st.norm.pdf(U) / law.pdf(pushed), rtol=1e-6)


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (dist.Exponential(1.0), st.expon()),
        (dist.HalfNormal(1.0), st.halfnorm()),
        (dist.HalfCauchy(1.0), st.halfcauchy()),
        (dist.Laplace(0.0, 1.0), st.laplace()),
        (dist.Logistic(0.0, 1.0), st.logistic()),
        (dist.Cauchy(0.0, 1.0), st.cauchy()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_upper_tail_is_exact_far_out(prior, law):
    u = np.array([5.0, 7.5, 9.0])
    pushed = by_numpy(jax.vmap(lambda u: normal_map(prior).push(u[None])))(u)
    np.testing.assert_allclose(pushed, law.isf(st.norm.sf(u)), rtol=1e-12)


def test_multivariate_normal_and_its_transform():
    tril = np.array([[1.0, 0.0], [0.7, 0.4]])
    normal = dist.MultivariateNormal(np.array([1.0, -2.0]), scale_tril=tril)
    u = jnp.array([0.3, -1.1])
    expected = np.array([1.0, -2.0]) + tril @ u
    np.testing.assert_allclose(normal_map(normal).push(u), expected, rtol=1e-12)
    transforms = [dist.transforms.AffineTransform(0.5, 2.0), dist.transforms.ExpTransform()]
    transformed = normal_map(dist.TransformedDistribution(normal, transforms))
    assert transformed.excess is None
    np.testing.assert_allclose(transformed.push(u), np.exp(0.5 + 2.0 * expected), rtol=1e-12)


@pytest.mark.parametrize(
    "prior",
    [
        dist.Normal(0.0, np.array([1.0, 2.0, 3.0])),
        dist.Normal(0.0, np.array([1.0, 2.0, 3.0])).to_event(1),
        dist.Normal(0.0, np.array([1.0, 2.0, 3.0])).expand((2, 3)).to_event(1),
        dist.MultivariateNormal(np.zeros(3), np.diag([1.0, 4.0, 9.0])).expand((2,)),
    ],
)
def test_batch_event_and_expanded_dimensions_are_elementwise(prior):
    m = normal_map(prior)
    u = np.arange(1.0, m.size + 1)
    assert m.shape == prior.shape()
    np.testing.assert_allclose(m.push(jnp.asarray(u)), u.reshape(m.shape) * [1.0, 2.0, 3.0], rtol=1e-12)


DENSITIES = [
    (dist.Gamma(2.0, 3.0), st.gamma(2.0, scale=1 / 3)),
    (dist.Gamma(0.6, 1.0), st.gamma(0.6)),
    (dist.InverseGamma(3.0, 2.0), st.invgamma(3.0, scale=2.0)),
    (dist.Beta(2.0, 5.0), st.beta(2.0, 5.0)),
    (dist.StudentT(4.0, 1.0, 2.0), st.t(4.0, 1.0, 2.0)),
    (dist.Weibull(2.0, 1.5), st.weibull_min(1.5, scale=2.0)),
]


@pytest.mark.parametrize(("prior", "law"), DENSITIES, ids=lambda value: type(value).__name__)
def test_density_and_map_together_imply_the_distribution(prior, law):
    """phi(u) exp(-excess(u)) has at push(u) the distribution function of the law."""
    m = normal_map(prior)
    excess = m.excess
    assert excess is not None
    u = np.linspace(-45.0, 45.0, 60001)
    density = by_numpy(jax.vmap(lambda u: jnp.exp(dist.Normal().log_prob(u) - excess(u[None]))))(u)
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(u))])
    assert mass[-1] == pytest.approx(1.0, rel=1e-5)  # no constant is dropped
    inner = np.abs(u) < 3
    pushed = by_numpy(jax.vmap(lambda u: m.push(u[None])))(u[inner])
    probability = law.cdf(pushed) if pushed[-1] > pushed[0] else law.sf(pushed)
    np.testing.assert_allclose(mass[inner], probability, atol=1e-5)
    np.testing.assert_allclose(np.interp([0.16, 0.5, 0.84], mass, u), [-1, 0, 1], atol=0.3)  # standardised


@pytest.mark.parametrize("prior", [dist.Uniform(0.0, 2.0), dist.Exponential(2.0)])
def test_quantile_functions_can_be_done_without(prior):
    m = normal_map(prior, quantiles=False)
    assert m.excess is not None
    u = jnp.array([0.7])
    log_density = prior.log_prob(m.push(u)) + jnp.log(jnp.abs(jax.jacfwd(m.push)(u)[0]))
    np.testing.assert_allclose(m.excess(u), st.norm.logpdf(0.7) - log_density, rtol=1e-10)


def test_density_of_a_vector_prior_has_its_jacobian():
    prior = dist.Dirichlet(np.array([2.0, 3.0, 4.0]))
    m = normal_map(prior)
    u = jnp.array([0.4, -0.8])
    assert (m.size, m.shape) == (2, (3,))
    assert m.excess is not None
    jacobian = jax.jacfwd(m.push)(u)[:2]
    expected = -prior.log_prob(m.push(u)) - jnp.log(jnp.abs(jnp.linalg.det(jacobian))) + st.norm.logpdf(u).sum()
    np.testing.assert_allclose(m.excess(u), expected, rtol=1e-8)


def test_correlations_are_standardised_by_their_exact_quantiles(monkeypatch):
    """Along each u alone, 68 % of the density is between -1 and 1; nothing is drawn, which would take XLA seconds."""
    monkeypatch.delattr(dist.LKJCholesky, "sample")
    m = normal_map(dist.LKJCholesky(3, 1.5))
    excess = m.excess
    assert excess is not None
    assert (m.size, m.shape) == (3, (3, 3))
    grid = np.linspace(-15.0, 15.0, 3001)
    for i in range(3):
        u = np.zeros((grid.size, 3))
        u[:, i] = grid
        density = np.exp(-np.asarray(jax.jit(jax.vmap(excess))(u)) - 0.5 * grid**2)
        mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))])
        np.testing.assert_allclose(np.interp([0.16, 0.5, 0.84], mass / mass[-1], grid), [-1, 0, 1], atol=1e-4)
    factor = np.asarray(m.push(jnp.array([0.3, -0.4, 1.1])))
    np.testing.assert_allclose(np.sum(factor**2, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(factor, np.tril(factor))


def test_parameters_of_a_distribution_may_be_traced():
    def excess(shape, u):
        found = normal_map(dist.Gamma(shape, 1.0), standardise=False).excess
        assert found is not None
        return found(u)

    u = jnp.array([0.3])
    expected = -st.gamma.logpdf(np.exp(0.3), 2.5) - 0.3 + st.norm.logpdf(0.3)
    np.testing.assert_allclose(jax.jit(excess)(2.5, u), expected, rtol=1e-7)


def test_a_product_concatenates():
    m = product([normal_map(dist.Normal(1.0, 2.0)), fixed(7.0), normal_map(dist.Gamma(np.array([2.0, 3.0]), 1.0))])
    assert (m.size, m.shape) == (3, (4,))
    np.testing.assert_allclose(m.push(jnp.array([0.5, 0.0, 0.0]))[:2], [2.0, 7.0])
    assert m.excess is not None
    assert product([fixed(1.0)]).excess is None


@pytest.mark.parametrize(
    ("prior", "word"),
    [(dist.Poisson(3.0), "discrete"), (dist.Bernoulli(0.5), "discrete"), (3.0, "distribution"),
     (dist.ImproperUniform(dist.constraints.real, (), ()), "proper")],
)  # fmt: skip
def test_what_cannot_be_mapped_is_refused(prior, word):
    with pytest.raises(ModelError, match=word):
        normal_map(prior)
