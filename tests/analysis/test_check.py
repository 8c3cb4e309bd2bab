"""pf.check: exact p-values under the true model, power against planted faults, words that name them."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy import stats

import pathfold as pf
from pathfold.analysis.channels import Channel, channels
from pathfold.analysis.check import LEVEL
from pathfold.analysis.noise_statistics import bounded, ratio_test, shape_test, spread_test
from pathfold.analysis.noise_tests import dependence
from pathfold.results.noise_group import NOTHING
from tests.thorough import thorough

TIMES = 0.5 * np.arange(1, 25)
DATA_SETS = 16
FALSE_ALARMS = 1e-3  # of each statistical test in this file


def sample(model: pf.DiffusionModel, data: Any, **options: Any) -> xr.DataTree:
    """A short run, of which it does not warn."""
    settings: dict[str, Any] = {"steps_per_interval": 2, "chains": 1, "warmup": 100, "draws": 160, "progress": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)|data and prior contradict")
        return pf.sample(model, data, **settings | options)


@cache
def linear(observation_scale: float = 0.2, spread: float = 0.5) -> pf.DiffusionModel:
    """Ornstein and Uhlenbeck's, with constant noise and Gaussian errors; how much is known of rate and noise."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * (x - z["level"]),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "rate": dist.LogNormal(0.0, spread),
            "level": dist.Normal(0.0, 1.0),
            "sigma": dist.LogNormal(-0.5, spread),
        },
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, observation_scale),
    )


@cache
def under_the_model(count: int) -> list[xr.DataTree]:
    """Posteriors of data whose parameters were drawn from the prior."""
    rng, found = np.random.default_rng(17), []
    for k in range(count):
        truth = {
            "rate": np.exp(0.5 * rng.normal()),
            "level": rng.normal(),
            "sigma": np.exp(-0.5 + 0.5 * rng.normal()),
        }
        data = pf.simulate(linear(), truth, TIMES, steps_per_interval=2, seed=1000 + k)
        posterior = sample(linear(), data, warmup=50, draws=60, seed=k)
        found.append(pf.residuals(linear(), data, posterior, threads=1))
    return found


@pytest.mark.parametrize("count", thorough([DATA_SETS, 200], DATA_SETS))
def test_the_noise_of_a_draw_is_standard_normal_under_the_model(count):
    """One draw of each data set: the p-values of every test are uniform, those of the discrete ones no smaller."""
    p_values: dict[str, list[float]] = {}
    for tree in under_the_model(count):
        one = tree.copy()
        for group in ("noise", "residuals"):
            one[group] = tree[group].to_dataset().isel(draw=[-1])
        for row in pf.check(one).table.to_dict("records"):
            # the p-values of one test in one data set after another are independent; those of one data set are not
            p_values.setdefault(f"{row['test']}: {row['noise']} {row['where']}", []).append(row["p_value"])
    assert len(p_values) > 20
    for name, found in p_values.items():
        assert len(found) == count
        # "greater" asks whether their distribution function lies above that of the uniform: whether they are too small
        side = "greater" if name.startswith("tails") else "two-sided"
        p = stats.kstest(found, "uniform", alternative=side).pvalue
        assert p > FALSE_ALARMS / len(p_values), (name, p)


@pytest.mark.parametrize("count", thorough([DATA_SETS, 200], DATA_SETS))
def test_a_true_model_is_not_rejected_more_often_than_stated(count):
    rejected = sum(not pf.check(tree).passed for tree in under_the_model(count))
    assert rejected <= stats.binom.isf(FALSE_ALARMS, count, LEVEL)


@pytest.mark.parametrize("length", [20, 1501])
def test_p_values_of_standard_normals_are_uniform(length):
    """Of the tests that no scale enters, also of series that are cut into blocks; and one that would not pass."""
    e = np.random.default_rng(11).normal(size=(4000 if length < 100 else 800, length))
    for p in (shape_test(e)[1], shape_test(1e3 * e + 5.0)[1], ratio_test(1e3 * e, np.arange(length) < 8)[1]):
        assert stats.kstest(p, "uniform").pvalue > FALSE_ALARMS
    heavy = np.random.default_rng(12).standard_t(4, size=e.shape)
    assert stats.kstest(shape_test(heavy)[1], "uniform").pvalue < FALSE_ALARMS


