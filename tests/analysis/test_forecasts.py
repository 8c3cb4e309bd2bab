"""Forecasts against exact laws and against what then happened (slow)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import binom, norm

import pathfold as pf
from tests.analysis.ornstein_uhlenbeck import ou_model
from tests.sampling.comparing import mean_scores, threshold

SERIES, COVERED = 200, 0.9


def linear_model() -> pf.DiffusionModel:
    """An integrated Ornstein-Uhlenbeck process with a drift of its own, its position seen with noise."""
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], 0.4 - 1.1 * x[1] - 0.3 * x[0]]),
        diffusion=lambda x, z: jnp.array([[0.0], [0.7]]),
        parameters={},
        initial_state=dist.Normal(jnp.array([0.5, 0.0]), jnp.array([0.8, 0.6])),
        observation=pf.GaussianNoise(lambda x, z: x[:1], 0.3),
    )


def joint_law(times: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the states (T, 2) at times of a regular grid, by Euler-Maruyama, densely."""
    delta = times[0] / steps
    F, c = np.eye(2) + delta * np.array([[0.0, 1.0], [-0.3, -1.1]]), delta * np.array([0.0, 0.4])
    Q = delta * np.diag([0.0, 0.49])
    mean, P, means, covariances = np.array([0.5, 0.0]), np.diag([0.64, 0.36]), [], []
    for _ in times:
        for _ in range(steps):
            mean, P = F @ mean + c, F @ P @ F.T + Q
        means.append(mean)
        covariances.append(P)
    A, n = np.linalg.matrix_power(F, steps), len(times)
    covariance = np.zeros((n, 2, n, 2))
    for i in range(n):
        block = covariances[i]
        for j in range(i, n):
            covariance[j, :, i], covariance[i, :, j] = block, block.T
            block = A @ block
    return np.ravel(means), covariance.reshape(2 * n, 2 * n)


@pytest.mark.slow
def test_a_linear_model_is_forecast_as_the_normal_law_says():
    """Means, variances and covariances of states and observations after the data, given the data."""
    times, steps, seen = 0.5 * np.arange(1, 17), 5, 10
    mean, covariance = joint_law(times, steps)
    rng = np.random.default_rng(8)
    H = np.zeros((seen, len(mean)))
    H[np.arange(seen), 2 * np.arange(seen)] = 1.0
    y = rng.multivariate_normal(H @ mean, H @ covariance @ H.T + 0.09 * np.eye(seen))
    gain = covariance @ H.T @ np.linalg.inv(H @ covariance @ H.T + 0.09 * np.eye(seen))
    ahead = slice(2 * seen, None)
    exact, spread = (mean + gain @ (y - H @ mean))[ahead], (covariance - gain @ H @ covariance)[ahead, ahead]

    data = pf.Observations(times[:seen], y)
    posterior = pf.sample(linear_model(), data, steps_per_interval=steps, draws=4000, seed=1, progress=False)
    predictions = pf.predict(linear_model(), posterior, times[seen:], seed=2).predictions
    x = predictions["state"].values
    x = np.moveaxis(x.reshape(*x.shape[:2], -1), -1, 0)
    e = predictions["y"].values[..., 0] - exact[::2]
    i, j = np.tril_indices(len(exact))
    away = x - exact[:, None, None]
    scores = np.concatenate(
        [
            mean_scores(x, exact),
            mean_scores(away[i] * away[j], spread[i, j]),
            mean_scores(np.moveaxis(e**2, -1, 0), np.diag(spread)[::2] + 0.09),
        ]
    )
    print(f"{scores.size} z-scores, the largest {np.abs(scores).max():.2f}")
    assert np.abs(scores).max() < threshold(scores.size, 1e-3), scores


@cache
def double_well() -> pf.DiffusionModel:
    """Two wells with a drift that is linear far from them: with a cubic one, explicit steps explode now and then."""
    return pf.DiffusionModel(
        drift=lambda x, z: z["height"] * (3.0 * jnp.tanh(x) - 2.0 * x),
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        parameters={"height": dist.LogNormal(0.0, 0.4), "sigma": dist.LogNormal(-0.4, 0.3)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", [ou_model, double_well])
def test_intervals_cover_what_then_happens(model: Callable[[], pf.DiffusionModel]):
    """Parameters from the prior, a series from them, a forecast from its first part: 90 % hold the rest, 90 times of a
    hundred, at every time ahead, but for the binomial error of so many series."""
    times, seen, ahead = 0.4 * np.arange(1, 21), 15, [15, 16, 19]
    every = pf.prior_predictive(model(), times, steps_per_interval=4, draws=SERIES, seed=11)
    y = every.prior_predictive["y"].values[0, :, :, 0]
    held, below = np.zeros((2, SERIES, len(ahead)))
    for k in range(SERIES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = pf.sample(model(), pf.Observations(times[:seen], y[k, :seen]), steps_per_interval=4, chains=2,
                                  warmup=150, draws=300, seed=k, progress=False)  # fmt: skip
        predicted = pf.predict(model(), posterior, times[ahead], seed=k).predictions["y"].values[..., 0]
        low, median, high = np.quantile(predicted, [0.5 - COVERED / 2, 0.5, 0.5 + COVERED / 2], axis=(0, 1))
        held[k], below[k] = (low <= y[k, ahead]) & (y[k, ahead] <= high), y[k, ahead] <= median
    print("covered:", held.mean(axis=0), "below the median:", below.mean(axis=0))
    rate = 1e-3 / (2 * len(ahead))
    for count, share in ((held.sum(axis=0), COVERED), (below.sum(axis=0), 0.5)):
        assert np.all(binom.cdf(count, SERIES, share) > rate / 2)
        assert np.all(binom.sf(count - 1, SERIES, share) > rate / 2)


@pytest.mark.slow
def test_a_nonlinear_model_is_forecast_as_long_simulation_says():
    """From a state that is seen exactly the forecast is the law of the scheme, here of many paths in NumPy."""
    model = pf.DiffusionModel(
        drift=lambda x, z: 1.5 * (x - x**3),
        diffusion=lambda x, z: 0.6 + 0.2 * jnp.sin(x)[:, None],
        parameters={},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Noiseless(lambda x, z: x),
    )
    data = pf.Observations([0.5, 1.0, 1.5], [0.3, -0.2, 0.1])
    posterior = pf.sample(model, data, steps_per_interval=10, draws=5000, warmup=50, seed=1, progress=False)
    predicted = pf.predict(model, posterior, [2.0, 4.0], seed=3).predictions["state"].values[..., 0]
    rng, x, paths = np.random.default_rng(4), np.full(400_000, 0.1), {}
    for step in range(1, 51):
        noise = np.sqrt(0.05) * rng.standard_normal(x.size)
        x = x + 0.05 * 1.5 * (x - x**3) + (0.6 + 0.2 * np.sin(x)) * noise
        paths[step] = x
    levels, scores = np.array([0.05, 0.25, 0.5, 0.75, 0.95]), []
    for k, step in enumerate((10, 50)):
        share = (predicted[:, :, k].ravel()[:, None] <= np.quantile(paths[step], levels)).mean(axis=0)
        count = predicted[:, :, k].size
        scores += [(share - levels) / np.sqrt(levels * (1 - levels) * (1 / count + 1 / x.size))]
    print(f"z-scores of quantiles, the largest {np.abs(scores).max():.2f}")
    assert np.abs(scores).max() < norm.isf(1e-3 / (2 * 10)), scores
