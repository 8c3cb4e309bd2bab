"""Time per effective draw of every parameter over R, S and T: FitzHugh-Nagumo observed without noise."""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from experiments.drawing import LOOKS, by_kind, exponent, legend_above, logarithmic, seconds_per_draw, spread
from experiments.noiseless import MEANING, PARAMETERS, along, panel, settings
from experiments.page import table
from experiments.runner import Row
from experiments.setting import Scale

__all__ = ["describe", "draw", "settings"]


def draw(rows: list[Row], scale: Scale) -> Figure:
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplots(3, len(PARAMETERS), sharex="row", sharey="row")
    for line, over in zip(axes, "RST", strict=True):
        for ax, name in zip(line, PARAMETERS, strict=True):
            panel(ax, rows, over, scale, lambda row, name=name: seconds_per_draw(row, name))
            logarithmic(ax, getattr(scale, over))
            ax.set_xlabel(MEANING[over])
        line[0].set_ylabel("s per effective draw")
    for ax, name in zip(axes[0], PARAMETERS, strict=True):
        ax.set_title(name)
    legend_above(figure, axes[1, 0])
    return figure


def describe(rows: list[Row], scale: Scale) -> str:
    """Exponents over S and T, the best R, and the cost of an effective draw of the slowest parameter."""
    lines = []
    for look, each in by_kind(rows).items():
        powers = {
            over: [
                exponent(along(each, over, scale), over, lambda row, name=name: seconds_per_draw(row, name))
                for name in PARAMETERS
            ]
            for over in "ST"
        }
        R, (_, cost, _) = spread(along(each, "R", scale), "R", _slowest)
        best = "" if not len(R) else "no blocks" if R[0] is None else f"{R[cost.argmin()]}"
        ranges = [f"{min(p):.2f} to {max(p):.2f}" for p in powers.values()]
        lines.append([LOOKS[look]["label"], *ranges, best, f"{1e3 * cost.min(initial=math.inf):.1f}"])
    head = ["chains", "exponent in S", "exponent in T", "best R", "ms per effective draw then, slowest parameter"]
    return table(head, lines)


def _slowest(row: Row) -> float:
    return max(seconds_per_draw(row, name) for name in PARAMETERS)
