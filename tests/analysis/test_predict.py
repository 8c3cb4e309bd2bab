"""pf.predict: where draws go on from, what they meet, what comes back."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr

import pathfold as pf
from tests.analysis import rich
from tests.analysis.ornstein_uhlenbeck import SCALE, TIMES, forecast_scores, moved, ou_model, ou_run
from tests.sampling.comparing import threshold

AHEAD = [2.5, 2.75, 4.0]


def still(times, **scenario) -> xr.DataTree:
    """Predictions of the rich model without noise."""
    return pf.predict(rich.model(), rich.run(), times, set={"sigma": 1e-300} | scenario.pop("set", {}), **scenario)


def path(x, growth, begin: float, times, heat, doses=(), fresh: bool = True, steps: int = 200) -> np.ndarray:
    """Without noise, by many Euler steps in NumPy: states (T, D, 2) at times, from x (D, 2).

    `doses` are pairs (time, amount); accumulators begin anew after each of the times, and at the start if `fresh`.
    """
    states, t = [], begin
    stops = sorted({*times, *(at for at, _ in doses)})
    for stop in stops:
        delta = (stop - t) / steps
        if fresh:
            x = np.stack([x[:, 0], np.zeros(len(x))], axis=1)
        for s in range(steps):
            now = t + s * delta
            x = x + delta * np.stack([growth + np.sin(now) + heat(now) - 0.5 * x[:, 0], np.exp(x[:, 0])], axis=1)
        x = x + np.array([[sum(amount for at, amount in doses if at == stop), 0.0]])
        t, fresh = stop, stop in times
        if fresh:
            states.append(x)
    return np.array(states)


def of_series(tree: xr.DataTree, name: str) -> np.ndarray:
    """Predicted states (T, D, 2) of a series."""
    mine = tree.predictions["state"].values[:, :, tree.predictions["node_series"].values == name]
    return mine.reshape(-1, *mine.shape[2:]).transpose(1, 0, 2)


def last_states(name: str, time: float) -> np.ndarray:
    posterior = rich.run().posterior
    rows = (posterior["node_series"].values == name) & (posterior["time"].values == time)
    return posterior["state"].values[:, :, rows].reshape(-1, 2)


def growth(name: str) -> np.ndarray:
    return rich.run().posterior["growth"].sel(series=name).values.ravel()


def test_what_comes_back():
    tree = pf.predict(rich.model(), rich.run(), AHEAD, draws=7)
    assert set(tree.children) - set(rich.run().children) == {"predictions", "predictions_constant_data"}
    predictions, constant = tree.predictions, tree.predictions_constant_data
    assert predictions["state"].dims == ("chain", "draw", "node", "component")
    assert predictions["y"].dims == ("chain", "draw", "node", "observation")
    assert predictions["component"].values.tolist() == ["log amount", "eaten"]
    assert predictions["observation"].values.tolist() == ["size", "count"]
    assert predictions["draw"].values.tolist() == [0, 5, 10, 14, 19, 24, 29], "spread evenly"
    assert predictions["time"].values.tolist() == 2 * AHEAD
    assert predictions["node_series"].values.tolist() == 3 * ["fed"] + 3 * ["other"]
    assert constant["start_time"].values.tolist() == 3 * [2.0] + 3 * [2.25]
    usual = np.median(rich.run().constant_data["fine_step"].values[1:])
    assert 0.5 * usual < constant["fine_step"].values.max() <= usual
    counts = predictions["y"].sel(observation="count").values
    assert np.array_equal(counts, counts.round())
    assert counts.min() >= 0
    assert set(rich.run().children) & {"predictions"} == set(), "the posterior is as it was"


def test_a_seed_says_it_all():
    first, again, other = (pf.predict(rich.model(), rich.run(), AHEAD, seed=seed, draws=3) for seed in (1, 1, 2))
    assert first.predictions.to_dataset().identical(again.predictions.to_dataset())
    assert not np.array_equal(first.predictions["y"], other.predictions["y"])


def test_a_node_gives_the_draw_s_own_state():
    tree = pf.predict(rich.model(), rich.run(), [0.5, 1.3, 2.0], series="fed")
    for row, time in enumerate((0.5, 1.3, 2.0)):
        np.testing.assert_array_equal(of_series(tree, "fed")[row], last_states("fed", time))
    assert tree.predictions_constant_data["start_time"].values.tolist() == [0.5, 1.3, 2.0]
    assert tree.predictions_constant_data["fine_step"].values.tolist() == [0.0, 0.0, 0.0]


def test_a_scenario_has_its_doses_inputs_and_accumulators():
    """Against an Euler recursion in NumPy, without noise; doses of the data are in the draws already."""
    heat = pf.Input([2.0, 5.0], [1.0, 4.0])
    tree = still(AHEAD, events={"dose": ([1.3, 3.1], [9.0, 0.7])}, inputs={"heat": heat}, series="fed", max_step=2e-3)
    expected = path(last_states("fed", 2.0), growth("fed"), 2.0, AHEAD, heat.at, [(3.1, 0.7)], steps=500)
    np.testing.assert_allclose(of_series(tree, "fed"), expected, rtol=5e-3)
    without = still(AHEAD, series="fed", max_step=2e-3)
    assert np.abs(of_series(without, "fed") - expected).max() > 0.1


@pytest.mark.filterwarnings("ignore:the predicted paths depend on the time step")
def test_a_scenario_ends_where_its_input_does():
    """The last of three equal steps lasts from 3.0 to 3.5; what holds on says so."""
    heat = np.array([2.0, 2.5, 3.0]), np.array([1.0, 4.0, 2.0])
    with pytest.raises(pf.DataError, match=r"'heat' is known from 2.0 to 3.5, but .* from 2.0 to 4.0: .*pf.predict"):
        still(AHEAD, inputs={"heat": pf.Input(*heat, kind="previous")}, series="fed")
    tree = still(AHEAD, inputs={"heat": pf.Input(*heat, kind="hold")}, series="fed", max_step=0.05)
    assert np.isfinite(of_series(tree, "fed")).all()


def test_a_scenario_goes_on_from_the_inputs_of_the_data():
    """The data know the heat for a step after their last time, and the scenario begins there."""
    heat = np.array([1.0, 1.5, 2.0]), np.array([3.0, 1.0, 2.0])
    later = np.array([2.5, 4.0]), np.array([4.0, 1.0])
    known = pf.Input(*heat, "previous")
    joined = pf.Input(*later, "previous").after(known)
    assert joined.written() == {
        "times": [1.0, 1.5, 2.0, 2.5, 4.0],
        "values": [3.0, 1.0, 2.0, 4.0, 1.0],
        "kind": "previous",
    }
    hourly = pf.Input([2.5, 3.5, 4.5], [4.0, 1.0, 2.0], "previous")
    assert hourly.after(known).span == (1.0, hourly.span[1])
    assert hourly.after(known).at(np.array([5.4])) == 2.0
    for apart in (
        pf.Input([2.6, 4.0], [4.0, 1.0], "previous"),
        pf.Input(*later),
        pf.Input([0.5, 4.0], [4.0, 1.0], "previous"),
    ):
        assert apart.after(known) is apart
    assert pf.Input(*later, "hold").after(known).times.size == 2


@cache
def dated() -> tuple[pf.DiffusionModel, xr.DataTree]:
    """A short run with dates, in an hour of rain at the end."""
    model = pf.DiffusionModel(
        drift=lambda x, z, t, inputs: inputs["rain"] - z["k"] * x,
        diffusion=lambda x, z: jnp.array([[0.1]]),
        parameters={"k": dist.LogNormal(-1.0, 0.1)},
        initial_state=[1.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
        inputs="rain",
    )
    days = np.array(["2026-03-01", "2026-03-02", "2026-03-03"], "M8[D]")
    table = {"day": days, "rain": [0.0, 0.0, 2.5], "y": [1.0, 0.8, 0.5]}
    data = pf.Observations.from_frame(table, time="day", values="y", inputs={"rain": ("rain", "previous")}, unit="d")
    options = {"steps_per_interval": 2, "chains": 1, "warmup": 20, "draws": 20, "seed": 1, "progress": False}
    with warnings.catch_warnings(action="ignore"):
        return model, pf.sample(model, data, **options)


def test_forecasts_need_the_inputs_that_come():
    model, tree = dated()
    with pytest.raises(pf.DataError, match=r"'rain' is known from 2026-03-01 .* to 2026-03-04 .* to 2026-03-06 00"):
        pf.predict(model, tree, ["2026-03-05", "2026-03-06"])
    dry = {"rain": pf.Input(["2026-03-03", "2026-03-06"], [0.0, 0.0])}
    ahead = pf.predict(model, tree, ["2026-03-05", "2026-03-06"], inputs=dry).predictions
    assert ahead["time"].values.tolist() == [4.0, 5.0]
    on_the_rain = {"rain": pf.Input(["2026-03-04", "2026-03-05", "2026-03-06"], [0.0, 0.0, 0.0], "previous")}
    after = pf.predict(model, tree, ["2026-03-05", "2026-03-06"], inputs=on_the_rain).predictions
    assert np.all((after["state"] - ahead["state"]).values > 0.2)  # a day of rain, known by the data
    later = {"rain": pf.Input(["2026-03-05", "2026-03-06", "2026-03-07"], [0.0, 0.0, 0.0], "previous")}
    with pytest.raises(pf.DataError, match=r"'rain' is known from 2026-03-05 .*, but needed from 2026-03-03"):
        pf.predict(model, tree, ["2026-03-06"], inputs=later)
    with pytest.raises(pf.DataError, match=r"predictions begin at 1921, .*give dates, such as 2026-03-03"):
        pf.predict(model, tree, [1921.0], inputs=dry)


def test_results_of_dates_have_dates():
    _, tree = dated()
    days = np.array(["2026-03-01", "2026-03-02", "2026-03-03"], "M8[us]")
    assert tree.posterior["state"]["date"].values.tolist() == days.tolist()
    assert tree.observed_data["date"].values.tolist() == days.tolist()
    figure = pf.plot_paths(tree)
    figure.draw_without_rendering()
    assert figure.axes[0].get_xlabel() == "date"
    assert {text.get_text() for text in figure.axes[0].get_xticklabels()} >= {"2026-03-01", "2026-03-03"}


def test_between_nodes_draws_go_on_from_the_node_before():
    """At 1.3 there is a dose, which ends an interval but is no time of the data: what was eaten goes on."""
    tree = still([0.2, 1.4, 1.6], series=["fed"], max_step=2e-3)
    assert tree.predictions_constant_data["start_time"].values.tolist() == [0.0, 1.3, 1.5]
    for row, (begin, time, fresh) in enumerate([(0.0, 0.2, False), (1.3, 1.4, False), (1.5, 1.6, True)]):
        expected = path(last_states("fed", begin), growth("fed"), begin, [time], rich.HEAT.at, fresh=fresh)
        np.testing.assert_allclose(of_series(tree, "fed")[row], expected[0], rtol=5e-3, atol=1e-3)  # half a fine step


def test_a_dose_of_the_data_may_be_named_again():
    """At 1.3, which draws go on from, it has happened."""
    again = still([1.4], events={"dose": ([1.3], [9.0])}, series="fed", max_step=2e-3)
    without = still([1.4], series="fed", max_step=2e-3)
    np.testing.assert_array_equal(of_series(again, "fed"), of_series(without, "fed"))


def test_a_series_has_its_own_inputs():
    tree = still([2.5], max_step=1e-3, series=1)
    expected = path(last_states("other", 2.25), growth("other"), 2.25, [2.5], lambda t: 0.1)
    np.testing.assert_allclose(of_series(tree, "other"), expected, rtol=5e-3)


def test_parameters_that_are_set_and_what_follows_from_them():
    """`twice` follows from `typical`; a value may be given for every draw."""
    by_draw = 1.0 + rich.run().posterior["typical"]
    for value in (3.0, by_draw):
        y = still([2.5], set={"typical": value}, series="fed").predictions
        away = y["y"].sel(observation="size") - y["state"].sel(component="log amount") - 2.0 * value
        assert np.abs(away).max() < 0.2 * threshold(60, 1e-3)
    a, b = (still([2.5], set={"growth": value}, series="fed") for value in (0.0, growth("fed").reshape(2, 30)))
    np.testing.assert_array_equal(of_series(b, "fed"), of_series(still([2.5], series="fed"), "fed"))
    assert not np.allclose(of_series(a, "fed"), of_series(b, "fed"))


def test_a_new_series_has_new_effects_and_a_new_start():
    tree = pf.predict(rich.model(), rich.run(), [0.5, 1.0], new_series=True, initial_time=0.5)
    predictions = tree.predictions
    assert predictions["node_series"].values.tolist() == ["new", "new"]
    effects = (predictions["growth"] - rich.run().posterior["typical"]).values.ravel() / 0.3
    starts = predictions["state"].values[:, :, 0].reshape(-1, 2)
    assert np.all(starts[:, 1] == 0.0)
    for x in (effects, starts[:, 0] / 0.5):
        scores = [x.mean() * np.sqrt(x.size), (np.mean(x**2) - 1.0) * np.sqrt(x.size / 2.0)]
        assert np.abs(scores).max() < threshold(4, 1e-3), scores


def test_the_law_of_a_forecast_is_that_of_the_scheme():
    """Given the draw, an Ornstein-Uhlenbeck forecast is Gaussian from each time to the next: standard scores."""
    tree = pf.predict(ou_model(), ou_run(), ou_run().posterior["time"].values[-1] + np.array([0.3, 1.0, 3.0]))
    scores = forecast_scores(tree)
    assert np.abs(scores).max() < threshold(scores.size, 1e-3), scores


def test_files_hold_predictions(tmp_path):
    tree = pf.predict(rich.model(), rich.run(), AHEAD, draws=2)
    tree.to_netcdf(tmp_path / "a.nc")
    tree.to_zarr(tmp_path / "a.zarr", consolidated=False)
    with (
        xr.open_datatree(tmp_path / "a.nc") as file,
        xr.open_datatree(tmp_path / "a.zarr", engine="zarr", consolidated=False) as folder,
    ):
        for loaded in (file, folder):
            for name in ("predictions", "predictions_constant_data"):
                xr.testing.assert_equal(loaded[name].to_dataset(), tree[name].to_dataset())
            again = pf.predict(rich.model(), loaded, AHEAD, draws=2)
            xr.testing.assert_equal(again["predictions"].to_dataset(), tree["predictions"].to_dataset())


def test_a_path_that_is_lost_is_said_and_not_a_number():
    with pytest.warns(UserWarning, match="60 of 60 predicted paths are not finite from some time on"):
        tree = pf.predict(rich.model(), rich.run(), AHEAD, series="fed", set={"growth": 1e300})
    assert np.isnan(tree.predictions["y"].values[:, :, -1]).all()


@cache
def other_model() -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={"rate": dist.LogNormal()},
        initial_state=[0.0],
        observation=pf.Noiseless(lambda x, z: x),
    )


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"times": [-1.0]}, pf.DataError, "the first time, -1.0, is before initial_time = 0.0"),
        ({"times": [3.0, 2.5]}, pf.DataError, "times must increase"),
        ({"times": [60.0], "series": "fed"}, pf.DataError, "the input 'heat' is known from 0.0 to 50.0"),
        ({"events": {"fast": ([3.0], 1.0)}}, pf.DataError, "the event 'fast' is none of the model's"),
        (
            {"events": {"dose": ([2.0], 1.0)}, "series": "fed"},
            pf.DataError,
            "the event 'dose' at t = 2 .* known already",
        ),
        ({"inputs": {"cold": rich.HEAT}}, pf.DataError, "the input 'cold' is none of the model's"),
        ({"set": {"beta": 1.0}}, pf.ModelError, "unknown parameter 'beta'"),
        ({"set": {"sigma": [1.0, 2.0]}}, pf.ModelError, r"'sigma' was given with shape \(2,\), expected \(\), or"),
        (
            {"set": {"sigma": -1.0}},
            pf.ModelError,
            "'sigma' was given as .* values that are positive",
        ),
        ({"set": {"sigma": np.nan}}, pf.ModelError, "'sigma' was given as .*; give finite numbers"),
        ({"series": "third"}, pf.SettingsError, "no series 'third'; there are fed, other"),
        ({"series": []}, pf.SettingsError, "no series is selected"),
        ({"times": 3.0}, pf.DataError, r"times must be a list of times, such as \[1.0, 2.0\], not 3.0"),
        ({"draws": 31}, pf.SettingsError, "draws = 31, but the posterior has 30 per chain"),
        (
            {"max_step": 0.1, "steps_per_interval": 2},
            pf.SettingsError,
            "exactly one of steps_per_interval and max_step",
        ),
        ({"model": other_model()}, pf.SettingsError, "posterior is of another model: its parameters are typical"),
        ({"posterior": {}}, pf.SettingsError, "posterior must be what pf.sample returned"),
    ],
)
def test_what_cannot_be_predicted_is_said(options, error, sentence):
    asked = {"model": rich.model(), "posterior": rich.run(), "times": AHEAD} | options
    with pytest.raises(error, match=sentence):
        pf.predict(**asked)


def test_a_forecast_far_from_the_data_warns():
    """As years do, where the data count them from their first."""
    data_end = float(ou_run().constant_data["interval_end"].max())
    with pytest.warns(UserWarning, match="predictions begin at 1921, and the data run from 0 to .* count times"):
        pf.predict(ou_model(), ou_run(), [1921.0, 1922.0], max_step=0.25)
    pf.predict(ou_model(), ou_run(), [30.0 * data_end, 31.0 * data_end], max_step=0.25)


def test_without_states_there_is_no_forecast():
    tree = ou_run().copy()
    tree["posterior"] = tree.posterior.to_dataset().drop_vars("state")
    with pytest.raises(pf.SettingsError, match=r"no states \(keep_path='none'\): keep those at the 'nodes'"):
        pf.predict(ou_model(), tree, [100.0])
    assert np.isfinite(pf.predict(ou_model(), tree, [1.0], new_series=True).predictions["y"]).all()


def test_the_noise_of_an_observation_is_drawn_anew():
    tree = pf.predict(ou_model(), ou_run(), [moved(0)])
    noise = ((tree.predictions["y"].values - tree.predictions["state"].values) / SCALE).ravel()
    scores = [noise.mean() * np.sqrt(noise.size), (np.mean(noise**2) - 1.0) * np.sqrt(noise.size / 2.0)]
    assert np.abs(scores).max() < threshold(2, 1e-3), scores


@pytest.mark.filterwarnings("ignore:.*(few effective draws|not converged)")
def test_a_new_series_may_have_dates_and_counts_them_in_the_posteriors_unit():
    dates = pd.Series([0.1, 0.3, 0.2], index=pd.date_range("2026-01-02", periods=3))
    data, weeks = (pf.Observations(dates, unit=unit, initial_time="2026-01-01") for unit in ("days", "weeks"))
    tree = pf.sample(ou_model(), data, steps_per_interval=2, chains=1, warmup=20, draws=20, progress=False)
    later = pd.date_range("2026-01-10", periods=2)
    ahead = pf.predict(ou_model(), tree, later, new_series=data)
    np.testing.assert_array_equal(ahead.predictions["date"], later)
    with pytest.raises(pf.DataError, match="the posterior counts its times in days, new_series in weeks"):
        pf.predict(ou_model(), tree, later, new_series=weeks)


def test_predictions_say_when_they_depend_on_the_step():
    """Of a return to a far level, by steps of 0.5 not the 0.1 of the posterior."""
    far: dict[str, Any] = {"set": {"level": 20.0, "rate": 0.8}, "seed": 3}
    times = TIMES[-1] + np.array([0.5, 1.0])
    said = r"predicted paths depend on the time step: with twice as many x\[0\] at t = 7 would move by about -"
    with pytest.warns(UserWarning, match=said):
        pf.predict(ou_model(), ou_run(), times, max_step=0.5, **far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pf.predict(ou_model(), ou_run(), times, max_step=0.01, **far)
        pf.predict(ou_model(), ou_run(), times)
