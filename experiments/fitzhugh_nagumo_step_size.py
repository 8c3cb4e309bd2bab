"""Adapted step size over R, S and T, of which the paper speaks without a figure: FitzHugh-Nagumo without noise."""

from __future__ import annotations

from matplotlib.figure import Figure

from experiments.drawing import LOOKS, by_kind, legend_above, logarithmic, spread, worst_rhat
from experiments.noiseless import MEANING, along, panel, settings
from experiments.page import table
from experiments.runner import Row, step_size
from experiments.setting import Scale

__all__ = ["describe", "draw", "settings"]


def draw(rows: list[Row], scale: Scale) -> Figure:
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for ax, over in zip(axes, "RST", strict=True):
        panel(ax, rows, over, scale, step_size)
        logarithmic(ax, getattr(scale, over))
        ax.set_yscale("linear")
        ax.set_xlabel(MEANING[over])
    axes[0].set_ylim(bottom=0.0)
    axes[0].set_ylabel("step size")
    legend_above(figure, axes[1])
    return figure


def describe(rows: list[Row], scale: Scale) -> str:
    lines = []
    for look, each in by_kind(rows).items():
        cells = []
        for over in "ST":
            _, (_, median, _) = spread(along(each, over, scale), over, step_size)
            cells.append(" ".join(f"{t:.3f}" for t in median))
        failed, rhat = max(row["failed"] for row in each), max(map(worst_rhat, each))
        lines.append([LOOKS[look]["label"], *cells, f"{100 * failed:.1f} %", f"{rhat:.3f}", len(each)])
    head = ["chains", "step size over S", "over T", "most failures", "largest R-hat", "runs"]
    return table(head, lines)
