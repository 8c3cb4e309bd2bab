"""Is the sampler calibrated for a population? Simulation-based calibration of a small one with all that effects can be.

    python benchmarks/population_calibration.py [--runs 500] [--processes 16] [--checkpoint FOLDER] [--method sample]

Eight subjects in two clinics grow to a size of their own at a rate of their own, of which both are random effects that
are correlated (`dist.LKJCholesky`); the rate depends on the clinic too (`pf.Varying(by=)`), the size on a covariate. Of
each there are four noisy sizes. It prints the verdict, and the table with a row for each quantity: parameters of the
population, of clinics and of subjects.
"""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import pathfold as pf

SUBJECTS, CLINICS = 8, ["north", "south"]
TIMES = [0.5, 1.0, 2.0, 4.0]


def growth() -> pf.DiffusionModel:
    """Logistic growth, in the logarithm of the size."""

    def effects(z):
        typical = jnp.array([z["log_rate"] + z["of_clinic"], z["log_size"] + 0.75 * jnp.log(z["weight"] / 70.0)])
        return dist.MultivariateNormal(typical, scale_tril=z["spread"][:, None] * z["correlation"])

    return pf.DiffusionModel(
        drift=lambda x, z: jnp.exp(z["effects"][0]) * (1.0 - jnp.exp(x - z["effects"][1])),
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        parameters={
            "log_rate": dist.Normal(0.0, 0.3),
            "log_size": dist.Normal(1.0, 0.3),
            "spread": dist.LogNormal(-1.2 * jnp.ones(2), 0.3),
            "correlation": dist.LKJCholesky(2, concentration=2.0),
            "between_clinics": dist.LogNormal(-1.5, 0.3),
            "of_clinic": pf.Varying(lambda z: dist.Normal(0.0, z["between_clinics"]), by="clinic"),
            "effects": pf.Varying(effects),
            "sigma": dist.LogNormal(-2.0, 0.3),
            "tau": dist.LogNormal(-2.0, 0.3),
        },
        initial_state=[dist.Normal(-1.0, 0.3)],
        observation=pf.GaussianNoise(lambda x, z: x, "tau"),
        covariates={"clinic": CLINICS, "weight": 70.0},
    )


def design() -> list[pf.Observations]:
    """Return the times and covariates of all subjects; the last sample of every other subject is missing."""
    values = [np.array([0.0, 0.0, 0.0, 0.0 if k % 2 else np.nan]) for k in range(SUBJECTS)]
    return [
        pf.Observations(TIMES, values[k], covariates={"clinic": CLINICS[k % 3 == 0], "weight": 55.0 + 5.0 * k})
        for k in range(SUBJECTS)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Is the sampler calibrated for a population?")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1, help="runs that are made at once")
    parser.add_argument("--checkpoint", help="a folder from which the same command goes on")
    parser.add_argument("--method", default="sample", choices=["sample", "fit"])
    options = parser.parse_args()
    found = pf.calibrate(
        growth(),
        design(),
        runs=options.runs,
        steps_per_interval=2,
        draws=990,
        method=options.method,
        checkpoint=options.checkpoint,
        threads=options.processes,
    )
    print(found)


if __name__ == "__main__":
    main()
