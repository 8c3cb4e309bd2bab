"""How much memory a run takes whose paths are kept, in memory or streamed to a checkpoint folder, and what that costs.

    python benchmarks/memory.py [--draws 20000] [--observations 1000] [--steps 10] [--chains 2] [--in-memory]

An Ornstein-Uhlenbeck series with the states of all fine steps. One line of JSON: the peak of the resident memory of the
process, in MiB, with JAX and all that is compiled; what the draws take, on the disk or in memory; seconds of the run,
and of the core for the chains; and how long it takes to read the last state of all draws.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import pathfold as pf
from pathfold.example_models import ornstein_uhlenbeck

MIB = 2**20


def peak() -> float:
    """MiB that this process has had resident at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB


def measured(draws: int, observations: int, steps: int, chains: int, folder: Path | None) -> dict[str, Any]:
    model = ornstein_uhlenbeck.EXAMPLE.model()
    times = 0.5 * np.arange(1, observations + 1)
    data = pf.simulate(model, ornstein_uhlenbeck.TRUTH, times, steps_per_interval=20, seed=1)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a run that may be short
        tree = pf.sample(
            model,
            data,
            steps_per_interval=steps,
            chains=chains,
            warmup=100,
            draws=draws,
            keep_path="all",
            progress=False,
            checkpoint=folder,
        )
    seconds, begin = time.perf_counter() - begin, time.perf_counter()
    last = tree.posterior["state"].isel(time=-1).values
    return {
        "draws": draws,
        "streamed": folder is not None,
        "peak_mib": round(peak()),
        "draws_mib": round(tree.posterior["state"].nbytes / MIB),
        "run_seconds": round(seconds, 1),
        "chain_seconds": round(sum(tree.attrs["chain_seconds"]), 1),
        "reading_seconds": round(time.perf_counter() - begin, 2),
        "mean_of_last": float(last.mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--observations", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--in-memory", action="store_true", help="without a checkpoint folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where = None if options.in_memory else Path(folder) / "run"
        print(json.dumps(measured(options.draws, options.observations, options.steps, options.chains, where)))


if __name__ == "__main__":
    main()
