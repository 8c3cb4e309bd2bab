"""pf.fit: its answer, its verdict, and that all which takes results of pf.sample takes it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any, cast

import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.example_models import EXAMPLES
from pathfold.inference.fit import mode_search, outcome
from pathfold.inference.fit.correction import corrected, resample
from pathfold.inference.fit.exploration import Explored, Uniforms, effective, pareto_k
from pathfold.inference.fit.integrated import Integrated
from pathfold.inference.fit.proposal import Proposal
from pathfold.inference.fit.verdict import Signs
from pathfold.sampling import progress
from pathfold.sampling.linear_marginal import LinearMarginal
from pathfold.sampling.marginal import Pair
from pathfold.sampling.progress import Stages
from tests.inference.test_marginal import DATA, curved, gaussian_log_likelihood, ornstein_uhlenbeck

STEPS = 4


@pytest.fixture(scope="module")
def model() -> pf.DiffusionModel:
    return ornstein_uhlenbeck(0.2)


@pytest.fixture(scope="module")
def fitted(model) -> xr.DataTree:
    return pf.fit(model, DATA, steps_per_interval=STEPS, threads=1)


def by_quadrature() -> tuple[np.ndarray, np.ndarray, float]:
    """Means and standard deviations of the normals u, and the log evidence, on a grid: the likelihood is Gaussian."""
    axis = np.linspace(-4.5, 4.5, 25)
    u = np.stack([each.ravel() for each in np.meshgrid(axis, axis, axis, indexing="ij")], axis=1)
    logs = np.array([gaussian_log_likelihood(each, DATA, STEPS, 0.2) for each in u])
    logs += -0.5 * (u**2).sum(axis=1) - 1.5 * np.log(2.0 * np.pi)
    w = np.exp(logs - np.logaddexp.reduce(logs))
    mean = w @ u
    return mean, np.sqrt(w @ (u - mean) ** 2), float(np.logaddexp.reduce(logs) + 3.0 * np.log(axis[1] - axis[0]))


def test_the_posterior_of_a_linear_model(fitted):
    """Paths are integrated out exactly: what is left is the error of 256 quasi-random points, or of 1000 draws."""
    mean, sd, log_evidence = by_quadrature()
    w = np.exp(fitted.laplace["explored_log_weight"].values)
    u = fitted.laplace["explored"].values
    assert fitted.attrs["verdict"] == "good", fitted.attrs["reasons"]
    assert np.abs((w @ u - mean) / sd).max() < 0.08
    assert np.abs(np.log(np.sqrt(w @ (u - w @ u) ** 2) / sd)).max() < 0.08
    assert abs(float(fitted.laplace["log_evidence"]) - log_evidence) < 0.05
    theta = np.log(fitted.posterior["theta"].values) / 0.5
    assert abs(theta.mean() - mean[0]) / sd[0] < 0.1


def test_the_same_answer_with_any_number_of_threads(model, fitted):
    again = pf.fit(model, DATA, steps_per_interval=STEPS, threads=3)
    for group in ("posterior", "laplace", "noise"):
        xr.testing.assert_identical(again[group].to_dataset(), fitted[group].to_dataset())
    other = pf.fit(model, DATA, steps_per_interval=STEPS, threads=1, seed=1)
    assert not np.array_equal(other.posterior["theta"], fitted.posterior["theta"])


def test_what_takes_results_takes_a_fit(model, fitted, tmp_path):
    predicted = pf.predict(model, fitted, [3.0, 4.0])
    assert predicted.predictions.sizes["draw"] > 0
    assert "posterior_predictive" in pf.posterior_predictive(model, fitted).children
    assert pf.check(fitted).p_value > 0.05
    page = pf.report(fitted, tmp_path / "report.html").read_text()
    assert "This is an approximation (pf.fit), exact in the path; it is good." in page
    assert "R-hat" not in page
    assert "power-scaling sensitivity" in page
    with pytest.raises(pf.SettingsError, match="part 0 of combine's list is a fit"):
        pf.combine([fitted])
    fitted.to_netcdf(tmp_path / "fit.nc")
    with xr.open_datatree(tmp_path / "fit.nc") as read:
        assert "exact in the path" in pf.report(read, tmp_path / "again.html").read_text()


def test_the_log_prior_is_that_of_the_draws(model, fitted):
    """Of every parameter, so that ArviZ finds what rests on the prior; of a run of pf.sample as well."""
    with pytest.warns(UserWarning, match="has not converged"):
        posterior = pf.sample(model, DATA, steps_per_interval=STEPS, warmup=20, draws=20, progress=False, threads=1)
    for tree in (fitted, posterior):
        theta, mu = tree.posterior["theta"].values, tree.posterior["mu"].values
        expected = -np.log(theta) - 0.5 * (np.log(theta) / 0.5) ** 2 - np.log(0.5 * np.sqrt(2.0 * np.pi))
        np.testing.assert_allclose(tree.log_prior["theta"].values, expected, rtol=1e-9)
        np.testing.assert_allclose(tree.log_prior["mu"].values, -0.5 * mu**2 - 0.5 * np.log(2.0 * np.pi), rtol=1e-9)
    assert float(az.psense(fitted, group="prior", var_names=["mu"])["mu"]) > 0.02


def first_line(capsys) -> str:
    """Return the first line that was said; that a model is being compiled is said where it takes long."""
    return next(line for line in capsys.readouterr().err.splitlines() if "compiling" not in line)


def test_a_prior_far_from_the_data_is_named(capsys):
    """After a fit, which is quick, and before chains begin and after they ended."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["level"] - x,
        diffusion=lambda x, z: jnp.array([[0.5]]),
        parameters={"level": dist.Normal(0.0, 1.0)},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.3),
    )
    far = pf.Observations([1.0, 2.0, 3.0], [15.0, 21.0, 23.0], initial_time=0.0)
    words = r"data and prior contradict each other: level is \d+ standard deviations out in its prior"
    with pytest.warns(UserWarning, match=words):
        fit = pf.fit(model, far, steps_per_interval=STEPS, points=16, threads=1)
    assert re.search(words, repr(fit) + str(pf.check(fit)))
    with pytest.warns(UserWarning, match=words):
        pf.sample(model, far, steps_per_interval=STEPS, warmup=10, draws=10, chains=1, threads=1)
    assert re.search(words, first_line(capsys))


