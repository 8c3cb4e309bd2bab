"""Pictures and numbers of populations, by the artists in them, and of results that are large."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

import pathfold as pf
from pathfold.analysis.noise_statistics import ratio_of_sums, ratio_test
from pathfold.analysis.plots.style import DATA, POSTERIOR
from tests.analysis import population

SERIES, TIMES = 30, 8


@cache
def tree() -> xr.DataTree:
    return population.results(population.panel(SERIES, TIMES))


@cache
def replicated(given: str, limit: float | None = None) -> xr.DataTree:
    results = population.results(population.panel(SERIES, TIMES, limit=limit))
    return pf.posterior_predictive(population.model(), results, given=given, draws=30)  # pyright: ignore[reportArgumentType]


def axes(figure: Figure) -> list[Any]:
    return figure.axes


def band(ax: Any, i: int) -> np.ndarray:
    """Low and high edges (2, time) of the i-th band of some axes."""
    x, y = ax.collections[i].get_paths()[0].vertices.T
    times = np.unique(x)
    return np.array([[y[x == t].min(), y[x == t].max()] for t in times]).T


def test_data_of_the_population_have_effects_of_their_own():
    """Where every series sits at a level of 100, data of the same series do, and those of others do not."""
    shifted = tree().copy()
    levels = tree().posterior["level"]
    shifted["posterior"] = tree().posterior.to_dataset().assign(level=xr.full_like(levels, 100.0))
    means = {
        given: float(
            pf.posterior_predictive(population.model(), shifted, given=given, draws=20)
            .posterior_predictive["y"][:, :, -1]
            .mean()
        )
        for given in ("parameters", "population")
    }
    assert means["parameters"] > 50.0
    assert abs(means["population"]) < 5.0


def test_a_predictive_check_has_the_percentiles_of_data_and_replicates():
    found = replicated("population")
    (ax,) = axes(pf.plot_vpc(found))
    y = found.observed_data["y"].values.reshape(SERIES, TIMES)
    lines = [line for line in ax.lines if line.get_color() == DATA]
    np.testing.assert_allclose([line.get_ydata() for line in lines], np.quantile(y, [0.05, 0.5, 0.95], axis=0))
    simulated = found.posterior_predictive["y"].values.reshape(-1, SERIES, TIMES)
    medians = np.quantile(np.median(simulated, axis=1), [0.025, 0.975], axis=0)
    np.testing.assert_allclose(band(ax, 2), medians)  # drawn last, above the others
    assert [line.get_xdata().tolist() for line in lines] == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]] * 3


def test_spans_gather_times_into_as_many_rows_or_between_edges():
    (ax,) = axes(pf.plot_vpc(replicated("population"), bins=4))
    assert ax.lines[0].get_xdata().tolist() == [1.5, 3.5, 5.5, 7.5]
    (ax,) = axes(pf.plot_vpc(replicated("population"), bins=[0.0, 3.0, 6.0]))  # the last edge is within
    assert ax.lines[0].get_xdata().tolist() == [1.5, 4.5]


def test_spans_with_few_observations_are_joined_unless_the_user_named_them():
    few = pf.posterior_predictive(
        population.model(), population.results(population.panel(4, 10)), given="population", draws=10
    )
    assert axes(pf.plot_vpc(few))[0].lines[0].get_xdata().tolist() == [2.0, 5.0, 8.5]  # of 12, 12 and 16
    assert axes(pf.plot_vpc(few, bins=[0.5, 1.5, 2.5]))[0].lines[0].get_xdata().tolist() == [1.0, 2.0]


def test_spans_are_of_the_times_at_which_a_component_was_observed():
    found = replicated("population").copy()
    y = found.observed_data["y"]
    found["observed_data"] = found.observed_data.to_dataset().assign(y=y.where(found.observed_data["time"] > 4.0))
    (ax,) = axes(pf.plot_vpc(found))
    assert ax.lines[0].get_xdata().tolist() == [5.0, 6.0, 7.0, 8.0]


def test_a_predictive_check_has_a_legend_that_tells_its_bands_apart():
    figure = pf.plot_vpc(replicated("population"), percentiles=[2.5, 50, 97.5])
    (legend,) = figure.legends
    tones = {text.get_text(): handle for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)}
    assert [*tones] == [
        "percentiles 2.5, 97.5: 95% of those simulated",
        "percentile 50: 95% of those simulated",
        "percentiles 2.5, 97.5: data",
        "percentile 50: data",
    ]
    faces = [handle.get_facecolor() for label, handle in tones.items() if "simulated" in label]  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    assert abs(faces[0][0] - faces[1][0]) + abs(faces[0][2] - faces[1][2]) > 0.5  # red and blue: two hues


def test_censored_data_are_put_at_their_limit_and_counted():
    found = replicated("population", -0.5)
    above, below = axes(pf.plot_vpc(found))
    y = np.maximum(found.observed_data["y"].values.reshape(SERIES, TIMES), -0.5)
    np.testing.assert_allclose(above.lines[0].get_ydata(), np.quantile(y, 0.05, axis=0))
    assert above.lines[0].get_ydata().min() == -0.5
    np.testing.assert_allclose(below.lines[0].get_ydata(), np.mean(y == -0.5, axis=0))
    simulated = found.posterior_predictive["y"].values.reshape(-1, SERIES, TIMES)
    np.testing.assert_allclose(band(below, 0), np.quantile(np.mean(simulated <= -0.5, axis=1), [0.025, 0.975], axis=0))


def test_data_censored_on_both_sides_are_compared_between_the_limits():
    """Percentiles at a limit are those of values that nobody knows, and have arrows; simulated ones stop there too."""
    found = replicated("population", -0.5).copy()
    data = found.observed_data.to_dataset()
    y = data["y"]
    censored = data["censored"].where(y < 0.9, 1).where(y > -0.5, -1)
    found["observed_data"] = data.assign(y=y.clip(-0.5, 0.9), censored=censored)
    above, *shares = axes(pf.plot_vpc(found))
    lines = [line for line in above.lines if line.get_color() == DATA]
    known = np.clip(y.values.reshape(SERIES, TIMES), -0.5, 0.9)
    quantiles = np.quantile(known, [0.05, 0.5, 0.95], axis=0)
    np.testing.assert_allclose([line.get_ydata() for line in lines[:3]], quantiles)
    assert quantiles.max() == 0.9
    for line, marker, limit in zip(lines[3:], "v^", (-0.5, 0.9), strict=True):
        assert line.get_marker() == marker
        assert line.get_xdata().tolist() == (1.0 + np.flatnonzero((quantiles == limit).any(axis=0))).tolist()
    for line, row in zip(lines[:3], quantiles, strict=True):
        np.testing.assert_array_equal(line.get_markevery(), (row > -0.5) & (row < 0.9))
    simulated = found.posterior_predictive["y"].values.reshape(-1, SERIES, TIMES)
    assert band(above, 1).max() <= 0.9
    for ax, beyond, seen in zip(
        shares, (simulated <= -0.5, simulated >= 0.9), (known <= -0.5, known >= 0.9), strict=True
    ):
        np.testing.assert_allclose(ax.lines[0].get_ydata(), seen.mean(axis=0))
        np.testing.assert_allclose(band(ax, 0), np.quantile(beyond.mean(axis=1), [0.025, 0.975], axis=0))


def test_individual_fits_have_a_picture_for_each_series_up_to_twelve():
    found = replicated("parameters", -0.5)
    figure = pf.plot_individuals(found)
    assert [ax.get_title(loc="left") for ax in axes(figure)] == [str(k) for k in range(12)]
    assert figure.get_suptitle() == "the first 12 of 30 series"
    figure.canvas.draw()
    boxes = [part.get_window_extent() for part in (figure._suptitle, figure.legends[0])]  # pyright: ignore[reportAttributeAccessIssue]
    assert not boxes[0].overlaps(boxes[1])
    ax = axes(pf.plot_individuals(found, "size", series=[5, 17]))[1]
    y = found.observed_data["y"].values.reshape(SERIES, TIMES)[17]
    median = next(line for line in ax.lines if line.get_color() == POSTERIOR.line)
    simulated = found.posterior_predictive["y"].values.reshape(-1, SERIES, TIMES)[:, 17]
    np.testing.assert_allclose(median.get_ydata(), np.median(simulated, axis=0))
    arrows, points = (line.get_ydata() for line in ax.lines if line.get_color() == DATA)
    assert sorted([*arrows, *points]) == sorted(y)
    assert set(arrows) == {-0.5}
    assert -0.5 not in points


def deviating(deviations: np.ndarray) -> xr.DataTree:
    """Results whose levels are 3 times a covariate 0, 1, 2, ... of the series, and 0.5 times these deviations."""
    panel = population.panel(deviations.shape[-1], 2)
    results = population.results(panel, chains=2, draws=deviations.shape[1], noise=True)
    noise, posterior = results.noise.to_dataset(), results.posterior.to_dataset()
    levels = 3.0 * np.arange(deviations.shape[-1]) + 0.5 * deviations
    normals = noise["initial_noise"].copy()
    normals.loc[{"initial_normal": "level"}] = deviations
    results["noise"] = noise.assign(initial_noise=normals)
    results["posterior"] = posterior.assign(level=(("chain", "draw", "series"), levels))
    return results


def test_shrinkage_is_that_of_deviations_given_the_covariates():
    """Of deviations r m_i + sqrt(1 - r^2) e, with e standard normal in every draw, it is 1 - r."""
    rng, means = np.random.default_rng(1), np.random.default_rng(2).standard_normal(2000)
    for r in (0.1, 0.9):
        results = deviating(r * means + np.sqrt(1.0 - r**2) * rng.standard_normal((2, 4, 2000)))
        table = pf.shrinkage(results)
        assert table.index.tolist() == ["rate", "level"]
        assert table.loc["level", "shrinkage"] == pytest.approx(1.0 - r, abs=0.05)
        assert table.loc["level", "sd"] == pytest.approx(1.0, abs=0.03)
        assert table["standard"].all()
        assert table.loc["rate", "shrinkage"] > 0.8  # independent draws
        (ax,) = axes(pf.plot_effects(results, "level"))
        assert ax.get_title(loc="left") == f"shrinkage {table.loc['level', 'shrinkage']:.0%}"


def test_effects_that_follow_from_covariates_have_no_shrinkage():
    results = population.results(population.panel(3, 2), noise=True)
    results["noise"] = results.noise.to_dataset().drop_vars("initial_noise")
    assert pf.shrinkage(results).empty
    assert [ax.get_title(loc="left") for ax in axes(pf.plot_effects(results))] == ["", ""]


@pytest.fixture(scope="module")
def fitted() -> xr.DataTree:
    """A fit of levels that a covariate determines, of which the data tell little besides; priors are known."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["level"] - x,
        diffusion=lambda x, z: 0.5 * jnp.eye(1),
        parameters={
            "slope": dist.Normal(5.0, 1.0),
            "level": pf.Varying(lambda z: dist.Normal(z["slope"] * z["weight"], 0.2)),
        },
        covariates={"weight": 1.0},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
        scheme=pf.ExactLinearDrift(),
    )
    rng = np.random.default_rng(1)
    panel = {}
    for k in range(24):
        values = {"slope": 5.0, "level": 5.0 * k / 24 + 0.2 * rng.standard_normal()}
        panel[f"person {k}"] = pf.simulate(
            model, values, [1.0, 2.0], steps_per_interval=1, seed=k, covariates={"weight": k / 24}
        )
    return pf.fit(model, panel, steps_per_interval=1, progress=False)