def test_a_sign_may_depend_on_earlier_noise():
    """Up until the squares so far exceed what is usual, down from there on: the ratio of mean squares is not of F."""
    e = np.random.default_rng(13).normal(size=(20_000, 40))
    before = np.cumsum(e**2, axis=1) - e**2 - np.arange(40)
    sign = np.where(np.logical_or.accumulate(before > 2.0, axis=1), -1.0, 1.0)
    ratio, p = spread_test(e, sign)
    assert stats.kstest(p, "uniform").pvalue > FALSE_ALARMS
    n = np.sum(sign > 0, axis=1)
    enough = (n >= 8) & (n <= 32)
    by_f = 2 * np.minimum(stats.f.cdf(ratio, n, 40 - n), stats.f.sf(ratio, n, 40 - n))
    assert stats.kstest(by_f[enough], "uniform").pvalue < 1e-6
    assert spread_test(np.where(sign > 0, 3.0, 1.0) * e, sign)[1].mean() < 0.1


@pytest.mark.parametrize(("scale", "where"), [(0.5, "low"), (2.0, "high")])
def test_how_much_larger_noise_is_stands_with_where(scale, where):
    """Also where it is smaller."""
    rng, times = np.random.default_rng(3), np.arange(400.0)
    x = rng.normal(size=(1, 400, 1))
    away = x[0, :, 0] - np.cumsum(x[0, :, 0]) / np.arange(1, 401)
    values = rng.normal(size=(1, 400)) * np.where(away > 0.0, scale, 1.0)
    number = np.arange(400)
    source = Channel("path", "x[0]", values, number, times, times + 1.0, np.zeros(400, dtype=int), x)
    test = next(test for test in dependence(source, ["x[0]"]) if test.family == "spread with the state")
    said = re.search(r"is larger where x\[0\] is (\w+), ([\d.]+) times", test.say(test.statistic[0]))
    assert said is not None
    assert said[1] == where
    assert float(said[2]) == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("name", ["path_noise", "observation_noise", "parameter_noise", "state"])
def test_noise_that_is_no_number_is_a_finding(name):
    tree = under_the_model(DATA_SETS)[0].copy()
    noise = tree.noise.to_dataset().copy(deep=True)
    noise[name].values[0, 0, ...] = np.nan
    tree["noise"] = noise
    found = pf.check(tree)
    assert not found.passed
    assert np.isnan(found.p_value)
    assert "is not a number in some of the draws: sample again" in str(found)
    assert "no sign of misfit" not in str(found)


