"""The Laplace approximation of p(y | u): exact for linear models, and with pairs of paths without bias for others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.equations import laplace
from pathfold.engine.installation import compile_sampler
from pathfold.inference.fit.posterior_mode import curvature
from pathfold.sampling.differences import ByDifferences, Origin
from pathfold.sampling.laplace_marginal import LAPLACE, LaplaceMarginal
from pathfold.sampling.linear_marginal import LinearMarginal
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.starts import find_starts
from tests.engine.faults import build_anew
from tests.once import once


def marginal_of(model: pf.DiffusionModel, data, steps: int, **options) -> tuple[LaplaceMarginal, Origin]:
    """The marginal density by Laplace's method, and the inner mode at a start."""
    compile_sampler(LAPLACE, announce=False)
    full = Engine(model, TimeGrid.build(data, steps_per_interval=steps))
    set_scales(full)
    marginal = LaplaceMarginal(full, **{"threads": 1, **options})
    point = find_starts(full, [0], seed=0, threads=1, relaxation=relative_spread(full)).point(0)
    start = marginal.start_at(point)
    assert start is not None
    return marginal, start.origin


@once
def ornstein_uhlenbeck(noise: float, **priors) -> pf.DiffusionModel:
    seen = pf.GaussianNoise(lambda x, z: x, noise) if noise else pf.Noiseless(lambda x, z: x)
    return pf.DiffusionModel(
        drift=lambda x, z: z["theta"] * (z["mu"] - x),
        diffusion=lambda x, z: jnp.array([[z["sigma"]]]),
        parameters={
            "theta": dist.LogNormal(0, 0.5),
            "mu": dist.Normal(0, 1),
            "sigma": dist.LogNormal(-1, 0.5),
            **priors,
        },
        initial_state=lambda z: [dist.Normal(z["mu"], 0.7)],
        observation=seen,
    )


def gaussian_log_likelihood(u: np.ndarray, data: pf.Observations, steps: int, noise: float) -> float:
    """log N(y; mean, cov) of the Euler scheme, with a dense covariance."""
    theta, mu, sigma = np.exp(0.5 * u[0]), u[1], np.exp(-1.0 + 0.5 * u[2])
    times, y = np.asarray(data.times), np.asarray(data.values)[:, 0]
    rows, noises = [], 1 + steps * len(times)
    weight, column, before = np.zeros(noises), 1, 0.0
    weight[0] = 0.7  # x - mu is linear in the noise
    for t in times:
        delta = (t - before) / steps
        for _ in range(steps):
            weight = (1.0 - theta * delta) * weight
            weight[column] = sigma * np.sqrt(delta)
            column += 1
        rows.append(weight.copy())
        before = t
    B = np.array(rows)
    return float(multivariate(y - mu, B @ B.T + noise**2 * np.eye(len(y))))


def multivariate(away: np.ndarray, cov: np.ndarray) -> float:
    return -0.5 * away @ np.linalg.solve(cov, away) - 0.5 * np.linalg.slogdet(2.0 * np.pi * cov)[1]


DATA = pf.Observations([0.4, 0.9, 1.3, 2.2, 2.6], [[0.3], [0.9], [0.4], [-0.2], [0.1]], initial_time=0.0)


def exact_of(model: pf.DiffusionModel, data, steps: int, **options) -> tuple[LinearMarginal, Origin]:
    """The marginal density of a linear model, which asks for no inner mode."""
    grid = TimeGrid.build(data, steps_per_interval=steps)
    return LinearMarginal(model, grid, **{"threads": 1, **options}), Origin(np.zeros(0), np.zeros(0), 0.0)


