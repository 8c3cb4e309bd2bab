"""The change of a posterior with the number of fine steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pathfold.analysis.plots.style import POSTERIOR, TRUTH, legend_outside, new_figure, selected
from pathfold.errors import SettingsError, told
from pathfold.inference.refine import Refinement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 4
MOST = 16


def plot_refinement(refinement: Refinement, names: Sequence[str | int] | str | int | None = None) -> Figure:
    """Draw means and standard deviations of parameters against the number of fine steps, and extrapolated means.

    Parameters
    ----------
    refinement
        The outcome of `pf.refine`.
    names
        The parameters to draw; by default the 16 of which most may remain, or all if they are fewer.
    """
    if not isinstance(refinement, Refinement):
        raise SettingsError(f"plot_refinement draws what pf.refine returned, not {told(refinement)}")
    table = refinement.table
    known = list(dict.fromkeys(table.index.get_level_values("parameter")))
    chosen = refinement.worst(MOST) if names is None else [known[i] for i in selected("parameter", names, known)]
    columns = min(COLUMNS, len(chosen))
    rows = -(-len(chosen) // columns)
    figure = new_figure(max(4.5, 2.4 * columns), 2.3 * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for ax, name in zip(axes, chosen, strict=False):
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
    for ax in axes[len(chosen) :]:
        ax.remove()
    figure.supxlabel("fine steps between observations", fontsize="small")
    legend_outside(figure)
    return figure