def test_the_noise_held_makes_the_draw():
    """Parameters, initial state and path are the maps of the noise, and the observations are met."""
    tree = under_the_model(DATA_SETS)[0]
    noise, posterior = tree.noise, tree.posterior.sel(draw=tree.noise["draw"].values)
    u, v0, w, v = (noise[name].values[0, 2] for name in (
        "parameter_noise", "initial_noise", "observation_noise", "path_noise"
    ))  # fmt: skip
    draw = posterior.isel(chain=0, draw=2)
    assert noise["parameter_normal"].values.tolist() == ["rate", "level", "sigma"]
    rate, level, sigma = np.exp(0.5 * u[0]), u[1], np.exp(-0.5 + 0.5 * u[2])
    np.testing.assert_allclose([draw["rate"], draw["level"], draw["sigma"]], [rate, level, sigma], rtol=1e-12)
    x = v0[0]
    np.testing.assert_allclose(x, draw["initial_state"])
    for n in range(len(TIMES)):
        for s in range(2):
            x = x - 0.25 * rate * (x - level) + 0.5 * sigma * v[n, s]
        np.testing.assert_allclose(x, draw["state"].values[n], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(x + 0.2 * w[n], tree.observed_data["y"].values[n], rtol=1e-7, atol=1e-7)


def test_what_a_posterior_of_the_unconstrained_sampler_holds_makes_its_draws():
    data = pf.simulate(linear(), {"rate": 1.0, "level": 0.0, "sigma": 0.5}, TIMES, steps_per_interval=2)
    tree = sample(linear(), data, sampler=pf.UnconstrainedHMC(), warmup=200, draws=20)
    x = tree.posterior["state"].sel(draw=tree.noise["draw"].values).values
    np.testing.assert_allclose(x + 0.2 * tree.noise["observation_noise"].values, tree.observed_data["y"].values + 0 * x)
    assert tree.noise["path_noise"].shape == (1, 2, len(TIMES), 2, 1)
    assert "the noise in x[0]" in set(pf.check(tree).table["noise"])


@pytest.mark.parametrize("sampler", thorough([pf.UnconstrainedHMC(), pf.GuidedProposals()], pf.UnconstrainedHMC()))
def test_rows_of_which_a_part_is_missing_have_the_noise_of_the_others(sampler):
    """With a matrix as scale: S w is the misfit of what was seen, and w is of size one where nothing was."""
    scale = np.array([[0.3, 0.0], [0.2, 1e-3]])
    model = pf.DiffusionModel(
        lambda x, z: -x, lambda x, z: jnp.eye(2), {}, jnp.zeros(2), pf.GaussianNoise(lambda x, z: x, scale)
    )
    values = pf.simulate(model, {}, TIMES, steps_per_interval=2, seed=3).values
    values[4:8, 0], values[12:16, 1], values[20] = np.nan, np.nan, np.nan
    tree = sample(model, pf.Observations(TIMES, values), sampler=sampler, draws=40)
    w, x = tree.noise["observation_noise"].values[0], tree.noise["state"].values[0]
    seen = ~np.isnan(values)
    np.testing.assert_allclose((x + w @ scale.T)[:, seen], np.broadcast_to(values[seen], (len(w), seen.sum())))
    assert np.abs(w).max() < 6.0


def test_channels_leave_out_what_nobody_saw():
    values = np.sin(TIMES)
    values[[3, 4, 10]] = np.nan
    data = pf.Observations(np.append(0.0, TIMES), np.append(0.1, values))
    tree = sample(linear(), data, draws=10)
    forecast = pf.Observations(np.append(data.times, [13.0, 14.0]), np.append(data.values, [np.nan, np.nan]))
    assert channels(sample(linear(), forecast, draws=10))[0].ends[-1] == TIMES[-1], "not what comes after the data"
    path, late, error, together = channels(tree)
    assert (late.kind, late.name) == ("path", "x[0] (late against early)")
    assert np.array_equal(late.intervals, path.intervals)
    assert (path.kind, path.name, error.kind, error.name) == ("path", "x[0]", "observation", "y[0]")
    assert path.values.shape[1] == len(TIMES), "not the interval of length zero"
    assert error.values.shape[1] == len(TIMES) + 1 - 3
    assert (together.kind, together.name) == ("together", "x[0] and the error of y[0]")
    both = np.intersect1d(path.intervals, error.intervals)
    np.testing.assert_array_equal(together.intervals, both)
    parts = (each.values[:, np.isin(each.intervals, both)] for each in (path, error))
    np.testing.assert_allclose(together.values, sum(parts) / np.sqrt(2.0))
    np.testing.assert_array_equal(error.ends, np.append(0.0, TIMES)[~np.isnan(data.values[:, 0])])
    assert path.states is not None
    assert error.states is not None
    np.testing.assert_array_equal(path.states[0, 1:], tree.posterior["state"].values[0, -1, 1:-1])
    whole = sample(linear(), data, draws=10, keep_path="all")
    np.testing.assert_array_equal(channels(whole)[0].states, path.states)


# Planted faults: each model is right but for one thing.


def data_of(drift: Any, diffusion: Any, times: np.ndarray, scale: float, seed: int) -> pf.Observations:
    true = pf.DiffusionModel(drift, diffusion, {}, jnp.ones(1), pf.GaussianNoise(lambda x, z: x, scale))
    return pf.simulate(true, {}, times, steps_per_interval=50, seed=seed)


def bistable_seen_as_linear() -> xr.DataTree:
    times = 0.1 * np.arange(1, 1501)
    data = data_of(lambda x, z: 3.0 * (x - x**3), lambda x, z: 1.2 * jnp.eye(1), times, 0.05, 3)
    return sample(linear(0.05), data, steps_per_interval=4)


def driven_seen_as_alone() -> xr.DataTree:
    times = 0.25 * np.arange(1, 241)
    data = data_of(lambda x, z, t: 2.0 * jnp.sin(0.25 * jnp.pi * t) - x, lambda x, z: 0.5 * jnp.eye(1), times, 0.05, 3)
    return sample(linear(0.05), data, steps_per_interval=4)


def noise_that_grows_seen_as_constant() -> xr.DataTree:
    times = 0.3 * np.arange(1, 251)
    data = data_of(lambda x, z: -0.5 * (x - 1.0), lambda x, z: 0.6 * jnp.abs(x)[:, None], times, 0.02, 4)
    return sample(linear(0.02), data, steps_per_interval=4)


HEAVY = np.random.default_rng(6).standard_t(2.0, size=(200, 1))
DATES = np.datetime64("2026-03-01", "m") + 6 * np.arange(201)


@cache
def outliers_seen_as_gaussian() -> xr.DataTree:
    times = 0.1 * np.arange(1, 201)
    truth = {"rate": 1.0, "level": 0.3, "sigma": 0.6}
    data = pf.simulate(linear(1e-6), truth, times, steps_per_interval=4, seed=5)
    data = pf.Observations(DATES[1:], data.values + 0.2 * HEAVY, initial_time=DATES[0], unit="hours")
    return sample(linear(0.2, spread=0.1), data, steps_per_interval=4)


@pytest.mark.parametrize(
    ("posterior", "family", "words"),
    [
        (bistable_seen_as_linear, "shift with the state", "the noise in x[0] is shifted inwards where x[0] is far out"),
        (driven_seen_as_alone, "autocorrelation", "the noise in x[0] persists from one time to the next"),
        (noise_that_grows_seen_as_constant, "spread with the state", "the noise in x[0] is larger where x[0] is high"),
        (outliers_seen_as_gaussian, "tails", "the error of y[0] has heavy tails"),
    ],
)
def test_planted_faults_are_found_and_named(posterior, family, words):
    found = pf.check(posterior())
    assert family in set(found.table["test"][found.table["adjusted"] < 0.01])
    assert any(words in each for each in found.findings), str(found)
    assert "The model does not fit" in str(found)


def test_outliers_are_listed_by_their_dates(tmp_path):
    """In what is printed, and in the report; windows have dates in the table, too."""
    posterior = outliers_seen_as_gaussian()
    found = pf.check(posterior)
    worst = str(DATES[1:][np.abs(HEAVY[:, 0]).argmax()]).replace("T", " ")
    for text in (str(found), pf.report(posterior, tmp_path / "report.html").read_text()):
        assert re.search(rf"and the error of y\[0\] has heavy tails, .* \(at [^)]*{worst}:00[^)]*\): outliers", text)
    windows = found.table["where"][found.table["test"] == "mean in windows"]
    assert "between 2026-03-01 00:00:00 and 2026-03-01 10:00:00" in set(windows)


def unknown_errors() -> pf.DiffusionModel:
    """The same with a scale of errors that is unknown, and makes up for outliers."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * (x - z["level"]),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "rate": dist.LogNormal(0.0, 0.7),
            "level": dist.Normal(0.0, 1.0),
            "sigma": dist.LogNormal(-0.5, 0.7),
            "tau": dist.LogNormal(-1.5, 0.5),
        },
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, "tau"),
    )


def test_outliers_and_changes_of_variance_are_found_where_scales_are_unknown():
    times, model, rng = 0.5 * np.arange(1, 101), unknown_errors(), np.random.default_rng(14)
    truth = {"rate": 0.8, "level": 0.0, "sigma": 0.6, "tau": 0.2}
    calm, wild = (
        pf.simulate(model, truth | {"sigma": sigma}, times, steps_per_interval=20, seed=3).values[:, 0]
        for sigma in (0.6, 1.5)
    )
    changed = pf.Observations(times, np.where(times > 25.0, wild, calm))
    found = pf.check(sample(model, changed, steps_per_interval=3, warmup=200))
    assert any("the noise in x[0] is larger in the second half of the time" in each for each in found.findings)
    off = pf.Observations(times, calm + 2.0 * (np.arange(100) % 17 == 5) * rng.choice([-1.0, 1.0], 100))
    ahead = pf.residuals(model, off, sample(model, off, steps_per_interval=3, warmup=200), threads=1)
    found = pf.check(ahead)
    assert any("the one-step residual of y[0] is not normal, whatever its scale" in each for each in found.findings)
    assert stats.jarque_bera(ahead.residuals["y"][0, 0, :, 0]).pvalue < 1e-6


def test_a_burst_is_found_where_it_is():
    times = 0.2 * np.arange(1, 161)
    truth = {"rate": 1.0, "level": 0.0, "sigma": 0.4}
    calm = pf.simulate(linear(0.05), truth, times, steps_per_interval=4, seed=7).values[:, 0]
    kicks = np.where((times > 16.0) & (times <= 24.0), np.random.default_rng(8).normal(size=160), 0.0)
    response = np.zeros(160)
    for n in range(1, 160):
        response[n] = 0.8 * response[n - 1] + kicks[n]
    found = pf.check(sample(linear(0.05), pf.Observations(times, calm + response), steps_per_interval=4))
    assert any("the noise in x[0] is too large between t = 16 and 24" in each for each in found.findings)
    assert ("the noise in x[0]", 0, 16.0, 24.0) in found.spans


def test_bounds_over_draws_hold_for_any_dependence():
    """Twice the median of the p-values of draws, however they depend; planted: the smallest would not hold."""
    rng = np.random.default_rng(9)
    common = rng.normal(size=(4000, 1))
    for weight in (0.0, 0.7, 1.0):
        z = weight * common + np.sqrt(1 - weight**2) * rng.normal(size=(4000, 9))
        p = 2 * stats.norm.sf(np.abs(z))
        for level in (0.01, 0.05, 0.2):
            limit = stats.binom.isf(FALSE_ALARMS / 9, 4000, level)
            assert sum(bounded(each) <= level for each in p) <= limit
            if weight < 1.0:
                assert np.sum(p.min(axis=1) <= level) > limit


def test_a_panel_is_checked_series_by_series():
    truth = {"rate": 1.0, "level": 0.0, "sigma": 0.5}
    panel = [pf.simulate(linear(), truth, TIMES, steps_per_interval=2, seed=k) for k in range(3)]
    panel[1] = pf.Observations(TIMES, panel[1].values + 6.0 * (np.arange(24) % 2)[:, None])
    found = pf.check(sample(linear(), panel))
    large = [each for each in found.findings if "too large" in each]
    assert any("in series 1" in each for each in large), str(found)
    assert not any("in series 0" in each or "in series 2" in each for each in large)


def test_what_cannot_be_checked_is_said():
    with pytest.raises(pf.SettingsError, match=r"posterior must be what pf\.sample returned"):
        pf.check({"rate": 1.0})  # type: ignore[arg-type]
    tree = under_the_model(DATA_SETS)[0].copy()
    del tree["noise"]
    with pytest.raises(pf.SettingsError, match="posterior has no group 'noise'"):
        pf.check(tree)
    with pytest.raises(pf.SettingsError, match="level"):
        pf.check(under_the_model(DATA_SETS)[0], level=2.0)


def test_a_check_does_not_depend_on_what_is_kept():
    data = pf.Observations(TIMES, np.sin(TIMES))
    kept, none = (pf.check(sample(linear(), data, keep_path=keep_path)) for keep_path in ("nodes", "none"))
    assert none.table.equals(kept.table)


def test_a_saved_posterior_is_checked_alike(tmp_path):
    tree = under_the_model(DATA_SETS)[0]
    tree.to_netcdf(tmp_path / "results.nc")
    with xr.open_datatree(tmp_path / "results.nc") as loaded:
        assert pf.check(loaded).table.equals(pf.check(tree).table)


# What is not tested, and models without noise of their own.


@cache
def decay(likelihood: Any) -> pf.DiffusionModel:
    """An exponential decay from about 50, without system noise."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: jnp.zeros((1, 1)),
        parameters={"rate": dist.LogNormal(-1.2, 0.3)},
        initial_state=dist.Normal(jnp.array([50.0]), 5.0),
        observation=pf.Likelihood(likelihood),
    )


