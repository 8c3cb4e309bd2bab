"""Fits of linear models, with paths integrated out exactly: density, gradient and curvature against dense twins, draws
and moments against quadrature."""

from __future__ import annotations

import sys
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.engine.equations import linear_rows
from pathfold.inference.fit.mode_search import find_modes
from pathfold.inference.fit.posterior_mode import curvature
from pathfold.sampling.differences import ByDifferences, Origin
from pathfold.sampling.linear_marginal import LinearMarginal
from tests.by_numpy import by_numpy
from tests.engine.driving import relative
from tests.engine.faults import plant
from tests.engine.linear_models import LinearCase
from tests.engine.test_integrated import FAULTS, FIXED, PANEL, parameters, twin
from tests.inference.test_marginal import curved, exact_of, gaussian_log_likelihood, ornstein_uhlenbeck
from tests.once import once

TOLERANCE = 1e-9
STEPS = 4
NOWHERE = Origin(np.zeros(0), np.zeros(0), 0.0)


def errors(case: LinearCase) -> dict[str, float]:
    """Of the log density and its gradient along coordinates, against the rows as one Gaussian vector."""
    model, grid, u = case.model(), case.grid(), parameters(case)
    marginal = LinearMarginal(model, grid, threads=1)
    value, slope = twin(case).by_rows(u)
    expected = -value - 0.5 * u @ u - 0.5 * np.log(2.0 * np.pi) * (u.size + grid.mask.sum())
    L = np.random.default_rng(1).normal(size=(u.size, 2))
    gradient = marginal.gradient(Origin(u, np.zeros(0), 0.0), L)
    return {
        "value": relative(marginal.values(u[None], NOWHERE)[0], expected, max(1.0, abs(float(expected)))),
        "gradient": relative(gradient, L.T @ (-slope - u), np.append(slope, 1.0)),
    }


@pytest.mark.parametrize("name", FIXED)
def test_density_and_gradient(name):
    assert max(errors(FIXED[name]).values()) < TOLERANCE


@pytest.mark.parametrize("fault", ["gradient of the log-determinant", "sign of the multipliers"])
def test_a_planted_fault_of_the_gradient_is_found(monkeypatch, fault):
    plant(monkeypatch, linear_rows, *FAULTS[fault])
    found = errors(PANEL)
    assert found["value"] < TOLERANCE
    assert found["gradient"] > 1e-6


DATA = pf.Observations([0.4, 0.9, 1.3, 2.2, 2.6], [[0.3], [0.9], [0.4], [-0.2], [0.1]], initial_time=0.0)


def test_without_prior_only_latent_parameters_have_theirs():
    """What the prior adds to value and gradient is its density by the normals, be it normal there or not; that of a
    parameter whose prior depends on others stays."""
    model = ornstein_uhlenbeck(0.2, theta=dist.Gamma(3.0, 2.0), mu=lambda z: dist.Normal(z["theta"], 1.0))
    (one, _), (other, _) = (exact_of(model, DATA, STEPS, prior=prior) for prior in (True, False))
    assert one.engine.model.parameters.excess is not None, "a gamma distribution is no normal's"
    np.testing.assert_array_equal(other.counted, [False, True, False])

    def log_prior(u):
        """Of theta by u, its first normal, and of that of sigma."""
        theta, slope = jax.jvp(lambda first: model.parameters.push(u.at[0].set(first))[0], (u[0],), (jnp.ones(()),))
        return dist.Gamma(3.0, 2.0).log_prob(theta) + jnp.log(slope) - 0.5 * u[2] ** 2 - 0.5 * jnp.log(2.0 * jnp.pi)

    u = np.array([0.4, -0.3, 0.2])
    expected, slope = by_numpy(jax.value_and_grad(lambda u: log_prior(jnp.asarray(u))))(u)
    found = one.values(u[None], NOWHERE) - other.values(u[None], NOWHERE)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=TOLERANCE)
    at, L = Origin(u, np.zeros(0), 0.0), np.eye(3)
    np.testing.assert_allclose(one.gradient(at, L) - other.gradient(at, L), slope, rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize("prior", [True, False])
def test_curvature_is_that_by_differences_of_values(prior):
    marginal, _ = exact_of(ornstein_uhlenbeck(0.2), DATA, STEPS, prior=prior)
    u = np.array([0.1, 0.2, -0.3])
    origin = Origin(u, np.zeros(0), float(marginal.values(u[None], NOWHERE)[0]))
    root = np.tril(np.random.default_rng(0).normal(size=(3, 3))) + 2.0 * np.eye(3)
    covariance = 0.2 * root @ root.T
    found = curvature(marginal, origin, covariance, step=0.01)
    by_values = ByDifferences.hessian(marginal, origin, np.eye(3), 0.01)
    np.testing.assert_allclose(found, by_values, atol=1e-2)
    free = np.array([True, False, True])
    some = curvature(marginal, origin, covariance, free, step=0.01)
    np.testing.assert_allclose(some[np.ix_(free, free)], found[np.ix_(free, free)], atol=1e-2)
    np.testing.assert_array_equal(some[1], np.eye(3)[1])


@once
def random_walk(noise: float) -> pf.DiffusionModel:
    """A walk with two unknown scales, or one, seen with noise or exactly."""
    seen = pf.GaussianNoise(lambda x, z: x, "tau") if noise else pf.Noiseless(lambda x, z: x)
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.zeros(1),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={"sigma": dist.LogNormal(0.0, 0.7)} | ({"tau": dist.LogNormal(-1.0, 0.7)} if noise else {}),
        initial_state=[0.5],
        observation=seen,
    )


