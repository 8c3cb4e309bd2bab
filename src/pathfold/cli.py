"""The command line: `pathfold demo`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from pathfold.example_models import fitzhugh_nagumo
from pathfold.model import simulate
from pathfold.results import sample
from pathfold.results.plots import plot_marginals, plot_paths
from pathfold.results.summary import summary_table


def demo(folder: Path, *, observations: int, draws: int, seed: int) -> None:
    """Simulate a neuron whose membrane potential is seen without noise, calibrate the model, show what came out."""
    begin = time.perf_counter()
    model, truth = fitzhugh_nagumo.noiseless(), fitzhugh_nagumo.TRUTH
    times = 0.2 * np.arange(1, observations + 1)
    print(f"FitzHugh-Nagumo: {observations} exact observations of the first component, simulated from {truth}")
    data = simulate(
        model, truth, times, initial_state=fitzhugh_nagumo.INITIAL_STATE, steps_per_interval=1000, seed=seed
    )
    print("compiling the model and sampling four chains ...")
    posterior = sample(model, data, steps_per_interval=25, chains=4, draws=draws, seed=seed)
    print(summary_table(posterior, list(truth), truth))
    folder.mkdir(parents=True, exist_ok=True)
    plot_paths(posterior, observed={0: 0}).savefig(folder / "paths.png", dpi=150)
    plot_marginals(posterior, list(truth), truth).savefig(folder / "marginals.png", dpi=150)
    print(f"pictures: {folder / 'paths.png'}, {folder / 'marginals.png'}")
    print(f"all in {time.perf_counter() - begin:.0f} s")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="pathfold", description="Calibrate diffusion models to discrete observations."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("demo", help="run the whole job on an embedded example and draw pictures of it")
    show.add_argument("--folder", type=Path, default=Path("pathfold-demo"), help="where the pictures go")
    show.add_argument("--observations", type=int, default=100)
    show.add_argument("--draws", type=int, default=1000)
    show.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    demo(options.folder, observations=options.observations, draws=options.draws, seed=options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