@pytest.mark.parametrize("made", [marginal_of, exact_of])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_linear_model_has_its_kalman_likelihood(noise, made):
    marginal, origin = made(ornstein_uhlenbeck(noise), DATA, 4, prior=False)
    u = np.random.default_rng(1).normal(size=(12, 3))
    expected = [gaussian_log_likelihood(each, DATA, 4, noise) for each in u]
    np.testing.assert_allclose(marginal.values(u, origin), expected, rtol=0.0, atol=1e-9)
    weights = np.array([pair.log_weights for pair in marginal.pairs(u, origin, 0)])
    np.testing.assert_allclose(weights, 0.0, atol=1e-9)


@pytest.mark.parametrize("made", [marginal_of, exact_of])
def test_paths_of_a_linear_model_are_those_of_its_smoother(made):
    """Mean and covariance of the states at the nodes, given data with noise, by 1500 pairs."""
    noise, steps, count = 0.2, 4, 1500
    marginal, origin = made(ornstein_uhlenbeck(noise), DATA, steps, prior=False)
    u = np.array([0.2, -0.3, 0.1])
    pairs = marginal.pairs(np.tile(u, (count, 1)), origin, 0)
    states = np.concatenate([pair.states[:, :, -1, 0] for pair in pairs])
    theta, mu, sigma = np.exp(0.1), -0.3, np.exp(-0.95)
    delta = np.diff([0.0, *DATA.times]) / steps
    cov, variance = np.zeros((5, 5)), 0.49
    for n in range(5):
        for _ in range(steps):
            variance = (1 - theta * delta[n]) ** 2 * variance + sigma**2 * delta[n]
        cov[n, n], decay = variance, 1.0
        for m in range(n + 1, 5):
            decay *= (1 - theta * delta[m]) ** steps
            cov[n, m] = cov[m, n] = decay * variance
    gain = cov @ np.linalg.inv(cov + noise**2 * np.eye(5))
    mean, cov = mu + gain @ (np.asarray(DATA.values)[:, 0] - mu), cov - gain @ cov
    np.testing.assert_allclose(states.mean(axis=0), mean, atol=1e-8)  # the two of a pair lie on either side
    root = np.linalg.inv(np.linalg.cholesky(cov))
    found = root @ np.cov(states[::2].T, bias=True) @ root.T  # one of each pair: they are independent
    (probable,) = marginal.pairs(u[None], origin, 0, drawn=False)
    np.testing.assert_allclose(probable.states[:, :, -1, 0], np.stack([mean, mean]), atol=1e-8)
    errors = (found - np.eye(5)) * np.sqrt(count / (1.0 + np.eye(5)))
    assert np.abs(errors).max() < 4.2  # of 15 standard normals: 1 in 2500 by chance


@once
def curved(noise: float) -> pf.DiffusionModel:
    """A state whose noise depends on it, seen through a cubic: two steps, one observation."""

    def cubic(x, z):
        return x + 0.3 * x**3

    return pf.DiffusionModel(
        drift=lambda x, z: -z["a"] * x,
        diffusion=lambda x, z: 0.8 * jnp.sqrt(1.0 + x[:, None] ** 2),
        parameters={"a": dist.Normal(0.5, 0.5)},
        initial_state=[0.3],
        observation=pf.GaussianNoise(cubic, noise) if noise else pf.Noiseless(cubic),
    )


def by_quadrature(a: float, y: float, noise: float) -> float:
    """p(y | a), with two steps of length a half each."""

    def step(x, v):
        return x - 0.5 * a * x + 0.8 * np.sqrt(1.0 + x**2) * np.sqrt(0.5) * v

    v, width = np.linspace(-9.0, 9.0, 3001, retstep=True)
    phi = np.exp(-0.5 * v**2) / np.sqrt(2.0 * np.pi)
    x = step(0.3, v)
    if noise == 0.0:
        end = float(np.roots([0.3, 0.0, 1.0, -y])[-1].real)
        spread = 0.8 * np.sqrt(1.0 + x**2) * np.sqrt(0.5)
        second = (end - (x - 0.5 * a * x)) / spread
        density = np.exp(-0.5 * second**2) / np.sqrt(2.0 * np.pi) / spread / (1.0 + 0.9 * end**2)
        return float((phi * density).sum() * width)
    ends = step(x[:, None], v)
    away = (y - ends - 0.3 * ends**3) / noise
    density = np.exp(-0.5 * away**2) / np.sqrt(2.0 * np.pi) / noise
    return float((phi * (density @ phi)).sum() * width**2)