def test_chains_start_from_a_fit(model, fitted):
    with pytest.warns(UserWarning, match="has not converged"):
        posterior = pf.sample(model, DATA, steps_per_interval=STEPS, start=fitted, draws=20, progress=False, threads=1)
    assert np.all(posterior.starts["way"] == "guess")
    assert posterior.attrs["warmup"] == 100
    starts = fitted.noise["parameter_noise"].isel(draw=-1).values
    assert len(np.unique(starts, axis=0)) == 4, "each chain has a start of its own"


def test_noise_and_states_belong_together(model, fitted):
    """The noise of a draw, put through the model, gives its states and meets the data."""
    draw = fitted.noise.isel(chain=1, draw=2)
    number = int(draw["draw"])
    theta, mu, sigma = (float(fitted.posterior[name][1, number]) for name in ("theta", "mu", "sigma"))
    x, begin = mu + 0.7 * float(draw["initial_noise"].values[0, 0]), 0.0
    for n, t in enumerate(DATA.times):
        delta = (t - begin) / STEPS
        for v in draw["path_noise"].values[n, :, 0]:
            x, begin = x + delta * theta * (mu - x) + sigma * np.sqrt(delta) * v, t
        assert abs(x - float(fitted.posterior["state"][1, number, n, 0])) < 1e-6
        assert abs(x + 0.2 * float(draw["observation_noise"].values[n, 0]) - DATA.values[n, 0]) < 1e-6


