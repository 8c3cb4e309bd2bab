"""The metric of the parameters: what may be given, what warm-up finds, what is recorded of it."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.model.parameters import build_parameters
from pathfold.paper.dynamic_chain import DynamicChain
from pathfold.paper.parameter_metric import Window, checked_metric, coordinates_of

PARAMETERS, _ = build_parameters(
    {
        "a": dist.Normal(),
        "fixed": 2.0,
        "b": dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
        "c": pf.Varying(dist.Normal()),
    }
)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("dense", "metric must be 'identity' or 'adapted', not 'dense'"),
        (None, "metric must be an array of real numbers, not None|metric have 1 masked or missing"),
        (2.0, "metric must be 'identity', 'adapted', a square matrix"),
        (np.ones((2, 3)), "a square matrix"),
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric matrix of finite numbers"),
        ([[1.0, np.nan], [np.nan, 1.0]], "symmetric matrix of finite numbers"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite, and its eigenvalues lie between -1 and 3"),
        ([1.0, 0.0, 2.0], "metric must be positive"),
        ({"a": -1.0}, r"metric\['a'\] must be positive, not -1.0"),
        ({"a": "x"}, r"metric\['a'\] must be an array of real numbers"),
    ],
)
def test_what_is_no_metric_is_named(given, sentence):
    for sampler in (pf.DynamicHMC,):
        with pytest.raises(pf.SettingsError, match=sentence):
            sampler(metric=given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (np.eye(2), r"metric is of 2 numbers, but .* are made of 3 standard normals \(a 1, b 2\)"),
        ([1.0, 2.0], "metric is of 2 numbers"),
        ({"c": 1.0}, "metric names 'c'; .* are 'a', 'b'"),
        ({"fixed": 1.0}, "metric names 'fixed'"),
        ({"b": [1.0, 2.0, 3.0]}, r"metric\['b'\] has shape \(3,\), but the parameter is made of 2 standard normals"),
    ],
)
def test_a_metric_of_another_model_is_named(given, sentence):
    with pytest.raises(pf.SettingsError, match=sentence):
        coordinates_of(checked_metric(given), PARAMETERS)


@pytest.mark.parametrize(
    ("given", "matrix"),
    [
        ([[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 4.0]], None),
        (np.array([2.0, 1.0, 4.0]), np.diag([2.0, 1.0, 4.0])),
        ({"b": 3.0}, np.diag([1.0, 3.0, 3.0])),
        ({"b": [3.0, 5.0], "a": 2}, np.diag([2.0, 3.0, 5.0])),
    ],
)
def test_coordinates_are_those_in_which_the_metric_is_the_identity(given, matrix):
    found = coordinates_of(checked_metric(given), PARAMETERS)
    assert found is not None
    matrix = np.array(given) if matrix is None else matrix
    np.testing.assert_array_equal(found.factor, np.tril(found.factor))
    np.testing.assert_allclose(found.factor.T @ matrix @ found.factor, np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(found.centre, 0.0)


def window(covariance: np.ndarray, mass: np.ndarray, mean: np.ndarray, draws: int) -> Window:
    """What is left of draws that have exactly this mean and covariance, at points with this mass on average."""
    rng, found = np.random.default_rng(1), Window(len(mean))
    u = rng.normal(size=(draws, len(mean)))
    u = (u - u.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(u.T))).T @ np.linalg.cholesky(
        covariance
    ).T + mean
    for i, each in enumerate(u):
        found.add(each, mass * (1.2 if i % 2 else 0.8))
    return found


def test_the_identity_is_found_where_the_mass_is_the_precision():
    mass = np.array([[9.0, 2.0], [2.0, 3.0]])
    for covariance in (np.linalg.inv(mass), 1.5 * np.linalg.inv(mass)):  # or where no metric can take mass away
        found = window(covariance, mass, np.array([0.5, -1.0]), 100).coordinates()
        np.testing.assert_allclose(found.factor, np.eye(2), atol=1e-12)
        np.testing.assert_allclose(found.centre, 0.0, atol=1e-12)


def test_mass_is_added_where_it_is_less_than_the_precision():
    """Up to chance; and the prior's force is that of the Gaussian flow at the posterior mean."""
    mass, mean, draws = np.array([[9.0, 2.0], [2.0, 3.0]]), np.array([0.5, -1.0]), 400
    fast = np.array([0.6, 0.8])
    precision = mass + 20.0 * np.outer(fast, fast)
    found = window(np.linalg.inv(precision), mass, mean, draws).coordinates()
    metric = np.linalg.inv(found.factor @ found.factor.T)
    f2 = np.linalg.eigvals(np.linalg.solve(mass, precision)).real.max()
    chance = (1.0 - np.sqrt(2 / draws)) ** 2
    total = mass + metric - np.eye(2)
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvals(np.linalg.solve(mass, total)).real), [1.0, chance * f2], rtol=1e-9
    )
    np.testing.assert_allclose(metric @ (mean - found.centre), mean, atol=1e-9)
    few = window(np.linalg.inv(precision), mass, mean, 3).coordinates()
    np.testing.assert_allclose(few.factor, np.eye(2), atol=0.5)


