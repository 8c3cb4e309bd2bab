"""How a population costs: subjects of the drug model with two or three effects, in one exact step between samples.

    python benchmarks/populations.py [--subjects 12 100 1000] [--effects 2 3] [--warmup 250] [--draws 300]
                                     [--chains 2] [--assay 0.4] [--threads 1]

`--assay` is the standard deviation of the assay's error, in the data and at the middle of its prior.

A row has the milliseconds of a constrained step, the steps of a draw, the draws of all chains, how many are effective
for the slowest population parameter (the smaller of bulk and tail), in all and a second of core, warm-up included, the
share of trajectories that failed, the largest R-hat, the seconds of core and of the clock, and the peak of the resident
memory of the process so far, with all that is compiled. An interrupted run has the row of what it drew.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from memory import peak

import pathfold as pf
from pathfold.results.convergence import judged

TIMES = [0.5, 1.0, 2.0, 4.0, 6.0, 9.0, 12.0, 24.0]
TYPICAL = {"ka": 1.5, "CL": 0.04, "V": 0.45}
SPREAD = {"ka": 0.5, "CL": 0.3, "V": 0.2}
DOSE, SIGMA, ASSAY = 4.0, 0.05, 0.4


def noise(assay: float) -> dict[str, float]:
    return {"sigma": SIGMA, "tau": assay}


def drug(effects: int, assay: float) -> pf.DiffusionModel:
    """One compartment with absorption, of which clearance and volume vary, and with three effects absorption too."""
    varying = ["CL", "V", "ka"][:effects]
    priors: dict[str, Any] = {f"{name}_typical": dist.LogNormal(np.log(each), 0.7) for name, each in TYPICAL.items()}
    priors |= {f"{name}_spread": dist.LogNormal(np.log(SPREAD[name]), 0.5) for name in varying}
    priors |= {name: dist.LogNormal(np.log(each), 0.7) for name, each in noise(assay).items()}
    for name in TYPICAL:
        middle, spread = f"{name}_typical", f"{name}_spread"
        priors[name] = (
            pf.Varying(lambda z, m=middle, s=spread: dist.LogNormal(jnp.log(z[m]), z[s]))
            if name in varying
            else lambda z, m=middle: z[m]
        )
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-z["ka"] * x[0], z["ka"] * x[0] - z["CL"] / z["V"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters=priors,
        initial_state=[DOSE, 0.0],
        observation=pf.GaussianNoise(lambda x, z: x[1:] / z["V"], "tau"),
        scheme=pf.ExactLinearDrift(),
    )


def people(count: int, assay: float) -> list[pf.Observations]:
    """Draw subjects with three effects, and their samples, by the Gaussian transitions of the model; all at once."""
    rng = np.random.default_rng(1)
    ka, CL, V = (TYPICAL[name] * np.exp(SPREAD[name] * rng.standard_normal(count)) for name in ("ka", "CL", "V"))
    k, amount, before = CL / V, np.zeros(count), 0.0
    samples = []
    for t in TIMES:
        waited = t - before
        absorbed = DOSE * np.exp(-ka * before) * ka / (ka - k) * (np.exp(-k * waited) - np.exp(-ka * waited))
        spread = SIGMA * np.sqrt(-np.expm1(-2.0 * k * waited) / (2.0 * k))
        amount = amount * np.exp(-k * waited) + absorbed + spread * rng.standard_normal(count)
        samples.append(amount / V + assay * rng.standard_normal(count))
        before = t
    return [pf.Observations(TIMES, each) for each in np.transpose(samples)]


def measured(count: int, effects: int, options: argparse.Namespace) -> str:
    model = drug(effects, options.assay)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that may be short
        tree = pf.sample(
            model,
            people(count, options.assay),
            steps_per_interval=1,
            chains=options.chains,
            warmup=options.warmup,
            draws=options.draws,
            keep_path="none",
            threads=options.threads,
            progress=False,
        )
    names = [name for name in model.parameters.names if name not in TYPICAL]
    found = [each for name in names for _, _, each in judged(tree.posterior[name])]
    fewest, rhat = min(each.effective for each in found), max(each.rhat for each in found)
    seconds, steps = float(np.sum(tree.attrs["chain_seconds"])), tree.sample_stats["n_steps"].values
    main = float(np.sum(tree.attrs["main_seconds"]))
    failed = float(np.mean(tree.sample_stats["status"].values != 0))
    return (
        f"{count:6d} subjects, {effects} effects: {1e3 * main / steps.sum():8.2f} ms a step, {steps.mean():5.1f} steps "
        f"a draw, {steps.size} draws, {fewest:.0f} effective, {fewest / seconds:.2f} a second of core, "
        f"{failed:.1%} failed, R-hat {rhat:.3f}, {seconds:.0f} s of core in {tree.attrs['run_seconds']:.0f} s, "
        f"{peak():.0f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="How a population costs.")
    parser.add_argument("--subjects", type=int, nargs="+", default=[12, 100, 1000])
    parser.add_argument("--effects", type=int, nargs="+", default=[2, 3], choices=[2, 3])
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--assay", type=float, default=ASSAY)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for count in options.subjects:
        for effects in options.effects:
            print(measured(count, effects, options), flush=True)


if __name__ == "__main__":
    main()