def test_a_state_at_which_a_logarithm_is_infinite():
    """Noise of the draws is kept although the observation is not defined at the initial state."""
    model = pf.DiffusionModel(
        drift=lambda x, z: 1.0 - z["rate"] * x,
        diffusion=lambda x, z: 0.1 * x[:, None],
        parameters={"rate": dist.LogNormal(0.0, 0.5)},
        initial_state=[0.0],
        observation=pf.Likelihood(lambda x, z: dist.LogNormal(jnp.log(x[0]), 0.2)),
    )
    data = pf.Observations([0.5, 1.0, 1.5], [[0.4], [0.7], [0.8]], initial_time=0.0)
    assert "noise" in pf.fit(model, data, steps_per_interval=3, threads=1, points=64).children


def test_without_pairs_the_verdict_is_at_best_rough(model):
    fit = pf.fit(model, DATA, steps_per_interval=STEPS, pairs=False, keep_path="all", points=64, threads=1)
    assert fit.attrs["verdict"] == "rough"
    assert fit.posterior.sizes["time"] == STEPS * len(DATA.times)
    number = int(fit.noise["draw"][1])
    at_nodes = fit.posterior["state"].values[2, number, STEPS - 1 :: STEPS]
    np.testing.assert_allclose(fit.noise["state"].values[2, 1], at_nodes, atol=1e-7)


def test_where_no_path_is_reached_the_most_probable_ones_are_left(monkeypatch):
    monkeypatch.setattr("pathfold.sampling.laplace_marginal.draw_pair", lambda *_: (-np.inf, -np.inf))
    with pytest.warns(UserWarning, match="should not be relied on"):
        fit = pf.fit(curved(0.5), DATA, steps_per_interval=STEPS, points=64, threads=1)
    assert fit.attrs["verdict"] == "sample"
    assert float(fit.laplace["pairs_failed"]) == 1.0
    assert np.isfinite(fit.posterior["state"]).all()


def test_where_no_other_parameters_have_a_path_the_mode_is_left(model, monkeypatch):
    reach = LinearMarginal.reach

    def near(self, room, u, origin):
        return reach(self, room, u, origin) if np.abs(u - origin.u).max() < 0.6 else -np.inf

    monkeypatch.setattr(LinearMarginal, "reach", near)
    monkeypatch.setattr(Proposal, "of_uniforms", lambda self, uniforms: self.mean + 3.0 + uniforms[:, :-1])
    with pytest.warns(UserWarning, match="should not be relied on"):
        fit = pf.fit(model, DATA, steps_per_interval=STEPS, points=64, threads=1)
    assert np.ptp(fit.posterior["theta"].values) == 0.0
    assert any("no paths were found" in reason for reason in fit.attrs["reasons"])


def test_quasi_random_points_are_even():
    """In every coordinate, of 512 points each sixteenth has 32, give or take two; of independent ones six."""
    points = Uniforms(6, np.random.default_rng(0)).next(512)
    counts = np.array([np.histogram(column, np.linspace(0.0, 1.0, 17))[0] for column in points.T])
    assert np.abs(counts - 32).max() <= 3
    assert len(np.unique(points, axis=0)) == 512