def counts(x, z):
    return dist.Poisson(jnp.exp(jnp.log(jnp.maximum(x, 1e-3))))


def sharp(x, z):
    """Whose distribution function is not known."""
    return dist.AsymmetricLaplace(x, 3.0, 1.0)


@cache
def decayed(kind: str) -> tuple[pf.DiffusionModel, pf.Observations, xr.DataTree]:
    """Counts of a decay, which a season disturbs if they are "wrong"; their distribution function may be unknown."""
    times, rng = 0.5 * np.arange(1, 41), np.random.default_rng(3)
    mean = 50.0 * np.exp(-0.3 * times) + (8.0 * (1.0 + np.sin(times)) if "wrong" in kind else 0.0)
    data = pf.Observations(times, rng.poisson(mean).astype(float))
    model = decay(sharp if "unknown" in kind else counts)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*)(things are amiss|steps are short)")
        return model, data, sample(model, data, chains=2)


def test_a_model_without_system_noise_that_does_not_fit_is_found():
    """By the scores of its counts; noise that moves nothing is not tested, and has no share of the level."""
    found = pf.check(decayed("wrong")[2])
    assert found.p_value < 1e-6
    assert any("the error of y[0] persists from one time to the next" in each for each in found.findings)
    assert found.not_checked == ("not checked: the noise of Wiener process 0, which moves no state",)
    right = pf.check(decayed("right")[2])
    assert right.passed
    assert not right.untested
    assert not any("noise in" in each for each in right.table["noise"])


