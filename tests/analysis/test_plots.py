"""What pictures show, by the artists in them."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from matplotlib.figure import Figure

import pathfold as pf
from pathfold.analysis.plots.picture import DateTicks
from pathfold.analysis.plots.style import DATA, FORECAST, POSTERIOR, REPLICATED, TRUTH, WIDTH, grid_of_axes
from pathfold.data.dates import Calendar

LENGTHS = (6, 9)


@cache
def model(states: tuple[str, ...] | None = None) -> pf.DiffusionModel:
    """Two states, the second seen; a vector and a scalar parameter."""
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-z["rates"][0] * x[0], x[0] - z["rates"][1] * x[1]]),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(2),
        parameters={"rates": dist.LogNormal(jnp.zeros(2), 0.3), "sigma": dist.LogNormal(-0.5, 0.3)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.GaussianNoise(lambda x, z: jnp.array([x[1], x[0] + x[1]]), 0.2),
        states=states,
    )


def series(length: int, ahead: int = 0) -> pf.Observations:
    values = np.random.default_rng(length).normal(size=(length + ahead, 2))
    values[length:] = np.nan
    return pf.Observations(0.5 * np.arange(1, length + ahead + 1), values)


@cache
def run(kind: str) -> xr.DataTree:
    """Of one series with two times after the data, or of a panel of two."""
    data: Any = series(8, ahead=2) if kind == "one" else [series(n) for n in LENGTHS]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)")
        return pf.sample(
            model(), data, steps_per_interval=2, chains=2, warmup=50, draws=40, keep_path="all", progress=False
        )


def lines(ax: Any, colour: str) -> list[Any]:
    return [line for line in ax.lines if line.get_color() == colour]


def legend_of(figure: Figure) -> set[str]:
    (legend,) = figure.legends
    assert not any(ax.get_legend() for ax in figure.axes), "it lies outside of the axes"
    return {text.get_text() for text in legend.get_texts()}


def test_paths_have_a_forecast_in_another_tone_and_the_data_they_show():
    tree = run("one")
    figure = pf.plot_paths(tree, truth=np.zeros((20, 2)))
    assert [ax.get_ylabel() for ax in figure.axes] == ["x[0]", "x[1]"]
    for k, ax in enumerate(figure.axes):
        (past,), (ahead,), (truth,) = lines(ax, POSTERIOR.line), lines(ax, FORECAST.line), lines(ax, TRUTH)
        np.testing.assert_allclose(past.get_xdata(), 0.25 * np.arange(17))
        median = np.median(tree.posterior["state"].values[..., k], axis=(0, 1))
        np.testing.assert_allclose(past.get_ydata()[1:], median[:16])
        assert past.get_ydata()[0] == pytest.approx(np.median(tree.posterior["initial_state"].values[..., k]))
        np.testing.assert_allclose(ahead.get_xdata(), 4.0 + 0.25 * np.arange(5))
        np.testing.assert_allclose(ahead.get_ydata(), median[15:])
        np.testing.assert_array_equal(truth.get_ydata(), 0.0)
        points = lines(ax, DATA)
        assert [p.get_ydata().tolist() for p in points] == ([series(8).values[:, 0].tolist()] if k == 1 else [])
    assert {"50% of the posterior", "95% of the forecast", "truth", "observed"} <= legend_of(figure)


def test_a_panel_has_a_column_for_each_series():
    tree = run("panel")
    state, y = tree.posterior["state"].values, tree.observed_data["y"].values[:, 1]
    figure = pf.plot_paths(tree, observed={0: 1}, natural=np.exp)
    axes = np.array(figure.axes).reshape(2, 2)
    starts = np.cumsum([0, *LENGTHS])
    for (k, j), ax in np.ndenumerate(axes):
        mine = slice(2 * starts[j], 2 * starts[j + 1])
        (median,) = lines(ax, POSTERIOR.line)
        np.testing.assert_allclose(median.get_xdata(), 0.25 * np.arange(2 * LENGTHS[j] + 1))
        np.testing.assert_allclose(median.get_ydata()[1:], np.median(np.exp(state[:, :, mine, k]), axis=(0, 1)))
        points = [line.get_ydata().tolist() for line in lines(ax, DATA)]
        assert points == ([y[starts[j] : starts[j + 1]].tolist()] if k == 0 else [])
    assert len(pf.plot_paths(tree, "x[1]", series=1).axes) == 1


def test_what_is_drawn_in_natural_units_is_no_logarithm_any_more():
    named = model(("log rate", "level"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = pf.sample(named, series(8), steps_per_interval=2, chains=1, warmup=10, draws=5, progress=False)
    assert [ax.get_ylabel() for ax in pf.plot_paths(tree, observed={}, natural=np.exp).axes] == ["rate", "level"]
    assert pf.plot_paths(tree, "log rate", observed={}).axes[0].get_ylabel() == "log rate"


def test_predictions_follow_the_data():
    tree = pf.predict(model(), run("one"), 5.0 + 0.5 * np.arange(6), draws=10)
    figure = pf.plot_predictions(tree, [1])
    (ax,) = figure.axes
    (points,), (median,) = lines(ax, DATA), lines(ax, FORECAST.line)
    np.testing.assert_array_equal(points.get_ydata(), series(8).values[:, 1])
    values = tree.predictions["y"].values[..., 1]
    np.testing.assert_allclose(median.get_ydata(), np.median(values, axis=(0, 1)))
    assert ax.get_ylabel() == "y[1]"
    of_states = pf.plot_paths(tree, 0).axes[0]
    assert any(np.array_equal(line.get_xdata(), tree.predictions["time"]) for line in lines(of_states, FORECAST.line))


def test_predictions_of_a_panel_are_beside_their_series():
    tree = pf.predict(model(), run("panel"), [5.0, 6.0], series=1, draws=5)
    (ax,) = pf.plot_predictions(tree, 0).axes  # the other series has none
    (median,) = lines(ax, FORECAST.line)
    assert median.get_xdata().tolist() == [5.0, 6.0]
    (of_states,) = pf.plot_paths(tree, 0, series=1).axes
    assert [5.0, 6.0] in [line.get_xdata().tolist() for line in lines(of_states, FORECAST.line)]
    assert len(pf.plot_predictions(tree, 0, series=[0, 1]).axes) == 2


@pytest.mark.parametrize("kind", ["one", "panel"])
def test_predictions_of_a_new_series_are_drawn_with_its_own_data(kind):
    """Those of the posterior are of others."""
    new = pf.predict(model(), run(kind), [1.0, 2.0], new_series=True, draws=5)
    (ax,) = pf.plot_predictions(new, 0).axes
    assert not any(line.get_xdata().size for line in lines(ax, DATA))
    (median,) = lines(ax, FORECAST.line)
    assert median.get_xdata().tolist() == [1.0, 2.0]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "few draws of the posterior explain")
        seen = pf.predict(model(), run(kind), [3.0, 4.0], new_series=series(4), draws=5, particles=20, threads=1)
    (ax,) = pf.plot_predictions(seen, 0).axes
    (points,), (median,) = lines(ax, DATA), lines(ax, FORECAST.line)
    np.testing.assert_array_equal(points.get_xydata(), np.stack([series(4).times, series(4).values[:, 0]], axis=1))
    assert median.get_xdata().tolist() == [3.0, 4.0]
    again = pf.predict(model(), seen, [9.0, 10.0], draws=5)
    assert all(line.get_xdata().max() > 2.0 for ax in pf.plot_predictions(again, 0).axes for line in lines(ax, DATA))


def test_many_series_go_on_further_down_at_one_scale():
    tree = run("panel")
    names = [str(k) for k in range(5)]
    figure, axes = grid_of_axes(["a", "b"], names, tree)
    assert axes.shape == (2, 5)
    assert figure.get_figwidth() == WIDTH == pf.plot_paths(tree).get_figwidth()
    places = [[ax.get_subplotspec().rowspan.start for ax in row] for row in axes]
    assert places == [[0, 0, 0, 0, 2], [1, 1, 1, 1, 3]]
    assert len(figure.axes) == 10, "no axes are left empty"
    axes[1, 4].set_ylim(0.0, 7.0)
    assert {ax.get_ylim() for ax in axes[1]} == {(0.0, 7.0)} != {ax.get_ylim() for ax in axes[0]}


def test_replicated_data_are_drawn_in_their_units_unless_a_component_shows_them():
    tree = pf.posterior_predictive(model(), run("one"))
    figure = pf.plot_paths(tree)
    assert [ax.get_ylabel() for ax in figure.axes] == ["x[0]", "x[1]", "y[1]"]
    (median,), (points,) = lines(figure.axes[2], REPLICATED.line), lines(figure.axes[2], DATA)
    values = tree.posterior_predictive["y"].values[..., 1]
    np.testing.assert_allclose(median.get_ydata(), np.median(values, axis=(0, 1))[:8])
    np.testing.assert_array_equal(points.get_ydata()[:8], series(8).values[:, 1])
    assert [ax.get_ylabel() for ax in pf.plot_paths(tree, natural=np.exp).axes][2:] == ["y[0]", "y[1]"]
    assert [ax.get_ylabel() for ax in pf.plot_paths(tree, "x[0]").axes] == ["x[0]"]
    assert [ax.get_ylabel() for ax in pf.plot_paths(tree, ["y[1]", "x[1]"]).axes] == ["x[1]", "y[1]"]


def test_a_notebook_shows_a_picture():
    """By the method that IPython asks for; Matplotlib's own figures show there if pyplot made them."""
    assert cast(Any, pf.plot_paths(run("one")))._repr_png_().startswith(b"\x89PNG")


