"""pf.paths: the path between states that are known, its law, the jumps on its way, and what comes back."""

from __future__ import annotations

import warnings
from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy.linalg import expm, solve_triangular

import pathfold as pf
from tests.analysis import rich
from tests.analysis.ornstein_uhlenbeck import TIMES, normal_scores, ou_model, ou_run
from tests.sampling.comparing import threshold

SHARES = np.array([0.2, 0.5, 0.9])
LENGTH = 2.0
RATE = 1e-3  # of false alarms, of a test
SHORT = {"chains": 2, "warmup": 40, "seed": 1, "progress": False}


def quiet(model: pf.DiffusionModel, data, **options) -> xr.DataTree:
    with warnings.catch_warnings(action="ignore"):
        return pf.sample(model, data, **SHORT | options)


@cache
def whole() -> xr.DataTree:
    """The rich panel with the states after all fine steps."""
    return quiet(rich.model(), rich.panel(), steps_per_interval=rich.STEPS, draws=200, keep_path="all")


def of_series(tree: xr.DataTree, group: str, name: str) -> np.ndarray:
    """States (D, T, X) of a series."""
    dataset = tree[group].to_dataset()
    mine = dataset["state"].values[:, :, dataset["node_series"].values == name]
    return mine.reshape(-1, *mine.shape[2:])