def test_it_says_what_it_does(model, capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    pf.fit(model, DATA, steps_per_interval=STEPS, points=16, threads=1, pairs=False)
    said = capsys.readouterr()
    assert "pathfold: seeking the mode from start 1, after" in said.err
    assert "pathfold: exploring parameters and paths, 4 points so far, after" in said.err
    assert said.out == ""


def test_a_quick_one_says_nothing(model, capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 1e9)
    pf.fit(model, DATA, steps_per_interval=STEPS, points=16, threads=1, pairs=False)
    assert capsys.readouterr().err == ""


class Clock(Stages):
    """Stages whose time is spent after so many batches of points: none of them, and no climb, if that is 0."""

    asked, enough = 0, 0

    @property
    def spent(self) -> bool:
        self.asked += "exploring" in self.stage
        return self.asked > self.enough or not self.enough


def fit_in_time(model, enough: int, monkeypatch, **settings) -> xr.DataTree:
    monkeypatch.setattr(Clock, "enough", enough)
    monkeypatch.setattr("pathfold.sampling.marginal.Stages", Clock)
    with pytest.warns(UserWarning, match="max_seconds were spent before it was done .*; sample instead"):
        return pf.fit(model, DATA, steps_per_interval=STEPS, threads=1, max_seconds=5.0, **settings)


def test_a_fit_whose_time_is_spent_has_what_there_is(model, fitted, monkeypatch):
    at_once, later = fit_in_time(model, 0, monkeypatch), fit_in_time(model, 5, monkeypatch)
    for fit in (at_once, later):
        assert fit.attrs["verdict"] == "sample"
        assert "max_seconds were spent" in fit.attrs["reasons"][0]
    assert at_once.laplace.sizes["point"] == 1, "where the climb begins"
    np.testing.assert_array_equal(later.laplace["explored"], fitted.laplace["explored"][: 5 * 32])
    with pytest.warns(UserWarning, match="few effective draws|not converged"):
        posterior = pf.sample(
            model, DATA, steps_per_interval=STEPS, start=at_once, draws=10, warmup=10, progress=False, threads=1
        )
    assert np.all(posterior.starts["way"] == "guess")


def test_a_climb_to_the_maximum_whose_time_is_spent(model, monkeypatch):
    fit = fit_in_time(model, 0, monkeypatch, prior=False)
    assert fit.attrs["verdict"] == "sample"
    assert "max_seconds were spent" in fit.attrs["reasons"][0]


def test_a_long_fit_says_how_long_it_takes(model, capsys, monkeypatch):
    monkeypatch.setattr(mode_search, "LONG", 0.0)
    pf.fit(model, DATA, steps_per_interval=STEPS, points=16, threads=1, max_seconds=1e6)
    assert re.search(
        r"this fit takes about \d+ s \(\d+ s for the mode, \d+ s for 16 points about it\)\n", capsys.readouterr().err
    )


def test_of_a_heavy_problem_useless_points_are_not_all_made(monkeypatch):
    model = curved(0.5)
    monkeypatch.setattr(outcome, "HEAVY", 0.0)
    assert pf.fit(model, DATA, steps_per_interval=STEPS, threads=1).laplace.sizes["point"] == 256
    monkeypatch.setattr(outcome, "USELESS", (-1.0, 0.3))
    assert pf.fit(model, DATA, steps_per_interval=STEPS, threads=1).laplace.sizes["point"] == 64


def test_maximum_likelihood(model):
    fit = pf.fit(model, DATA, steps_per_interval=STEPS, prior=False, threads=1)
    u = fit.laplace["mode"].values
    best = gaussian_log_likelihood(u, DATA, STEPS, 0.2)
    assert abs(float(fit.laplace["log_likelihood"]) - best) < 1e-8
    for step in 1e-2 * np.concatenate([np.eye(3), -np.eye(3)]):
        assert gaussian_log_likelihood(u + step, DATA, STEPS, 0.2) < best + 1e-4
    assert float(fit.laplace["aic"]) == pytest.approx(6.0 - 2.0 * best)
    assert float(fit.laplace["bic"]) == pytest.approx(3.0 * np.log(5) - 2.0 * best)
    assert "posterior" not in fit.children


DECAY = pf.Observations(0.25 * np.arange(1, 9), np.exp(-0.25 * np.arange(1, 9))[:, None], initial_time=0.0)


@pytest.mark.parametrize(
    ("priors", "open_ones", "words"),
    [
        ({"a": dist.LogNormal(0.0, 0.5), "b": dist.LogNormal(0.0, 0.5)}, "ab", "determine a and b separately: their"),
        pytest.param({name: dist.Normal(1.0, 0.5) for name in "ab"}, "ab", "a and b sep", marks=pytest.mark.slow),
        ({"a": dist.Normal(1.0, 30.0), "b": dist.Normal(1.0, 0.5)}, "ab", "determine a and b separately: their"),
        ({"a": dist.Normal(1.0, 0.5), "unused": dist.Normal(1.0, 0.5)}, ["unused"], "determine unused: its"),
    ],
)
def test_what_data_do_not_determine_has_no_standard_error(priors, open_ones, words):
    """Of two factors the path knows the product alone: along the ridge, bent or straight, there is no information."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["a"] * (z["b"] if "b" in priors else 1.0) * x,
        diffusion=lambda x, z: jnp.array([[0.1]]),
        parameters=priors,
        initial_state=[1.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.05),
    )
    fit = pf.fit(model, DECAY, steps_per_interval=3, prior=False, threads=1)
    errors = {name: float(fit.laplace[f"{name}_at_mode"].sel(statistic="standard_error")) for name in priors}
    assert {name for name, error in errors.items() if np.isinf(error)} == {*open_ones}
    assert 0.05 < errors["a"] < 0.5 or "b" in priors
    assert fit.attrs["verdict"] == "rough"
    assert words in fit.attrs["reasons"][0]


def test_a_panel_whose_values_vary_between_series():
    """What varies is integrated out with the path, series by series; the answer is that of a linear mixed model."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["level"] - x,
        diffusion=lambda x, z: jnp.array([[0.5]]),
        parameters={
            "mean": dist.Normal(0.0, 1.0),
            "level": pf.Varying(lambda z: dist.Normal(z["mean"], 0.8)),
        },
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.3),
    )
    rng = np.random.default_rng(0)
    panel = [pf.Observations([1.0, 2.0], rng.normal(0.5, 0.8, size=(2, 1)), initial_time=0.0) for _ in range(6)]
    fit = pf.fit(model, panel, steps_per_interval=2, threads=1)
    steps, columns = 0.5, []
    weight, level, rows = np.zeros(4), 0.0, []
    for n in range(4):
        weight, level = (1.0 - steps) * weight, (1.0 - steps) * level + steps
        weight[n] = 0.5 * np.sqrt(steps)
        if n % 2:
            rows.append(weight.copy())
            columns.append(level)
    B, g = np.array(rows), np.array(columns)
    precision = np.linalg.inv(B @ B.T + 0.09 * np.eye(2) + 0.64 * np.outer(g, g))
    information = 1.0 + 6.0 * g @ precision @ g
    mean = sum(float(g @ precision @ each.values[:, 0]) for each in panel) / information
    assert float(fit.laplace["mode"][0]) == pytest.approx(mean, abs=1e-3)
    assert float(fit.laplace["hessian"][0, 0]) == pytest.approx(information, rel=1e-5)
    assert fit.posterior["level"].dims == ("chain", "draw", "series")
    assert fit.attrs["verdict"] == "good"