def test_what_no_test_looked_at_is_said_first(tmp_path):
    model, data, posterior = decayed("wrong, unknown")
    found = pf.check(posterior)
    assert found.untested == ("the errors of y[0]",)
    assert str(found).startswith("Not checked: the errors of y[0]. ")
    assert pf.plot_check(decayed("right")[2]).get_suptitle().startswith("smallest")
    page = pf.report(posterior, tmp_path / "report.html").read_text()
    assert f'<p class="{"open" if found.passed else "bad"}">Not checked: the errors of y[0]. ' in page
    ahead = pf.check(pf.residuals(model, data, posterior, threads=1))
    assert not ahead.untested
    assert not ahead.passed
    calm = pf.report(decayed("right, unknown")[2], tmp_path / "calm.html").read_text()
    assert '<p class="open">Not checked: the errors of y[0]. No sign of misfit was found' in calm


def test_scores_of_counts_are_those_of_their_distribution():
    """The score given the state lies between those of the distribution function before and after its jump."""
    _, data, tree = decayed("right")
    score, x = tree.noise["observation_score"].values[..., 0], tree.noise["state"].values[..., 0]
    below, above = (stats.norm.ppf(stats.poisson.cdf(data.values[:, 0] - k, x)) for k in (1, 0))
    assert np.all((below <= score) & (score <= above))
    assert np.all(above - below > 0.0)


