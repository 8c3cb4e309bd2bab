"""Pictures of the noise that a model is checked by: over time, and against a normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.special import betaincinv, ndtri

from pathfold.analysis.channels import Channel, channels
from pathfold.analysis.check import LEVEL, check
from pathfold.analysis.noise_tests import noise_name
from pathfold.analysis.plots.style import (
    ALARM,
    POSTERIOR,
    WIDTH,
    draw_bands,
    legend_outside,
    new_figure,
    time_label,
)
from pathfold.data.checks import selected

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 8  # sources of noise, unless they are named
MOST_POINTS = 2000  # of each


def plot_check(
    posterior: xr.DataTree, names: Sequence[str | int] | str | int | None = None, *, level: float = LEVEL
) -> Figure:
    """Draw each source of noise in the posterior draws over time, and its quantiles against those of a normal one.

    If the model is right, 95 % of the values lie between -2 and 2 and the quantiles on the diagonal, in every draw.
    Windows in which `pf.check` finds the noise amiss are marked. Over time the first 2,000 values are drawn.

    Parameters
    ----------
    posterior
        Results of `pf.sample`, or of `pf.residuals`, whose one-step-ahead residuals are drawn too.
    names
        Components of the state and of the observations whose noise is drawn, by name or number; a residual is called
        `"residual of y[0]"`. By default the first eight.
    level
        The level of `pf.check`.
    """
    result = check(posterior, level=level)
    sources = {_label(source): source for source in channels(posterior) if source.kind != "together"}
    names = list(range(min(MOST, len(sources)))) if names is None else names
    chosen = [list(sources.values())[i] for i in selected("noise", names, list(sources))]
    figure = new_figure(WIDTH, 1.7 * len(chosen) + 0.9)
    axes = figure.subplots(len(chosen), 2, squeeze=False, width_ratios=(3, 1), sharex="col")
    for (left, right), source in zip(axes, chosen, strict=True):
        _draw_series(left, source)
        drawn = set(source.series[:MOST_POINTS].tolist())
        for name, series, begin, end in result.spans:
            if name == noise_name(source) and series in drawn:
                left.axvspan(*_places(source, series, begin, end), color=ALARM, alpha=0.15, lw=0, label="amiss")
        _draw_quantiles(right, source)
    axes[-1, 0].set_xlabel(
        time_label(posterior) if np.ptp(chosen[-1].series) == 0 else "observation times, series by series"
    )
    axes[-1, 1].set_xlabel("normal")
    verdict = "no sign of misfit" if result.passed else f"{len(result.findings)} findings"
    figure.suptitle(f"{result.caveat}smallest adjusted p-value {result.p_value:.2g}: {verdict}", fontsize="medium")
    legend_outside(figure)
    return figure


def _label(source: Channel) -> str:
    """Return the name by which a source of noise is chosen."""
    return f"residual of {source.name}" if source.kind == "ahead" else source.name


def _abscissa(source: Channel) -> np.ndarray:
    """Return the times; for a panel the numbers of intervals, since times begin again with every series."""
    return source.ends if np.ptp(source.series) == 0 else source.intervals + 1.0


def _places(source: Channel, series: int, begin: float, end: float) -> tuple[float, float]:
    inside = (source.series == series) & (source.begins >= begin) & (source.ends <= end)
    places = _abscissa(source)[inside]
    return (begin, end) if np.ptp(source.series) == 0 else (places.min() - 0.5, places.max() + 0.5)


def _draw_series(ax: Axes, source: Channel) -> None:
    draw_bands(ax, _abscissa(source)[:MOST_POINTS], source.values[:, :MOST_POINTS], POSTERIOR, "draws")
    for bound in (-2.0, 2.0):
        ax.axhline(bound, color="#777777", lw=0.8, ls="--")
    count = source.values.shape[1]
    some = f" (the first {MOST_POINTS:,} of {count:,} values)" if count > MOST_POINTS else ""
    ax.set_title(noise_name(source) + some, fontsize="small", loc="left")


def _draw_quantiles(ax: Axes, source: Channel) -> None:
    count = source.values.shape[1]
    ranks = np.unique(np.linspace(1, count, MOST_POINTS).round().astype(int))
    normal = ndtri((ranks - 0.5) / count)
    low, high = (ndtri(betaincinv(ranks, count + 1 - ranks, p)) for p in (0.025, 0.975))
    ax.fill_between(normal, low, high, color="#e4e4e4", lw=0, label="95 % for a normal distribution")
    ax.plot(normal, np.sort(source.values, axis=1)[:, ranks - 1].T, color=POSTERIOR.line, lw=0.5, alpha=0.5)
    ax.axline((0.0, 0.0), slope=1.0, color="#777777", lw=0.8)
    ax.set_ylabel("noise", fontsize="small")
