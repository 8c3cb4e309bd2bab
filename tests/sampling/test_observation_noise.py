"""Observation noise that is not Gaussian, or only in part, through pf.sample, against posteriors by quadrature.

All data are taken at the initial time, so that the posterior of the initial state has few dimensions. A second time
without data shows that noise which nothing holds does no harm.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats

import pathfold as pf
from tests.sampling.comparing import mean_scores, threshold

FALSE_ALARMS = 1e-3  # for everything in this file together
TESTS = 3


def draw(observation: pf.Noiseless | pf.GaussianNoise | pf.NoisyObservation, y, **parts: Any):
    given: dict[str, Any] = {"parameters": {}, "initial_state": dist.Normal(jnp.array([0.3]), 1.2)}
    model = pf.DiffusionModel(
        drift=lambda x, z: -x, diffusion=lambda x, z: jnp.eye(x.size), observation=observation, **given | parts
    )
    data = pf.Observations([0.0, 1.0], [y, np.full(len(y), np.nan)])
    tree = pf.sample(
        model, data, steps_per_interval=1, chains=4, warmup=300, draws=2500, seed=3, progress=False, keep_path="none"
    )
    assert np.mean(tree.sample_stats["status"].values != 0) < 0.01
    return tree.posterior


def assert_agree(draws: np.ndarray, values: np.ndarray, weights: np.ndarray) -> None:
    """Means of powers, and of being below some values, of a quantity whose law is given by weights of values."""
    cuts = values[np.searchsorted(np.cumsum(weights), [0.05, 0.25, 0.5, 0.75, 0.95])]
    centre = weights @ values
    x = np.stack([draws, (draws - centre) ** 2, *(draws <= cut for cut in cuts)])
    expected = [centre, weights @ (values - centre) ** 2, *(weights @ (values <= cut) for cut in cuts)]
    z = mean_scores(x.astype(float), np.array(expected))
    assert np.abs(z).max() < threshold(2 * z.size, FALSE_ALARMS / TESTS), z


def test_student_errors_of_unknown_degrees_of_freedom():
    """y_i = x_0 + w_i with w_i ~ Student-t(nu): quadrature over x_0 and log nu."""
    y = np.array([1.0, 1.3, -1.0])
    posterior = draw(
        pf.NoisyObservation(lambda x, z, w: x[0] + 0.5 * w, lambda z: dist.StudentT(z["nu"]).expand([3])),
        y,
        parameters={"nu": dist.LogNormal(1.0, 0.7)},
    )
    x, u = np.linspace(-6.0, 5.0, 4001), np.linspace(-5.0, 5.0, 401)
    nu = np.exp(1.0 + 0.7 * u)
    log_density = stats.norm.logpdf(u) + stats.norm.logpdf(x, 0.3, 1.2)[:, None]
    for value in y:
        log_density += stats.t.logpdf((value - x[:, None]) / 0.5, nu)
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    assert_agree(posterior["initial_state"].values[..., 0], x, weights.sum(axis=1))
    assert_agree(posterior["nu"].values, nu, weights.sum(axis=0))


def test_multiplicative_errors():
    """y = exp(x_0) w with w log-normal."""
    y = 2.0
    observation = pf.NoisyObservation(lambda x, z, w: jnp.exp(x) * w, dist.LogNormal(0.1, 0.4))
    posterior = draw(observation, [y])
    x = np.linspace(-4.0, 4.0, 20001)
    weights = stats.norm.pdf(x, 0.3, 1.2) * stats.lognorm.pdf(y * np.exp(-x), 0.4, scale=np.exp(0.1)) * np.exp(-x)
    assert_agree(posterior["initial_state"].values[..., 0], x, weights / weights.sum())


def test_one_component_exact_the_other_noisy():
    """x_0 a pair with correlation 0.8, the first seen exactly and the second with noise of scale 0.5."""
    cov, y = np.array([[1.0, 0.8], [0.8, 1.0]]), np.array([0.7, -0.4])
    start = dist.MultivariateNormal(jnp.zeros(2), jnp.asarray(cov))
    observation = pf.GaussianNoise(lambda x, z: x, np.array([0.0, 0.5]))
    posterior = draw(observation, y, initial_state=start)["initial_state"].values
    np.testing.assert_allclose(posterior[..., 0], y[0], atol=1e-8)
    x = np.linspace(-4.0, 4.0, 20001)
    weights = stats.norm.pdf(x, 0.8 * y[0], 0.6) * stats.norm.pdf(x, y[1], 0.5)
    assert_agree(posterior[..., 1], x, weights / weights.sum())