def bias(noise: float) -> tuple[float, float]:
    """How far the mean weight of 2,500 pairs is from p(y | u) / p~(y | u), in standard errors; its log."""
    data = pf.Observations([1.0], [[1.6]], initial_time=0.0)
    marginal, origin = marginal_of(curved(noise), data, 2, prior=False)
    u = np.array([0.4])
    (value,) = marginal.values(u[None], origin)
    logs = np.array([pair.log_weights for pair in marginal.pairs(np.tile(u, (2_500, 1)), origin, 0)])
    weights = np.exp(logs).mean(axis=1)
    expected = by_quadrature(0.7, 1.6, noise) / np.exp(value)
    assert np.mean(~np.isfinite(logs)) < 0.01
    return (weights.mean() - expected) / (weights.std() / 50.0), float(np.log(expected))


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_pairs_have_no_bias(noise):
    error, log_ratio = bias(noise)
    assert abs(error) < 4.0
    assert abs(log_ratio) > 1e-3, "there is something to correct"


def test_pairs_have_no_bias_where_a_start_is_curved_the_other_way():
    """A rate is two standard deviations from its median. The curvature by its normal, of its prior and of the slope of
    the likelihood, is 1 - v0 and negative; that of the likelihood makes up for it. No noise moves the path."""
    times, steps = np.array([0.1, 0.2, 0.3]), 2
    y = np.exp(-8.0 * times)
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: jnp.zeros((1, 1)),
        parameters={"tau": dist.LogNormal(-2.0, 0.5), "rate": pf.Varying(dist.LogNormal(0.0, 1.0))},
        initial_state=[1.0],
        observation=pf.GaussianNoise(lambda x, z: x, "tau"),
    )
    marginal, origin = marginal_of(model, pf.Observations(times, y[:, None], 0.0), steps, prior=False)
    u = np.array([0.3])
    (value,) = marginal.values(u[None], origin)
    pairs = marginal.pairs(np.tile(u, (2_500, 1)), origin, 0)
    with marginal._rooms.one() as room:
        precision = marginal.engine.get("scratch", room.machine.scratch, "element_start", "R0_inv")
    logs = np.array([pair.log_weights for pair in pairs])
    weights = np.exp(logs).mean(axis=1)
    v, width = np.linspace(-8.0, np.log(20.0), 4001, retstep=True)  # beyond, Euler's steps change the sign
    tau, x = np.exp(-2.0 + 0.5 * 0.3), (1.0 - 0.05 * np.exp(v)[:, None]) ** (steps * np.arange(1, 4))
    density = np.exp(-0.5 * ((y - x) ** 2).sum(axis=1) / tau**2 - 0.5 * v**2) / np.sqrt(2 * np.pi) ** 4 / tau**3
    expected = density.sum() * width / np.exp(value)
    assert precision[0, 0, 0] < 0.0
    assert np.mean(~np.isfinite(logs)) < 0.01
    assert abs((weights.mean() - expected) / (weights.std() / 50.0)) < 4.0
    assert abs(np.log(expected)) > 1e-3, "there is something to correct"


def test_the_determinant_is_that_of_both_points(monkeypatch):
    """With |J J^T| of the mode in the place of the mixed determinant the weights have a bias."""
    declare = laplace._mixed_log_det

    def of_the_mode(r, n):
        def body(P, log_det, H, Q):
            return {"P": P, "log_det": log_det + np.log((H @ Q @ H.T)[0, 0])}

        return replace(declare(r, n), body=body)

    monkeypatch.setattr(laplace, "_mixed_log_det", of_the_mode)
    build_anew(monkeypatch)
    assert abs(bias(0.0)[0]) > 10.0