@cache
def linear_model() -> pf.DiffusionModel:
    """Drift and level are unknown, and enter linearly: mass and posterior precision are the same everywhere."""
    return pf.DiffusionModel(
        drift=lambda x, z: -0.5 * x + z["level"],
        diffusion=lambda x, z: jnp.full((1, 1), 0.7),
        parameters={"level": dist.Normal(0.0, 3.0), "offset": dist.Normal(0.0, 2.0)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x + z["offset"], 0.3),
    )


def linear_mass() -> np.ndarray:
    """C = 1 + J_u^T (J_v J_v^T)^{-1} J_u of the linear model with two Euler steps of 1/4 an interval, by hand."""
    step, nodes = 0.25, 20
    x = np.zeros((2 * nodes + 1, 2 + 1 + 2 * nodes + nodes))  # by (u, v0, v, w)
    x[0, 2] = 1.0
    for s in range(2 * nodes):
        x[s + 1] = (1.0 - 0.5 * step) * x[s]
        x[s + 1, 0] += 3.0 * step
        x[s + 1, 3 + s] += 0.7 * np.sqrt(step)
    seen = x[2::2]
    seen[:, 1] += 2.0
    seen[:, 3 + 2 * nodes :] += 0.3 * np.eye(nodes)
    by_u, by_noise = seen[:, :2], seen[:, 2:]
    return np.eye(2) + by_u.T @ np.linalg.solve(by_noise @ by_noise.T, by_u)


def run(**options: Any) -> xr.DataTree:
    data = pf.Observations(0.5 * np.arange(1, 21), np.cos(0.3 * np.arange(1, 21)))
    settings: dict[str, Any] = {"steps_per_interval": 2, "chains": 2, "warmup": 1200, "draws": 50, "seed": 4}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)")
        return pf.sample(linear_model(), data, progress=False, **settings | options)


@pytest.fixture
def metrics(monkeypatch) -> list[Any]:
    """The metrics that chains go over to."""
    found, go_over = [], DynamicChain._go_over_to

    def told(chain, coordinates):
        factor = coordinates[2:].reshape(2, 2)
        found.append(np.linalg.inv(factor @ factor.T))
        go_over(chain, coordinates)

    monkeypatch.setattr(DynamicChain, "_go_over_to", told)
    return found


def test_the_identity_is_what_warm_up_finds_for_a_linear_model(metrics):
    """Mass is posterior precision there, and what is added to it is a part of it that 240 draws show by chance.

    With probability exp(-t^2 / 2) the covariance of n normals seems smaller than (1 - (sqrt(U) + t) / sqrt(n))^2 in
    some direction; with t = 4 that is once in 3000. (The inverse of the posterior covariance would add all of it, 1.)
    """
    tree, draws = run(sampler=pf.DynamicHMC(metric="adapted")), 240
    assert tree.attrs["metric"] == "adapted"
    least = (1.0 - (np.sqrt(2) + 4.0) / np.sqrt(draws)) ** 2 / (1.0 - np.sqrt(2 / draws)) ** 2
    assert len(metrics) == 2, "each of two chains finds its own"
    for metric in metrics:
        added = np.real(np.linalg.eigvals(np.linalg.solve(linear_mass(), metric - np.eye(2))))
        assert -1e-9 < added.min() <= added.max() < 1.0 / least - 1.0 < 0.97, added
    plain = run(sampler=pf.StaticHMC(integrate=False))
    assert plain.sample_stats["acceptance_rate"].values.min() > 1.0 - 1e-9, "the identity is exact for linear models"
    heavy = run(sampler=pf.DynamicHMC(metric=[[30.0, 0.0], [0.0, 30.0]]))
    assert heavy.sample_stats["acceptance_rate"].values.min() < 0.99


def test_what_is_recorded_are_the_normals_themselves(metrics):
    metric = [[3.0, 1.0], [1.0, 2.0]]
    tree = run(sampler=pf.DynamicHMC(metric=metric), warmup=30)
    u = tree.noise["parameter_noise"]
    drawn = tree.posterior.sel(draw=u["draw"].values)
    np.testing.assert_allclose(3.0 * u.values[..., 0], drawn["level"].values, rtol=1e-12)
    np.testing.assert_allclose(2.0 * u.values[..., 1], drawn["offset"].values, rtol=1e-12)
    np.testing.assert_allclose(metrics, 2 * [metric], rtol=1e-9)
    assert tree.attrs["metric"] == "[[3.0, 1.0], [1.0, 2.0]]"
    shift, expected = (each.half_step_shift.mean(("chain", "draw")) for each in (tree, run(warmup=30)))
    for name in ("level", "offset"):
        np.testing.assert_allclose(shift[name], expected[name], atol=0.3)


def test_a_later_run_finds_a_metric_of_its_own(metrics):
    """Its warm-up is that of any run, and begins where the earlier one ended."""
    sampler = pf.DynamicHMC(metric="adapted")
    again = run(sampler=sampler, start=run(warmup=30), warmup=None, draws=8)
    assert again.attrs["warmup"] == 250
    assert len(metrics) == 2
    assert np.all(again.starts["way"] == "guess")
