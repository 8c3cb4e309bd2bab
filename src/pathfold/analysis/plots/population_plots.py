"""Pictures of populations: visual predictive check, individual fits, effects beside covariates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from pathfold.analysis.plots.paths_plot import draw_data, draw_limits, series_of
from pathfold.analysis.plots.style import (
    BANDS,
    DATA,
    FORECAST,
    POSTERIOR,
    WIDTH,
    draw_bands,
    first_few,
    legend_outside,
    new_figure,
    quantiles,
    say_how_many,
    time_label,
)
from pathfold.data.censoring import ABOVE, BELOW, BETWEEN
from pathfold.data.checks import selected, whole
from pathfold.data.real_arrays import is_frame, real_array
from pathfold.errors import SettingsError, told
from pathfold.results.in_order import results_of
from pathfold.results.reading import observation_names, of_draws, series_names
from pathfold.results.shrinkage import Effect, effects_of, shrinkage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
BAND = 0.95
ENOUGH = 10  # observations that percentiles are taken of, unless the user names the spans
MOST_NAMED = 30  # series that are named below their values
SIDES = ("below", "above")
MOST_BARS = 100  # series whose intervals are drawn one by one


def plot_vpc(
    posterior: xr.DataTree,
    names: Sequence[str | int] | str | int | None = None,
    *,
    bins: int | Sequence[float] = 8,
    percentiles: Sequence[float] = (5.0, 50.0, 95.0),
) -> Figure:
    """Draw a visual predictive check: percentiles of the data over time, and where those of simulated data lie.

    Bands hold 95 % of the percentiles of as many simulated data sets as there are draws. If the model is right, the
    lines of the data run within them. If data are censored, values beyond a limit, simulated or not, are put at the
    limit. A percentile that falls among them is not known: an arrow at the limit says on which side it is. A further
    picture below has the share of values beyond each limit.

    Parameters
    ----------
    posterior
        Results of `pf.posterior_predictive`: with `given="population"` as data of other people from the same
        population, which a visual predictive check is meant to compare with; with `given="parameters"` of the same
        people again.
    names
        The observed components to draw, by name or number; all by default.
    bins
        Into how many spans of time the observations are gathered at most, about as many in each, and ten or more; or
        the edges of the spans, which are kept as they are.
    percentiles
        The percentiles that are compared, in percent.
    """
    tree = results_of(posterior, "observed_data", "posterior_predictive")
    if tree["posterior_predictive"].attrs.get("given") == "path":
        raise SettingsError(
            "these data were simulated given the paths of the draws, and follow those observed; for a visual "
            "predictive check use pf.posterior_predictive(..., given='population')"
        )
    known, levels = observation_names(tree), _checked_percentiles(percentiles)
    rows = selected("observation", names, known)
    y = of_draws(tree["posterior_predictive"].to_dataset()["y"])
    data = tree.observed_data
    if never := [known[k] for k in rows if np.isnan(data["y"].values[:, k]).all()]:
        raise SettingsError(f"{never[0]!r} was never observed: leave it out of names")
    columns = [_Compared.of(data, y, k) for k in rows]
    heights = [height for column in columns for height in (3.0, *(1.0 for _ in column.limits))]
    figure = new_figure(WIDTH, 0.9 * sum(heights) + 1.2)
    axes = iter(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights).ravel())
    for k, column in zip(rows, columns, strict=True):
        ax, spans = next(axes), _spans(column.times, bins)
        times = np.array([np.median(column.times[span]) for span in spans])
        _draw_percentiles(ax, times, spans, column, levels)
        ax.set_ylabel(known[k])
        for side in column.limits:
            below = next(axes)
            _draw_share(below, times, spans, column, side)
            below.set_ylabel(f"share {side}\nthe limit", fontsize="small")
    figure.axes[-1].set_xlabel(time_label(tree))
    legend_outside(figure)
    return figure


class _Compared(NamedTuple):
    """Values of one component that were observed (row,) and simulated (draw, row), and their times.

    Below the highest of the limits that values are known to be below, and above the lowest of those on the other side,
    values are not compared.
    """

    times: np.ndarray
    observed: np.ndarray
    simulated: np.ndarray
    low: float = -np.inf
    high: float = np.inf

    @classmethod
    def of(cls, data: Any, simulated: np.ndarray, k: int) -> _Compared:
        seen = np.isfinite(data["y"].values[:, k])
        times, y, simulated = data["time"].values[seen], data["y"].values[seen, k], simulated[:, seen, k]
        if "censored" not in data:
            return cls(times, y, simulated)
        kinds = data["censored"].values[seen, k]
        y = np.where(kinds == BETWEEN, 0.5 * (y + data["upper"].values[seen, k]), y)
        low, high = np.max(y[kinds == BELOW], initial=-np.inf), np.min(y[kinds == ABOVE], initial=np.inf)
        return cls(times, y, simulated, float(low), float(high))

    @property
    def limits(self) -> dict[str, float]:
        """The limits there are, by the side on which values are not known."""
        return {side: limit for side, limit in zip(SIDES, (self.low, self.high), strict=True) if np.isfinite(limit)}

    def put_at_limits(self, values: np.ndarray) -> np.ndarray:
        return np.clip(values, self.low, self.high)


def _beyond(values: np.ndarray, side: str, limit: float) -> np.ndarray:
    """Return a mask of the values at or beyond a limit."""
    return values <= limit if side == "below" else values >= limit


def _checked_percentiles(percentiles: Any) -> list[float]:
    """Return the percentiles, sorted; refuse what must be levels between 0 and 1."""
    percents = np.sort(real_array("percentiles", np.atleast_1d(percentiles)).astype(float).ravel())
    if not percents.size or not np.all((percents > 0.0) & (percents < 100.0)):
        raise SettingsError(f"percentiles must be numbers between 0 and 100, not {told(percentiles)}")
    if percents[-1] <= 1.0:
        raise SettingsError(
            f"percentiles are in percent, and {told(percentiles)} would all lie at or below the first: give "
            f"percentiles={[float(f'{100.0 * level:.6g}') for level in percents]}"
        )
    return percents.tolist()


def _spans(times: np.ndarray, bins: Any) -> list[np.ndarray]:
    """Return the rows of each span of time: of each time, where there are no more than so many; few are joined."""
    if np.ndim(bins) == 0:
        count, distinct = whole("bins", bins, least=1), np.unique(times)
        inner = np.quantile(times, np.linspace(0.0, 1.0, count + 1)[1:-1])
        edges = distinct[1:] if distinct.size <= count else np.unique(inner)
        numbers = np.searchsorted(edges, times, side="right")
        return _joined([np.flatnonzero(numbers == k) for k in range(edges.size + 1)])
    edges = real_array("bins", bins).astype(float)
    if edges.size < 2 or not np.all(np.diff(edges) > 0.0):
        raise SettingsError(f"bins must be a number of spans or two or more increasing edges, not {told(bins)}")
    edges[-1] = np.nextafter(edges[-1], np.inf)
    numbers = np.searchsorted(edges, times, side="right")
    spans = [rows for k in range(1, edges.size) if (rows := np.flatnonzero(numbers == k)).size]
    if not spans:
        raise SettingsError("no observation lies within the bins; give edges that hold the times of the data")
    return spans


def _joined(spans: list[np.ndarray]) -> list[np.ndarray]:
    """Join spans of time with the next ones until each has enough observations for percentiles."""
    joined = [spans[0]]
    for rows in spans[1:]:
        if joined[-1].size < ENOUGH:
            joined[-1] = np.concatenate([joined[-1], rows])
        else:
            joined.append(rows)
    if len(joined) > 1 and joined[-1].size < ENOUGH:
        joined[-2:] = [np.concatenate(joined[-2:])]
    return joined


def _draw_percentiles(
    ax: Axes, times: np.ndarray, spans: list[np.ndarray], column: _Compared, percents: list[float]
) -> None:
    """Draw percentiles of the data as lines, and bands of those simulated; the middle one in a tone of its own."""
    levels = [percent / 100.0 for percent in percents]
    middle = min(range(len(levels)), key=lambda i: abs(levels[i] - 0.5))
    simulated, observed = column.put_at_limits(column.simulated), column.put_at_limits(column.observed)
    simulated = np.array([quantiles(simulated[:, rows], levels, axis=1) for rows in spans])
    observed = np.array([np.quantile(observed[rows], levels) for rows in spans])
    outer = "percentiles " + ", ".join(f"{percent:g}" for i, percent in enumerate(percents) if i != middle)
    told = [f"percentile {percent:g}" if i == middle else outer for i, percent in enumerate(percents)]
    for i in sorted(range(len(levels)), key=lambda i: i == middle):
        low, high = quantiles(simulated[:, i], [0.5 - BAND / 2, 0.5 + BAND / 2], axis=1)
        tone = FORECAST if i == middle else POSTERIOR
        what = f"{told[i]}: {BAND:.0%} of those simulated"
        ax.fill_between(times, low, high, facecolor=tone.inner, edgecolor=tone.line, alpha=0.6, lw=0.8, label=what)
    beyond = {side: _beyond(observed, side, limit) for side, limit in column.limits.items()}
    known = ~np.any([np.zeros(observed.shape, dtype=bool), *beyond.values()], axis=0)
    for i in range(len(levels)):
        style, what = "-" if i == middle else "--", f"{told[i]}: data"
        ax.plot(times, observed[:, i], style, color=DATA, lw=1.2, marker=".", ms=4, markevery=known[:, i], label=what)
    for side, unknown in beyond.items():
        ax.axhline(column.limits[side], color="#777777", lw=0.8, ls=":", label="limit")
        at = np.flatnonzero(unknown.any(axis=1))
        draw_limits(ax, times[at], np.full(at.size, column.limits[side]), side)


def _draw_share(ax: Axes, times: np.ndarray, spans: list[np.ndarray], column: _Compared, side: str) -> None:
    """Draw the share of the data that is beyond the limit, and the band of that of those simulated."""
    limit, lost = column.limits[side], np.isnan(column.simulated)
    observed, simulated = (_beyond(values, side, limit) for values in (column.observed, column.simulated))
    shares = np.array([simulated[:, rows].sum(axis=1) / np.maximum(1, (~lost[:, rows]).sum(axis=1)) for rows in spans])
    low, high = np.quantile(shares, [0.5 - BAND / 2, 0.5 + BAND / 2], axis=1)
    ax.fill_between(times, low, high, facecolor=POSTERIOR.inner, edgecolor=POSTERIOR.line, alpha=0.6, lw=0.8)
    ax.plot(times, [np.mean(observed[rows]) for rows in spans], ".-", color=DATA, lw=1.2, ms=4)
    ax.set_ylim(-0.03, 1.03)


def plot_individuals(
    posterior: xr.DataTree,
    name: str | int = 0,
    *,
    series: Sequence[str | int] | str | int | None = None,
    columns: int = COLUMNS,
) -> Figure:
    """Draw a small picture for each series: its data, and bands that hold 50 and 95 % of the data simulated for it.

    If the data have events or inputs, bands show what happens between the times of the data. Given the path, a draw
    goes on from its state at a dose or sample to the next, without regard to that one, unless all states were kept
    (`keep_path="all"`).

    Parameters
    ----------
    posterior
        Results of `pf.posterior_predictive`: with `given="path"`, its default, how well the fitted paths follow the
        data; with `given="parameters"`, what the parameters of a series alone lead one to expect.
    name
        The observed component, by name or number.
    series
        The series to draw, by name or number; the first twelve by default.
    columns
        How many pictures stand side by side.
    """
    tree = results_of(posterior, "observed_data", "posterior_predictive")
    if tree["posterior_predictive"].attrs.get("given") == "population":
        raise SettingsError(
            "these data were simulated for other members of the population; for individual fits use "
            "pf.posterior_predictive(...) with given='path' or 'parameters'"
        )
    known, every = observation_names(tree), series_names(tree)
    (k,) = selected("observation", name, known)
    chosen = first_few(series, every)
    of_rows = series_of(tree.observed_data)
    drawn = tree["replicated_path" if "replicated_path" in tree.children else "posterior_predictive"].to_dataset()
    of_drawn, times, y = series_of(drawn), drawn["time"].values, of_draws(drawn["y"])
    wide = min(whole("columns", columns, least=1), len(chosen))
    high = -(-len(chosen) // wide)
    figure = new_figure(max(4.0, 2.3 * wide + 0.4), 1.7 * high + 0.9)
    say_how_many(figure, series, every)
    axes = figure.subplots(high, wide, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, place in zip(axes, chosen, strict=False):
        mine = of_drawn == every[place]
        draw_bands(ax, times[mine], y[:, mine, k], POSTERIOR, "data simulated")
        draw_data(ax, tree.observed_data, of_rows == every[place], k)
        ax.set_title(every[place], fontsize="small", loc="left")
    for ax in axes[len(chosen) :]:
        ax.remove()
    for ax in axes[max(0, len(chosen) - wide) : len(chosen)]:
        ax.tick_params(labelbottom=True)
        ax.set_xlabel(time_label(tree))
    figure.supylabel(known[k], fontsize="medium")
    legend_outside(figure)
    return figure


def plot_effects(
    posterior: xr.DataTree,
    names: Sequence[str] | str | None = None,
    *,
    covariates: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw the values that vary between series, with their shrinkage; or draw them against covariates.

    Without covariates the series stand side by side, sorted by the median of their draws, with bars that hold 50 and
    95 % of these; if there are more than 30, with bands. With covariates every effect has a row and every covariate a
    column. Such a picture suggests what to try, and measures nothing: unless the model has the covariate, slopes and
    correlations of medians are too small by the shrinkage, and those of draws are smaller still. The coefficient of the
    covariate in a model that has it is without that bias (`pf.DiffusionModel(covariates=...)`).

    Parameters
    ----------
    posterior
        Results of `pf.sample` for a panel with `pf.Varying` parameters.
    names
        The effects to draw; all by default.
    covariates
        By name, a number or word for each series: a dict of arrays, or a table with a row for each series. Rows of
        pandas and xarray objects are matched to the series by name, others by order.
    """
    tree = results_of(posterior, "constant_data")
    effects, series = effects_of(tree), series_names(tree)
    chosen = {[*effects][i]: [*effects.values()][i] for i in selected("effect", names, [*effects])}
    if covariates is None:
        figure = _drawn_in_order(chosen, series)
    else:
        figure = _drawn_against(chosen, _checked_covariates(covariates, series))
    shrunk = shrinkage(tree)["shrinkage"] if "noise" in tree.children else {}
    for ax, label in zip(figure.axes[:: len(figure.axes) // len(chosen)], chosen, strict=True):
        if label in shrunk:
            ax.set_title(f"shrinkage {shrunk[label]:.0%}", fontsize="small", loc="left")
    return figure


def _told_effect(label: str, effect: Effect) -> str:
    return f"log {label}" if effect.logarithm else label


def _drawn_in_order(effects: Mapping[str, Effect], series: Sequence[str]) -> Figure:
    """Draw each effect of all series, sorted by their medians."""
    few = len(series) <= MOST_NAMED
    figure = new_figure(WIDTH, (2.4 if few else 2.0) * len(effects) + 0.9)
    axes = figure.subplots(len(effects), 1, squeeze=False).ravel()
    for ax, (label, effect) in zip(axes, effects.items(), strict=True):
        order = np.argsort(np.median(effect.draws, axis=0))
        places = np.arange(1.0, order.size + 1)
        if few:
            _draw_bars(ax, places, effect.draws[:, order])
            turned: dict[str, Any] = {"rotation": 45, "ha": "right"} if max(map(len, series)) > 3 else {}
            ax.set_xticks(places, [series[k] for k in order], **turned)
        else:
            draw_bands(ax, places, effect.draws[:, order], POSTERIOR, "draws")
        ax.set_ylabel(_told_effect(label, effect))
    axes[-1].set_xlabel("series, sorted")
    legend_outside(figure)
    return figure


def _draw_bars(ax: Axes, places: np.ndarray, draws: np.ndarray) -> None:
    """Draw a point for the median of each column of draws, and bars that hold 50 and 95 % of them."""
    levels = [0.5 + sign * band / 2 for band in BANDS for sign in (-1, 1)]
    edges = np.quantile(draws, levels, axis=0)
    for i, (band, width) in enumerate(zip(BANDS, (1.2, 4.0), strict=True)):
        what = f"{band:.0%} of the draws"
        ax.vlines(places, edges[2 * i], edges[2 * i + 1], color=POSTERIOR.inner, lw=width, label=what)
    ax.plot(places, np.median(draws, axis=0), "o", color=POSTERIOR.line, ms=4, label="median of the draws")


def _checked_covariates(covariates: Any, series: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the covariates as arrays (series,), of numbers or of words."""
    if not hasattr(covariates, "items"):
        raise SettingsError(f"covariates must be a dict of name -> a value for each series, not {told(covariates)}")
    arrays = {str(name): _in_order(str(name), values, series) for name, values in covariates.items()}
    for name, values in arrays.items():
        if values.shape != (len(series),):
            raise SettingsError(
                f"the covariate {name!r} has shape {values.shape}, expected ({len(series)},): a value for each series"
            )
    if not arrays:
        raise SettingsError("covariates are empty; give at least one, or leave them out")
    return arrays


def _in_order(name: str, values: Any, series: Sequence[str]) -> np.ndarray:
    """Return a covariate in the order of the series, by the labels of its rows, unless these only count from zero."""
    values = values.to_series() if isinstance(values, xr.DataArray) and values.ndim else values
    if not is_frame(values) or values.index.tolist() == [*range(len(values))]:
        return np.asarray(values)
    labels = [str(label) for label in values.index]
    times = Counter(labels)
    if odd := [one for one in series if times[one] != 1]:
        raise SettingsError(
            f"the covariate {name!r} has {times[odd[0]] or 'no'} rows labelled {odd[0]!r}, which is a series: label "
            "one row with the name of each series, or give .to_numpy() to go by their order"
        )
    places = {label: i for i, label in enumerate(labels)}
    return np.asarray(values)[[places[one] for one in series]]


def _drawn_against(effects: Mapping[str, Effect], covariates: Mapping[str, np.ndarray]) -> Figure:
    """Draw each effect in a row, against each covariate in a column."""
    figure = new_figure(max(4.0, 2.8 * len(covariates) + 0.6), 2.2 * len(effects) + 0.5)
    axes = figure.subplots(len(effects), len(covariates), sharex="col", sharey="row", squeeze=False)
    for row, (label, effect) in zip(axes, effects.items(), strict=True):
        for ax, values in zip(row, covariates.values(), strict=True):
            _draw_against(ax, effect, values)
        row[0].set_ylabel(_told_effect(label, effect))
    for ax, name in zip(axes[-1], covariates, strict=True):
        ax.set_xlabel(name)
    return figure


def _draw_against(ax: Axes, effect: Effect, values: np.ndarray) -> None:
    """Draw an effect against a covariate: medians with intervals; words stand side by side."""
    low, middle, high = np.quantile(effect.draws, [0.5 - BAND / 2, 0.5, 0.5 + BAND / 2], axis=0)
    if np.issubdtype(values.dtype, np.number):
        places = values.astype(float)
        if np.array_equal(places, np.round(places)):
            ax.locator_params(axis="x", integer=True)
    else:  # beside each other, since many series have the same word
        words, numbers = np.unique(values.astype(str), return_inverse=True)
        places = numbers + 0.3 * (np.argsort(np.argsort(middle)) / max(1, middle.size - 1) - 0.5)
        ax.set_xticks(range(len(words)), words.tolist())
    if middle.size <= MOST_BARS:
        ax.vlines(places, low, high, color=POSTERIOR.inner, lw=1.0)
    ax.plot(places, middle, "o", color=POSTERIOR.line, ms=3 if middle.size <= MOST_BARS else 1.5)
