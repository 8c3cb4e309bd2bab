"""Makes runs and saves each with its settings, seed, versions and machine; what is saved is not made again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats import base

import pathfold as pf
from experiments.setting import Setting, arguments, problem
from pathfold.results.convergence import convergence

array_stats: Any = base.array_stats  # pyright: ignore[reportPrivateImportUsage]

QUANTILES = (0.001, 0.01, 0.05, 0.5, 0.95)
KEPT = 1000  # draws of every parameter of SIR that are saved, for marginals and pairs
ROOT = Path(__file__).parent

Row = dict[str, Any]  # setting, circumstances, and what was measured


class Results:
    """Rows by setting, in one JSON file per model, each row a line of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[Setting, Row] = {}
        for file in sorted(folder.glob("*.json")):
            for row in json.loads(file.read_text()):
                self.rows[Setting(**row["setting"])] = row

    def add(self, setting: Setting, row: Row) -> None:
        """Save a row beside those in the file, also those that another process has put there in the meantime."""
        self.rows = Results(self.folder).rows | self.rows | {setting: row}
        same = [self.rows[s] for s in sorted(self.rows, key=str) if s.model == setting.model]
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{setting.model}.json"
        new = file.with_suffix(".new")
        new.write_text("[\n" + ",\n".join(json.dumps(each) for each in same) + "\n]\n")
        new.replace(file)

    def of(self, settings: Iterable[Setting]) -> list[Row]:
        """The rows there are of these."""
        return [self.rows[setting] for setting in settings if setting in self.rows]


def complete(results: Results, settings: Iterable[Setting], unfinished: Path) -> None:
    """Make the runs that are missing; one that is stopped goes on from the folder `unfinished` when asked for again."""
    missing = sorted({s for s in settings if s not in results.rows}, key=lambda setting: setting.order)
    for i, setting in enumerate(missing):
        print(f"[{i + 1} of {len(missing)}]  {setting}", flush=True)
        this = f"{setting} {circumstances()['commit']}"  # another commit may not be able to go on
        checkpoint = unfinished / hashlib.sha256(this.encode()).hexdigest()[:12]
        results.add(setting, run(setting, checkpoint))
        shutil.rmtree(checkpoint, ignore_errors=True)


def run(setting: Setting, checkpoint: Path) -> Row:
    """One row. A run that is interrupted raises KeyboardInterrupt; its checkpoint holds what was done."""
    model, data = problem(setting)
    made = circumstances()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = pf.sample(model, data, **arguments(setting), keep_path="none", progress=False, checkpoint=checkpoint)
    if tree.posterior.sizes["chain"] < setting.chains or tree.posterior.sizes["draw"] < setting.draws:
        raise KeyboardInterrupt(f"stopped; it goes on when asked for again: {setting}")
    names = [name for name in model.parameters.names if np.ptp(tree.posterior[name].values) > 0.0]
    row = {"setting": asdict(setting), "made": made, **measure(tree, names)}
    row["warnings"] = [str(each.message) for each in caught]
    if setting.model == "sir":
        row["sample"] = thinned(tree, names)
    return row


def measure(tree: xr.DataTree, names: list[str]) -> Row:
    """Of all chains together. Seconds are those of one core; Newton iterations are of a solve, forward or reverse."""
    stats = tree.sample_stats
    steps = float(stats["n_steps"].sum())
    return {
        "kept": [tree.posterior.sizes["chain"], tree.posterior.sizes["draw"]],
        "step_size": [rounded(t) for t in stats["step_size"].isel(draw=-1).values],
        "steps_a_draw": rounded(stats["n_steps"].mean()),
        "newton_iterations": rounded((stats["newton_iterations"] * stats["n_steps"]).sum() / steps),
        "ms_a_step": rounded(1e3 * np.sum(tree.attrs["main_seconds"]) / steps),
        "seconds": rounded(np.sum(tree.attrs["chain_seconds"])),
        "main_seconds": rounded(np.sum(tree.attrs["main_seconds"])),
        "acceptance": rounded(stats["acceptance_rate"].mean()),
        "failed": rounded((stats["status"] != 0).mean()),
        "with_failed_steps": rounded((stats["n_failed_steps"] > 0).mean()),
        "diverged": rounded(stats["diverging"].mean()),
        "parameters": {name: marginal(tree.posterior[name].values) for name in names},
    }


def marginal(x: np.ndarray) -> Row:
    """Of one scalar: moments with their Monte-Carlo errors, quantiles, effective draws and R-hat."""
    found = convergence(x)
    return {
        "mean": rounded(x.mean()),
        "sd": rounded(x.std()),
        "mean_error": rounded(array_stats.mcse(x, method="mean")),
        "sd_error": rounded(array_stats.mcse(x, method="sd")),
        "quantiles": {f"{100 * q:g} %": rounded(np.quantile(x, q)) for q in QUANTILES},
        "bulk": rounded(found.bulk),
        "tail": rounded(found.tail),
        "rhat": rounded(found.rhat),
    }


def thinned(tree: xr.DataTree, names: list[str]) -> dict[str, list[float]]:
    """Equally spaced draws of all chains."""
    found = {}
    for name in names:
        x = tree.posterior[name].values.ravel()
        found[name] = [rounded(value, 4) for value in x[:: -(-x.size // KEPT)]]
    return found


def rounded(value: Any, digits: int = 6) -> float:
    return float(f"{float(value):.{digits}g}")


def circumstances() -> Row:
    command = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or "unknown",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": rounded(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("pathfold", "jax", "numba", "numpy", "arviz-stats")},
    }
