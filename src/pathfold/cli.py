"""The command line: `pathfold demo`, `examples`, `compile`, `cache`, `report`, `run` and `doctor`."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

from pathfold.errors import PathfoldError
from pathfold.example_models import EXAMPLES, described


def list_examples() -> None:
    width = max(map(len, EXAMPLES))
    for name, summary, reference in described():
        print(f"{name:{width}s}  {summary}\n{'':{width}s}  {reference}")


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
    if options.command == "examples" and options.name is None:
        list_examples()
        return 0
    if options.command == "examples" and options.name not in EXAMPLES:
        examples.error(f"there is no example {options.name!r}; the examples are {', '.join(EXAMPLES)}")
    return _do(options)


def _do(options: argparse.Namespace) -> int:
    """Do what needs more than the help does: JAX, Numba and NumPyro, which are imported here."""
    from pathfold import commands, doctor

    if options.command == "run":
        return commands.run_script(options.script, options.chain, options.arguments)
    if options.command == "compile":
        return commands.compile_all()
    if options.command == "report":
        return commands.write_report(options.results, options.file, options.title)
    if options.command == "doctor":
        return 0 if doctor.examine() else 1
    if options.command == "cache":
        return commands.cache(verify=options.verify, clear=options.clear)
    if options.command == "demo":
        commands.demo(options.folder, observations=options.observations, draws=options.draws, seed=options.seed)
        return 0
    folder = options.folder or Path(f"pathfold-{options.name}")
    commands.run_example(EXAMPLES[options.name], folder, draws=options.draws, seed=options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
