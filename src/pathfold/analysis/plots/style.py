"""Functions for all pictures: tones, bands, names to select, a legend that covers no data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from pathfold.data.checks import selected
from pathfold.data.dates import told_time
from pathfold.errors import SettingsError
from pathfold.results.reading import calendars_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Tone(NamedTuple):
    line: str
    inner: str
    outer: str


POSTERIOR = Tone("#1f5f8b", "#8fb8d6", "#d3e3ef")
FORECAST = Tone("#b35c00", "#eab676", "#f7e3c8")
REPLICATED = Tone("#6a4c93", "#bfaed6", "#e6def0")
DATA, TRUTH, ALARM = "#000000", "#2f7d32", "#b3261e"
BANDS = (0.95, 0.5)
WIDTH = 7.0  # inches: at the width of a column of text the letters have their own size
ACROSS = 4  # series of a panel, or small pictures, beside each other
MOST_SERIES = 12  # of a panel, unless they are named


def new_figure(width: float, height: float) -> Figure:
    """Make a figure; an error says how to install Matplotlib if it is missing."""
    try:
        from pathfold.analysis.plots.picture import Picture
    except ModuleNotFoundError as error:
        raise SettingsError("pictures need Matplotlib, which `pip install 'pathfold[plots]'` brings") from error
    return Picture(figsize=(width, height), layout="constrained")


def small_pictures(count: int, height: float, besides: float, *, sharex: bool = False) -> tuple[Figure, list[Any]]:
    """Make a figure of small pictures of some height, four beside each other, with room besides; and its axes."""
    across = min(count, ACROSS)
    rows = -(-count // across)
    figure = new_figure(WIDTH * max(across, 2) / ACROSS, height * rows + besides)
    axes = figure.subplots(rows, across, squeeze=False, sharex=sharex).ravel().tolist()
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def grid_of_axes(rows: Sequence[str], series: Sequence[str], tree: xr.DataTree) -> tuple[Figure, np.ndarray]:
    """Make a figure and its axes (row, series): a block of rows for each series, a few beside each other.

    A row has one scale in all series, and the rows of a series have one time.
    """
    across = min(len(series), ACROSS)
    blocks = -(-len(series) // across)
    figure = new_figure(WIDTH, (1.9 if across == 1 else 1.5) * len(rows) * blocks + 0.9)
    grid = figure.subplots(len(rows) * blocks, across, squeeze=False)
    axes = np.empty((len(rows), len(series)), dtype=object)
    for j, name in enumerate(series):
        block, place = divmod(j, across)
        axes[:, j] = grid[block * len(rows) : (block + 1) * len(rows), place]
        for i, ax in enumerate(axes[:, j]):
            ax.sharey(axes[i, 0])
            ax.sharex(axes[0, j])
            ax.tick_params(labelleft=place == 0, labelbottom=i == len(rows) - 1)
            ax.locator_params(axis="x", nbins=10 if across == 1 else 4)
            if place == 0:
                ax.set_ylabel(rows[i])
        if len(series) > 1:
            axes[0, j].set_title(f"series {name}" if name.isdigit() else name, fontsize="medium")
    for ax in set(grid.ravel()) - set(axes.ravel()):
        ax.remove()
    _name_times(axes[-1], tree)
    return figure, axes


def time_label(tree: xr.DataTree) -> str:
    """Return what an axis of time is called: with its unit, and the date that all series count from, if they do."""
    first, *others = calendars_of(tree)
    if first is None or any(other is None or other.unit != first.unit for other in others):
        return "time"
    dated = first.origin is not None and all(other == first for other in others)
    return f"{first.unit} since {told_time(0.0, first)}" if dated else f"time ({first.unit})"


def _name_times(axes: np.ndarray, tree: xr.DataTree) -> None:
    """Write times below these axes as dates, if all series count from one date; and else say their unit."""
    from pathfold.analysis.plots.picture import DateTicks

    label, calendar = time_label(tree), calendars_of(tree)[0]

    def date(t: float, place: int) -> str:
        return told_time(t, calendar).removesuffix(":00").removesuffix(" 00:00").replace(" ", "\n")

    for ax in axes:
        ax.set_xlabel(label)
        if calendar and "since" in label:
            ax.xaxis.set_major_formatter(date)
            ax.xaxis.set_major_locator(DateTicks(calendar, 7 if len(axes) == 1 else 2))
            ax.set_xlabel("date (UTC)" if calendar.aware else "date")


def draw_bands(ax: Axes, times: np.ndarray, values: np.ndarray, tone: Tone, what: str) -> None:
    """Draw the median, and bands that hold 50 and 95 % of those values (draw, time) that are finite."""
    some = np.isfinite(values).any(axis=0)
    times, values = times[some], np.where(np.isfinite(values), values, np.nan)[:, some]
    levels = [0.5, *(0.5 + sign * band / 2 for band in BANDS for sign in (-1, 1))]
    middle, *edges = quantiles(values, levels)
    for band, colour, low, high in zip(BANDS, (tone.outer, tone.inner), edges[::2], edges[1::2], strict=True):
        ax.fill_between(times, low, high, color=colour, lw=0, label=f"{band:.0%} of the {what}")
    ax.plot(times, middle, color=tone.line, lw=1.2, label=f"median of the {what}")


def quantiles(values: np.ndarray, levels: Sequence[float], axis: int = 0) -> np.ndarray:
    """Return quantiles of those values that are numbers; slower by far where some are not."""
    return (np.nanquantile if np.isnan(values).any() else np.quantile)(values, levels, axis=axis)


def legend_outside(figure: Figure) -> None:
    """Draw one legend for all axes, above them, or below if the figure has a title, which the legend would cover."""
    entries: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        longest = 0.5 + 0.065 * max(map(len, entries))  # inches
        columns = max(1, min(len(entries), int(figure.get_figwidth() / longest)))
        place: Any = f"outside {'lower' if figure.get_suptitle() else 'upper'} center"
        figure.legend([*entries.values()], [*entries], loc=place, ncols=columns, fontsize=9, frameon=False)


def first_few(chosen: Any, every: Sequence[str]) -> list[int]:
    """Return the places of the series chosen; by default of the first few."""
    return list(range(min(len(every), MOST_SERIES))) if chosen is None else selected("series", chosen, every)


def say_how_many(figure: Figure, chosen: Any, every: Sequence[str]) -> None:
    """Let the figure say that it shows the first few series, if there are more and none were chosen."""
    if chosen is None and len(every) > MOST_SERIES:
        figure.suptitle(f"the first {MOST_SERIES} of {len(every):,} series", fontsize="small")
