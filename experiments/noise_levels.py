"""Chains with and without constraints, and guided, at given noise levels: how they agree and what they cost.

The step size of guided proposals is sqrt(1 - rho) of their paths, and their steps are moves.
"""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from experiments.drawing import (
    LOOKS,
    by_kind,
    core,
    curve,
    draws,
    kind,
    legend_above,
    logarithmic,
    measured,
    said_rhat,
    seconds_per_draw,
    unmeasured,
)
from experiments.page import table
from experiments.runner import Row, step_size
from experiments.setting import Scale


def draw(rows: list[Row], scale: Scale) -> Figure:
    names = list(measured(rows)[0]["parameters"])
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    axes = figure.subplots(1, len(names) + 1)
    for each in by_kind(rows).values():
        for ax, name in zip(axes, names, strict=False):
            curve(ax, each, "sigma_y", lambda row, name=name: seconds_per_draw(row, name))
            unmeasured(ax, each, "sigma_y")
            ax.set_title(name)
        curve(axes[-1], each, "sigma_y", step_size)
    axes[-1].set_title("step size")
    for ax in axes:
        logarithmic(ax)
        ax.set_xlabel(r"$\sigma_y$")
    limits = [limit for ax in axes[:-1] for limit in ax.get_ylim()]
    for ax in axes[:-1]:
        ax.set_ylim(min(limits), max(limits))
    axes[0].set_ylabel("s per effective draw")
    legend_above(figure, axes[0])
    return figure


def describe(rows: list[Row], scale: Scale) -> str:
    """A line per run; z is the largest difference from our default in means and deviations, in Monte-Carlo errors."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["setting"]["sigma_y"], list(LOOKS).index(kind(row)))):
        level = row["setting"]["sigma_y"]
        begin = [f"{level:.3g}", LOOKS[kind(row)]["label"], core(row), draws(row), f"{step_size(row):.2g}"]
        begin.append(f"{row['steps_a_draw']:.0f}")
        if not row["parameters"]:
            lines.append([*begin, *[""] * 5])
            continue
        ours = [r for r in measured(rows) if kind(r) == ("static", "gaussian") and r["setting"]["sigma_y"] == level]
        z = f"{largest_difference(row, ours[0]):.1f}" if ours and row is not ours[0] else ""
        slowest = max(seconds_per_draw(row, name) for name in row["parameters"])
        lines.append(
            [
                *begin,
                f"{100 * row['failed']:.1f} %",
                f"{100 * row['diverged']:.1f} %",
                said_rhat(row),
                f"{1e3 * slowest:.1f}",
                z,
            ]
        )
    head = ["σ_y", "chains", "core", "draws", "step size", "steps per draw", "failed", "diverged", "R-hat",
            "ms per effective draw, slowest parameter", "z"]  # fmt: skip
    return table(head, lines)


def largest_difference(a: Row, b: Row) -> float:
    """Over parameters, of means and of standard deviations, in Monte-Carlo errors of both."""
    scores = []
    for name in a["parameters"]:
        x, y = a["parameters"][name], b["parameters"][name]
        for moment in ("mean", "sd"):
            scores.append(abs(x[moment] - y[moment]) / math.hypot(x[f"{moment}_error"], y[f"{moment}_error"]))
    return max(scores)
