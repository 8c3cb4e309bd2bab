"""SIR with unknown noise: pairs of parameters, with and without constraints (paper, supplement)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from experiments.drawing import LOOKS, kind, legend_above, measured
from experiments.page import table
from experiments.runner import Row
from experiments.setting import Scale
from experiments.sir import as_shown, edges, histogram, label
from experiments.sir import unknown_noise as settings

__all__ = ["describe", "draw", "settings"]


def draw(rows: list[Row], scale: Scale) -> Figure:
    rows = measured(rows)
    names = list(rows[0]["parameters"])
    figure = Figure(figsize=(10, 10), layout="constrained")
    axes = figure.subplots(len(names), len(names), sharex="col")
    for (i, j), ax in np.ndenumerate(axes):
        x, y = names[j], names[i]
        if i < j:
            ax.set_axis_off()
        elif i == j:
            for row in rows:
                histogram(ax, row, x, edges(rows, x, 30))
        else:
            for row in rows:
                ax.scatter(as_shown(x, row["sample"][x]), as_shown(y, row["sample"][y]), s=1.5, alpha=0.5, lw=0,
                           color=LOOKS[kind(row)]["color"], rasterized=True)  # fmt: skip
        if i == len(names) - 1:
            ax.set_xlabel(label(x))
        if j == 0 and i > 0:
            ax.set_ylabel(label(y))
    legend_above(figure, axes[0, 0])
    return figure


def describe(rows: list[Row], scale: Scale) -> str:
    """Correlations of what is drawn, the noise scale with the others."""
    rows = measured(rows)
    names = [name for name in rows[0]["parameters"] if name != "sigma_y"]
    lines = []
    for row in rows:
        noise = as_shown("sigma_y", row["sample"]["sigma_y"])
        found = [np.corrcoef(noise, as_shown(name, row["sample"][name]))[0, 1] for name in names]
        lines.append([LOOKS[kind(row)]["label"], *(f"{r:.2f}" for r in found)])
    return table(["correlation of log σ_y with", *map(label, names)], lines)
