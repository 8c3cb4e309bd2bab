"""Pictures of many runs: ranks of the truth (pf.calibrate), and the change with the number of steps (pf.refine)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pathfold.analysis.plots.style import POSTERIOR, TRUTH, legend_outside, small_pictures
from pathfold.data.checks import selected
from pathfold.inference.calibrate import RANKS, Calibration, bins_for
from pathfold.inference.refine import Refinement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 16


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

    known = [str(name) for name in calibration.ranks.columns]
    chosen = [known[i] for i in selected("quantity", names, known)]
    figure, axes = small_pictures(len(chosen), 1.9, 0.7, sharex=True)
    for ax, name in zip(axes, chosen, strict=True):
        ranks = calibration.ranks[name].dropna().to_numpy()
        bins = bins_for(len(ranks))
        low, high = stats.binom.ppf([0.025, 0.975], len(ranks), 1.0 / bins)
        ax.axhspan(low, high, color="#e4e4e4", lw=0, label="95 % of a uniform rank")
        ax.hist(ranks, np.linspace(0, RANKS, bins + 1), color=POSTERIOR.inner, edgecolor="white", lw=0.5, label="runs")
        ax.set_title(f"{name}, p = {calibration.table.loc[name, 'p_value']:.2g}", fontsize="small")
    figure.supxlabel("rank of the truth among 99 draws", fontsize="small")
    legend_outside(figure)
    return figure


def plot_refinement(refinement: Refinement, names: Sequence[str | int] | str | int | None = None) -> Figure:
    """Draw means and standard deviations of parameters against the number of fine steps, and extrapolated means.

    Parameters
    ----------
    refinement
        The outcome of `pf.refine`.
    names
        The parameters to draw; by default the 16 of which most may remain, or all if they are fewer.
    """
    table = refinement.table
    known = list(dict.fromkeys(table.index.get_level_values("parameter")))
    chosen = refinement.worst(MOST) if names is None else [known[i] for i in selected("parameter", names, known)]
    figure, axes = small_pictures(len(chosen), 2.3, 0.5, sharex=True)
    for ax, name in zip(axes, chosen, strict=True):
        levels = table.loc[name]
        steps, mean, sd = (np.asarray(levels.index), levels["mean"].to_numpy(), levels["sd"].to_numpy())
        ax.fill_between(steps, mean - sd, mean + sd, color=POSTERIOR.outer, lw=0, label="mean ± sd")
        error = levels["error"].to_numpy() / np.sqrt(2.0) * sd
        ax.errorbar(steps, mean, np.nan_to_num(error), color=POSTERIOR.line, marker="o", ms=3, lw=1.2, label="mean")
        if refinement.order is not None:
            limit = levels["extrapolated"].to_numpy()[-1]
            ax.axhline(limit, color=TRUTH, ls="--", lw=1.0, label="extrapolated")
        ax.set_xscale("log", base=2)
        ax.set_xticks(steps, [str(count) for count in steps])
        ax.set_title(name, fontsize="small")
    figure.supxlabel("fine steps between observations", fontsize="small")
    legend_outside(figure)
    return figure
