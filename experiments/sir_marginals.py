"""SIR with unknown noise: time per effective draw and marginals, with and without constraints (paper, section 7.3)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from experiments.drawing import LOOKS, kind, legend_above, seconds_per_draw, step_size, table, worst_rhat
from experiments.runner import Row
from experiments.setting import Scale
from experiments.sir import edges, histogram, label
from experiments.sir import unknown_noise as settings

__all__ = ["describe", "draw", "settings"]

SMALL = 1.0  # people; the noise scales that the chains without constraints are said to miss


def draw(rows: list[Row], scale: Scale) -> Figure:
    names = list(rows[0]["parameters"])
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    axes = figure.subplots(2, 3)
    cost = axes[0, 0]
    for row in rows:
        look = LOOKS[kind(row)]
        cost.plot(names, [seconds_per_draw(row, name) for name in names], color=look["color"], marker=look["marker"])
    cost.set_yscale("log")
    cost.set_title("s per effective draw")
    for ax, name in zip(axes.ravel()[1:], names, strict=True):
        for row in rows:
            histogram(ax, row, name, edges(rows, name, 40))
        ax.set_title(label(name))
    legend_above(figure, axes[0, 1])
    return figure


def describe(rows: list[Row], scale: Scale) -> str:
    names = list(rows[0]["parameters"])
    lines = []
    for row in rows:
        slowest = max(names, key=lambda name: seconds_per_draw(row, name))
        main = row["main_seconds"] / row["parameters"][slowest]["bulk"]
        lines.append(
            [
                LOOKS[kind(row)]["label"],
                f"{row['setting']['chains']} x {row['setting']['draws']}",
                f"{step_size(row):.2g}",
                f"{row['steps_a_draw']:.0f}",
                f"{1e3 * seconds_per_draw(row, slowest):.1f} ({slowest})",
                f"{1e3 * main / row['ms_a_step']:.0f}",
                f"{100 * row['failed']:.1f} %",
                f"{worst_rhat(row):.3f}",
                f"{100 * np.mean(np.array(row['sample']['sigma_y']) < SMALL):.1f} %",
                f"{row['parameters']['sigma_y']['quantiles'][0]:.2f}",
            ]
        )
    head = ["chains", "draws", "step size", "steps a draw", "ms per effective draw, slowest parameter",
            "steps per effective draw", "failed", "R-hat", f"draws with σ_y < {SMALL:g}", "5 % of σ_y below"]  # fmt: skip
    moments = [
        [LOOKS[kind(row)]["label"], *(f"{m['mean']:.3g} ± {m['sd']:.2g} ({m['mean_error']:.1g})"
                                      for m in row["parameters"].values())]
        for row in rows
    ]  # fmt: skip
    return (
        table(head, lines)
        + "\n\nMean ± standard deviation (Monte-Carlo error of the mean):\n\n"
        + table(["chains", *names], moments)
    )
