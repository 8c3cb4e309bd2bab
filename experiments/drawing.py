"""What the figures share: looks, curves with the spread over seeds, exponents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETUP
from matplotlib.ticker import NullLocator

from experiments.runner import Row

LOOKS: dict[tuple[str, str], dict[str, Any]] = {
    ("dynamic", "gaussian"): {"color": "#1f5f8b", "marker": "o", "label": "dynamic, Gaussian (paper's)"},
    ("dynamic", "stormer-verlet"): {"color": "#c8553d", "marker": "s", "label": "dynamic, Störmer-Verlet (paper's)"},
    ("static", "gaussian"): {"color": "#2f7d4f", "marker": "D", "label": "static, Gaussian (our default)"},
    ("unconstrained", "stormer-verlet"): {"color": "#777777", "marker": "^", "label": "without constraints"},
    ("unconstrained-identity", "stormer-verlet"): {
        "color": "#b5b5b5",
        "marker": "P",
        "label": "without constraints, unit metric",
    },
    ("guided-path", "none"): {"color": "#8a5a9e", "marker": "v", "label": "guided proposals, along the mean path"},
    ("guided-endpoint", "none"): {"color": "#b08d2e", "marker": "<", "label": "guided proposals (paper's)"},
}
CONVERGED = 1.01


def kind(row: Row) -> tuple[str, str]:
    return row["setting"]["sampler"], row["setting"]["splitting"]


def by_kind(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """In the order of LOOKS."""
    found: dict[tuple[str, str], list[Row]] = {look: [] for look in LOOKS}
    for row in rows:
        found[kind(row)].append(row)
    return {look: each for look, each in found.items() if each}


def measured(rows: Iterable[Row]) -> list[Row]:
    """Those with enough draws after warm-up."""
    return [row for row in rows if row["parameters"]]


def draws(row: Row) -> str:
    """How many were kept; where a budget ended chains, out of how many; where none came far enough, how far."""
    kept, setting = "{} x {}".format(*row["kept"]), row["setting"]
    if not row.get("iterations"):
        return kept
    budget = f"in {setting['budget']:g} s per chain"
    if row["parameters"]:
        return f"{kept} of {setting['chains']} x {setting['draws']} {budget}"
    if max(row["iterations"]) < setting["warmup"]:
        reached = " ".join(map(str, row["iterations"]))
        return f"warm-up not finished {budget}: iterations {reached} of {setting['warmup']}"
    return f"too few, {kept}, {budget}"


def spread(rows: Iterable[Row], over: str, value: Callable[[Row], float]) -> tuple[np.ndarray, np.ndarray]:
    """Sizes, and for each the least, the median and the greatest value over seeds (3, sizes)."""
    groups: dict[float, list[float]] = defaultdict(list)
    for row in rows:
        groups[row["setting"][over]].append(value(row))
    sizes = sorted(groups)
    quantiles = [np.quantile(groups[size], [0.0, 0.5, 1.0]) for size in sizes]
    return np.array(sizes), np.reshape(quantiles, (-1, 3)).T


def curve(ax: Axes, rows: list[Row], over: str, value: Callable[[Row], float]) -> None:
    """Medians joined, bars from least to greatest; crosses where R-hat is not below 1.01. Without draws, nothing."""
    look, rows = LOOKS[kind(rows[0])], measured(rows)
    if not rows:
        return
    sizes, (least, median, greatest) = spread(rows, over, value)
    ax.errorbar(sizes, median, [median - least, greatest - median], **look, ms=4, lw=1.2, capsize=2)
    for row in rows:
        if not worst_rhat(row) < CONVERGED:
            ax.plot(row["setting"][over], value(row), "x", color="black", ms=7, zorder=3)


def unmeasured(ax: Axes, rows: list[Row], over: str) -> None:
    """An arrow up from the seconds that a run spent without enough draws: an effective one costs more.

    The seconds of a row are those of the chains that were kept; the others had spent their budget.
    """
    look = LOOKS[kind(rows[0])]
    label = None if measured(rows) else f"{look['label']}: at least"
    for row in rows:
        if not row["parameters"]:
            setting = row["setting"]
            spent = row["seconds"] + (setting["chains"] - row["kept"][0]) * (setting["budget"] or 0.0)
            ax.plot(setting[over], spent, marker=CARETUP, color=look["color"], mfc="none", ms=9, ls="", label=label)
            label = None


def level(ax: Axes, rows: list[Row], value: Callable[[Row], float]) -> None:
    """What does not depend on the abscissa, as a band."""
    look, values = LOOKS[kind(rows[0])], [value(row) for row in rows]
    ax.axhspan(min(values), max(values), color=look["color"], alpha=0.2, lw=0)
    ax.axhline(float(np.median(values)), color=look["color"], lw=1.2, label=look["label"])


def exponent(rows: list[Row], over: str, value: Callable[[Row], float]) -> float:
    """Slope of the logarithms of medians, by least squares."""
    sizes, (_, median, _) = spread(rows, over, value)
    return float(np.polyfit(np.log(sizes), np.log(median), 1)[0]) if len(sizes) > 1 else float("nan")


def seconds_per_draw(row: Row, name: str) -> float:
    """Seconds of one core after warm-up per effective draw (bulk); the paper counts warm-up as well."""
    return row["main_seconds"] / row["parameters"][name]["bulk"]


def worst_rhat(row: Row) -> float:
    """NaN of one chain."""
    return max(float("nan") if each["rhat"] is None else each["rhat"] for each in row["parameters"].values())


def said_rhat(row: Row) -> str:
    """For a table."""
    return f"{worst_rhat(row):.3f}" if row["kept"][0] > 1 else "one chain"


def logarithmic(ax: Axes, ticks: Iterable[float] | None = None) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    if ticks is not None:
        ax.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())


def legend_above(figure: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize="small")


def save(figure: Figure, folder: Path, name: str) -> None:
    """As PNG and as SVG, the same bytes for the same picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(folder / f"{name}.png", dpi=110)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def core(row: Row) -> str:
    """The kind of processor that a run was made on."""
    return "x86-64" if "x86_64" in row["made"]["machine"] else "ARM"