def test_a_path_that_was_lost_leaves_the_others_to_be_drawn():
    tree = pf.predict(model(), run("one"), [5.5, 6.0], draws=10)
    tree.predictions["y"].values[0, 0, 1:] = np.nan
    (median,) = lines(pf.plot_predictions(tree, 0).axes[0], FORECAST.line)
    assert np.isfinite(median.get_ydata()).all()


def test_marginals_have_the_prior_and_the_truth():
    tree = run("one")
    figure = pf.plot_marginals(tree, truth={"sigma": 0.5, "rates": [1.0, 1.2]})
    labels = [ax.get_xlabel() for ax in figure.axes]
    assert labels == ["rates[0]", "rates[1]", "sigma"]
    assert legend_of(figure) == {"posterior", "each chain", "prior", "truth"}
    for ax, value in zip(figure.axes, (1.0, 1.2, 0.5), strict=True):
        (truth,) = lines(ax, TRUTH)
        assert truth.get_xdata() == [value, value]
        (prior,) = [line for line in ax.lines if line.get_linestyle() == ":"]
        x, density = np.asarray(prior.get_xdata()), np.asarray(prior.get_ydata())
        location = -0.5 if ax.get_xlabel() == "sigma" else 0.0
        exact = np.asarray(jnp.exp(dist.LogNormal(location, 0.3).log_prob(x)))
        np.testing.assert_allclose(density.astype(float), exact, rtol=1e-5)
    assert len(pf.plot_marginals(tree, "sigma").axes) == 1
    assert pf.plot_marginals(tree, ["initial_state"]).axes[1].get_xlabel() == "initial_state[1]"