def test_a_covariate_does_not_hide_shrinkage(fitted):
    """By all draws, whose deviations are known here; the values themselves differ by the covariate alone."""
    levels = fitted.posterior["level"].values.reshape(-1, 24)
    slopes = fitted.posterior["slope"].values.reshape(-1, 1)
    deviations = (levels - slopes * fitted.constant_data["weight"].values) / 0.2
    exact = 1.0 - deviations.mean(axis=0).std(ddof=1) / np.sqrt(deviations.var(axis=1, ddof=1).mean())
    of_values = 1.0 - levels.mean(axis=0).std(ddof=1) / np.sqrt(levels.var(axis=1, ddof=1).mean())
    assert of_values < 0.05 < 0.5 < exact
    assert pf.shrinkage(fitted).loc["level", "shrinkage"] == pytest.approx(exact, abs=0.15)


def test_correlations_with_a_covariate_shrink_as_the_guide_says():
    """Effects with the correlation 0.8 with a covariate that the model does not have: of posterior means it is
    (1 - S) 0.8, of draws (1 - S)^2 0.8."""
    rng, count, r = np.random.default_rng(3), 4000, 0.6
    covariate = rng.standard_normal(count)
    effect = 0.8 * covariate + 0.6 * rng.standard_normal(count)
    means = r**2 * (effect + np.sqrt(1.0 / r**2 - 1.0) * rng.standard_normal(count))
    draws = means + np.sqrt(1.0 - r**2) * rng.standard_normal((2, 4, count))
    shrunk = pf.shrinkage(deviating(draws)).loc["level", "shrinkage"]
    assert shrunk == pytest.approx(1.0 - r, abs=0.03)
    assert np.corrcoef(means, covariate)[0, 1] == pytest.approx((1.0 - shrunk) * 0.8, abs=0.04)
    assert np.corrcoef(draws[0, 0], covariate)[0, 1] == pytest.approx((1.0 - shrunk) ** 2 * 0.8, abs=0.04)


