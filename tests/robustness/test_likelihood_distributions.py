"""Every distribution that pf.Likelihood takes, through all that is done with a posterior."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from tests.thorough import thorough

TIMES = np.arange(1.0, 5.0)
COUNTS: dict[str, Callable[[Any], Any]] = {
    "Poisson": lambda r: dist.Poisson(jnp.exp(r)),
    "BinomialLogits": lambda r: dist.Binomial(9, logits=r),
    "BinomialProbs": lambda r: dist.Binomial(9, probs=1 / (1 + jnp.exp(-r))),
    "BernoulliLogits": lambda r: dist.Bernoulli(logits=r),
    "BernoulliProbs": lambda r: dist.Bernoulli(probs=1 / (1 + jnp.exp(-r))),
    "NegativeBinomial2": lambda r: dist.NegativeBinomial2(jnp.exp(r), 3.0),
    "NegativeBinomialLogits": lambda r: dist.NegativeBinomialLogits(3.0, r),
    "NegativeBinomialProbs": lambda r: dist.NegativeBinomialProbs(3.0, 1 / (1 + jnp.exp(-r))),
    "GammaPoisson": lambda r: dist.GammaPoisson(2.0, jnp.exp(-r)),
    "GeometricLogits": lambda r: dist.Geometric(logits=r),
    "GeometricProbs": lambda r: dist.Geometric(probs=1 / (1 + jnp.exp(-r))),
    "ZeroInflatedPoisson": lambda r: dist.ZeroInflatedPoisson(0.3, rate=jnp.exp(r)),
    "BetaBinomial": lambda r: dist.BetaBinomial(jnp.exp(r), 2.0, 9),
    "OrderedLogistic": lambda r: dist.OrderedLogistic(r, jnp.array([-1.0, 0.0, 1.5])),
    "CategoricalLogits": lambda r: dist.Categorical(logits=jnp.array([0.0, 1.0, -1.0]) * r),
    "CategoricalProbs": lambda r: dist.Categorical(probs=jnp.array([0.5, 0.5, 0.0]) / (1 + jnp.exp(-r)) + 0.2),
    "DiscreteUniform": lambda r: dist.DiscreteUniform(0, 5),
}
REALS: dict[str, Callable[[Any], Any]] = {
    "Normal": lambda r: dist.Normal(r, 0.5),
    "StudentT": lambda r: dist.StudentT(3.0, r, 0.5),
    "Cauchy": lambda r: dist.Cauchy(r, 0.5),
    "Logistic": lambda r: dist.Logistic(r, 0.5),
    "Gumbel": lambda r: dist.Gumbel(r, 0.5),
    "Laplace": lambda r: dist.Laplace(r, 0.5),
    "AsymmetricLaplace": lambda r: dist.AsymmetricLaplace(r, 1.0, 1.5),
    "SoftLaplace": lambda r: dist.SoftLaplace(r, 0.5),
    "VonMises": lambda r: dist.VonMises(r, 2.0),
    "Mixture": lambda r: dist.MixtureSameFamily(
        dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([0.0, 2.0]) + r, 1.0)
    ),
}
POSITIVE: dict[str, Callable[[Any], Any]] = {
    "Exponential": lambda r: dist.Exponential(jnp.exp(-r)),
    "Weibull": lambda r: dist.Weibull(jnp.exp(r), 1.5),
    "Gamma": lambda r: dist.Gamma(2.0, jnp.exp(-r)),
    "Chi2": lambda r: dist.Chi2(jnp.exp(r)),
    "LogNormal": lambda r: dist.LogNormal(r, 0.4),
    "InverseGamma": lambda r: dist.InverseGamma(3.0, jnp.exp(r)),
    "Pareto": lambda r: dist.Pareto(0.001, 1 + jnp.exp(r)),
    "HalfNormal": lambda r: dist.HalfNormal(jnp.exp(r)),
    "HalfCauchy": lambda r: dist.HalfCauchy(jnp.exp(r)),
    "TruncatedNormal": lambda r: dist.TruncatedNormal(r, 1.0, low=0.0),
    "Beta": lambda r: dist.Beta(jnp.exp(r), 2.0),
    "BetaProportion": lambda r: dist.BetaProportion(1 / (1 + jnp.exp(-r)), 5.0),
    "Kumaraswamy": lambda r: dist.Kumaraswamy(jnp.exp(r), 2.0),
    "Uniform": lambda r: dist.Uniform(0.0, 9.0 + 0.0 * r),
}
JOINT: dict[str, Callable[[Any], Any]] = {
    "MultivariateNormal": lambda r: dist.MultivariateNormal(r * jnp.ones(2), jnp.eye(2)),
    "MultivariateStudentT": lambda r: dist.MultivariateStudentT(4.0, r * jnp.ones(2), jnp.eye(2)),
    "Dirichlet": lambda r: dist.Dirichlet(jnp.exp(r) * jnp.ones(3)),
    "Multinomial": lambda r: dist.Multinomial(9, logits=r * jnp.array([0.0, 1.0])),
}
KINDS = COUNTS | REALS | POSITIVE | JOINT


def model(kind: Callable[[Any], Any]) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: 0.3 * jnp.eye(1),
        parameters={"rate": dist.LogNormal(-0.5, 0.25)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Likelihood(lambda x, z: kind(x[0])),
    )


def go_through(kind: Callable[[Any], Any], file: Any) -> None:
    """Raises unless each function after the posterior gives numbers."""
    m = model(kind)
    data = pf.simulate(m, {"rate": 0.6}, TIMES, initial_state=[0.2], steps_per_interval=1, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few draws
        posterior = pf.sample(
            m, data, steps_per_interval=1, chains=2, warmup=30, draws=20, progress=False, threads=1, seed=1
        )
        pf.report(posterior, file)
        assert np.isfinite(pf.evidence(m, data, posterior, particles=20, draws=20, threads=1).log_evidence)
    given = pf.log_likelihood(m, data, posterior)
    ahead = pf.log_likelihood(m, data, posterior, ahead=True, draws=5, particles=30, threads=1)
    replicated = pf.posterior_predictive(m, posterior)
    expected = pf.predict(m, posterior, [5.0, 6.0])
    assert np.isfinite(given.log_likelihood["y"]).all()
    assert np.isfinite(ahead.log_likelihood["y"]).all()
    assert np.isfinite(replicated.posterior_predictive["y"]).all()
    assert np.isfinite(expected.predictions["y"]).all()
    assert 0.0 <= pf.check(posterior).p_value <= 1.0


@pytest.mark.parametrize("kind", thorough(KINDS, "Poisson"))
def test_each_distribution_through_all_that_follows_a_posterior(kind, tmp_path):
    go_through(KINDS[kind], tmp_path / "report.html")
