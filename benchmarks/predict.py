"""How long a forecast takes: 4,000 draws of FitzHugh-Nagumo over 100 observation times, 25 fine steps before each.

The draws are made up, near the values that the model is studied at: what a forecast costs does not depend on them. The
first call compiles the kernel and the observation; of the others the least counts. `--json` adds one last line of
figures for machines.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
import xarray as xr

import pathfold as pf
from pathfold.example_models import fitzhugh_nagumo

ASKED = 2.0  # seconds, at most
CHAINS, DRAWS, TIMES, STEPS = 4, 1000, 100, 25


def posterior(model: pf.DiffusionModel) -> xr.DataTree:
    """Results of a short run, with as many draws as are to be carried forward."""
    data = fitzhugh_nagumo.data(model, observations=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = pf.sample(model, data, steps_per_interval=STEPS, chains=CHAINS, warmup=20, draws=10, progress=False)
    longer = tree.posterior.to_dataset().isel(draw=np.arange(DRAWS) % 10).assign_coords(draw=np.arange(DRAWS))
    tree["posterior"] = longer
    return tree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="a last line of figures for machines")
    arguments = parser.parse_args()
    model = fitzhugh_nagumo.noiseless()
    tree = posterior(model)
    times = tree.posterior["time"].values[-1] + 0.2 * np.arange(1, TIMES + 1)
    taken = []
    for seed in range(5):
        begin = time.perf_counter()
        pf.predict(model, tree, times, seed=seed)
        taken.append(time.perf_counter() - begin)
    figures = {"first_call": taken[0], "later_calls": min(taken[1:])}
    for name, seconds in figures.items():
        print(f"{name.replace('_', ' '):12s} {seconds:6.2f} s   (asked: {ASKED:g} s)")
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
