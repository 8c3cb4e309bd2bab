"""Every example model by pf.fit and by pf.sample: seconds, verdict, and how far the two are apart.

Long runs of pf.sample are kept in `first_look.json` and not made again; fits are. `--draw` writes the table to
docs/first_look.md. Seconds are the processor's, of a second fit, after all is compiled; errors are the largest over
parameters, of means in posterior standard deviations and of the logarithm of standard deviations.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import pathfold as pf
from pathfold.example_models import EXAMPLES, Example
from pathfold.results.convergence import judged, scalars

KEPT = Path(__file__).parent / "first_look.json"
PAGE = Path(__file__).parents[1] / "docs" / "first_look.md"
DRAWS = 1000  # of each of four chains


def moments(tree: xr.DataTree, names: list[str]) -> dict[str, list[float]]:
    """Mean and standard deviation of every scalar parameter."""
    named = [pair for name in names if name in tree.posterior for pair in scalars(tree.posterior[name])]
    return {label: [float(x.mean()), float(x.std())] for label, x in named}


def sampled(example: Example) -> dict[str, Any]:
    model = example.model()
    tree = pf.sample(
        model,
        example.data(),
        steps_per_interval=example.steps_per_interval,
        draws=DRAWS,
        keep_path="none",
        progress=False,
        threads=1,
    )
    found = [each for name in model.priors if name in tree.posterior for *_, each in judged(tree.posterior[name])]
    return {
        "moments": moments(tree, [*model.priors]),
        "seconds": float(tree.attrs["run_seconds"]),
        "effective": min(each.effective for each in found),
        "rhat": max(each.rhat for each in found),
    }


def fitted(example: Example) -> dict[str, Any]:
    model, data = example.model(), example.data()
    pf.fit(model, data, steps_per_interval=example.steps_per_interval, points=16, threads=1)
    begin = time.process_time()
    tree = pf.fit(model, data, steps_per_interval=example.steps_per_interval, threads=1)
    seconds = time.process_time() - begin
    numbers = ("pareto_k", "effective_share", "points_failed", "pairs_failed", "pair_spread", "shift", "modes")
    return {
        "moments": moments(tree, [*model.priors]),
        "parameters": tree.laplace.sizes["parameter_normal"],
        "seconds": seconds,
        "verdict": tree.attrs["verdict"],
        "reasons": tree.attrs["reasons"],
        **{name: float(tree.laplace[name]) for name in numbers},
    }


def errors(row: dict[str, Any]) -> tuple[float, float]:
    """The largest error of a mean, in standard deviations, and of the log of a standard deviation."""
    ours, theirs = row["fitted"]["moments"], row["sampled"]["moments"]
    random = [name for name in theirs if theirs[name][1] > 0.0]
    means = [abs(ours[k][0] - theirs[k][0]) / theirs[k][1] for k in random]
    with np.errstate(divide="ignore"):
        return max(means), max(abs(np.log(ours[k][1] / theirs[k][1])) for k in random)


def table(rows: dict[str, Any]) -> str:
    lines = ["| example | parameters | verdict | error of means | of log sd | seconds |", "|---|---|---|---|---|---|"]
    for name, row in rows.items():
        mean, sd = errors(row)
        fit = row["fitted"]
        numbers = f"{mean:.2f} | {sd:.2f} | {fit['seconds']:.2g}"
        lines.append(f"| `{name}` | {fit['parameters']} | {fit['verdict']} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*EXAMPLES])
    parser.add_argument("--draw", action="store_true", help="write the table to the page, and measure nothing")
    args = parser.parse_args()
    rows = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in [] if args.draw else args.names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = rows.setdefault(name, {})
            row["fitted"] = fitted(EXAMPLES[name])
            if "sampled" not in row:
                row["sampled"] = sampled(EXAMPLES[name])
        KEPT.write_text(json.dumps({each: rows[each] for each in EXAMPLES if each in rows}, indent=1) + "\n")
        print(table({name: row}).splitlines()[-1], row["fitted"]["reasons"], flush=True)
    if args.draw:
        before, rest = PAGE.read_text().split("<!-- begin table -->")
        after = rest.split("<!-- end table -->")[1]
        PAGE.write_text(f"{before}<!-- begin table -->\n{table(rows)}\n<!-- end table -->{after}")


if __name__ == "__main__":
    main()
