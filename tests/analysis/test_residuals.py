"""pf.residuals: against Kalman's filter, where values are missing, and scores among draws of many distributions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy import stats
from scipy.special import ndtri

import pathfold as pf
from pathfold.analysis.noise_statistics import shape_test, tail_test, variance_test
from pathfold.analysis.particle_filter import ParticleFilter
from pathfold.analysis.predictive_scores import normal_scores, placed
from pathfold.data import TimeGrid
from tests.once import once

TIMES, STEPS = 0.5 * np.arange(1, 61), 2
FALSE_ALARMS = 1e-3


@once
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


def by_particles(given: pf.DiffusionModel, data: pf.Observations, particles: int = 2000) -> np.ndarray:
    score = ParticleFilter(given, TimeGrid.build(data, steps_per_interval=STEPS), particles)
    return score.residuals(np.zeros((1, 1)), 4)[0][0, :, 0]


@pytest.mark.parametrize("spread", [0.3, 0.02])
def test_particles_find_the_innovations_of_a_linear_model(spread):
    """With an outlier, and where values are missing."""
    y = pf.simulate(model(spread=spread), {"unused": 0.0}, TIMES, steps_per_interval=STEPS, seed=5).values[:, 0]
    y[20] += 4.0
    y[[30, 31, 45]] = np.nan
    exact, mine = innovations(y, spread), by_particles(model(spread=spread), pf.Observations(TIMES, y))
    mine_at = np.full(len(y), np.nan)
    mine_at[~np.isnan(y)] = mine
    near = np.abs(exact) < 2.0
    assert np.nanmax(np.abs(mine_at - exact)[near]) < 0.25
    assert np.nanmax(np.abs(mine_at - exact)[np.abs(exact) < 3.5]) < 0.5
    assert exact[20] > 7.0
    assert 5.0 < mine_at[20] < 1.1 * exact[20], "draws do not tell a normal tail from one a little heavier"


def test_particles_and_exact_and_censored_values():
    y = pf.simulate(model(), {"unused": 0.0}, TIMES, steps_per_interval=STEPS, seed=6).values[:, 0]
    exact = by_particles(model(pf.Noiseless(lambda x, z: x)), pf.Observations(TIMES, y))
    assert np.max(np.abs(exact - innovations(y, 0.0))) < 0.6
    below = np.where(np.arange(len(y)) == 7, -1.0, 0.0)
    censored = by_particles(model(), pf.Observations(TIMES, y, censored=below), particles=50)
    assert np.flatnonzero(np.isnan(censored)).tolist() == [7]


LAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t3": lambda rng, size: rng.standard_t(3, size),
    "t5": lambda rng, size: rng.standard_t(5, size),
    "Laplace": lambda rng, size: rng.laplace(size=size),
    "lognormal": lambda rng, size: np.exp(rng.normal(size=size)),
    "gamma": lambda rng, size: rng.gamma(2.0, size=size),
}
SERIES, LENGTH, PARTICLES = 40, 400, 100


def scores_of(y: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of values among draws of equal weight."""
    return normal_scores([placed(y, drawn, np.full(drawn.shape, 1.0 / drawn.shape[1]), rng.random(len(y)))])[0]


