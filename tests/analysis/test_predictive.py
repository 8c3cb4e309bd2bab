"""Data that a model would give: of the posterior, of the prior, of parameters that are given."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr

import pathfold as pf
from pathfold.analysis.plots.style import POSTERIOR
from tests.analysis import rich
from tests.analysis.ornstein_uhlenbeck import SCALE, START, TIMES, normal_scores, ou_model, ou_run, standardised
from tests.sampling.comparing import threshold


def passes(*scores: list[float]) -> bool:
    flat = np.abs(np.concatenate(scores))
    return bool(flat.max() < threshold(flat.size, 1e-3))


def test_given_the_path_the_observation_noise_alone_is_new():
    tree = pf.posterior_predictive(ou_model(), ou_run())
    y, data = tree.posterior_predictive["y"], tree.observed_data["y"]
    assert y.dims == ("chain", "draw", "time", "observation")
    assert y["time"].equals(data["time"])
    assert y.shape == (2, 400, len(TIMES) - 1, 1), "a time at which nothing was observed is left out"
    states = tree.posterior["state"].sel(time=y["time"]).values
    assert passes(*(normal_scores((y.values - states)[:, :, k] / SCALE) for k in (0, 5, 13)))


def test_given_the_parameters_all_else_is_new():
    """What is seen at the first time: a step of the scheme from a new initial state, with noise."""
    tree = pf.posterior_predictive(ou_model(), ou_run(), given="parameters", seed=3)
    rate, level, sigma = (tree.posterior[name].values for name in ("rate", "level", "sigma"))
    delta = 0.1
    a = (1.0 - rate * delta) ** 4
    unit = sigma / standardised(sigma, 0.0, 4 * delta, delta, rate, 0.0, sigma)  # the deviation of the path's noise
    deviation = np.sqrt((a * START) ** 2 + unit**2 + SCALE**2)
    e = (tree.posterior_predictive["y"].values[:, :, 0, 0] - level * (1.0 - a)) / deviation
    assert passes(normal_scores(e))
    assert abs(np.corrcoef(e.ravel(), tree.posterior["state"].values[:, :, 0, 0].ravel())[0, 1]) < 0.15


def test_a_population_of_which_nothing_varies_is_refused():
    with pytest.raises(pf.SettingsError, match=r"no parameter varies between the series.*given='parameters'"):
        pf.posterior_predictive(ou_model(), ou_run(), given="population")


@pytest.mark.parametrize("given", ["path", "parameters"])
def test_a_panel_with_events_inputs_counts_and_missing_values(given):
    tree = pf.posterior_predictive(rich.model(), rich.run(), given=given, draws=5)
    y, data = tree.posterior_predictive["y"], tree.observed_data["y"]
    assert y.shape == (2, 5, *data.shape)
    assert y["node_series"].values.tolist() == 3 * ["fed"] + 3 * ["other"]
    assert np.array_equal(np.isnan(y.values), np.broadcast_to(np.isnan(data.values), y.shape))
    counts = y.sel(observation="count").values
    assert np.array_equal(counts, counts.round(), equal_nan=True)


def test_the_events_and_inputs_of_the_data_happen_again(monkeypatch):
    """Without noise, from given starts: as one simulates with them."""
    quiet = rich.run().copy()
    quiet["posterior"] = quiet.posterior.to_dataset().assign(sigma=0.0 * rich.run().posterior["sigma"] + 1e-300)
    start = "pathfold.model.ensemble.Ensemble.draw_starts"
    monkeypatch.setattr(start, lambda self, rng: np.zeros((self.count, self.series, 2)))
    observe = "pathfold.model.ensemble.Ensemble.observe"
    monkeypatch.setattr(observe, lambda self, states, times, series, rng: states)
    found = pf.posterior_predictive(rich.model(), quiet, given="parameters", draws=2).posterior_predictive["y"]
    for name, series in rich.panel().items():
        z = {each: quiet.posterior[each].isel(chain=1, draw=-1) for each in ("typical", "sigma", "twice")}
        z = {each: float(value) for each, value in z.items()}
        z["growth"] = float(quiet.posterior["growth"].sel(series=name).isel(chain=1, draw=-1))
        options = {"inputs": series.inputs, "events": series.events, "initial_time": series.initial_time}
        tree = pf.simulate(rich.model(), z, series.times, initial_state=[0.0, 0.0], draws=1,
                           steps_per_interval=rich.STEPS, **options)  # fmt: skip
        seen = ~np.isnan(series.values).all(axis=1)
        path = tree.prior["state"].sel(time=series.times[seen]).values[0, 0]
        mine = found.values[1, -1, found["node_series"].values == name]
        missing = np.isnan(series.values[seen])
        np.testing.assert_allclose(mine, np.where(missing, np.nan, path), rtol=1e-12)


def test_arviz_draws_the_result_as_it_is(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    import arviz as az

    tree = pf.posterior_predictive(rich.model(), rich.run(), draws=10)
    assert az.plot_ppc_dist(tree, num_samples=5)
    assert az.plot_ppc_tstat(tree)
    prior = pf.prior_predictive(rich.model(), rich.panel(), max_step=0.2, draws=10)
    assert az.plot_ppc_dist(prior, group="prior_predictive", num_samples=5)
    groups = ("posterior_predictive", "observed_data")
    for name in ("size", "count"):
        one = xr.DataTree.from_dict({group: tree[group].sel(observation=name).to_dataset() for group in groups})
        one = one.map_over_datasets(lambda group: group.dropna("node") if group else group)
        for picture in (az.plot_ppc_pit, az.plot_ppc_interval):
            assert picture(one)


def test_the_prior_has_the_shapes_of_the_posterior():
    tree = pf.prior_predictive(rich.model(), rich.panel(), steps_per_interval=rich.STEPS, draws=6)
    assert set(tree.children) == {"prior", "prior_predictive", "observed_data", "constant_data"}
    for name, there in rich.run().posterior.data_vars.items():
        assert tree.prior[name].dims == there.dims
        assert tree.prior[name].shape == (1, 6, *there.shape[2:])
    for name in ("component", "series", "node_series", "time"):
        assert tree.prior[name].equals(rich.run().posterior[name])
    xr.testing.assert_equal(tree.constant_data.to_dataset(), rich.run().constant_data.to_dataset())
    xr.testing.assert_equal(tree.observed_data.to_dataset(), rich.run().observed_data.to_dataset())
    missing = np.isnan(tree.observed_data["y"].values)
    assert np.array_equal(np.isnan(tree.prior_predictive["y"].values[0]), np.broadcast_to(missing, (6, *missing.shape)))


def test_the_prior_is_drawn_from():
    tree = pf.prior_predictive(ou_model(), [0.4, 0.8], max_step=0.1, draws=600, seed=4)
    assert set(tree.children) == {"prior", "prior_predictive", "constant_data"}
    prior = tree.prior
    rate, level, sigma = (prior[name].values for name in ("rate", "level", "sigma"))
    start, states = prior["initial_state"].values[..., 0], prior["state"].values[..., 0]
    y = tree.prior_predictive["y"].values[..., 0]
    assert passes(
        normal_scores(np.log(rate) / 0.3),
        normal_scores(level),
        normal_scores((np.log(sigma) + 0.5) / 0.3),
        normal_scores(start / START),
        normal_scores(standardised(states[..., 0], start, 0.4, 0.1, rate, level, sigma)),
        normal_scores((y - states)[..., 1] / SCALE),
    )


def test_many_series_of_given_parameters():
    """Parameters by draw, an initial state for all; the path at all times."""
    z = {"rate": np.linspace(0.5, 1.5, 500), "level": 0.3, "sigma": 0.4}
    times = 0.1 * np.arange(6)
    tree = pf.simulate(ou_model(), z, times, initial_state=[1.0], max_step=0.1, draws=500, seed=1)
    prior = tree.prior
    assert np.array_equal(prior["rate"].values[0], z["rate"])
    assert np.all(prior["level"] == 0.3)
    states = prior["state"].values[..., 0]
    np.testing.assert_allclose(prior["time"], times, atol=1e-15)
    assert np.all(states[:, :, 0] == 1.0)
    e = [standardised(states[:, :, k + 1], states[:, :, k], 0.1, 0.1, *map(np.asarray, z.values())) for k in range(5)]
    y = tree.prior_predictive["y"].values[..., 0]
    assert passes(normal_scores(np.array(e)), normal_scores((y - states) / SCALE))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: pf.simulate(ou_model(), {"rate": 1.0}, [1.0], max_step=0.1, draws=2), pf.ModelError,
         "no value was given for parameter 'level', 'sigma'"),
        (lambda: pf.simulate(ou_model(), {"rate": [1.0] * 3, "level": 0.0, "sigma": 1.0}, [1.0], max_step=0.1, draws=2),
         pf.ModelError, r"'rate' was given with shape \(3,\), expected \(\), or \(2,\) with a row for each draw"),
        (lambda: pf.simulate(ou_model(), {"rate": 1.0, "level": 0.0, "sigma": 1.0}, [1.0], max_step=0.1, draws=2,
                             initial_state=[1.0, 2.0]), pf.DataError,
         r"initial_state has shape \(2,\), expected \(1,\)"),
        (lambda: pf.simulate(ou_model(), None, [1.0], max_step=0.1), pf.ModelError,  # pyright: ignore
         "parameters must be a dict"),
        (lambda: pf.prior_predictive(ou_model(), pf.Observations([1.0], [0.1]), max_step=0.1, initial_time=1.0),
         pf.SettingsError, "give these to pf.Observations"),
        (lambda: pf.prior_predictive(ou_model(), pd.Series([3.0, 5.0], index=[10.0, 20.0]), max_step=0.1),
         pf.DataError, r"a pandas.Series could be times, or a series .* give pf.Observations"),
        (lambda: pf.prior_predictive(ou_model(), xr.DataArray([3.0], {"time": [10.0]}, dims="time"), max_step=0.1),
         pf.DataError, "a xarray.DataArray could be times"),
        (lambda: pf.prior_predictive(ou_model(), [1.0]), pf.SettingsError, "exactly one of"),
        (lambda: pf.posterior_predictive(ou_model(), ou_run(), given="draws"), pf.SettingsError,  # pyright: ignore
         "given must be 'path', 'parameters' or 'population'"),
        (lambda: pf.posterior_predictive(rich.model(), ou_run()), pf.SettingsError, "of another model"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_said(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


def test_pictures_of_individuals_show_doses_between_the_data():
    """Seven times in each interval and its end; given the path, draws are where they are at every node."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["k"] * x,
        diffusion=lambda x, z: 1e-6 * jnp.eye(1),
        parameters={"k": dist.LogNormal(0.0, 0.1)},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 1e-3),
        events={"dose": lambda x, z, amount: x + amount},
        scheme=pf.ExactLinearDrift(),
    )
    data = pf.simulate(
        model, {"k": 1.0}, [0.5, 6.0], steps_per_interval=1, events={"dose": ([0.0, 2.0, 4.0], [1.0, 2.0, 3.0])}
    )
    panel = {"one": data, "two": data}
    settings: dict[str, Any] = {"chains": 1, "warmup": 30, "draws": 10, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at_nodes = pf.sample(model, panel, steps_per_interval=1, keep_path="nodes", **settings)
        at_all = pf.sample(model, panel, steps_per_interval=16, keep_path="all", **settings)
    for tree, given in product((at_nodes, at_all), ("path", "parameters")):
        replicated = pf.posterior_predictive(model, tree, given=given)
        found = replicated.replicated_path
        mine = found["node_series"].values == "two"
        times, y = found["time"].values[mine], found["y"].values[0, :, mine, 0].T
        assert np.all(np.diff(times) > 0.0)
        assert {0.0, 0.5, 2.0, 4.0, 6.0} <= set(times.tolist())
        assert np.diff(times).max() < 0.3
        k = tree.posterior["k"].values[0][:, None]
        doses = [(t, amount) for t, amount in zip((0.0, 2.0, 4.0), (1.0, 2.0, 3.0), strict=True)]
        exact = sum(np.where(times >= t, amount * np.exp(-k * (times - t)), 0.0) for t, amount in doses)
        np.testing.assert_allclose(y, exact, atol=0.02)
        drawn = pf.plot_individuals(replicated, series="two").axes[0]
        median = next(line for line in drawn.lines if line.get_color() == POSTERIOR.line)
        np.testing.assert_array_equal(median.get_xdata(), times)


HOURS = np.arange(49.0)
RAIN = pf.Input(HOURS, np.where(HOURS % 12 == 6, 8.0, 0.0), kind="previous")


def store(*, logarithm: bool, **settings: Any) -> pf.DiffusionModel:
    """Rain falls on a store that drains, whose logarithm or amount is the state."""
    forms: dict[str, Any] = {
        "drift": lambda x, z, t, inputs: inputs["rain"] - z["k"] * x,
        "diffusion": lambda x, z: 0.1 * x[:, None],
        "initial_state": [0.3],
    }
    if logarithm:
        forms = {
            "drift": lambda x, z, t, inputs: inputs["rain"] * jnp.exp(-x) - z["k"] - 0.005,
            "diffusion": lambda x, z: 0.1 * jnp.eye(1),
            "initial_state": [np.log(0.3)],
        }
    given = {"parameters": {"k": dist.LogNormal(-1.0, 0.1)}, "observation": pf.GaussianNoise(lambda x, z: x, 0.1)}
    return pf.DiffusionModel(**forms | given | {"inputs": {"rain": RAIN}, "states": ["mm"]} | settings)


@pytest.mark.filterwarnings("ignore::pathfold.errors.DrawsWarning")  # of five draws
def test_replicated_paths_between_observations_see_the_input():
    """It rains from six to seven: the store is fuller then than at both observations beside it."""
    model = store(logarithm=False)
    data = pf.simulate(model, {"k": 0.4}, HOURS[6::6], steps_per_interval=12, seed=1)
    tree = pf.sample(model, data, steps_per_interval=12, chains=1, warmup=20, draws=5, seed=1, progress=False)
    y = pf.posterior_predictive(model, tree).replicated_path["y"].squeeze()
    after, before, later = (y.sel(time=t, method="nearest").values for t in (7.0, 6.0, 12.0))
    assert np.all(after > np.maximum(before, later) + 3.0)


@pytest.mark.filterwarnings("error")
def test_a_step_that_leaps_is_told_of():
    """8 mm in an hour on 0.3 mm, as a logarithm; an amount has no such step."""
    log, k = store(logarithm=True), {"k": np.exp(-1.0)}
    with pytest.warns(UserWarning, match="t = 6 one fine step changes mm from .*unless something flows into it"):
        pf.simulate(log, k, HOURS[1:], steps_per_interval=1)
    for make in (lambda: pf.simulate(log, k, HOURS[1:], steps_per_interval=4, draws=20),
                 lambda: pf.prior_predictive(log, HOURS[1:], steps_per_interval=4, draws=100)):  # fmt: skip
        with pytest.warns(UserWarning, match="% of the simulated paths have a fine step that changes mm by much"):
            make()
    amount = store(logarithm=False, scheme=pf.Milstein())
    pf.simulate(amount, k, HOURS[1:], steps_per_interval=4)
    pf.prior_predictive(amount, HOURS[1:], steps_per_interval=16, draws=100)


def test_simulations_whose_means_depend_on_the_step_say_so():
    """A step of dx = -x dt multiplies the mean, 3, by 1 - 1/2 and two halves by (1 - 1/4)^2."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: 0.1 * jnp.eye(1),
        parameters={},
        initial_state=dist.Normal(jnp.full(1, 3.0), 0.1),
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    moved = (0.75**2 - 0.5) * 3.0 / np.sqrt(0.25 * 0.01 + 0.01 * 0.5)
    with pytest.warns(UserWarning, match=r"twice as many x\[0\] at t = 0.5 would move") as caught:
        pf.simulate(model, {}, [0.5], steps_per_interval=1, draws=200)
    said = float(str(caught[0].message).split("by about ")[1].split()[0])
    assert said == pytest.approx(moved, rel=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pf.simulate(model, {}, [0.5], steps_per_interval=32, draws=200)


def test_simulations_tell_of_an_input_that_changes_within_a_step():
    amount, long = store(logarithm=False, scheme=pf.LinearlyImplicit()), 24.0
    for make in (lambda: pf.simulate(amount, {"k": 0.3}, [24.0, 48.0], max_step=long),
                 lambda: pf.simulate(amount, {"k": 0.3}, [24.0, 48.0], max_step=long, draws=2),
                 lambda: pf.prior_predictive(amount, [24.0, 48.0], max_step=long, draws=2)):  # fmt: skip
        with pytest.warns(UserWarning, match="input 'rain' changes up to 4 times within a fine step"):
            make()
