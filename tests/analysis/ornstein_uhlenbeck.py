"""An Ornstein-Uhlenbeck model whose discretised law is known, and a posterior of it."""

from __future__ import annotations

import warnings
from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from scipy.stats import kstest, norm

import pathfold as pf

SCALE, START = 0.1, 0.7  # of the observation noise, and of the initial state
TIMES = 0.4 * np.arange(1, 16)


@cache
def ou_model() -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * (x - z["level"]),
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        parameters={
            "rate": dist.LogNormal(0.0, 0.3),
            "level": dist.Normal(0.0, 1.0),
            "sigma": dist.LogNormal(-0.5, 0.3),
        },
        initial_state=dist.Normal(jnp.zeros(1), START),
        observation=pf.GaussianNoise(lambda x, z: x, SCALE),
    )


@cache
def ou_run() -> xr.DataTree:
    """Of data with one value missing."""
    data = pf.simulate(ou_model(), {"rate": 0.8, "level": 0.5, "sigma": 0.6}, TIMES, steps_per_interval=20, seed=1)
    data.values[4] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pf.sample(
            ou_model(), data, steps_per_interval=4, chains=2, warmup=100, draws=400, seed=2, progress=False
        )


def moved(row: int) -> float:
    """A time of the data."""
    return float(TIMES[row])


def standardised(x, before, length, delta, rate, level, sigma) -> np.ndarray:
    """States after a time of this length, in standard deviations from their mean, by Euler-Maruyama steps of `delta`:

    x_S = level + a^S (x_0 - level) + sigma sqrt(delta (1 - a^2S) / (1 - a^2)) e,   a = 1 - rate delta,   e ~ N(0, 1).
    """
    a, steps = 1.0 - rate * delta, round(length / delta)
    deviation = sigma * np.sqrt(delta * (1.0 - a ** (2 * steps)) / (1.0 - a**2))
    return (x - level - a**steps * (before - level)) / deviation


def normal_scores(e: np.ndarray) -> list[float]:
    """z-scores of mean, variance and the Kolmogorov-Smirnov distance of what is to be standard normal."""
    e = np.ravel(e)
    level = kstest(e, "norm").pvalue
    return [e.mean() * np.sqrt(e.size), (np.mean(e**2) - 1.0) * np.sqrt(e.size / 2.0), float(norm.isf(level / 2.0))]


def forecast_scores(tree: xr.DataTree) -> np.ndarray:
    """Of every step of an Ornstein-Uhlenbeck forecast, and of its observation noise."""
    predictions, constant = tree.predictions, tree.predictions_constant_data
    z = [tree.posterior[name].values for name in ("rate", "level", "sigma")]
    before, time = tree.posterior["state"].values[:, :, -1, 0], float(constant["start_time"][0])
    scores = []
    for k, t in enumerate(predictions["time"].values):
        x = predictions["state"].values[:, :, k, 0]
        scores.append(normal_scores(standardised(x, before, t - time, float(constant["fine_step"][k]), *z)))
        scores.append(normal_scores((predictions["y"].values[:, :, k, 0] - x) / SCALE))
        before, time = x, t
    return np.array(scores)