def test_where_no_latent_values_are_found_the_density_is_zero(monkeypatch):
    monkeypatch.setattr(Integrated, "reached", lambda *_: None)
    found = Integrated(cast(Any, None), np.eye(1)).values(np.zeros((2, 1)), cast(Any, None))
    np.testing.assert_array_equal(found, [-np.inf, -np.inf])


def level_of(prior, subjects: list[str]) -> pf.DiffusionModel:
    """Levels with some prior, of subjects that are seen three times each."""
    return pf.DiffusionModel(
        drift=lambda x, z: z["level"] - x,
        diffusion=lambda x, z: jnp.array([[0.5]]),
        parameters={"mean": dist.LogNormal(0.0, 1.0), "spread": dist.LogNormal(0.0, 0.5), "level": prior},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.3),
        covariates={"subject": subjects},
    )


def test_the_law_of_groups_belongs_to_the_likelihood():
    """Where each series is a group, the likelihood is that of a value for each series, which is integrated out."""
    levels = {"a": -0.8, "b": 0.1, "c": 1.0, "d": 2.1, "e": 3.5}
    rng = np.random.default_rng(0)
    panel = [
        pf.Observations([1.0, 2.0, 3.0], level + 0.3 * rng.normal(size=3), 0.0, covariates={"subject": name})
        for name, level in levels.items()
    ]

    def law(z):
        return dist.Normal(z["mean"], z["spread"])

    by_series, by_group = (
        pf.fit(level_of(prior, [*levels]), panel, steps_per_interval=2, threads=1, prior=False)
        for prior in (pf.Varying(law), pf.Varying(law, by="subject"))
    )
    assert by_group.attrs["integrated"] == ["level"]
    assert "level_at_mode" not in by_group.laplace
    for name, precision in {"mean_at_mode": 1e-3, "spread_at_mode": 1e-3, "aic": 1e-5, "bic": 1e-5}.items():
        np.testing.assert_allclose(by_group.laplace[name], by_series.laplace[name], rtol=precision)