def test_censored_values_are_tested_between_their_bounds():
    data = pf.simulate(linear(), {"rate": 1.0, "level": 0.0, "sigma": 0.5}, TIMES, steps_per_interval=2, seed=4)
    low = data.values[:, 0] < -0.2
    given = pf.Observations(TIMES, np.where(low, -0.2, data.values[:, 0]), censored=np.where(low, -1, 0))
    tree = sample(linear(), given)
    score, state = tree.noise["observation_score"].values[..., 0], tree.noise["state"].values[..., 0]
    limit = (-0.2 - state) / 0.2
    assert 3 < low.sum() < 20
    assert np.all(score[..., low] <= limit[..., low])
    np.testing.assert_allclose(
        score[..., ~low], tree.noise["observation_noise"].values[..., ~low, 0], rtol=1e-6, atol=1e-6
    )
    (error,) = (source for source in channels(tree) if source.kind == "observation")
    assert error.values.shape[1] == len(TIMES)
    assert not pf.check(tree).untested


def test_noise_that_enters_by_other_states_is_tested():
    """A velocity's noise moves the position through the drift alone, or the noise of a state that begins at zero."""
    growing = pf.DiffusionModel(
        lambda x, z: jnp.array([1.0, x[0]]), lambda x, z: jnp.array([[0.0, 0.0], [0.2 * x[0], 0.0]]), {},
        jnp.zeros(2), pf.GaussianNoise(lambda x, z: x[1:], 0.1),
    )  # fmt: skip
    data = pf.Observations(TIMES, 0.5 * TIMES**2)
    tree = sample(growing, data, draws=20, warmup=20)
    assert tree.noise["drives"].values.tolist() == [-1, NOTHING]
    names = {source.name for source in channels(tree) if source.kind == "path"}
    assert names == {"Wiener process 0", "Wiener process 0 (late against early)"}
    assert "not checked: the noise of Wiener process 1, which moves no state" in pf.check(tree).not_checked
