"""Every continuous distribution of numpyro as observation noise: it can be drawn from and compiled, or a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.program.trace import is_compilable
from tests.thorough import sparing

GOOD: dict[str, Callable[[], Any]] = {
    "AsymmetricLaplace": lambda: dist.AsymmetricLaplace(0.0, 1.0, 1.0),
    "Beta": lambda: dist.Beta(2.0, 3.0),
    "BetaProportion": lambda: dist.BetaProportion(0.4, 5.0),
    "Cauchy": lambda: dist.Cauchy(0.0, 1.0),
    "Chi2": lambda: dist.Chi2(3.0),
    "Dirichlet": lambda: dist.Dirichlet(jnp.ones(3)),
    "DoublyTruncatedPowerLaw": lambda: dist.DoublyTruncatedPowerLaw(2.0, 0.1, 1.0),
    "Exponential": lambda: dist.Exponential(1.0),
    "Gamma": lambda: dist.Gamma(2.0, 1.0),
    "GaussianRandomWalk": lambda: dist.GaussianRandomWalk(1.0, 2),
    "Gompertz": lambda: dist.Gompertz(1.0, 1.0),
    "Gumbel": lambda: dist.Gumbel(0.0, 1.0),
    "HalfCauchy": lambda: dist.HalfCauchy(1.0),
    "HalfNormal": lambda: dist.HalfNormal(1.0),
    "InverseGamma": lambda: dist.InverseGamma(3.0, 1.0),
    "Kumaraswamy": lambda: dist.Kumaraswamy(2.0, 3.0),
    "Laplace": lambda: dist.Laplace(0.0, 1.0),
    "Levy": lambda: dist.Levy(0.0, 1.0),
    "LogNormal": lambda: dist.LogNormal(0.0, 1.0),
    "LogUniform": lambda: dist.LogUniform(0.1, 2.0),
    "Logistic": lambda: dist.Logistic(0.0, 1.0),
    "LowRankMultivariateNormal": lambda: dist.LowRankMultivariateNormal(jnp.zeros(2), jnp.ones((2, 1)), jnp.ones(2)),
    "LowerTruncatedPowerLaw": lambda: dist.LowerTruncatedPowerLaw(-3.0, 1.0),
    "Mixture": lambda: dist.MixtureSameFamily(
        dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([0.0, 2.0]), 1.0)
    ),
    "MultivariateNormal": lambda: dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
    "MultivariateStudentT": lambda: dist.MultivariateStudentT(4.0, jnp.zeros(2), jnp.eye(2)),
    "Normal": lambda: dist.Normal(0.0, 1.0),
    "Pareto": lambda: dist.Pareto(1.0, 3.0),
    "RelaxedBernoulli": lambda: dist.RelaxedBernoulli(jnp.array(0.5), probs=jnp.array(0.4)),
    "SineSkewed": lambda: dist.SineSkewed(dist.VonMises(0.0, 1.0).expand([1]).to_event(1), jnp.array([0.3])),
    "SoftLaplace": lambda: dist.SoftLaplace(0.0, 1.0),
    "StudentT": lambda: dist.StudentT(4.0, 0.0, 1.0),
    "TruncatedCauchy": lambda: dist.TruncatedCauchy(0.0, 1.0, low=0.0),
    "TruncatedNormal": lambda: dist.TruncatedNormal(0.0, 1.0, low=0.0),
    "Uniform": lambda: dist.Uniform(-1.0, 2.0),
    "VonMises": lambda: dist.VonMises(0.0, 1.0),
    "Weibull": lambda: dist.Weibull(1.0, 2.0),
    "ZeroSumNormal": lambda: dist.ZeroSumNormal(1.0, (3,)),
}
ODD: dict[str, Callable[[], Any]] = {
    "Delta": lambda: dist.Delta(1.0),
    "ImproperUniform": lambda: dist.ImproperUniform(dist.constraints.real, (), ()),
    "LKJ": lambda: dist.LKJ(2, 1.0),
    "LKJCholesky": lambda: dist.LKJCholesky(2, 1.0),
    "MatrixNormal": lambda: dist.MatrixNormal(jnp.zeros((2, 2)), jnp.eye(2), jnp.eye(2)),
    "Poisson": lambda: dist.Poisson(1.0),
    "ProjectedNormal": lambda: dist.ProjectedNormal(jnp.array([1.0, 0.0])),
    "Unit": lambda: dist.Unit(0.0),
    "Uniform": lambda: dist.Uniform(-jnp.inf, jnp.inf),
    "Wishart": lambda: dist.Wishart(3.0, jnp.eye(2)),
}


def model(noise: Any) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={"s": 1.0},
        initial_state=[0.0],
        observation=pf.NoisyObservation(lambda x, z, w: x + z["s"] * w[:1], noise),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", GOOD)
def test_continuous_noise_is_drawn_and_compiled(name):
    given = model(GOOD[name]())
    data = pf.simulate(given, {"s": 1.0}, [0.5, 1.0], steps_per_interval=3, seed=1)
    assert np.ptp(data.values) > 0.0
    compiled = given.restricted_to(is_compilable)
    z = given.parameters.structs()
    function, shapes = compiled.user_functions()["observation"]
    assert is_compilable(function, *shapes)
    observation: Any = compiled.observation
    if observation.map.excess is not None:
        assert is_compilable(observation.map.excess, z, shapes[2])


@pytest.mark.parametrize("name", sparing(ODD, "LKJ"))
def test_other_noise_is_refused_in_a_sentence(name):
    with pytest.raises(pf.ModelError, match="the observation noise"):
        model(ODD[name]())