def test_a_check_shows_every_source_of_noise():
    figure = pf.plot_check(run("one"), ["x[0]", "y[1]"])
    assert [ax.get_title(loc="left") for ax in figure.axes[::2]] == ["the noise in x[0]", "the error of y[1]"]
    tree = run("panel")
    figure = pf.plot_check(tree)
    (median,) = lines(figure.axes[0], POSTERIOR.line)
    assert median.get_xdata().tolist() == list(range(1, sum(LENGTHS) + 1))
    whole = tree.noise["path_noise"].values[..., 0].sum(axis=-1) / np.sqrt(2)
    np.testing.assert_allclose(median.get_ydata(), np.median(whole, axis=(0, 1)))


def test_a_check_of_many_values_says_how_many_it_shows(monkeypatch):
    monkeypatch.setattr("pathfold.analysis.plots.check_plot.MOST_POINTS", 5)
    figure = pf.plot_check(run("one"), "x[0]")
    assert figure.axes[0].get_title(loc="left") == "the noise in x[0] (the first 5 of 8 values)"
    assert all(len(line.get_xdata()) == 5 for line in lines(figure.axes[0], POSTERIOR.line))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda tree: pf.plot_paths(tree, "v"), r"there is no component 'v'; there are x\[0\], x\[1\]"),
        (lambda tree: pf.plot_paths(tree, []), "no component is selected"),
        (lambda tree: pf.plot_paths(tree, series=3), "there is no series 3"),
        (lambda tree: pf.plot_marginals(tree, ["tau"]), "there is no variable 'tau'; there are rates, sigma"),
        (
            lambda tree: pf.plot_marginals(tree, truth={"sigma": 0.5, "tau": 1.0}),
            "there is no variable 'tau'; there are rates, sigma",
        ),
        (lambda tree: pf.plot_predictions(tree), "has no group 'predictions': give what pf.predict"),
        (lambda tree: pf.plot_check(tree, "z"), "there is no noise 'z'"),
    ],
)
def test_what_cannot_be_drawn_is_said(call, sentence):
    with pytest.raises(pf.SettingsError, match=sentence):
        call(run("one"))


def test_pictures_of_a_saved_file(tmp_path):
    """The same artists as of the results themselves."""
    run("panel").to_netcdf(tmp_path / "results.nc")
    with xr.open_datatree(tmp_path / "results.nc") as loaded:
        for plot in (pf.plot_paths, pf.plot_marginals, pf.plot_check):
            for ax, other in zip(plot(run("panel")).axes, plot(loaded).axes, strict=True):
                for line, again in zip(ax.lines, other.lines, strict=True):
                    np.testing.assert_array_equal(line.get_xydata(), again.get_xydata())


def test_ticks_of_dates_are_at_whole_days_or_hours():
    calendar = Calendar("hours", np.datetime64("2026-03-01T05:20:00.123456789"))
    for end, whole in ((490.0, "D"), (30.0, "h")):
        dates = calendar.dates(np.array(DateTicks(calendar, 7).tick_values(0.0, end)))
        assert dates is not None
        assert 4 <= dates.size <= 9
        np.testing.assert_allclose((dates - dates.astype(f"M8[{whole}]")).astype("m8[us]").astype(int), 0, atol=1000)