@pytest.mark.parametrize("law", [lambda z: dist.Normal(z["mean"], 1.0), lambda z: dist.Gamma(z["mean"], 1.0)])
def test_a_prior_that_depends_on_parameters_belongs_to_the_likelihood(law):
    """Of one series it says the same as the law of what varies between series, be there an exact map of it or not."""
    data = [pf.Observations([1.0, 2.0, 3.0], [1.2, 2.0, 2.3], 0.0, covariates={"subject": "a"})]
    shared, varying = (
        pf.fit(level_of(prior, ["a"]), data, steps_per_interval=2, threads=1, prior=False)
        for prior in (law, pf.Varying(law))
    )
    np.testing.assert_allclose(shared.laplace["aic"], varying.laplace["aic"], rtol=1e-3)
    np.testing.assert_allclose(shared.laplace["mean_at_mode"][0], varying.laplace["mean_at_mode"][0], rtol=1e-2)


def test_subjects_without_noise_in_their_paths():
    """The law of one that is far from the others has a negative curvature at the mode, before its data count; with it
    every pair used to fail."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: jnp.zeros((1, 1)),
        parameters={
            "typical": dist.LogNormal(0.0, 1.0),
            "spread": dist.LogNormal(-1.0, 0.5),
            "tau": dist.LogNormal(-2.0, 0.5),
            "rate": pf.Varying(lambda z: dist.LogNormal(jnp.log(z["typical"]), z["spread"])),
        },
        initial_state=[1.0],
        observation=pf.GaussianNoise(lambda x, z: x, "tau"),
    )
    rng, times = np.random.default_rng(0), np.array([0.2, 0.5, 1.0, 2.0])
    panel = [
        pf.Observations(times, np.exp(-rate * times) + 0.1 * rng.normal(size=4), 0.0)
        for rate in (0.5, 0.6, 0.7, 0.7, 0.8, 0.8, 0.9, 1.0, 1.1, 5.0)
    ]
    fit = pf.fit(model, panel, max_step=0.1, threads=1)
    assert fit.attrs["verdict"] == "good", fit.attrs["reasons"]
    assert float(fit.laplace["pairs_failed"]) < 1e-12


def test_paths_of_idle_lanes_do_not_count():
    """Three series of three intervals leave lanes idle, whose state is zero: there a root has no slope."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: 0.2 * jnp.sqrt(x)[:, None],
        parameters={"rate": dist.LogNormal(0.0, 0.5)},
        initial_state=[1.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    panel = [pf.Observations([0.5, 1.0, 1.5], [0.6, 0.4, 0.2], 0.0) for _ in range(3)]
    fit = pf.fit(model, panel, steps_per_interval=2, threads=1, points=64)
    assert float(fit.laplace["pairs_failed"]) < 1e-12


def test_words_of_a_model_without_paths():
    signs = Signs(**(SIGNS | {"pair_spread": 2.0, "pairs_failed": 0.5, "points_failed": 0.5, "paths": "effects"}))
    assert not any("path" in reason for reason in signs.reasons())


SIGNS = {
    "converged": True,
    "pareto_k": 0.2,
    "effective_share": 0.8,
    "points_failed": 0.0,
    "pairs_failed": 0.0,
    "pair_spread": 0.1,
    "shift": 0.05,
    "shifted": "a",
    "modes": 1,
}


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({}, "good", None),
        ({"pareto_k": 0.65}, "rough", "heavy tail"),
        ({"pareto_k": 0.8}, "sample", "heavy tail"),
        ({"effective_share": 0.3}, "rough", "30 % of the points"),
        ({"effective_share": 0.1}, "sample", "effective"),
        ({"points_failed": 0.2}, "sample", "20.0 % of the parameters"),
        ({"pairs_failed": 0.15}, "rough", "15 % of the paths"),
        ({"pairs_failed": None}, "rough", "pairs=False"),
        ({"pair_spread": np.nan}, "sample", "far from Gaussian"),
        ({"shift": 0.6}, "sample", "move a by 0.60"),
        ({"modes": 2}, "sample", "2 modes"),
        ({"converged": False}, "sample", "came to no end"),
        ({"converged": False, "done": False, "modes": 5}, "sample", "max_seconds were spent"),
    ],
)
def test_verdicts(change, verdict, words):
    signs = Signs(**(SIGNS | change))
    assert signs.verdict == verdict
    assert (signs.reasons() == []) if words is None else words in signs.reasons()[0]


