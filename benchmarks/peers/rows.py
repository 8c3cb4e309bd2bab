"""Rows: what came of one sampler with one problem, measured from its pieces and saved at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.runner import marginal, rounded
from pathfold.results.convergence import convergence

FIRST = 100  # effective draws that one waits for
CONVERGED = {"rhat": 1.01, "effective": 400.0}  # Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021)
FEWEST = 10  # draws a chain below which nothing is said of them

Row = dict[str, Any]
Piece = dict[str, Any]


def pieces(folder: Path) -> list[Piece]:
    """What the recorder has saved by now."""
    found = []
    for file in sorted(folder.glob("[0-9]*.npz")):
        with np.load(file) as saved:
            found.append({name: saved[name] if name == "values" else saved[name].item() for name in saved.files})
    return found


def drawn(found: Sequence[Piece]) -> np.ndarray | None:
    """All draws after warm-up (chain, draw, parameter), or None if there are too few."""
    main = [piece["values"] for piece in found if not piece["warmup"]]
    values = np.concatenate(main, axis=1) if main else np.empty((0, 0, 0))
    return values if values.shape[1] >= FEWEST else None


def effective(values: np.ndarray) -> float:
    """The smaller of bulk and tail, of the worst parameter; none of a chain that stands still."""
    if np.any(np.ptp(values, axis=1) == 0.0) or not np.all(np.isfinite(values)):
        return 0.0
    return min(convergence(values[..., i]).effective for i in range(values.shape[-1]))


def measure(found: Sequence[Piece], names: Sequence[str]) -> Row:
    """Seconds are those of one core; `seconds_to_first` counts compilation and warm-up."""
    warm = [piece for piece in found if piece["warmup"]]
    before = warm[-1]["seconds"] if warm else 0.0
    row: Row = {
        "warmup": {"iterations": sum(piece["iterations"] for piece in warm), "seconds": rounded(before)},
        "seconds": rounded(found[-1]["seconds"]) if found else 0.0,
        "wall_seconds": rounded(found[-1]["wall_seconds"]) if found else 0.0,
        "kept": [0, 0],
        "converged": False,
    }
    values = drawn(found)
    if values is None or effective(values) == 0.0:
        return row
    main = [piece for piece in found if not piece["warmup"]]
    count, number = effective(values), values.shape[0] * values.shape[1]
    parameters = {name: marginal(values[..., i]) for i, name in enumerate(names)}
    rhat = max(each["rhat"] for each in parameters.values())
    return row | {
        "kept": list(values.shape[:2]),
        "effective": rounded(count),
        "seconds_per_effective": rounded((found[-1]["seconds"] - before) / count),
        "seconds_to_first": _seconds_to_first(main),
        "rhat": rhat,
        "diverging": rounded(sum(piece["diverging"] for piece in main) / number),
        "steps_a_draw": rounded(sum(piece["steps"] for piece in main) / number),
        "converged": bool(rhat <= CONVERGED["rhat"] and count >= CONVERGED["effective"]),
        "parameters": parameters,
    }


def _seconds_to_first(main: Sequence[Piece]) -> float | None:
    """When the draws so far were first worth FIRST effective ones."""
    for i, piece in enumerate(main):
        values = drawn(main[: i + 1])
        if values is not None and values.shape[0] * values.shape[1] >= FIRST and effective(values) >= FIRST:
            return rounded(piece["seconds"])
    return None


class Results:
    """Rows by sampler and problem, or other fields, in one JSON file, each row a line of it."""

    def __init__(self, file: Path, by: tuple[str, ...] = ("sampler", "problem")) -> None:
        self.file, self.by = file, by
        self.rows: dict[tuple[Any, ...], Row] = {}
        for row in json.loads(file.read_text()) if file.exists() else []:
            self.rows[self._key(row)] = row

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.by)

    def add(self, row: Row) -> None:
        self.rows[self._key(row)] = row
        lines = ",\n".join(json.dumps(self.rows[key]) for key in sorted(self.rows))
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(f"[\n{lines}\n]\n")
        new.replace(self.file)
