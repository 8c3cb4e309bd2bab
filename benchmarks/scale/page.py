"""The tables of docs/scaling.md, from the saved rows, and the exponents in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from benchmarks.peers.rows import Results
from benchmarks.scale.problem import SIZES, STEPS, of_one_family
from experiments.page import NOTHING, made, seconds, table
from experiments.runner import Row, step_size

ENOUGH = 100  # effective draws below which their number is not known well enough
MIXED = 1.05  # R-hat above which it is not known at all

Value = Callable[[Row], float]


def measured(row: Row) -> bool:
    """Whether there are draws enough after warm-up to say something of them."""
    return bool(row["parameters"])


def effective(row: Row) -> float:
    """The smaller of bulk and tail, of the worst parameter."""
    return min(min(each["bulk"], each["tail"]) for each in row["parameters"].values())


def rhat(row: Row) -> float:
    """The worst; NaN of a single chain."""
    return max((each["rhat"] for each in row["parameters"].values() if "rhat" in each), default=math.nan)


def cost(row: Row) -> float:
    """Seconds of one core after warm-up per effective draw."""
    return row["main_seconds"] / effective(row)


def trusted(row: Row) -> bool:
    """Whether the number of effective draws is known well enough."""
    return measured(row) and effective(row) >= ENOUGH and rhat(row) <= MIXED


def growth(row: Row) -> float:
    """MiB of the process that are the run's: above the peak of imports and a run of two observations."""
    return row["memory_mib"]["peak"] - row["memory_mib"]["before"]


def effective_a_second(row: Row) -> float:
    """By the clock on the wall; warm-up is counted."""
    return effective(row) / row["run_seconds"]


def steps_a_second(row: Row) -> float:
    """Of all chains by the clock on the wall, warm-up and all."""
    return row["steps"] / row["run_seconds"]


class Column(NamedTuple):
    head: str
    value: Value
    text: Callable[[float], str]
    needs: Callable[[Row], bool] = measured  # what has the value
    fits: Callable[[Row], bool] | None = measured  # what the exponent is fitted to; None: there is none to speak of


def _two_digits(value: float) -> str:
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def _any(row: Row) -> bool:
    return True


COLUMNS = (
    Column("per effective draw", cost, seconds, fits=trusted),
    Column("per step", lambda row: 1e-3 * row["ms_a_step"], seconds),
    Column("step size", step_size, _two_digits),
    Column("steps per draw", lambda row: row["steps_a_draw"], _two_digits),
    Column("effective draws", effective, lambda value: f"{value:.0f}", fits=None),
    Column("R-hat", rhat, lambda value: f"{value:.3f}", fits=None),
    Column("a chain, MiB", lambda row: row["memory_mib"]["chain"], _two_digits, _any, _any),
    Column("the run, MiB", growth, _two_digits, _any, None),
)


def rows_of(results: Results, name: str) -> list[Row]:
    """In the order of their sizes."""
    return [results.rows[key] for key in sorted(results.rows) if key[0] == name]


def exponent(rows: Iterable[Row], value: Value, fits: Callable[[Row], bool]) -> float:
    """Slope of the logarithm of a value over that of the size, by least squares; NaN of fewer than two rows."""
    chosen = [row for row in rows if fits(row) and of_one_family(row["table"], row["size"])]
    if len(chosen) < 2:
        return math.nan
    return float(np.polyfit(np.log([row["size"] for row in chosen]), np.log([value(row) for row in chosen]), 1)[0])


def tables(results: Results) -> dict[str, str]:
    """By the names of their marks."""
    of = {name: rows_of(results, name) for name in SIZES}
    found = {f"scale {name}": _growth(name, of[name]) for name in SIZES if name != "chains"}
    grown = [row for name in SIZES if name != "chains" for row in of[name]]
    found |= {"scale chains": _chains(of["chains"])}
    return found | {"scale made": made(grown, _terms), "scale chains made": made(of["chains"], _terms)}


def _growth(name: str, rows: list[Row]) -> str:
    """A line for each size, in brackets what no exponent is fitted to, and the exponents."""
    if not rows:
        return NOTHING
    lines = [[f"{row['size']:,}", *(_cell(row, column) for column in COLUMNS)] for row in rows]
    powers = [math.nan if c.fits is None else exponent(rows, c.value, c.fits) for c in COLUMNS]
    last = ["exponent", *("" if math.isnan(power) else f"{power:.2f}" for power in powers)]
    return table(["observations" if name == "chaotic" else name, *(column.head for column in COLUMNS)], [*lines, last])


def _cell(row: Row, column: Column) -> str:
    if not column.needs(row):
        return "too few draws" if column.value is cost else ""
    text = column.text(column.value(row))
    fitted = column.fits is None or (column.fits(row) and of_one_family(row["table"], row["size"]))
    return text if fitted else f"({text})"


def _chains(rows: list[Row]) -> str:
    """What all chains make in a second, and what each of them does."""
    lines = []
    for row in (row for row in rows if measured(row)):
        rates = [value(row) for value in (effective_a_second, steps_a_second)]
        each = [f"{rate / share:.0f}" for rate in rates for share in (1, row["size"])]
        mixed = "" if math.isnan(rhat(row)) else f"{rhat(row):.3f}"
        lines.append([row["size"], *each, mixed, _two_digits(growth(row))])
    head = ["chains", "effective draws a second", "of each chain", "steps a second", "of each chain", "R-hat",
            "the run, MiB"]  # fmt: skip
    return table(head, lines) if lines else NOTHING


def _terms(rows: list[Row]) -> str:
    warmup, draws, budget = (
        ", ".join(f"{value:g}" for value in sorted({row["terms"][name] for row in rows}))
        for name in ("warmup", "draws", "seconds")
    )
    return (
        f"{STEPS} fine steps an interval; warm-up of {warmup} iterations, then {draws} draws a chain or as many as "
        f"there were in {budget} seconds of its core, warm-up included."
    )
