"""Series as people have them, through pf.sample, against exact Gaussian posteriors of the same discretisation."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from tests.sampling.comparing import mean_scores, scores, threshold
from tests.sampling.linear_gaussian import Exact, ornstein_uhlenbeck

FALSE_ALARMS = 1e-3  # for everything in this file together
TESTS = 3


def draw(model: pf.DiffusionModel, data: Any, **steps: Any) -> xr.DataTree:
    return pf.sample(model, data, chains=4, warmup=300, draws=2000, seed=12, progress=False, **steps)


def assert_agree(z: np.ndarray) -> None:
    assert np.abs(z).max() < threshold(z.size, FALSE_ALARMS / TESTS), np.round(z, 2)


@pytest.mark.parametrize("noisy", [True, False])
def test_an_observation_at_the_initial_time_observes_the_initial_state(noisy):
    process = ornstein_uhlenbeck(noisy=noisy)
    model = process.model(known=True)
    simulated = pf.simulate(model, {}, [0.3, 0.5, 1.1], initial_time=0.3, steps_per_interval=5, seed=1)
    data = pf.Observations(simulated.times, [*simulated.values[0], np.nan, *simulated.values[2]], initial_time=0.3)
    exact = Exact(process, data, steps=3).known
    tree = draw(model, data, steps_per_interval=3)
    np.testing.assert_array_equal(tree.posterior["time"], [0.3, 0.5, 1.1])
    np.testing.assert_allclose(tree.posterior["state"][:, :, 0], tree.posterior["initial_state"], atol=1e-8)
    assert_agree(np.concatenate([z.ravel() for z in scores(tree, exact).values()]))


def test_a_panel_with_gaps_of_all_kinds_shares_its_parameter():
    """dx = -theta (x - mu) dt + sigma dW, mu ~ N(0.4, 1): the joint law of mu and both paths is Gaussian.

    The series differ in length and in initial time; times are irregular, entries are missing, one gap is longer than
    the others and is split for `max_step`.
    """
    process = ornstein_uhlenbeck(noisy=True)
    given = process.model(known=True)
    model = pf.DiffusionModel(
        drift=process.drift,
        diffusion=process.diffusion,
        parameters={**process.values, "mu": dist.Normal(0.4, 1.0)},
        initial_state=dist.Normal(jnp.asarray(process.start_mean), jnp.asarray(process.start_scale)),
        observation=given.observation,
    )
    nan = np.nan
    panel = [
        pf.Observations([0.5, 1.0, 1.4, 3.4], [0.1, nan, 0.9, 1.2]),
        pf.Observations([2.5, 3.0], [-0.4, 0.6], initial_time=2.2),
    ]
    tree = draw(model, panel, max_step=0.25)
    # The same intervals written out, two steps each: the gap of 2 is cut into four.
    cut = pf.Observations([0.5, 1.0, 1.4, 1.9, 2.4, 2.9, 3.4], [0.1, nan, 0.9, nan, nan, nan, 1.2])
    np.testing.assert_allclose(tree.posterior["time"], [*cut.times, *panel[1].times])
    np.testing.assert_array_equal(tree.posterior["node_series"], [0] * 7 + [1] * 2)

    means, factors, slopes, rows, values = [], [], [], [], []
    for data in (cut, panel[1]):
        exact = Exact(process, data, steps=2)
        z = {name: np.full(2, value) for name, value in process.values.items()} | {"mu": np.array([0.4, 1.4])}
        mean, factor = exact.joint(z)
        observed = ~np.isnan(data.values[:, 0])
        rows.append(np.concatenate([[False], observed]))
        values.append(data.values[observed, 0])
        means.append(mean[0, :, 0])
        slopes.append(mean[1, :, 0] - mean[0, :, 0])
        factors.append(factor[0, :, 0])
    first, second = factors
    mean, slope, seen = np.concatenate(means), np.concatenate(slopes), np.concatenate(rows)
    factor = np.zeros((mean.size, 1 + first.shape[1] + second.shape[1]))
    factor[:, 0] = slope
    factor[: len(first), 1 : 1 + first.shape[1]] = first
    factor[len(first) :, 1 + first.shape[1] :] = second
    everything = np.vstack([np.eye(1, factor.shape[1]), factor])  # mu, then x_0 and nodes of each series
    centre = np.concatenate([[0.4], mean])
    H = everything[1:][seen]
    gram = H @ H.T + process.values["tau"] ** 2 * np.eye(len(H))
    gain = np.linalg.solve(gram, H @ everything.T).T
    exact_mean = centre + gain @ (np.concatenate(values) - mean[seen])
    exact_cov = everything @ everything.T - gain @ H @ everything.T

    posterior = tree.posterior
    x0, state = posterior["initial_state"].values[..., 0], posterior["state"].values[..., 0]
    x = [posterior["mu"].values, x0[..., 0], *np.moveaxis(state[..., :7], -1, 0), x0[..., 1]]
    x = np.stack([*x, *np.moveaxis(state[..., 7:], -1, 0)])
    away = x - exact_mean[:, None, None]
    i, j = np.tril_indices(len(exact_mean))
    covariances = mean_scores(away[i] * away[j], exact_cov[i, j])
    assert_agree(np.concatenate([mean_scores(x, exact_mean), covariances]))
