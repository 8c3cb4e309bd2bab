"""pf.residuals: against Kalman's filter, where values are missing, and what a rank among values expected makes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy import stats

import pathfold as pf
from pathfold.analysis.residuals import normal_score

TIMES, STEPS = 0.5 * np.arange(1, 61), 2
FALSE_ALARMS = 1e-3


def model(observation: Any = None, spread: float = 0.3) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -0.8 * x,
        diffusion=lambda x, z: 0.6 * jnp.eye(1),
        parameters={"unused": dist.Normal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=observation or pf.GaussianNoise(lambda x, z: x, spread),
    )


def innovations(y: np.ndarray, spread: float) -> np.ndarray:
    """Of Kalman's filter; NaN where y is."""
    h, mean, variance, out = 0.5 / STEPS, 0.0, 1.0, []
    for value in y:
        for _ in range(STEPS):
            mean, variance = (1 - 0.8 * h) * mean, (1 - 0.8 * h) ** 2 * variance + 0.36 * h
        total = variance + spread**2
        out.append((value - mean) / np.sqrt(total))
        if not np.isnan(value):
            mean, variance = mean + variance / total * (value - mean), variance * spread**2 / total
    return np.array(out)


def found(given: pf.DiffusionModel, data: pf.Observations, **options) -> np.ndarray:
    posterior = pf.sample(given, data, steps_per_interval=STEPS, chains=1, warmup=20, draws=4, progress=False)
    settings = {"draws": 1, "particles": 2000, "seed": 4} | options
    return pf.residuals(given, data, posterior, **settings).residuals["y"].values[0, 0, :, 0]


@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|things are amiss)")
@pytest.mark.parametrize("spread", [0.3, 0.02])
def test_residuals_are_the_innovations_of_a_linear_model(spread):
    """With an outlier, and where values are missing."""
    y = pf.simulate(model(spread=spread), {"unused": 0.0}, TIMES, steps_per_interval=STEPS, seed=5).values[:, 0]
    y[20] += 4.0
    y[[30, 31, 45]] = np.nan
    exact, mine = innovations(y, spread), found(model(spread=spread), pf.Observations(TIMES, y))
    mine_at = np.full(len(y), np.nan)
    mine_at[~np.isnan(y)] = mine
    near = np.abs(exact) < 2.0
    assert np.nanmax(np.abs(mine_at - exact)[near]) < 0.25
    assert np.nanmax(np.abs(mine_at - exact)[np.abs(exact) < 3.5]) < 0.5
    assert 0.8 < mine_at[20] / exact[20] < 1.25
    assert abs(exact[20]) > 4.0


@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|things are amiss)")
def test_exact_and_censored_values():
    y = pf.simulate(model(), {"unused": 0.0}, TIMES, steps_per_interval=STEPS, seed=6).values[:, 0]
    exact = found(model(pf.Noiseless(lambda x, z: x)), pf.Observations(TIMES, y))
    assert np.max(np.abs(exact - innovations(y, 0.0))) < 0.6
    below = np.where(np.arange(len(y)) == 7, -1.0, 0.0)
    censored = found(model(), pf.Observations(TIMES, y, censored=below), particles=50)
    assert np.flatnonzero(np.isnan(censored)).tolist() == [7]


def test_scores_of_a_normal_distribution_are_normal():
    """Also in the tails; of counts too, by their ranks."""
    rng, weights = np.random.default_rng(1), np.full(200, 1 / 200)
    scores = np.array([normal_score(rng.normal(), rng.normal(size=200), weights, rng.random()) for _ in range(20_000)])
    assert stats.kstest(scores, "norm").pvalue > FALSE_ALARMS
    for z in (-6.0, -3.0, 3.0, 6.0):
        many = [normal_score(z, rng.normal(size=200), weights, 0.5) for _ in range(400)]
        assert abs(np.median(many) / z - 1.0) < 0.05
    counts = [
        normal_score(rng.poisson(3.0), rng.poisson(3.0, size=200).astype(float), weights, rng.random())
        for _ in range(5000)
    ]
    assert stats.kstest(counts, "norm").pvalue > FALSE_ALARMS
    assert not stats.kstest(scores * 1.05, "norm").pvalue > FALSE_ALARMS


@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|things are amiss)")
def test_what_comes_back(tmp_path):
    given, data = model(), pf.Observations(TIMES[:9], np.sin(TIMES[:9]))
    posterior = pf.sample(given, data, steps_per_interval=STEPS, chains=2, warmup=20, draws=20, progress=False)
    one, other = (pf.residuals(given, data, posterior, particles=20, threads=threads) for threads in (1, 2))
    assert one.residuals["y"].dims == ("chain", "draw", "time", "observation")
    assert one.residuals["y"].shape == (2, 8, 9, 1)
    np.testing.assert_array_equal(one.residuals["y"], other.residuals["y"])
    found = pf.check(one)
    assert "the one-step residual of y[0]" in set(found.table["noise"])
    assert "the one-step residual of y[0]" not in set(pf.check(posterior).table["noise"])
    figure = pf.plot_check(one, ["residual of y[0]"])
    assert figure.axes[0].get_title(loc="left") == "the one-step residual of y[0]"
    one.to_netcdf(tmp_path / "results.nc")
    assert pf.check(xr.open_datatree(tmp_path / "results.nc")).table.equals(found.table)
    with pytest.raises(pf.SettingsError, match="particles must be a whole number of at least 2"):
        pf.residuals(given, data, posterior, particles=1)
