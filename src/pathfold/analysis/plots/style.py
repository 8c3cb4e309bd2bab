"""Functions for all pictures: tones, bands, names to select, a legend that covers no data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pathfold.errors import SettingsError, told

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Tone(NamedTuple):
    line: str
    inner: str
    outer: str


POSTERIOR = Tone("#1f5f8b", "#8fb8d6", "#d3e3ef")
FORECAST = Tone("#b35c00", "#eab676", "#f7e3c8")
DATA, TRUTH, ALARM = "#000000", "#2f7d32", "#b3261e"
BANDS = (0.95, 0.5)


def new_figure(width: float, height: float) -> Figure:
    """Make a figure that no window shows by itself; an error says how to install Matplotlib if it is missing."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise SettingsError("pictures need Matplotlib, which `pip install 'pathfold[plots]'` brings") from error
    return Figure(figsize=(width, height), layout="constrained")


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


def legend_outside(figure: Figure, where: str = "upper") -> None:
    """Draw one legend for all axes, above or below them."""
    entries: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        columns = max(1, min(len(entries), int(figure.get_figwidth() / 2.2)))
        place: Any = f"outside {where} center"
        figure.legend([*entries.values()], [*entries], loc=place, ncols=columns, fontsize="small", frameon=False)


def first_few(figure: Figure, chosen: Any, every: Sequence[str], most: int) -> list[int]:
    """Return the places of the series chosen; by default of the first, which the figure says if there are more."""
    if chosen is None and len(every) > most:
        figure.suptitle(f"the first {most} of {len(every):,} series", fontsize="small")
        return list(range(most))
    return selected("series", chosen, every)


def selected(what: str, names: Iterable[Any] | str | int | None, known: Sequence[str]) -> list[int]:
    """Return the places of the chosen names or numbers among those known; all if none are chosen."""
    if names is None:
        return list(range(len(known)))
    chosen = [names] if isinstance(names, str | int) else list(names)
    places = []
    for name in chosen:
        if name in known:
            places.append(known.index(name))
        elif isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(known):
            places.append(int(name))
        else:
            raise SettingsError(f"there is no {what} {told(name)} to draw; there are {', '.join(known) or 'none'}")
    if not places:
        raise SettingsError(f"names select no {what}; leave them out to draw all")
    return places