@pytest.mark.parametrize(("made", "model"), [(marginal_of, curved(0.5)), (exact_of, ornstein_uhlenbeck(0.2))])
def test_the_answer_does_not_depend_on_threads(made, model):
    data = pf.Observations([0.5, 1.0, 1.5], [[1.6], [0.2], [0.5]], initial_time=0.0)
    one, origin = made(model, data, 3)
    three, _ = made(model, data, 3, threads=3)
    u = np.random.default_rng(0).normal(size=(20, one.size))
    np.testing.assert_array_equal(one.values(u, origin), three.values(u, origin))
    for a, b in zip(one.pairs(u, origin, 1), three.pairs(u, origin, 1), strict=True):
        np.testing.assert_array_equal(a.states, b.states)
        np.testing.assert_array_equal(a.log_weights, b.log_weights)


def test_counts_have_the_textbook_approximation():
    """One normal state seen through a Poisson count: mode and curvature of the log density of the state, by hand."""
    model = pf.DiffusionModel(
        drift=lambda x, z: 0.0 * x,
        diffusion=lambda x, z: jnp.array([[z["s"]]]),
        parameters={"s": dist.LogNormal(0.0, 0.5)},
        initial_state=[0.4],
        observation=pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(x[0]))),
    )
    marginal, origin = marginal_of(model, pf.Observations([1.0], [[7.0]], initial_time=0.0), 1, prior=False)
    for u in (-1.0, 0.3, 1.2):
        s, x = np.exp(0.5 * u), 1.0
        for _ in range(50):
            x -= ((x - 0.4) / s**2 + np.exp(x) - 7.0) / (1.0 / s**2 + np.exp(x))
        log_density = 7.0 * x - np.exp(x) - np.log(5040.0) - 0.5 * ((x - 0.4) / s) ** 2 - np.log(s)
        expected = log_density - 0.5 * np.log(1.0 / s**2 + np.exp(x))
        assert abs(marginal.values(np.array([[u]]), origin)[0] - expected) < 1e-7  # the mode is found to 1e-8


def test_units_change_nothing_but_a_constant():
    u = np.random.default_rng(2).normal(size=(5, 1))
    times = [0.5, 1.0, 1.5]
    data = pf.Observations(times, [[1.6], [0.2], [0.5]], initial_time=0.0)
    in_grams = pf.Observations(times, [[1600.0], [200.0], [500.0]], initial_time=0.0)

    def model(unit):
        return pf.DiffusionModel(
            drift=lambda x, z: -z["a"] * x,
            diffusion=lambda x, z: 0.8 * jnp.sqrt(1.0 + x[:, None] ** 2),
            parameters={"a": dist.Normal(0.5, 0.5)},
            initial_state=[0.3],
            observation=pf.Noiseless(lambda x, z: unit * (x + 0.3 * x**3)),
        )

    (one, at_one), (other, at_other) = marginal_of(model(1.0), data, 3), marginal_of(model(1000.0), in_grams, 3)
    values, others = one.values(u, at_one), other.values(u, at_other)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(others - values, -3.0 * np.log(1000.0), atol=1e-7)


def test_curvature_at_an_edge_of_the_density_is_the_priors_where_it_is_unknown():
    """Beyond the edge there is no path; what is not known there is said by no warning of NumPy's."""

    class Edge(ByDifferences):
        free = np.ones(3, dtype=bool)

        def values(self, u, origin):
            return np.where(u[:, 0] > 0.0, -np.inf, -2.0 * u[:, 1] ** 2)

    found = curvature(cast(Any, Edge()), Origin(np.zeros(3), np.zeros(0), 0.0), np.eye(3))
    np.testing.assert_allclose(found, np.diag([1.0, 4.0, 0.0]), atol=1e-6)
