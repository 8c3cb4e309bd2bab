"""Newton iterations per solve and time per step over R, S and T: FitzHugh-Nagumo observed without noise."""

from __future__ import annotations

from matplotlib.figure import Figure

from experiments.drawing import LOOKS, by_kind, exponent, legend_above, logarithmic, spread
from experiments.noiseless import MEANING, along, panel, settings
from experiments.page import table
from experiments.runner import Row
from experiments.setting import Scale

__all__ = ["describe", "draw", "settings"]

SHOWN = {"newton_iterations": "Newton iterations per solve", "ms_a_step": "ms per step"}


def draw(rows: list[Row], scale: Scale) -> Figure:
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.subplots(2, 3, sharex="col", sharey="row")
    for line, (quantity, label) in zip(axes, SHOWN.items(), strict=True):
        for ax, over in zip(line, "RST", strict=True):
            panel(ax, rows, over, scale, lambda row, quantity=quantity: row[quantity])
            logarithmic(ax, getattr(scale, over))
        line[0].set_ylabel(label)
    for ax in axes[0]:
        ax.set_yscale("linear")
        ax.set_ylim(bottom=0.0)
    for ax, over in zip(axes[1], "RST", strict=True):
        ax.set_xlabel(MEANING[over])
    legend_above(figure, axes[1, 1])
    return figure


def describe(rows: list[Row], scale: Scale) -> str:
    lines = []
    for over in "RST":
        for look, each in by_kind(along(rows, over, scale)).items():
            if each[0]["setting"][over] is None:
                continue
            _, (_, newton, _) = spread(each, over, lambda row: row["newton_iterations"])
            _, (_, time, _) = spread(each, over, lambda row: row["ms_a_step"])
            power = exponent(each, over, lambda row: row["ms_a_step"])
            lines.append(
                [
                    over,
                    LOOKS[look]["label"],
                    f"{newton.min():.2f} to {newton.max():.2f}",
                    f"{time[0]:.2f} to {time[-1]:.2f}",
                    f"{over}^{power:.2f}",
                ]
            )
    return table(
        ["over", "chains", "Newton iterations per solve", "ms per step, smallest and largest size", "grows as"], lines
    )
