"""Changes of variables by Ito's lemma against cases derived by hand."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.scipy.special import expit, logit

import pathfold as pf
from pathfold.example_models import cox_ingersoll_ross, sir
from tests.by_numpy import by_numpy
from tests.once import once


def parts_of(model: pf.DiffusionModel, expected: pf.DiffusionModel) -> list[list[np.ndarray]]:
    """Coefficients, step, observation and initial state at some points around the initial states that are expected."""
    observation: Any = model.observation

    def parts(u, start, away, v):
        z = expected.parameters.unflatten(expected.parameters.push(u))
        x = expected.initial_state.push(z, start) + away
        return [
            model.sde.drift(x, z, 0.4),
            model.sde.diffusion(x, z, 0.4),
            model.step(z, x, v, 0.1, 0.4),
            observation.observe(x, z, jnp.full(expected.observation_noise_dim, 0.7), 0.4),
            model.initial_state.push(z, jnp.linspace(-1.0, 1.0, expected.initial_state.size)),
        ]

    rng, evaluated = np.random.default_rng(2), by_numpy(parts)
    sizes = expected.parameters.size, expected.initial_state.size, expected.state_dim, expected.noise_dim
    return [
        evaluated(*(scale * rng.standard_normal(n) for n, scale in zip(sizes, (1.0, 1.0, 0.2, 1.0), strict=True)))
        for _ in range(5)
    ]


def assert_same(found: pf.DiffusionModel, expected: pf.DiffusionModel) -> None:
    """The same coefficients, steps, observations and initial states."""
    assert type(found.scheme) is type(expected.scheme)
    for ours, theirs in zip(parts_of(found, expected), parts_of(expected, expected), strict=True):
        for a, b, atol in zip(ours, theirs, (1e-10, 1e-10, 0.0, 0.0, 1e-12), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=atol)


@once
def geometric(**changes: Any) -> pf.DiffusionModel:
    parts: dict[str, Any] = {
        "drift": lambda x, z: z["mu"] * x,
        "diffusion": lambda x, z: z["sigma"] * x[:, None],
        "parameters": {"mu": dist.Normal(0.1, 0.2), "sigma": dist.LogNormal(-1.0, 0.3)},
        "initial_state": dist.LogNormal(jnp.array([0.2]), 0.5),
        "observation": pf.NoisyObservation(lambda x, z, w, t: x * w + t, dist.LogNormal(0.0, 0.1)),
    }
    return pf.DiffusionModel(**parts | changes)


@once
def log_of_geometric() -> pf.DiffusionModel:
    return geometric(
        drift=lambda x, z: (z["mu"] - 0.5 * z["sigma"] ** 2)[None],
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        initial_state=dist.Normal(jnp.array([0.2]), 0.5),
        observation=pf.NoisyObservation(lambda x, z, w, t: jnp.exp(x) * w + t, dist.LogNormal(0.0, 0.1)),
    )


def test_log_of_geometric_brownian_motion():
    assert_same(geometric().transform(jnp.log, jnp.exp), log_of_geometric())


def test_log_of_cox_ingersoll_ross():
    expected = cox_ingersoll_ross.noisy()
    original = pf.DiffusionModel(
        drift=lambda x, z: z["kappa"] * (z["mu"] - x),
        diffusion=lambda x, z: (z["sigma"] * jnp.sqrt(x))[:, None],
        parameters=expected.priors,
        initial_state=lambda z: dist.LogNormal(jnp.log(z["mu"])[None], 0.3),
        observation=pf.GaussianNoise(lambda x, z: x, cox_ingersoll_ross.OBSERVATION_SCALE),
        scheme=pf.Milstein(),
    )
    assert_same(original.transform(jnp.log, jnp.exp), expected)


def test_logit_of_a_jacobi_diffusion():
    """dx = kappa (m - x) dt + sigma sqrt(x (1 - x)) dW, for y = logit x."""
    parameters = {"kappa": dist.LogNormal(0.0, 0.3), "m": dist.Beta(4.0, 4.0), "sigma": 0.3}
    original = pf.DiffusionModel(
        drift=lambda x, z: z["kappa"] * (z["m"] - x),
        diffusion=lambda x, z: (z["sigma"] * jnp.sqrt(x * (1 - x)))[:, None],
        parameters=parameters,
        initial_state=[0.4],
        observation=pf.Noiseless(lambda x, z: x),
        scheme=pf.StrongOrder1p5(),
    )

    def drift(y, z):
        x = expit(y)
        return (z["kappa"] * (z["m"] - x) + 0.5 * z["sigma"] ** 2 * (2 * x - 1)) / (x * (1 - x))

    expected = pf.DiffusionModel(
        drift=drift,
        diffusion=lambda y, z: (z["sigma"] / jnp.sqrt(expit(y) * (1 - expit(y))))[:, None],
        parameters=parameters,
        initial_state=[np.log(0.4 / 0.6)],
        observation=pf.Noiseless(lambda y, z: expit(y)),
        scheme=pf.StrongOrder1p5(),
    )
    assert_same(original.transform(logit, expit), expected)


def test_log_of_the_epidemic():
    """Infections move people from s to i at rate c s i / N, recoveries take them from i at rate gamma i."""
    expected = sir.noisy()

    def drift(x, z):
        s, i, c = x
        infected, recovered = c * s * i / sir.POPULATION, z["gamma"] * i
        contact = c * (z["alpha"] * (z["beta"] - jnp.log(c)) + 0.5 * z["sigma"] ** 2)
        return jnp.array([-infected, infected - recovered, contact])

    def diffusion(x, z):
        s, i, c = x
        infected, recovered = jnp.sqrt(c * s * i / sir.POPULATION), jnp.sqrt(z["gamma"] * i)
        return jnp.array([[infected, 0.0, 0.0], [-infected, recovered, 0.0], [0.0, 0.0, z["sigma"] * c]])

    original = pf.DiffusionModel(
        drift=drift,
        diffusion=diffusion,
        parameters=expected.priors,
        initial_state=[762.0, 1.0, dist.LogNormal(0.0, 1.0)],
        observation=pf.GaussianNoise(lambda x, z: x[1:2], "sigma_y"),
    )
    assert_same(original.transform(jnp.log, jnp.exp), expected)


def test_a_transform_may_depend_on_parameters_and_be_undone():
    scaled = log_of_geometric().transform(lambda x, z: x / z["sigma"], lambda y, z: y * z["sigma"])
    for _, diffusion, *_ in parts_of(scaled, scaled):
        np.testing.assert_allclose(diffusion, [[1.0]], rtol=1e-12)
    assert_same(scaled.transform(lambda y, z: y * z["sigma"], lambda x, z: x / z["sigma"]), log_of_geometric())


def test_a_transformed_model_is_compiled_and_sampled_as_one_written_by_hand():
    data = pf.Observations([0.5, 1.0, 2.0], [1.1, 2.4, 4.0])
    trees = []
    for model in (geometric().transform(jnp.log, jnp.exp), log_of_geometric()):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)")
            trees.append(
                pf.sample(model, data, steps_per_interval=2, chains=2, warmup=5, draws=5, seed=1, progress=False)
            )
    for name in ("mu", "sigma", "initial_state", "state"):
        np.testing.assert_allclose(trees[0].posterior[name], trees[1].posterior[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("forward", "inverse", "words"),
    [
        (jnp.log, lambda y: 10**y, ("inverse does not invert forward", "came back")),
        (jnp.log, lambda y: y[0], ("inverse returned shape ()", "expected (1,)")),
        (lambda x: jnp.stack([x, x]), jnp.exp, ("forward returned shape (2, 1)",)),
        (lambda x: jnp.log(x - 100.0), lambda y: jnp.exp(y) + 100.0, ("forward is not finite", "drawn from the prior")),
        (lambda x, z: x * z["rho"], lambda y, z: y / z["rho"], ("forward asks for parameter 'rho'",)),
        (3.0, jnp.exp, ("forward must be a function of x or (x, z)",)),
        (jnp.log, lambda: 1.0, ("inverse takes arguments ()",)),
    ],
)
def test_bad_transforms_are_refused(forward, inverse, words):
    with pytest.raises(pf.ModelError) as caught:
        geometric().transform(forward, inverse)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_step_of_the_users_own_is_not_transformed():
    custom = pf.CustomScheme(lambda x, z, v, delta, t: x * jnp.exp(jnp.sqrt(delta) * v), 1)
    with pytest.raises(pf.ModelError, match=r"pf\.CustomScheme.*new state"):
        geometric(scheme=custom).transform(jnp.log, jnp.exp)
