"""What the commands of the command line do, apart from the help, which need not import it."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pathfold.analysis.plots.marginals_plot import plot_marginals
from pathfold.analysis.plots.paths_plot import plot_paths
from pathfold.analysis.report import report
from pathfold.doctor import compile_samplers
from pathfold.engine import model_cache
from pathfold.errors import PathfoldError, SettingsError
from pathfold.example_models import Example, fitzhugh_nagumo
from pathfold.inference import sample
from pathfold.program.machine import machine_name
from pathfold.results import summary
from pathfold.results.convergence import by_label
from pathfold.results.summary import written
from pathfold.sampling.alone import ChainEnded, chain_alone
from pathfold.sampling.checkpoint import make_folder


def demo(folder: Path, *, observations: int, draws: int, seed: int) -> None:
    """Simulate a neuron whose membrane potential is seen without noise, calibrate the model and show the results."""
    example = fitzhugh_nagumo.EXAMPLE
    run_example(
        replace(example, data=lambda: fitzhugh_nagumo.data(example.model(), observations, seed)),
        folder,
        draws=draws,
        seed=seed,
    )


def run_example(example: Example, folder: Path, *, draws: int, seed: int) -> None:
    """Run an example with default settings, print a table of its parameters and draw pictures."""
    begin = time.perf_counter()
    pictures = importlib.util.find_spec("matplotlib") is not None
    if pictures:
        make_folder(folder, "--folder")
    model, data, truth = example.model(), example.data(), example.truth
    print(f"{example.name}: {example.summary} ({example.reference})")
    print(f"data simulated from {truth}" if truth else "data from the reference")
    print("compiling the model and sampling four chains ...")
    posterior = sample(model, data, steps_per_interval=example.steps_per_interval, chains=4, draws=draws, seed=seed)
    print(_table(posterior, truth))
    if not pictures:
        print("no pictures: they need Matplotlib, which `pip install 'pathfold[plots]'` brings")
    else:
        paths = plot_paths(posterior, observed=example.observed, natural=example.natural)
        paths.savefig(folder / "paths.png", dpi=150)
        plot_marginals(posterior, list(model.parameters.names), truth=truth).savefig(folder / "marginals.png", dpi=150)
        print(f"pictures: {folder / 'paths.png'}, {folder / 'marginals.png'}")
    print(f"all in {time.perf_counter() - begin:.0f} s")


def _table(posterior: xr.DataTree, truth: dict[str, Any] | None) -> str:
    """Write the summary, true values if they are known, and the effective draws per second."""
    table, seconds = summary(posterior), float(np.sum(posterior.attrs["chain_seconds"]))
    fewest = table[["ess_bulk", "ess_tail"]].min(axis=1)
    if truth:
        table.insert(0, "truth", pd.Series(by_label(posterior, truth)))
    speed = f"{fewest.min() / seconds:.0f} effective draws per second of one core, warm-up included"
    lines = [written(table), f"{speed} (for {fewest.idxmin()}, the slowest)"]
    return "\n".join(lines)


def write_report(results: Path, file: Path | None, title: str | None) -> int:
    """Write a report of results that were saved with to_netcdf or to_zarr; return the exit status."""
    try:
        with xr.open_datatree(results, engine="zarr" if results.is_dir() else None) as tree:
            print(f"report: {report(tree, file or results.with_suffix('.html'), title=title)}")
    except (PathfoldError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        print(f"No report of {results}: {reason}.", file=sys.stderr)
        return 1
    return 0


def compile_all() -> int:
    print(f"the sampler is ready ({compile_samplers():.1f} s)")
    return 0


def run_script(script: Path, chain: int, arguments: list[str]) -> int:
    """Run a script up to its first pf.sample with a checkpoint, make one chain of that, return the exit status."""
    if not script.is_file():
        raise SettingsError(f"there is no script {script}; give the file that calls pf.sample")
    before = sys.argv, sys.path
    sys.argv, sys.path = [str(script), *arguments], [str(script.resolve().parent), *sys.path]
    try:
        with chain_alone(chain):
            runpy.run_path(str(script), run_name="__main__")
    except ChainEnded as ended:
        print(f"pathfold: {ended}", file=sys.stderr)
        return 0 if ended.complete else 1
    finally:
        sys.argv, sys.path = before
    raise SettingsError(f"{script} called no pf.sample(..., checkpoint='folder'), so there was no chain to run")


def cache(*, verify: bool, clear: bool) -> int:
    """Show, verify or clear the compiled models that are kept; return the exit status."""
    place = model_cache.folder()
    try:
        return (clear_cache if clear else verify_cache if verify else show_cache)(place)
    except (model_cache.Unusable, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        print(
            f"The cache of compiled models cannot use {place}: {reason}. "
            "Fix this, or name another folder in PATHFOLD_CACHE.",
            file=sys.stderr,
        )
        return 1


def show_cache(place: Path) -> int:
    """Print the size of the folder of compiled models, and a line for each of them."""
    stored = model_cache.entries()
    size, limit = sum(file.size for file in stored), model_cache.limit()
    print(f"{place}: {_models(len(stored))}, {_size(size)} (limit {_size(limit)})")
    for file in stored:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(file.used))
        print(f"  {file.path.stem[:12]}  {_size(file.size):>10s}  last used {used}  {_describe(file.content)}")
    return 0


def verify_cache(place: Path) -> int:
    """Check every compiled model, print a line for each that cannot be used, return 1 if there are any."""
    bad = model_cache.verify()
    for file in bad:
        print(f"{file.path}: {file.content}")
    if bad:
        print(
            f"{_models(len(bad))} cannot be used and will be compiled again when needed; "
            "`pathfold cache --clear` removes all compiled models."
        )
        return 1
    print(f"{place}: no compiled model is damaged.")
    return 0


def clear_cache(place: Path) -> int:
    """Remove every compiled model."""
    number, size = model_cache.clear()
    print(f"{place}: {number} {'file' if number == 1 else 'files'} removed, {_size(size)}.")
    return 0


def _describe(content: model_cache.Header | model_cache.Refused) -> str:
    if isinstance(content, model_cache.Refused):
        return f"not valid: {content}"
    where = "this machine" if content.machine == machine_name() else "another machine"
    facts = ", ".join(f"{name} {fact}" for name, fact in content.facts.items())
    versions = ", ".join(f"{package} {version}" for package, version in content.versions.items())
    return "; ".join(part for part in (f"valid, for {where}", facts, versions) if part)


def _models(number: int) -> str:
    return f"{number} compiled {'model' if number == 1 else 'models'}"


def _size(size: float) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"