def test_effects_are_drawn_against_numbers_and_words():
    levels = tree().posterior["level"]
    known = tree().copy()
    numbers = np.arange(SERIES, dtype=float)
    same = xr.zeros_like(levels) + 2.0 * numbers
    known["posterior"] = tree().posterior.to_dataset().assign(level=same)
    words = np.where(numbers % 2 == 0, "even", "odd")
    figure = pf.plot_effects(known, ["level"], covariates={"number": numbers, "kind": words})
    with_numbers, with_words = axes(figure)
    np.testing.assert_allclose(with_numbers.lines[0].get_data(), [numbers, 2.0 * numbers])
    assert [label.get_text() for label in with_words.get_xticklabels()] == ["even", "odd"]
    np.testing.assert_array_equal(with_words.lines[0].get_xdata().round(), numbers % 2)


WEIGHTS = pd.Series(50.0 + np.arange(24.0), index=[f"person {k}" for k in range(24)])
TABLES: dict[str, Any] = {
    "array": WEIGHTS.to_numpy(),
    "in order": WEIGHTS,
    "sorted otherwise": WEIGHTS[::-1],
    "of more people": pd.concat([pd.Series([1.0], index=["nobody"]), WEIGHTS]),
    "counted": WEIGHTS.reset_index(drop=True),
    "xarray": xr.DataArray(WEIGHTS.to_numpy()[::-1], {"who": WEIGHTS.index[::-1]}, "who"),
    "xarray without names": xr.DataArray(WEIGHTS.to_numpy(), dims="who"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_covariates_are_matched_by_name(fitted, kind):
    (ax,) = axes(pf.plot_effects(fitted, covariates={"weight": TABLES[kind]}))
    assert ax.lines[0].get_xdata().tolist() == WEIGHTS.tolist()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (WEIGHTS.rename({"person 3": "person three"}), "has no rows labelled 'person 3'"),
        (WEIGHTS.rename({"person 4": "person 3"}), "has 2 rows labelled 'person 3'"),
        (WEIGHTS.reset_index(drop=True)[::-1], "has no rows labelled 'person 0'"),
    ],
)
def test_covariates_with_other_names_are_refused(fitted, table, words):
    with pytest.raises(pf.SettingsError, match=f"the covariate 'weight' {words}"):
        pf.plot_effects(fitted, covariates={"weight": table})


