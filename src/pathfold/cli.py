"""The command line: `pathfold demo`, `pathfold examples`."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from pathfold.example_models import EXAMPLES, Example, fitzhugh_nagumo
from pathfold.results import sample
from pathfold.results.plots import plot_marginals, plot_paths
from pathfold.results.summary import summary_table


def demo(folder: Path, *, observations: int, draws: int, seed: int) -> None:
    """Simulate a neuron whose membrane potential is seen without noise, calibrate the model, show what came out."""
    example = fitzhugh_nagumo.EXAMPLE
    calibrate(
        replace(example, data=lambda: fitzhugh_nagumo.data(example.model(), observations, seed)),
        folder,
        draws=draws,
        seed=seed,
    )


def calibrate(example: Example, folder: Path, *, draws: int, seed: int) -> None:
    """Run an example with default settings, print a table of its parameters and draw pictures."""
    begin = time.perf_counter()
    model, data, truth = example.model(), example.data(), example.truth
    print(f"{example.name}: {example.summary} ({example.reference})")
    print(f"data simulated from {truth}" if truth else "data from the reference")
    print("compiling the model and sampling four chains ...")
    posterior = sample(model, data, steps_per_interval=example.steps_per_interval, chains=4, draws=draws, seed=seed)
    names = list(model.parameters.names)
    print(summary_table(posterior, names, truth))
    folder.mkdir(parents=True, exist_ok=True)
    plot_paths(posterior, observed=example.observed, natural=example.natural).savefig(folder / "paths.png", dpi=150)
    plot_marginals(posterior, names, truth).savefig(folder / "marginals.png", dpi=150)
    print(f"pictures: {folder / 'paths.png'}, {folder / 'marginals.png'}")
    print(f"all in {time.perf_counter() - begin:.0f} s")


def list_examples() -> None:
    width = max(map(len, EXAMPLES))
    for example in EXAMPLES.values():
        print(f"{example.name:{width}s}  {example.summary}\n{'':{width}s}  {example.reference}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="pathfold", description="Calibrate diffusion models to discrete observations."
    )
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
    options = parser.parse_args(arguments)
    if options.command == "demo":
        demo(options.folder, observations=options.observations, draws=options.draws, seed=options.seed)
    elif options.name is None:
        list_examples()
    elif options.name in EXAMPLES:
        folder = options.folder or Path(f"pathfold-{options.name}")
        calibrate(EXAMPLES[options.name], folder, draws=options.draws, seed=options.seed)
    else:
        examples.error(f"there is no example {options.name!r}; the examples are {', '.join(EXAMPLES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
