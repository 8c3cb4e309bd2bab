"""Every example model with default settings: does it converge, without failures and without a warning?

Four chains for each seed. A model passes when R-hat is below 1.01 for all parameters, fewer than 1 % of the
trajectories fail, and nothing is warned of. Effective draws are the smaller of bulk and tail ESS, for the worst
parameter, by the second of one core after warm-up. `--sampler`, `--target`, `--time` and `--metric` try other settings;
`--json` adds one last line of figures for machines.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np

import pathfold as pf
from pathfold.example_models import EXAMPLES, Example
from pathfold.results.convergence import convergence, scalars
from pathfold.sampling.sampler import Sampler

RHAT = 1.01
FAILURES = 0.01
SAMPLERS = {"static": pf.StaticHMC, "dynamic": pf.DynamicHMC, "guided": pf.GuidedProposals}


def measure(example: Example, seed: int, sampler: Sampler | None) -> dict[str, Any]:
    """How one run fares; `sampler` None is the default."""
    model = example.model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = pf.sample(
            model,
            example.data(),
            steps_per_interval=example.steps_per_interval,
            sampler=sampler,
            seed=seed,
            progress=False,
        )
    found = {label: convergence(x) for name in model.priors for label, x in scalars(tree.posterior[name])}
    slowest = min(found, key=lambda label: found[label].effective)
    stats, seconds = tree.sample_stats, float(np.sum(tree.attrs["main_seconds"]))
    return {
        "example": example.name,
        "seed": seed,
        "rhat": max(each.rhat for each in found.values()),
        "failures": float((stats["status"] != 0).mean()),
        "failed_steps": float((stats["n_failed_steps"] > 0).mean()),
        "effective_draws": found[slowest].effective,
        "effective_draws_a_second": found[slowest].effective / seconds,
        "slowest": slowest,
        "steps_a_draw": float(stats["n_steps"].mean()),
        "step_size": float(stats["step_size"].mean()),
        "seconds": seconds,
        "warnings": [str(each.message) for each in caught],
    }


def faults(row: dict[str, Any]) -> list[str]:
    """What keeps a run from passing."""
    found = []
    if not row["rhat"] < RHAT:
        found.append("R-hat")
    if not row["failures"] < FAILURES:
        found.append("failures")
    if row["warnings"]:
        found.append(f"{len(row['warnings'])} warning(s)")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Every example model with default settings.")
    parser.add_argument("--only", nargs="+", choices=EXAMPLES, default=list(EXAMPLES), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sampler", choices=SAMPLERS)
    parser.add_argument("--target", type=float, help="acceptance that the step size is tuned for; needs --sampler")
    parser.add_argument("--time", type=float, help="integration time of static trajectories; needs --sampler static")
    parser.add_argument("--metric", help="of the parameters, such as adapted; needs --sampler dynamic")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    given = {"target_acceptance": options.target, "integration_time": options.time, "metric": options.metric}
    given = {name: value for name, value in given.items() if value is not None}
    sampler = SAMPLERS[options.sampler](**given) if options.sampler else None
    if given and sampler is None:
        parser.error("--target, --time and --metric need --sampler")
    width = max(map(len, EXAMPLES))
    head = "seed   R-hat  failed  with failed step   ESS/s  (slowest)   steps per draw  step size       s  verdict"
    print(f"{'':{width}s} {head}")
    rows = []
    for name in options.only:
        for seed in range(1, options.seeds + 1):
            row = measure(EXAMPLES[name], seed, sampler)
            rows.append(row)
            print(
                f"{name:{width}s} {seed:4d}  {row['rhat']:6.3f}  {100 * row['failures']:4.1f} %  "
                f"{100 * row['failed_steps']:14.1f} %  {row['effective_draws_a_second']:6.1f}  "
                f"{row['slowest']:10s}  {row['steps_a_draw']:12.1f}  {row['step_size']:9.3f}  {row['seconds']:6.0f}  "
                f"{', '.join(faults(row)) or 'PASS'}",
                flush=True,
            )
            for warning in row["warnings"]:
                print(f"{'':{width}s}       {warning}")
    passed = sum(not faults(row) for row in rows)
    print(f"{passed} of {len(rows)} runs pass")
    if options.json:
        print(json.dumps({"passed": passed, "runs": len(rows), "rows": rows}))


if __name__ == "__main__":
    main()