def test_few_series_have_points_with_bars_and_their_names():
    few = population.results(population.panel(5, 4))
    (ax,) = axes(pf.plot_effects(few, "level"))
    draws = few.posterior["level"].values.reshape(-1, 5)
    order = np.argsort(np.median(draws, axis=0))
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(k) for k in order]
    (points,) = ax.lines
    np.testing.assert_allclose(points.get_ydata(), np.median(draws, axis=0)[order])
    for bars, levels in zip(ax.collections, ([0.025, 0.975], [0.25, 0.75]), strict=True):
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends.T, np.quantile(draws, levels, axis=0)[:, order])


def test_whole_numbers_have_ticks_at_whole_numbers():
    few = population.results(population.panel(3, 4))
    for values, whole in (([1, 2, 3], True), ([1.0, 2.0, 3.0], True), ([0.5, 1.0, 1.5], False)):
        (ax,) = axes(pf.plot_effects(few, "level", covariates={"number": values}))
        ticks = ax.get_xticks()
        assert np.array_equal(ticks, np.round(ticks)) == whole


REFUSED = {
    "of paths": (lambda: pf.plot_vpc(replicated("path")), "given='population'"),
    "of others": (lambda: pf.plot_individuals(replicated("population")), "given='path'"),
    "percentiles": (lambda: pf.plot_vpc(replicated("population"), percentiles=[120.0]), "between 0 and 100"),
    "levels": (lambda: pf.plot_vpc(replicated("population"), percentiles=[0.05, 0.5, 0.95]), r"\[5.0, 50.0, 95.0\]"),
    "edges": (lambda: pf.plot_vpc(replicated("population"), bins=[3.0, 1.0]), "increasing edges"),
    "far edges": (lambda: pf.plot_vpc(replicated("population"), bins=[30.0, 40.0]), "no observation lies"),
    "covariate": (lambda: pf.plot_effects(tree(), covariates={"w": [1.0]}), r"expected \(30,\)"),
    "no dict": (lambda: pf.plot_effects(tree(), covariates=[1.0]), "must be a dict"),  # pyright: ignore[reportArgumentType]
    "one series": (lambda: pf.shrinkage(population.results(population.panel(1, 8), noise=True)), "there is one series"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_said(case):
    call, words = REFUSED[case]
    with pytest.raises(pf.SettingsError, match=words):
        call()


def test_large_panels_are_drawn_in_part():
    figure = pf.plot_marginals(tree())
    assert len(axes(figure)) == 3 + 2 * 4
    assert figure.get_suptitle() == "of rate, level the first 4 are drawn"
    figure = pf.plot_paths(tree())
    assert len(axes(figure)) == 12
    assert figure.get_suptitle() == "the first 12 of 30 series"


def test_findings_beyond_twenty_are_counted():
    noisy = population.results(population.panel(100, 8), noise=True)
    noise = noisy.noise.to_dataset()
    noisy["noise"] = noise.assign(observation_noise=noise["observation_noise"] + 5.0)
    result = pf.check(noisy)
    assert len(result.findings) > 100
    assert len(str(result).splitlines()) == 1 + 20 + 1
    assert str(result).endswith(f"{len(result.findings) - 20:,} more findings, in the table")


def test_tests_of_all_noise_do_not_multiply_with_the_series(monkeypatch):
    """Windows are compared with sums that are known: each further series costs its own values, not those of all."""
    module = sys.modules["pathfold.analysis.noise_tests"]
    counted: list[int] = []
    monkeypatch.setattr(module, "ratio_test", lambda e, first: counted.append(e.size) or ratio_test(e, first))
    calls = []
    for series in (20, 40):
        counted.clear()
        pf.check(population.results(population.panel(series, 8), noise=True))
        calls.append(len(counted))
    assert calls[0] == calls[1] > 0


def test_the_ratio_in_a_window_is_that_to_the_rest():
    e = np.random.default_rng(2).standard_normal((5, 40))
    inside = np.arange(40) < 8
    squares = (e**2)[:, inside].sum(axis=1)
    found = ratio_of_sums(squares, 8, (e**2).sum(axis=1) - squares, 32)
    for given, expected in zip(found, ratio_test(e, inside), strict=True):
        np.testing.assert_allclose(given, expected, rtol=1e-12)
