"""Ranks of the truth among posterior draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pathfold.analysis.plots.style import POSTERIOR, legend_outside, new_figure, selected
from pathfold.errors import SettingsError, told
from pathfold.inference.calibrate import RANKS, Calibration, bins_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 4


def plot_calibration(calibration: Calibration, names: Sequence[str | int] | str | int | None = None) -> Figure:
    """Draw histograms of ranks, with the band that holds 95 % of each bar if they are uniform.

    Parameters
    ----------
    calibration
        The outcome of `pf.calibrate`.
    names
        The quantities to draw, by name or number; all by default.
    """
    from scipy import stats  # takes half a second to import

    if not isinstance(calibration, Calibration):
        raise SettingsError(f"plot_calibration draws what pf.calibrate returned, not {told(calibration)}")
    known = [str(name) for name in calibration.ranks.columns]
    chosen = [known[i] for i in selected("quantity", names, known)]
    columns = min(COLUMNS, len(chosen))
    rows = -(-len(chosen) // columns)
    figure = new_figure(max(4.5, 2.4 * columns), 1.9 * rows + 0.7)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for ax, name in zip(axes, chosen, strict=False):
        ranks = calibration.ranks[name].dropna().to_numpy()
        bins = bins_for(len(ranks))
        low, high = stats.binom.ppf([0.025, 0.975], len(ranks), 1.0 / bins)
        ax.axhspan(low, high, color="#e4e4e4", lw=0, label="95 % of a uniform rank")
        ax.hist(ranks, np.linspace(0, RANKS, bins + 1), color=POSTERIOR.inner, edgecolor="white", lw=0.5, label="runs")
        ax.set_title(f"{name}, p = {calibration.table.loc[name, 'p_value']:.2g}", fontsize="small")
    for ax in axes[len(chosen) :]:
        ax.remove()
    figure.supxlabel("rank of the truth among 99 draws", fontsize="small")
    legend_outside(figure)
    return figure
