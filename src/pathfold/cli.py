"""The command line: `pathfold demo`, `examples`, `compile`, `cache`, `report`, `run` and `doctor`."""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import xarray as xr

from pathfold import doctor
from pathfold.analysis import report
from pathfold.analysis.plots import plot_marginals, plot_paths
from pathfold.engine import model_cache
from pathfold.engine.installation import compile_sampler
from pathfold.errors import PathfoldError, SettingsError
from pathfold.example_models import EXAMPLES, Example, fitzhugh_nagumo
from pathfold.inference import sample
from pathfold.program.machine import machine_name
from pathfold.results.convergence import summary_table
from pathfold.sampling.alone import ChainEnded, chain_alone


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
        _make_folder(folder)
    model, data, truth = example.model(), example.data(), example.truth
    print(f"{example.name}: {example.summary} ({example.reference})")
    print(f"data simulated from {truth}" if truth else "data from the reference")
    print("compiling the model and sampling four chains ...")
    posterior = sample(model, data, steps_per_interval=example.steps_per_interval, chains=4, draws=draws, seed=seed)
    names = list(model.parameters.names)
    print(summary_table(posterior, names, truth))
    if not pictures:
        print("no pictures: they need Matplotlib, which `pip install 'pathfold[plots]'` brings")
    else:
        paths = plot_paths(posterior, observed=example.observed, natural=example.natural)
        paths.savefig(folder / "paths.png", dpi=150)
        plot_marginals(posterior, names, truth=truth).savefig(folder / "marginals.png", dpi=150)
        print(f"pictures: {folder / 'paths.png'}, {folder / 'marginals.png'}")
    print(f"all in {time.perf_counter() - begin:.0f} s")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError(
            f"--folder {folder} cannot be used for pictures: {error.strerror}; give a folder that can be written to"
        ) from error


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


def list_examples() -> None:
    width = max(map(len, EXAMPLES))
    for example in EXAMPLES.values():
        print(f"{example.name:{width}s}  {example.summary}\n{'':{width}s}  {example.reference}")


def cache(*, verify: bool, clear: bool) -> int:
    """Show, verify or clear the compiled models that are kept; return the exit status."""
    user, *shared = model_cache.places()
    if clear:
        return _unless_refused(clear_cache, user)
    if verify:
        return _unless_refused(verify_cache, user)
    return max(_unless_refused(show_cache, place) for place in (user, *shared))


def show_cache(place: model_cache.CacheFolder) -> int:
    """Print the size of a folder of compiled models, and a line for each of them."""
    stored = model_cache.entries(place)
    note = "shared, only read" if place.shared else f"limit {_size(model_cache.limit())}"
    print(f"{place.path}: {_models(len(stored))}, {_size(sum(file.size for file in stored))} ({note})")
    for file in stored:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(file.used))
        print(f"  {file.path.stem[:12]}  {_size(file.size):>10s}  last used {used}  {_describe(file.content)}")
    return 0


def verify_cache(place: model_cache.CacheFolder) -> int:
    """Check every compiled model of the user, print a line for each that cannot be used, return 1 if there are any."""
    bad = model_cache.verify()
    for file in bad:
        print(f"{file.path}: {file.content}")
    if bad:
        print(
            f"{_models(len(bad))} cannot be used and will be compiled again when needed; "
            "`pathfold cache --clear` removes all compiled models."
        )
        return 1
    print(f"{place.path}: no compiled model is damaged.")
    return 0


def clear_cache(place: model_cache.CacheFolder) -> int:
    """Remove every compiled model of the user."""
    number, size = model_cache.clear()
    print(f"{place.path}: {number} {'file' if number == 1 else 'files'} removed, {_size(size)}.")
    return 0


def _unless_refused(task: Callable[[model_cache.CacheFolder], int], place: model_cache.CacheFolder) -> int:
    """Do a task with a folder of compiled models; if the folder cannot be used, say why and return 1."""
    try:
        return task(place)
    except (model_cache.Unusable, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        print(
            f"The cache of compiled models cannot use {place.path}: {reason}. "
            f"Fix this, or name another folder in {place.variable}.",
            file=sys.stderr,
        )
        return 1


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


def main(arguments: list[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit status, 2 after a sentence if they cannot be used."""
    try:
        return _main(arguments)
    except PathfoldError as error:
        print(f"pathfold: {error}", file=sys.stderr)
        return 2


def _main(arguments: list[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="pathfold", description="Calibrate diffusion models to discrete observations."
    )
    parser.add_argument("--version", action="version", version=f"pathfold {version('pathfold')}")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("demo", help="run the whole job on an embedded example and draw pictures of it")
    show.add_argument("--folder", type=Path, default=Path("pathfold-demo"), help="where the pictures go")
    show.add_argument("--observations", type=int, default=100)
    examples = commands.add_parser("examples", help="list the example models, or run one with default settings")
    examples.add_argument("name", nargs="?", help="the example to run")
    examples.add_argument("--folder", type=Path, help="where the pictures go; by default pathfold-NAME")
    for command in (show, examples):
        command.add_argument("--draws", type=int, default=1000)
        command.add_argument("--seed", type=int, default=1)
    commands.add_parser("compile", help="compile the sampler for this installation, otherwise done on first use")
    commands.add_parser(
        "doctor", help="show versions, machine and cache, and test the installation; exit 1 if it is ill"
    )
    kept = commands.add_parser("cache", help="show the compiled models that are kept, verify or remove them")
    task = kept.add_mutually_exclusive_group()
    task.add_argument("--verify", action="store_true", help="check every compiled model; exit 1 if one cannot be used")
    task.add_argument("--clear", action="store_true", help="remove every compiled model")
    written = commands.add_parser("report", help="write an HTML report of results saved with to_netcdf or to_zarr")
    written.add_argument("results", type=Path, help="the file, or Zarr folder, of the results")
    written.add_argument("--file", type=Path, help="where the report goes; by default the results' name with .html")
    written.add_argument("--title", help="its heading; by default the number of parameters")
    alone = commands.add_parser(
        "run", help="make one chain of a script's pf.sample(..., checkpoint='folder'), as a job of its own"
    )
    alone.add_argument("--chain", type=int, required=True, help="the number of the chain, from 0")
    alone.add_argument("script", type=Path, help="a Python script; it ends when the chain is made")
    alone.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments for the script")
    options = parser.parse_args(arguments)
    if options.command == "run":
        return run_script(options.script, options.chain, options.arguments)
    if options.command == "compile":
        print(f"the sampler is ready ({compile_sampler(announce=True):.1f} s)")
        return 0
    if options.command == "report":
        return write_report(options.results, options.file, options.title)
    if options.command == "doctor":
        return 0 if doctor.examine() else 1
    if options.command == "cache":
        return cache(verify=options.verify, clear=options.clear)
    if options.command == "demo":
        demo(options.folder, observations=options.observations, draws=options.draws, seed=options.seed)
    elif options.name is None:
        list_examples()
    elif options.name in EXAMPLES:
        folder = options.folder or Path(f"pathfold-{options.name}")
        run_example(EXAMPLES[options.name], folder, draws=options.draws, seed=options.seed)
    else:
        examples.error(f"there is no example {options.name!r}; the examples are {', '.join(EXAMPLES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
