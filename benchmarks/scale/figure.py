"""The figure of docs/scaling.md: time above and memory below, over each size."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.peers.rows import Results
from benchmarks.scale.page import COLUMNS, Column, effective_a_second, exponent, growth, measured, rows_of
from benchmarks.scale.problem import SIZES, of_one_family
from experiments.drawing import logarithmic
from experiments.runner import Row

LOOKS: dict[str, dict[str, Any]] = {
    "per effective draw": {"color": "#2f7d4f", "marker": "D"},
    "per step": {"color": "#1f5f8b", "marker": "o"},
    "a chain, MiB": {"color": "#c8553d", "marker": "s"},
    "the run, MiB": {"color": "#777777", "marker": "^"},
}
NAMES = {"chains": "chains at once", "chaotic": "observations, chaotic"}
SHOWN = {column.head: column for column in COLUMNS if column.head in LOOKS}


def figure(results: Results) -> Figure:
    """Hollow is what no exponent is fitted to."""
    drawing = Figure(figsize=(14, 6.5), layout="constrained")
    above, below = drawing.subplots(2, len(SIZES), sharex="col")
    for times, memory, name in zip(above, below, SIZES, strict=True):
        rows = rows_of(results, name)
        if name == "chains":
            _at_once(times, memory, [row for row in rows if measured(row)])
        else:
            for head, column in SHOWN.items():
                _curve(memory if head.endswith("MiB") else times, rows, column, LOOKS[head])
            for ax in (times, memory) if rows else ():
                logarithmic(ax, [row["size"] for row in rows])
        for ax in (times, memory):
            if ax.lines:
                ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small")
        memory.set_xlabel(NAMES.get(name, name))
        memory.tick_params(axis="x", rotation=30)
    above[0].set_ylabel("seconds of one core")
    below[0].set_ylabel("MiB")
    return drawing


def _curve(ax: Axes, rows: list[Row], column: Column, look: dict[str, Any]) -> None:
    """With the exponent that is in the table; a problem of another kind stands alone."""
    label = column.head.removesuffix(", MiB")
    power = math.nan if column.fits is None else exponent(rows, column.value, column.fits)
    ax.plot([], [], **look, ms=4, lw=1.2, label=label if math.isnan(power) else f"{label}: exponent {power:.2f}")
    shown = [row for row in rows if column.needs(row) and column.value(row) > 0.0]
    same = [row for row in shown if of_one_family(row["table"], row["size"])]
    ax.plot([row["size"] for row in same], [*map(column.value, same)], color=look["color"], lw=1.2)
    for row in shown:
        fitted = row in same and (column.fits is None or column.fits(row))
        ax.plot(row["size"], column.value(row), **look, mfc=look["color"] if fitted else "white", ms=4, ls="")


def _at_once(times: Axes, memory: Axes, rows: list[Row]) -> None:
    """Effective draws a second, beside as many times those of the fewest chains as there are more of them."""
    if not rows:
        return
    sizes, values = [row["size"] for row in rows], [*map(effective_a_second, rows)]
    ideal = [values[0] * size / sizes[0] for size in sizes]
    times.plot(sizes, values, **LOOKS["per effective draw"], ms=4, lw=1.2, label="effective draws a second")
    times.plot(sizes, ideal, "--", color="#777777", lw=1.0, label="in proportion")
    memory.plot(sizes, [*map(growth, rows)], **LOOKS["the run, MiB"], ms=4, lw=1.2, label="the run")
    for ax in (times, memory):
        ax.set_xticks(sizes)
        ax.set_ylim(bottom=0.0)
