"""SIR with unknown noise: time per effective draw and marginals, with and without constraints (paper, section 7.3)."""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from experiments.drawing import LOOKS, core, draws, kind, legend_above, measured, said_rhat, seconds_per_draw
from experiments.page import table
from experiments.runner import Row, step_size
from experiments.setting import Scale
from experiments.sir import edges, histogram, label
from experiments.sir import unknown_noise as settings

__all__ = ["describe", "draw", "settings"]


def draw(rows: list[Row], scale: Scale) -> Figure:
    rows = measured(rows)
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
            histogram(ax, row, name, edges(rows, name, 25))
        ax.set_title(label(name))
        ax.locator_params(axis="x", nbins=6)
    legend_above(figure, axes[0, 1])
    return figure


def describe(rows: list[Row], scale: Scale) -> str:
    enough = measured(rows)
    names = list(enough[0]["parameters"])
    moments = [[LOOKS[kind(row)]["label"], *(_moments(row["parameters"][name]) for name in names)] for row in enough]
    return "\n\n".join(
        [
            table(head := [*_cost(enough[0])], [[_cost(row).get(name, "") for name in head] for row in rows]),
            "Mean ± standard deviation (Monte-Carlo error of the mean):",
            table(["chains", *names], moments),
        ]
    )


def _cost(row: Row) -> dict[str, str]:
    """What one run cost and where it came, by the head of its column."""
    begin = {
        "chains": LOOKS[kind(row)]["label"],
        "core": core(row),
        "draws": draws(row),
        "step size": f"{step_size(row):.2g}",
        "steps per draw": f"{row['steps_a_draw']:.0f}",
    }
    if not row["parameters"]:
        return begin
    slowest = max(row["parameters"], key=lambda name: seconds_per_draw(row, name))
    steps = row["steps_a_draw"] * math.prod(row["kept"])
    return {
        **begin,
        "ms per effective draw, slowest parameter": f"{1e3 * seconds_per_draw(row, slowest):.1f} ({slowest})",
        "steps per effective draw": f"{steps / row['parameters'][slowest]['bulk']:.0f}",
        "failed": f"{100 * row['failed']:.1f} %",
        "diverged": f"{100 * row['diverged']:.1f} %",
        "R-hat": said_rhat(row),
        **{f"{q} of σ_y below": f"{row['parameters']['sigma_y']['quantiles'][q]:.2g}" for q in ("0.1 %", "1 %", "5 %")},
    }


def _moments(of: Row) -> str:
    return f"{of['mean']:.3g} ± {of['sd']:.2g} ({of['mean_error']:.1g})"
