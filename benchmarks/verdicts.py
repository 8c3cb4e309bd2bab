"""Verdicts of pf.fit on data that its thresholds were not set on: simulated anew from example models.

For each data set the largest error of a mean, in posterior standard deviations, against pf.sample; at the end the share
of fits with each verdict, and of those called "good" that are off by more than 0.3.
"""

from __future__ import annotations

import argparse
import warnings

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


def judged(name: str, seed: int, draws: int) -> tuple[str, float]:
    """The verdict on one data set, and the largest error of a mean."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20, help="data sets of each model")
    parser.add_argument("--draws", type=int, default=1000, help="of each of the four chains")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[float]] = {"good": [], "rough": [], "sample": []}
    for seed in range(args.sets):
        for name in MODELS:
            try:
                verdict, error = judged(name, seed, args.draws)
            except pf.PathfoldError as refused:
                print(f"{name} {seed}: {refused}", flush=True)
                continue
            found[verdict].append(error)
            print(f"{name} {seed}: {verdict}, {error:.2f}", flush=True)
    total = sum(map(len, found.values()))
    for verdict, errors in found.items():
        wrong = np.mean(np.array(errors) > WRONG) if errors else 0.0
        print(f"{verdict}: {len(errors)} of {total}, {100 * wrong:.0f} % of them off by more than {WRONG}")


if __name__ == "__main__":
    main()
