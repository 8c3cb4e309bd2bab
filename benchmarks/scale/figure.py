"""The figure of docs/scaling.md: time above and memory below, over each size."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.peers.rows import Results
from benchmarks.scale.page import COLUMNS, Column, effective_a_second, exponent, growth, measured, rows_of
from benchmarks.scale.problem import SIZES, of_one_family
from experiments.drawing import logarithmic
from experiments.runner import Row

EFFECTIVE: dict[str, Any] = {"color": "#2f7d4f", "marker": "D"}
STEP: dict[str, Any] = {"color": "#1f5f8b", "marker": "o"}
CHAIN: dict[str, Any] = {"color": "#c8553d", "marker": "s"}
RUN: dict[str, Any] = {"color": "#777777", "marker": "^"}
HEADS = {column.head: column for column in COLUMNS}


def figure(results: Results) -> Figure:
    """Hollow is what no exponent is fitted to."""
    drawing = Figure(figsize=(12, 6), layout="constrained")
    above, below = drawing.subplots(2, len(SIZES), sharex="col")
    for ax, memory, name in zip(above, below, SIZES, strict=True):
        rows = rows_of(results, name)
        if name == "chains":
            _at_once(ax, [row for row in rows if measured(row)])
        else:
            _curve(ax, rows, HEADS["per effective draw"], EFFECTIVE)
            _curve(ax, rows, HEADS["per step"], STEP)
            _curve(memory, rows, HEADS["a chain, MiB"], CHAIN)
        grown = [row for row in rows if growth(row) > 0.0]
        memory.plot([row["size"] for row in grown], [*map(growth, grown)], **RUN, ms=4, lw=1.2, label="the run")
        for each in (ax, memory):
            logarithmic(each, [row["size"] for row in rows])
            if each.lines:
                each.legend(frameon=False, fontsize="small")
        memory.set_xlabel("chains at once" if name == "chains" else name)
    above[0].set_ylabel("seconds of one core")
    below[0].set_ylabel("MiB")
    return drawing


def _curve(ax: Axes, rows: list[Row], column: Column, look: dict[str, Any]) -> None:
    """With the exponent that is in the table."""
    assert column.fits is not None
    shown = [row for row in rows if column.needs(row)]
    power = exponent(rows, column.value, column.fits)
    ax.plot([], [], **look, ms=4, lw=1.2, label=f"{column.head.removesuffix(', MiB')}, exponent {power:.2f}")
    for family in (True, False):
        same = [row for row in shown if of_one_family(row["table"], row["size"]) is family]
        ax.plot([row["size"] for row in same], [column.value(row) for row in same], color=look["color"], lw=1.2)
        for row in same:
            fill = look["color"] if family and column.fits(row) else "white"
            ax.plot(row["size"], column.value(row), **look, mfc=fill, ms=4, ls="")


def _at_once(ax: Axes, rows: list[Row]) -> None:
    """Effective draws a second, beside as many times those of the fewest chains as there are more of them."""
    if not rows:
        return
    sizes, values = [row["size"] for row in rows], [*map(effective_a_second, rows)]
    ideal = [values[0] * size / sizes[0] for size in sizes]
    ax.plot(sizes, values, **EFFECTIVE, ms=4, lw=1.2, label="effective draws a second")
    ax.plot(sizes, ideal, "--", color="#777777", lw=1.0, label="in proportion")
