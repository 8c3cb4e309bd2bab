"""What a constrained step costs with each scheme, on linear drug models with a Varying clearance and volume.

The drug model is a panel of 30 subjects: one compartment with absorption, with noise in proportion to the amount, or
additive noise. Theophylline is the data of twelve people. A row is a scheme with so many fine steps an interval: the
parts of a step, the whole step (figures of `step_cost.py`), and the seconds that all took, compiling included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from step_cost import measure

import pathfold as pf

SCHEMES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Euler-Maruyama": (pf.EulerMaruyama(), (3, 10)),
    "strong order 1.5": (pf.StrongOrder1p5(), (3, 10)),
    "linearly implicit": (pf.LinearlyImplicit(), (3, 10)),
    "exact linear drift": (pf.ExactLinearDrift(), (1, 3, 10)),
}
TIMES = [0.5, 1.0, 2.0, 4.0, 6.0, 9.0, 12.0, 24.0]
SUBJECTS = 30
TRUTH = {"ka": 1.5, "log_CL": -3.2, "log_V": -0.8, "s_CL": 0.3, "s_V": 0.2, "sigma": 0.1, "tau": 0.3}


def absorbed(scheme: Any, *, additive: bool) -> pf.DiffusionModel:
    """One compartment with absorption, of a unit dose, seen through noise."""

    def diffusion(x, z):
        return jnp.array([[0.0], [z["sigma"] if additive else z["sigma"] * x[1]]])

    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-z["ka"] * x[0], z["ka"] * x[0] - z["CL"] / z["V"] * x[1]]),
        diffusion=diffusion,
        parameters={
            "ka": dist.LogNormal(0.3, 0.5),
            "log_CL": dist.Normal(-3.0, 0.5),
            "log_V": dist.Normal(-1.0, 0.5),
            "s_CL": dist.LogNormal(-1.2, 0.4),
            "s_V": dist.LogNormal(-1.5, 0.4),
            "sigma": dist.LogNormal(-2.0, 0.5),
            "tau": dist.LogNormal(-1.0, 0.5),
            "CL": pf.Varying(lambda z: dist.LogNormal(z["log_CL"], z["s_CL"])),
            "V": pf.Varying(lambda z: dist.LogNormal(z["log_V"], z["s_V"])),
        },
        initial_state=[4.0, 0.0],
        observation=pf.GaussianNoise(lambda x, z: x[1:] / z["V"], "tau"),
        scheme=scheme,
        states=("gut", "blood"),
        observed=("concentration",),
    )


def drug(additive: bool) -> list[pf.Observations]:
    """Simulate a series for each subject."""
    model = absorbed(pf.EulerMaruyama(), additive=additive)
    return [pf.simulate(model, TRUTH, TIMES, steps_per_interval=200, seed=seed) for seed in range(SUBJECTS)]


def theophylline() -> list[pf.Observations]:
    table = pf.datasets.theophylline()
    people = table[table["hours"] > 0].set_index("hours").groupby("subject")
    return [pf.Observations(person["concentration"]) for _, person in people]


CASES: dict[str, tuple[Callable[..., list[pf.Observations]], bool]] = {
    "drug, noise in proportion": (lambda: drug(False), False),
    "drug, additive noise": (lambda: drug(True), True),
    "theophylline, noise in proportion": (theophylline, False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="What a constrained step costs with each scheme.")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--case", choices=[*CASES], action="append", help="one of the cases; all by default")
    options = parser.parse_args()
    for case in options.case or CASES:
        data_of, additive = CASES[case]
        data = data_of()
        print(f"{case}: {len(data)} series, {np.sum([len(each.times) for each in data])} observations")
        for name, (scheme, steps) in SCHEMES.items():
            for S in steps:
                begin = time.perf_counter()
                found = measure(absorbed(scheme, additive=additive), data, S, parts=True, repeats=options.repeats)
                print(
                    f"  {name:20s} S = {S:2d}  linearise {found['linearise_us']:6.0f} us  gradient "
                    f"{found['gradient_us']:6.0f} us  step {found['step_us']:6.0f} us  iterations "
                    f"{found['newton_iterations']:4.1f}  failed {found['failed_steps']:.0f} of 48  "
                    f"({time.perf_counter() - begin:.0f} s in all)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