def test_the_correction_finds_the_slope_of_the_bias():
    """Log weights of pairs with a slope of 0.3 and a spread of 0.4: the mean moves by the slope times the variance."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(400, 1))
    noise = 0.4 * rng.normal(size=400)
    logs = 0.3 * u[:, 0] + noise - 0.5 * 0.4**2
    pairs = [Pair(u[0], 0.0, np.array([each, each]), u[:1], u[:1]) for each in logs]
    explored = Explored(u, np.zeros(400), np.full(400, -np.log(400.0)), 0, 0.0, pairs)
    result = corrected(explored)
    error = 0.4 / np.sqrt(400 * u.var())
    assert abs(result.slope[0] - 0.3) < 4 * error
    assert result.spread == pytest.approx(0.4, abs=0.06)
    assert abs(result.weights @ u[:, 0] - (u.mean() + 0.3 * u.var())) < 0.1
    failing = [Pair(u[0], 0.0, np.array([-np.inf, each]), u[:1], u[:1]) for each in logs[:100]] + pairs[100:]
    assert corrected(replace(explored, pairs=failing)).slope[0] == 0.0, "with 12 % of failures there is none"


def test_weights():
    rng = np.random.default_rng(0)
    assert effective(np.zeros(50)) == pytest.approx(50.0)
    for shape in (0.3, 0.9):  # the tail of U^-shape is Pareto with that shape
        found = np.mean([pareto_k(-shape * np.log(rng.random(4000))) for _ in range(20)])
        assert abs(found - shape) < 0.1
    weights = np.array([0.1, 0.2, 0.7])
    np.testing.assert_array_equal(np.bincount(resample(weights, 1000, rng)), [100, 200, 700])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"points": 3}, "points must be a whole number of at least 16"),
        ({"pairs": 200}, "pairs must be True or False"),
        ({"keep_path": "some"}, "keep_path must be"),
        ({"starts": 0}, "starts must be a whole number"),
        ({"max_seconds": 0}, "max_seconds must be a positive number"),
    ],
)
def test_settings_are_checked(model, settings, words):
    with pytest.raises(pf.SettingsError, match=words):
        pf.fit(model, DATA, **{"steps_per_interval": STEPS, **settings})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"draws": 10**12}, "the draws would take .* GiB of memory"),
        ({"points": 10**12}, "fewer draws or fewer points"),
        ({"steps_per_interval": 10**8, "keep_path": "none"}, "the fine steps of one path would take"),
    ],
)
def test_memory_is_checked_before_anything_is_compiled(model, settings, words, monkeypatch):
    monkeypatch.setattr(sys.modules[pf.fit.__module__], "compile_sampler", None)
    monkeypatch.setattr("pathfold.model.memory.machine_memory", lambda: 2**30)
    with pytest.raises(pf.SettingsError, match=words):
        pf.fit(model, DATA, **{"steps_per_interval": STEPS, **settings})


def test_draws_are_rounded_up_to_four_equal_parts(model):
    fit = pf.fit(model, DATA, steps_per_interval=STEPS, draws=7, points=16, threads=1)
    assert fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sir", "double_well"])
def test_where_it_fails_it_says_so(name):
    example = EXAMPLES[name]
    with pytest.warns(UserWarning, match="should not be relied on"):
        fit = pf.fit(example.model(), example.data(), steps_per_interval=example.steps_per_interval)
    assert fit.attrs["verdict"] == "sample"
