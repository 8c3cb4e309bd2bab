"""Makes runs and saves each with its settings, seed, versions and machine; what is saved is not made again."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib import metadata
from multiprocessing import get_context
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
ENOUGH = 20  # draws per chain: of fewer nothing is estimated
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
        self.folder.mkdir(parents=True, exist_ok=True)
        with _alone(self.folder / ".lock"):
            self.rows = Results(self.folder).rows | {setting: row}
            same = [self.rows[s] for s in sorted(self.rows, key=_without_budget) if s.model == setting.model]
            file = self.folder / f"{setting.model}.json"
            new = file.with_suffix(".new")
            new.write_text("[\n" + ",\n".join(json.dumps(each) for each in same) + "\n]\n")
            new.replace(file)

    def lacks(self, setting: Setting) -> bool:
        """Whether there is no row, or one whose smaller budget ended it."""
        row = self.rows.get(setting)
        if row is None or not row.get("iterations"):
            return row is None
        return setting.budget is None or row["setting"]["budget"] < setting.budget

    def of(self, settings: Iterable[Setting]) -> list[Row]:
        """The rows there are of these."""
        return [self.rows[setting] for setting in settings if setting in self.rows]


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """While another process is here, wait."""
    with file.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def complete(
    results: Results, settings: Iterable[Setting], unfinished: Path, *, jobs: int = 1, until: float | None = None
) -> None:
    """Make the runs that are missing, several at once and the longest first if `jobs` says so.

    At the time `until` runs are stopped, and none is begun after it. One that was stopped goes on from the folder
    `unfinished` when it is asked for again.
    """
    missing = sorted({s for s in settings if results.lacks(s)}, key=lambda s: s.longest_first if jobs > 1 else s.order)
    if jobs == 1:
        for i, setting in enumerate(missing):
            print(f"[{i + 1} of {len(missing)}]  {setting}", flush=True)
            _make(results.folder, setting, unfinished, until)
    else:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            begun = {pool.submit(_make, results.folder, s, unfinished, until): s for s in missing}
            try:
                for i, future in enumerate(as_completed(begun)):
                    future.result()
                    print(f"[{i + 1} of {len(missing)}]  {begun[future]}", flush=True)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    results.rows = Results(results.folder).rows


def _make(folder: Path, setting: Setting, unfinished: Path, until: float | None) -> None:
    """Make a run and save its row, unless it is stopped first."""
    if _passed(until):
        return
    checkpoint = unfinished / _name(setting)
    try:
        with _interrupted(until):
            row = run(setting, checkpoint)
    except KeyboardInterrupt:
        if not _passed(until):
            raise
        return
    Results(folder).add(setting, row)
    if not row.get("iterations"):  # with a larger budget the others go on
        shutil.rmtree(checkpoint, ignore_errors=True)


def _passed(until: float | None) -> bool:
    return until is not None and time.time() >= until


@contextmanager
def _interrupted(until: float | None) -> Iterator[None]:
    """What is being done is interrupted at the time `until`, as by Ctrl-C."""
    if until is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, until - time.time()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _name(setting: Setting) -> str:
    """Of a checkpoint, whatever the budget; another commit may not be able to go on."""
    this = f"{_without_budget(setting)} {commit()}"
    return hashlib.sha256(this.encode()).hexdigest()[:12]


def _without_budget(setting: Setting) -> str:
    return str(replace(setting, budget=None))


def run(setting: Setting, checkpoint: Path) -> Row:
    """One row, of whatever was drawn when the budget was spent. A run that is stopped before raises KeyboardInterrupt;
    its checkpoint holds what was done."""
    model, data = problem(setting)
    made = circumstances()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = pf.sample(
            model, data, **arguments(setting), keep_path="none", keep_warmup=True, progress=False,
            checkpoint=checkpoint, threads=setting.chains,
        )  # fmt: skip
    said = [str(each.message) for each in caught]
    if any("the run was interrupted" in message for message in said):
        raise KeyboardInterrupt(f"stopped; it goes on when asked for again: {setting}")
    row = {"setting": asdict(setting), "made": made, **far(tree)}
    if tree.posterior.sizes["draw"] >= ENOUGH:
        names = [name for name in model.parameters.names if np.ptp(tree.posterior[name].values) > 0.0]
        row |= measure(tree, names)
        if setting.model == "sir":
            row["sample"] = thinned(tree, names)
    return row | {"warnings": said}


def far(tree: xr.DataTree) -> Row:
    """How far the chains came, in the seconds of one core; `iterations` of every chain if the budget ended some. Until
    warm-up has ended the step size and the steps per draw are those of its last iterations."""
    recent: Any = tree.sample_stats
    if not recent.sizes["draw"]:
        recent = tree["warmup_sample_stats"].to_dataset().isel(draw=slice(-ENOUGH, None))
    return {
        **({"iterations": list(tree.attrs["iterations"])} if "iterations" in tree.attrs else {}),
        "kept": [tree.posterior.sizes["chain"], tree.posterior.sizes["draw"]],
        "step_size": [rounded(t) for t in recent["step_size"].isel(draw=-1).values],
        "steps_a_draw": rounded(recent["n_steps"].mean()),
        "seconds": rounded(np.sum(tree.attrs["chain_seconds"])),
        "parameters": {},
    }


def measure(tree: xr.DataTree, names: list[str]) -> Row:
    """Of all chains together. Seconds are those of one core; Newton iterations are of a solve, forward or reverse."""
    stats = tree.sample_stats
    steps = float(stats["n_steps"].sum())
    return {
        "newton_iterations": rounded((stats["newton_iterations"] * stats["n_steps"]).sum() / steps),
        "ms_a_step": rounded(1e3 * np.sum(tree.attrs["main_seconds"]) / steps),
        "main_seconds": rounded(np.sum(tree.attrs["main_seconds"])),
        "acceptance": rounded(stats["acceptance_rate"].mean()),
        "failed": rounded((stats["status"] != 0).mean()),
        "with_failed_steps": rounded((stats["n_failed_steps"] > 0).mean()),
        "diverged": rounded(stats["diverging"].mean()),
        "parameters": {name: marginal(tree.posterior[name].values) for name in names},
    }


def marginal(x: np.ndarray) -> Row:
    """Of one scalar: moments, their Monte-Carlo errors, quantiles, effective draws and, of several chains, R-hat."""
    found = convergence(x)
    return {
        "mean": rounded(x.mean()),
        "sd": rounded(x.std()),
        "mean_error": rounded(array_stats.mcse(x, method="mean")),
        "sd_error": rounded(array_stats.mcse(x, method="sd")),
        "quantiles": {f"{100 * q:g} %": rounded(np.quantile(x, q)) for q in QUANTILES},
        "bulk": rounded(found.bulk),
        "tail": rounded(found.tail),
        "rhat": rounded(found.rhat) if len(x) > 1 else None,
    }


def thinned(tree: xr.DataTree, names: list[str]) -> dict[str, list[float]]:
    """Equally spaced draws of all chains."""
    found = {}
    for name in names:
        x = tree.posterior[name].values.ravel()
        found[name] = [rounded(value, 4) for value in x[:: -(-x.size // KEPT)]]
    return found


def step_size(row: Row) -> float:
    """The geometric mean over chains."""
    return float(np.exp(np.mean(np.log(row["step_size"]))))


def rounded(value: Any, digits: int = 6) -> float:
    return float(f"{float(value):.{digits}g}")


def circumstances() -> Row:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": f"{platform.system()} {platform.machine()}, {processor()}, {os.cpu_count()} cores",
        "load": rounded(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("pathfold", "jax", "numba", "numpy", "arviz-stats")},
    }


def commit() -> str:
    """Of the code that a run depends on; the rows of the runs before are no change of it."""
    changed = _said_by("git", "diff", "--name-only", "HEAD", "--", "src", "experiments", "benchmarks", ":!*.json")
    return (_said_by("git", "describe", "--always").strip() or "unknown") + ("-dirty" if changed else "")


def processor() -> str:
    """What the machine calls its processor."""
    for line in _said_by("lscpu").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "Model name":
            return value.strip()
    return platform.processor() or "unknown processor"


def _said_by(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=ROOT.parent, capture_output=True, text=True, check=False).stdout
    except OSError:  # there is no such program
        return ""
