"""The tables and the figure of docs/peers.md, from the saved rows."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from benchmarks.peers.problem import PROBLEMS
from benchmarks.peers.rows import FIRST, Results, Row
from benchmarks.peers.sampler import SAMPLERS
from experiments.noise_levels import largest_difference
from experiments.page import made, seconds, table
from pathfold.analysis.plots.style import ALARM, FORECAST, POSTERIOR, REPLICATED, TRUTH

OURS = "pathfold"
COMPARED = 1.05  # R-hat below which means are worth comparing
APART = 4.0  # Monte-Carlo errors that are more than chance
LOOKS: dict[str, dict[str, Any]] = dict(
    zip(
        SAMPLERS,
        (
            {"color": color, "marker": marker}
            for color, marker in (
                (POSTERIOR.line, "D"),
                (ALARM, "o"),
                (TRUTH, "s"),
                (TRUTH, "v"),
                (FORECAST.line, "^"),
                (REPLICATED.line, "P"),
                ("#777777", "X"),
                ("#00868b", "<"),
                ("#00868b", ">"),
            )
        ),
        strict=True,
    )
)


def tables(results: Results) -> dict[str, str]:
    """By the names of their marks."""
    return {
        "peers": _grid(results, _cost),
        "peers first": _grid(results, _wait),
        "peers details": _details(results),
        "peers made": made(results.rows.values(), _terms),
    }


def _grid(results: Results, cell: Any) -> str:
    """A line for each problem, a column for each sampler; what was not run is empty."""
    present = [name for name in SAMPLERS if any(sampler == name for sampler, _ in results.rows)]
    lines = []
    for problem in PROBLEMS:
        rows = [results.rows.get((sampler, problem)) for sampler in present]
        if any(rows):
            ours = results.rows.get((OURS, problem))
            lines.append([problem, *("" if row is None else cell(row, ours) for row in rows)])
    return table(["", *present], lines)


def _nothing(row: Row) -> str | None:
    """Why a row has no draws to speak of."""
    if row["ended"].startswith("refused"):
        return "no density"
    if row["ended"].startswith("failed"):
        return "failed"
    if "effective" not in row:
        return "no draws"
    return None


def _doubt(row: Row, ours: Row | None) -> str | None:
    """R-hat where the chains have not converged, z where they are far from pathfold's."""
    if not row["converged"]:
        return f"{row['rhat']:.2f}"
    z = _difference(row, ours)
    return None if z is None or z < APART else f"z {z:.0f}"


def _cost(row: Row, ours: Row | None) -> str:
    """Seconds per effective draw; in brackets, with the reason, where there is doubt."""
    if (why := _nothing(row)) is not None:
        return why
    cost, doubt = seconds(row["seconds_per_effective"]), _doubt(row, ours)
    return cost if doubt is None else f"({cost}; {doubt})"


def _wait(row: Row, ours: Row | None) -> str:
    if (why := _nothing(row)) is not None:
        return why
    wait = row["seconds_to_first"]
    return f"> {row['seconds']:.0f} s" if wait is None else f"{wait:.1f} s"


def _details(results: Results) -> str:
    lines = []
    for problem in PROBLEMS:
        ours = results.rows.get((OURS, problem))
        for sampler in SAMPLERS:
            row = results.rows.get((sampler, problem))
            if row is not None and not row["ended"].startswith("refused"):
                lines.append([problem, sampler, *_detail(row, ours)])
    head = ["problem", "sampler", "ended", "seconds", "of these warm-up", "draws", "effective", "R-hat", "diverging",
            "steps per draw", "z"]  # fmt: skip
    return table(head, lines)


def _detail(row: Row, ours: Row | None) -> list[str]:
    begun = [row["ended"], f"{row['seconds'] or row['terms']['budget']:.0f}"]
    if "effective" not in row:
        made = row["warmup"]["iterations"]
        return [*begun, f"{made} iterations" if made else "unfinished", *6 * [""]]
    z = _difference(row, ours)
    return [
        *begun,
        f"{row['warmup']['seconds']:.1f}",
        "{} x {}".format(*row["kept"]),
        f"{row['effective']:.0f}",
        f"{row['rhat']:.3f}",
        f"{100 * row['diverging']:.1f} %",
        f"{row['steps_a_draw']:.0f}" if row["steps_a_draw"] else "",
        "" if z is None else f"{z:.1f}",
    ]


def _difference(row: Row, ours: Row | None) -> float | None:
    """From pathfold, in Monte-Carlo errors, where both are worth comparing."""
    if ours is None or ours is row or not ours["converged"] or row["rhat"] >= COMPARED or row["effective"] < FIRST:
        return None
    return largest_difference(row, ours)


def _terms(rows: list[Row]) -> str:
    budgets = sorted({row["terms"]["budget"] for row in rows})
    return f"Budget: {', '.join(map(str, budgets))} seconds of one core; four chains."


def figure(results: Results) -> Figure:
    """Seconds per effective draw by problem: hollow if in doubt, a cross at the budget if nothing was drawn."""
    drawing = Figure(figsize=(8.0, 6.0), layout="constrained")
    ax = drawing.subplots()
    shown = [problem for problem in PROBLEMS if any(key[1] == problem for key in results.rows)]
    for i, (sampler, look) in enumerate(LOOKS.items()):
        shift, size = 0.6 * (i / (len(LOOKS) - 1) - 0.5), 7 if sampler == OURS else 6
        ax.plot([], [], ls="", **look, label=sampler)
        for j, problem in enumerate(shown):
            row = results.rows.get((sampler, problem))
            if row is None or row["ended"].startswith(("refused", "failed")):
                continue
            if "effective" in row:
                doubt = _doubt(row, results.rows.get((OURS, problem)))
                fill = look["color"] if doubt is None else "none"
                ax.plot(row["seconds_per_effective"], j + shift, ls="", **look, mfc=fill, ms=size)
            else:
                ax.plot(row["terms"]["budget"], j + shift, "x", color=look["color"], ms=5)
    for j in range(1, len(shown)):
        ax.axhline(j - 0.5, color="#dddddd", lw=0.8)
    ax.set_xscale("log")
    ax.set_yticks(range(len(shown)), [problem.replace(", ", ",\n") for problem in shown])
    ax.grid(axis="x", color="#eeeeee", lw=0.8)
    ax.set_axisbelow(True)
    ax.invert_yaxis()
    ax.set_xlabel("seconds of one core per effective draw\n(hollow: R-hat or z too large; crosses: no draws)")
    drawing.legend(loc="outside upper center", ncols=4, frameon=False)
    return drawing