def with_normal_tails(y: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As `scores_of`, but beyond a tenth of the draws by a normal tail with their mean excess."""
    tenth = drawn.shape[1] // 10
    scores = ndtri((np.sum(drawn < y[:, None], axis=1) + rng.random(len(y))) / (drawn.shape[1] + 1))
    for sign in (1.0, -1.0):
        lowest = np.sort(sign * drawn, axis=1)[:, :tenth]
        away, edge = sign * y - lowest[:, -1], ndtri(0.1)
        scale = (lowest[:, -1] - lowest.mean(axis=1)) / (stats.norm.pdf(edge) / 0.1 + edge)
        scores = np.where(away < 0.0, sign * (edge + away / scale), scores)
    return scores


def rejected(law: str, score: Any) -> list[int]:
    """Count the series of values, each one more draw of what is expected, that tests at a level of 5 % reject."""
    rng = np.random.default_rng(list(LAWS).index(law))
    scores = np.empty((SERIES, LENGTH))
    for k in range(SERIES):
        size = np.exp(rng.normal(size=(LENGTH, 1)))  # scales and places differ between times
        all_ = size * (rng.normal(size=(LENGTH, 1)) + LAWS[law](rng, (LENGTH, PARTICLES + 1)))
        scores[k] = score(all_[:, 0], all_[:, 1:], rng)
    return [int(np.sum(test(scores)[1] < 0.05)) for test in (tail_test, shape_test, variance_test)]


@pytest.mark.parametrize("law", LAWS)
def test_values_that_are_as_expected_are_not_rejected(law):
    """Whatever the distribution; a normal tail with the mean excess of the draws does not pass."""
    most = stats.binom.isf(FALSE_ALARMS / 18, SERIES, 0.05)
    assert max(rejected(law, scores_of)) <= most
    if law == "t5":
        assert min(rejected(law, with_normal_tails)[:2]) > most


def test_scores_rise_with_the_value_as_far_as_one_looks():
    rng = np.random.default_rng(1)
    drawn, y = np.tile(rng.normal(size=PARTICLES), (2001, 1)), np.linspace(-10.0, 10.0, 2001)
    weights = np.tile(rng.dirichlet(np.full(PARTICLES, 5.0)), (2001, 1))
    here = placed(y, drawn, weights, np.full(2001, 0.5), every=2001)  # its draws are the same at all times
    scores = normal_scores([here, placed(y, rng.normal(size=drawn.shape), weights, np.full(2001, 0.5))])[0]
    assert np.all(np.diff(scores) >= 0.0)
    assert np.all(np.diff(scores[np.abs(y) > 2.0]) > 0.0)
    assert np.max(np.diff(scores)) < 0.3, "nor does it jump where the tail begins"


def test_outliers_are_far_out_and_counts_keep_to_their_ranks():
    rng = np.random.default_rng(2)
    drawn, y = rng.normal(size=(LENGTH, PARTICLES)), rng.normal(size=LENGTH)
    y[::100], y[50::100], y[1] = 10.0, -6.0, 1e6
    scores = scores_of(y, drawn, rng)
    assert 100.0 < scores[1] < 1e6, "finite, however far out"
    assert np.min(scores[::100]) > 4.5
    assert np.max(scores[50::100]) < -3.5
    many = np.random.default_rng(3).poisson(3.0, (5000, PARTICLES + 1)).astype(float)
    scores = scores_of(many[:, 0], many[:, 1:], rng)
    assert stats.kstest(scores, "norm").pvalue > FALSE_ALARMS
    assert not stats.kstest(scores * 1.2, "norm").pvalue > FALSE_ALARMS
    few = rng.normal(size=(LENGTH, 4))
    assert np.isfinite(scores_of(few[:, 0], few[:, 1:], rng)).all(), "three draws have no tail"
    assert scores_of(np.zeros(0), np.zeros((0, PARTICLES)), rng).shape == (0,), "nor has a column without values"


@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|things are amiss)")
def test_what_comes_back(tmp_path):
    given, data = model(), pf.Observations(TIMES[:9], np.sin(TIMES[:9]))
    posterior = pf.sample(given, data, steps_per_interval=STEPS, chains=2, warmup=20, draws=20, progress=False)
    one, other = (pf.residuals(given, data, posterior, threads=threads) for threads in (1, 2))
    assert one.residuals.attrs["method"] == "exact"
    np.testing.assert_allclose(one.residuals["y"][0, 0, :, 0], innovations(data.values[:, 0], 0.3), rtol=1e-9)
    assert one.residuals["y"].dims == ("chain", "draw", "time", "observation")
    assert one.residuals["y"].shape == (2, 4, 9, 1)
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