TIMES = 0.5 * np.arange(1, 31)
NORMALS = np.random.default_rng(0).normal(size=(2, TIMES.size))
WALK = pf.Observations(TIMES, 0.5 + np.cumsum(NORMALS[0]) + 0.5 * NORMALS[1], initial_time=0.0)


def log_likelihood(u: np.ndarray) -> float:
    """Of the values of a walk, with a dense covariance."""
    y, sigma, tau = (
        np.asarray(WALK.values)[:, 0] - 0.5,
        np.exp(0.7 * u[0]),
        np.exp(-1.0 + 0.7 * u[1]) if len(u) > 1 else 0,
    )
    cov = sigma**2 * np.minimum.outer(TIMES, TIMES) + tau**2 * np.eye(len(y))
    return float(-0.5 * y @ np.linalg.solve(cov, y) - 0.5 * np.linalg.slogdet(2.0 * np.pi * cov)[1])


def state_given(u: np.ndarray) -> float:
    """The mean of the third state given the parameters and the data."""
    sigma, tau = np.exp(0.7 * u[0]), np.exp(-1.0 + 0.7 * u[1])
    cov = sigma**2 * np.minimum.outer(TIMES, TIMES)
    away = np.asarray(WALK.values)[:, 0] - 0.5
    return float(0.5 + cov[2] @ np.linalg.solve(cov + tau**2 * np.eye(len(away)), away))


@pytest.mark.parametrize("size", [1, 2])
def test_moments_are_those_of_quadrature(size):
    """Of rows that are exact, with one parameter, and with noise, with two; and of a state."""
    fit = pf.fit(random_walk(size - 1.0), WALK, steps_per_interval=2, threads=1)
    axis = np.linspace(-4.5, 4.5, 361)
    u = np.stack([each.ravel() for each in np.meshgrid(*size * [axis], indexing="ij")], axis=1)
    logs = np.array([log_likelihood(each) for each in u]) - 0.5 * (u**2).sum(axis=1) - 0.5 * size * np.log(2.0 * np.pi)
    w = np.exp(logs - np.logaddexp.reduce(logs))
    mean, log_evidence = w @ u, float(np.logaddexp.reduce(logs) + size * np.log(axis[1] - axis[0]))
    sd = np.sqrt(w @ (u - mean) ** 2)
    weights = np.exp(fit.laplace["explored_log_weight"].values)
    explored = fit.laplace["explored"].values
    assert np.abs((weights @ explored - mean) / sd).max() < 0.02
    assert np.abs(np.log(np.sqrt(weights @ (explored - weights @ explored) ** 2) / sd)).max() < 0.03
    assert abs(float(fit.laplace["log_evidence"]) - log_evidence) < 0.02
    assert fit.attrs["verdict"] == "good", fit.attrs["reasons"]
    if size == 1:
        np.testing.assert_allclose(
            fit.posterior["state"].values[..., 0] - np.asarray(WALK.values)[:, 0], 0.0, atol=1e-12
        )
    else:
        third = w[w > 1e-6] @ [state_given(each) for each in u[w > 1e-6]]
        states = fit.posterior["state"].values[:, :, 2, 0]
        assert abs(states.mean() - third) < 0.05 * states.std()


def test_what_a_fit_says_of_itself(tmp_path):
    fit = pf.fit(random_walk(1.0), WALK, steps_per_interval=2, threads=1)
    assert fit.attrs["method"] == "integrated"
    assert fit.attrs["reasons"] == ["paths are integrated out exactly, and there is no sign of a poor approximation"]
    assert str(fit).startswith("Approximation of the posterior by pf.fit, paths integrated out, with verdict 'good'")
    assert (
        "an approximation (pf.fit), exact in the path; it is good" in pf.report(fit, tmp_path / "fit.html").read_text()
    )
    for name in ("pair_spread", "shift", "pairs_failed"):
        assert abs(float(fit.laplace[name])) < 1e-12
    np.testing.assert_array_equal(fit.sample_stats["log_correction"], 0.0)
    data = pf.Observations([0.5, 1.0, 1.5], [[1.6], [0.2], [0.5]], initial_time=0.0)
    assert pf.fit(curved(0.5), data, steps_per_interval=2, points=64, threads=1).attrs["method"] == "laplace"


