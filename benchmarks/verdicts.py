"""Verdicts of pf.fit on data that its thresholds were not set on: simulated anew from example models.

For each data set the largest error of a mean, in posterior standard deviations, against pf.sample; at the end the share
of fits with each verdict, and of those called "good" that are off by more than 0.3. With `--calibrate` it is whether
the draws of fits are calibrated (`pf.calibrate`), of three models.
"""

from __future__ import annotations

import argparse
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

import pathfold as pf
from benchmarks.first_look import moments
from pathfold.example_models import EXAMPLES

MODELS = (
    "ornstein_uhlenbeck",
    "integrated_ornstein_uhlenbeck",
    "cox_ingersoll_ross",
    "double_well",
    "lotka_volterra",
    "fitzhugh_nagumo",
    "optical_trap",
    "van_der_pol",
    "toggle_switch",
    "lorenz63",
)
WRONG = 0.3
CALIBRATED = ("ornstein_uhlenbeck", "lotka_volterra", "redstart")


def judged(name: str, seed: int, draws: int) -> tuple[str, float] | str:
    """The verdict on one data set, and the largest error of a mean; or why there is none."""
    warnings.simplefilter("ignore")
    try:
        return _judged(name, seed, draws)
    except pf.PathfoldError as refused:
        return str(refused)


def _judged(name: str, seed: int, draws: int) -> tuple[str, float]:
    example = EXAMPLES[name]
    model, data, truth = example.model(), example.data(), example.truth
    assert isinstance(data, pf.Observations)
    assert truth is not None
    steps = example.steps_per_interval
    new = pf.simulate(model, truth, data.times, steps_per_interval=4 * steps, seed=1000 + seed)
    fit = pf.fit(model, new, steps_per_interval=steps, threads=1)
    run = pf.sample(model, new, steps_per_interval=steps, draws=draws, keep_path="none", progress=False, threads=1)
    ours, theirs = moments(fit, [*model.priors]), moments(run, [*model.priors])
    return fit.attrs["verdict"], max(
        abs(ours[k][0] - theirs[k][0]) / theirs[k][1] for k in theirs if theirs[k][1] > 0.0
    )


def calibrated(name: str, runs: int, threads: int) -> None:
    example = EXAMPLES[name]
    found = pf.calibrate(
        example.model(),
        example.data(),
        method="fit",
        runs=runs,
        steps_per_interval=example.steps_per_interval,
        threads=threads,
    )
    print(f"{name}: {found}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20, help="data sets of each model")
    parser.add_argument("--draws", type=int, default=1000, help="of each of the four chains")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--calibrate", type=int, metavar="RUNS", help="calibrate the draws of fits, with so many runs")
    args = parser.parse_args()
    if args.calibrate:
        for name in CALIBRATED:
            calibrated(name, args.calibrate, args.processes)
        return
    found: dict[str, list[float]] = {"good": [], "rough": [], "sample": []}
    sets = [*product(range(args.sets), MODELS)]
    with ProcessPoolExecutor(args.processes, multiprocessing.get_context("spawn")) as pool:
        outcomes = pool.map(judged, [name for _, name in sets], [seed for seed, _ in sets], len(sets) * [args.draws])
        for (seed, name), outcome in zip(sets, outcomes, strict=True):
            if isinstance(outcome, str):
                print(f"{name} {seed}: {outcome}", flush=True)
                continue
            verdict, error = outcome
            found[verdict].append(error)
            print(f"{name} {seed}: {verdict}, {error:.2f}", flush=True)
    total = sum(map(len, found.values()))
    for verdict, errors in found.items():
        wrong = np.mean(np.array(errors) > WRONG) if errors else 0.0
        print(f"{verdict}: {len(errors)} of {total}, {100 * wrong:.0f} % of them off by more than {WRONG}")


if __name__ == "__main__":
    main()