def standardised(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Normals (D, K) of x (D, K) with these means and covariances (D, K, K)."""
    factors = np.linalg.cholesky(covariance)
    return np.stack([solve_triangular(L, e, lower=True) for L, e in zip(factors, x - mean, strict=True)])


def bridge(shares: np.ndarray, length: float) -> np.ndarray:
    """The covariance of a Brownian bridge."""
    return length * (np.minimum.outer(shares, shares) - np.outer(shares, shares))


def test_a_bridge_within_a_step_of_euler_meets_inputs_doses_and_accumulators():
    """Of the noisy component a Brownian bridge to the state before the dose at the end of the step; the other grows by
    its drift alone, from zero after a time of the data."""
    tree, steps = whole(), rich.STEPS
    states, sigma = of_series(tree, "posterior", "fed"), tree.posterior["sigma"].values.ravel()
    times = tree.posterior["time"].values[tree.posterior["node_series"].values == "fed"]
    dosed, after_data = int(np.argmin(np.abs(times - 1.3))), int(np.argmin(np.abs(times - 1.0))) + 1
    assert times[dosed - 1] < 1.3 - 1e-6
    assert dosed - after_data == steps - 1
    scores = []
    for end, dose in ((dosed, 0.8), (after_data, 0.0)):
        begin, length = times[end - 1], times[end] - times[end - 1]
        asked = begin + SHARES * length
        found = of_series(pf.paths(rich.model(), tree, asked, series="fed", seed=3), "paths", "fed")
        x, to = states[:, end - 1], states[:, end, 0] - dose
        mean = x[:, :1] + SHARES * (to - x[:, 0])[:, None]
        covariance = sigma[:, None, None] ** 2 * bridge(SHARES, length)
        scores += normal_scores(standardised(found[:, :, 0], mean, covariance))
        eaten = 0.0 if end == after_data else x[:, 1:]
        np.testing.assert_allclose(found[:, :, 1], eaten + SHARES * length * np.exp(x[:, :1]), rtol=1e-12)
    assert np.abs(scores).max() < threshold(len(scores), RATE)


@cache
def tracked(scheme) -> tuple[pf.DiffusionModel, xr.DataTree]:
    """An integrated Ornstein-Uhlenbeck process, seen a few times, with one step between them."""
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], 0.3 - z["rate"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={"rate": dist.LogNormal(0.0, 0.3), "sigma": dist.LogNormal(0.0, 0.3)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x[:1], 0.2),
        scheme=scheme,
        states=("place", "velocity"),
    )
    data = pf.Observations(LENGTH * np.arange(1, 4), [0.5, 2.0, 1.0])
    return model, quiet(model, data, steps_per_interval=1, draws=200)


def test_between_exact_steps_the_path_has_the_law_of_the_model():
    """Three times between two nodes, all given both, against the joint normal law of a linear model."""
    model, tree = tracked(pf.ExactLinearDrift())
    tree = pf.paths(model, tree, LENGTH * (1.0 + SHARES))
    posterior = tree.posterior
    begin, end = posterior["state"].values.reshape(-1, 3, 2)[:, :2].swapaxes(0, 1)
    found = tree.paths["state"].values.reshape(len(begin), -1)
    means, covariances = [], []
    for x, to, rate, sigma in zip(begin, end, *(posterior[n].values.ravel() for n in ("rate", "sigma")), strict=True):
        mean, covariance = joint(x, rate, sigma, LENGTH * np.append(SHARES, 1.0))
        gain = np.linalg.solve(covariance[-2:, -2:], covariance[-2:, :-2]).T
        means.append(mean[:-2] + gain @ (to - mean[-2:]))
        covariances.append(covariance[:-2, :-2] - gain @ covariance[-2:, :-2])
    scores = normal_scores(standardised(found, np.array(means), np.array(covariances)))
    assert np.abs(scores).max() < threshold(len(scores), RATE)


def joint(x: np.ndarray, rate: float, sigma: float, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of place and velocity at times after x, by Van Loan's exponentials of each stretch."""
    A, b, S = np.array([[0.0, 1.0], [0.0, -rate]]), np.array([0.0, 0.3]), np.diag([0.0, sigma**2])
    mean, covariance, before = np.zeros(0), np.zeros((0, 0)), 0.0
    for t in times:
        d, across = t - before, expm(A * (t - before))
        lifted = expm(np.block([[-A, S], [np.zeros((2, 2)), A.T]]) * d)
        moved = expm(np.block([[A, b[:, None]], [np.zeros((1, 3))]]) * d)[:2, 2]
        x, before = across @ x + moved, t
        mean = np.append(mean, x)
        over = covariance[-2:] if len(covariance) else np.zeros((2, 0))
        own = across @ (over[:, -2:] if over.size else np.zeros((2, 2))) @ across.T + across @ lifted[:2, 2:]
        covariance = np.block([[covariance, (across @ over).T], [across @ over, own]]) if over.size else own
    return mean, covariance


def test_noise_that_enters_a_step_as_a_square_is_found_again():
    """Milstein's step of geometric Brownian motion: the Wiener path of each step is tied at its end."""
    growth, sigma = 0.1, 0.5
    model = pf.DiffusionModel(
        drift=lambda x, z: growth * x,
        diffusion=lambda x, z: sigma * x[:, None],
        parameters={},
        initial_state=dist.LogNormal(jnp.zeros(1), 0.2),
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
        scheme=pf.Milstein(),
    )
    tree = quiet(model, pf.Observations([0.5, 1.0], [1.2, 1.1]), steps_per_interval=1, draws=200)
    found = (
        pf.paths(model, tree, 0.5 + 0.5 * np.append(SHARES, 1.0 - 1e-9)).paths["state"].values[..., 0].reshape(-1, 4)
    )
    begin, end = tree.posterior["state"].values[..., 0].reshape(-1, 2).T

    np.testing.assert_allclose(found[:, 3], end, atol=1e-3)

    def wiener(to, length):
        """The increment that x (1 + growth d + sigma w + sigma^2 (w^2 - d) / 2) comes from."""
        c = to / begin[:, None] - 1.0 - growth * length + 0.5 * sigma**2 * length
        return (np.sqrt(1.0 + 2.0 * c) - 1.0) / sigma

    whole = wiener(end[:, None], 0.5)
    covariance = np.broadcast_to(bridge(SHARES, 0.5), (len(begin), 3, 3))
    scores = normal_scores(standardised(wiener(found[:, :3], 0.5 * SHARES), SHARES * whole, covariance))
    assert np.abs(scores).max() < threshold(len(scores), RATE)


def test_at_nodes_the_path_is_the_draws_own():
    tree = pf.paths(ou_model(), ou_run(), [0.0, *TIMES[[0, 4]]], draws=7)
    places = tree.paths["draw"].values
    states = ou_run().posterior["state"].sel(draw=places).values
    initial = ou_run().posterior["initial_state"].sel(draw=places).values
    np.testing.assert_array_equal(tree.paths["state"][:, :, 0], initial)
    np.testing.assert_array_equal(tree.paths["state"][:, :, 1:], states[:, :, [0, 4]])


def test_each_series_has_the_times_within_its_data():
    asked = [0.1, 0.3, 1.2, 2.1]
    tree = pf.paths(rich.model(), whole(), asked, draws=5)
    assert tree.paths["state"].dims == ("chain", "draw", "node", "component")
    assert tree.paths["node_series"].values.tolist() == 3 * ["fed"] + 3 * ["other"]
    assert tree.paths["time"].values.tolist() == [0.1, 0.3, 1.2, 0.3, 1.2, 2.1]
    alone = pf.paths(rich.model(), whole(), [2.1], series="other", draws=5)
    assert alone.paths["node_series"].values.tolist() == ["other"]
    again, other = (pf.paths(rich.model(), whole(), asked, draws=5, seed=seed) for seed in (0, 1))
    assert tree.paths.to_dataset().identical(again.paths.to_dataset())
    assert not np.array_equal(tree.paths["state"], other.paths["state"])


def test_dates_are_given_and_come_back():
    days = np.array(["2026-03-01", "2026-03-03", "2026-03-04"], "M8[D]")
    data = pf.Observations(days, [0.3, 0.5, 0.4], unit="days")
    tree = quiet(ou_model(), data, steps_per_interval=1, draws=10)
    tree = pf.paths(ou_model(), tree, ["2026-03-02", "2026-03-02T12:00"])
    assert tree.paths["time"].values.tolist() == [1.0, 1.5]
    assert tree.paths["date"].values.astype("M8[h]").astype(str).tolist() == ["2026-03-02T00", "2026-03-02T12"]
    with pytest.raises(pf.DataError, match=r"times have 2026-03-05 00:00:00, .* from 2026-03-01 .* to 2026-03-04"):
        pf.paths(ou_model(), tree, ["2026-03-02", "2026-03-05"])


@pytest.mark.parametrize(
    ("times", "error", "sentence"),
    [
        ([0.5], pf.SettingsError, "t = 0.5 is between two nodes, 4 fine steps apart, .* keep_path='all'"),
        ([0.4, 7.0], pf.DataError, "times have 7.0, .* they are known from 0.0 to 6.0; pf.predict goes on"),
        ([-0.1], pf.DataError, "times have -0.1, which is not within the data"),
        ([], pf.DataError, "empty"),
        (0.4, pf.DataError, "times must be a list of times"),
    ],
)
def test_what_is_not_known_is_said(times, error, sentence):
    with pytest.raises(error, match=sentence):
        pf.paths(ou_model(), ou_run(), times)


def test_a_step_of_ones_own_has_no_path_within():
    model, tree = tracked(pf.CustomScheme(lambda x, z, v, delta, t: x + delta * jnp.array([x[1], v[0]]), 1))
    with pytest.raises(pf.ModelError, match="CustomScheme does not say how the path goes on within a fine step"):
        pf.paths(model, tree, [1.0])
    assert np.isfinite(pf.paths(model, tree, [2.0]).paths["state"]).all()


def test_pictures_show_the_path_between_states():
    """The band has the quantiles of nodes and of times between, of as many draws as there are of each."""
    model, tree = tracked(pf.ExactLinearDrift())
    tree = pf.paths(model, tree, [1.0, 5.0], draws=50)
    line = pf.plot_paths(tree, "velocity").axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [0.0, 1.0, 2.0, 4.0, 5.0, 6.0])
    middle = np.asarray(line.get_ydata())[[1, 2]]
    between, node = (each["state"].values[:, :, 0, 1] for each in (tree.paths, tree.posterior))
    np.testing.assert_allclose(middle, [np.median(between), np.median(node)], rtol=1e-12)