def test_nothing_is_compiled_for_the_manifold(monkeypatch):
    monkeypatch.setattr(sys.modules[pf.fit.__module__], "Engine", None)
    assert pf.fit(random_walk(1.0), WALK, steps_per_interval=2, points=64, threads=1).attrs["method"] == "integrated"


@pytest.mark.parametrize("integrate", [True, False])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_chains_start_from_a_fit(noise, integrate):
    """Of both kinds: the noise of the fit's draws is theirs."""
    fit = pf.fit(random_walk(noise), WALK, steps_per_interval=2, threads=1)
    with pytest.warns(UserWarning, match="few effective draws|not converged"):
        posterior = pf.sample(
            random_walk(noise),
            WALK,
            steps_per_interval=2,
            start=fit,
            draws=10,
            warmup=0,
            sampler=pf.StaticHMC(integrate=integrate),
            progress=False,
            threads=1,
        )
    assert np.all(posterior.starts["way"] == "guess")
    assert posterior.attrs["method"] == ("integrated" if integrate else "manifold")


def test_standard_errors_are_those_of_the_likelihood():
    fit = pf.fit(random_walk(1.0), WALK, steps_per_interval=2, prior=False, threads=1)
    assert fit.attrs["method"] == "integrated"
    u, h = fit.laplace["mode"].values, 0.01
    assert abs(float(fit.laplace["log_likelihood"]) - log_likelihood(u)) < TOLERANCE
    steps = h * np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    xx, yy, both = ((log_likelihood(u + s) + log_likelihood(u - s) - 2.0 * log_likelihood(u)) / h**2 for s in steps)
    information = -np.array([[xx, 0.5 * (both - xx - yy)], [0.5 * (both - xx - yy), yy]])
    expected = np.sqrt(np.diag(np.linalg.inv(information))) * 0.7 * np.exp([0.7 * u[0], -1.0 + 0.7 * u[1]])
    found = [float(fit.laplace[f"{name}_at_mode"].sel(statistic="standard_error")) for name in ("sigma", "tau")]
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert all(log_likelihood(u) > log_likelihood(u + sign * s) for s in steps for sign in (-1.0, 1.0))


def test_two_modes_are_found_whatever_the_seed():
    """The data know the square of a parameter alone; the centre of the prior lies between its roots."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["mu"] ** 2 - x,
        diffusion=lambda x, z: 0.6 * jnp.eye(1),
        parameters={"mu": dist.Normal(0.0, 2.0)},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    data = pf.Observations(np.arange(1.0, 11.0), 1.0 + 0.05 * np.sin(np.arange(1.0, 11.0)))
    marginal, _ = exact_of(model, data, 2)
    for seed in range(10):
        mode, others = find_modes(marginal, 2, seed)
        assert len(others) == 1
        np.testing.assert_allclose(others[0].u, -mode.origin.u, atol=1e-3)


def test_drawn_paths_are_apart_and_meet_the_data():
    """Every point has two paths of its own, which both meet exact data and lie about the most probable one."""
    marginal, _ = exact_of(random_walk(0.0), WALK, 3)
    u = np.random.default_rng(0).normal(size=(5, 1))
    pairs, again = marginal.pairs(u, NOWHERE, 3, fine=True), marginal.pairs(u[3:], NOWHERE, 3, 3, fine=True)
    np.testing.assert_array_equal(pairs[4].states, again[1].states)
    middle = marginal.pairs(u, NOWHERE, 3, drawn=False, fine=True)
    for pair, probable in zip(pairs, middle, strict=True):
        np.testing.assert_allclose(pair.states[:, :, -1, 0], 2 * [np.asarray(WALK.values)[:, 0]], atol=1e-12)
        np.testing.assert_allclose(pair.states.mean(axis=0), probable.states[0], atol=1e-12)
        assert np.abs(pair.states[0] - pair.states[1])[:, 0].min() > 1e-6
    for one, other in pairwise(pairs):
        assert np.abs(one.states[0] - other.states[0])[:, 0].min() > 1e-9


def test_a_planted_fault_of_the_paths_is_found(monkeypatch):
    """With the states before they are seen in the place of those after, exact data are missed."""
    plant(monkeypatch, linear_rows, *FAULTS["states in a draw"])
    marginal, _ = exact_of(random_walk(0.0), WALK, 3)
    (pair,) = marginal.pairs(np.zeros((1, 1)), NOWHERE, 3)
    assert np.abs(pair.states[:, :, -1, 0] - np.asarray(WALK.values)[:, 0]).max() > 0.1


def test_likelihoods_of_dense_models_agree_at_the_maximum():
    """Of three parameters, to the last digit that the climb finds."""
    fit = pf.fit(ornstein_uhlenbeck(0.2), DATA, steps_per_interval=STEPS, prior=False, threads=1)
    u = fit.laplace["mode"].values
    assert abs(float(fit.laplace["log_likelihood"]) - gaussian_log_likelihood(u, DATA, STEPS, 0.2)) < TOLERANCE
