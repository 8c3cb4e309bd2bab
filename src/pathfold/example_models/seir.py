"""An epidemic in weekly counts of new cases, of which an unknown fraction is reported.

Susceptible, exposed and infectious people follow

    ds = -beta s i / N dt,  de = (beta s i / N - alpha e) dt,  di = (alpha e - gamma i) dt,  dc = alpha e dt

with a transmission rate that wanders, d log beta = kappa (log beta_0 - log beta) dt + sigma dW. The last component
counts those who fell ill and is set to zero after every report, so that at the end of a week it is what that week
brought. Reports are negative binomial with mean rho c and dispersion k. The state is
[log s; log e; log i; log beta; c]; noise enters one of the five components, and none of them is observed as it is.

A transmission rate that wanders in an epidemic model: Dureau, Kalogeropoulos and Baguelin (2013), "Capturing the
time-varying drivers of an epidemic using stochastic dynamical systems".
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood, simulate

POPULATION = 1e6
TRUTH = {"beta_0": 3.0, "gamma": 1.4, "sigma": 0.3, "rho": 0.3, "k": 20.0, "e_0": 100.0}
ALPHA, KAPPA = 1.75, 0.2  # a week; people are infectious after four days, the rate reverts to its mean in five weeks


def drift(x, z):
    s, e, i = jnp.exp(x[:3])
    infection = jnp.exp(x[3]) * i / POPULATION
    return jnp.array(
        [
            -infection,
            infection * s / e - ALPHA,
            ALPHA * e / i - z["gamma"],
            KAPPA * (jnp.log(z["beta_0"]) - x[3]),
            ALPHA * e,
        ]
    )


def reported() -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.zeros((5, 1)).at[3, 0].set(z["sigma"]),
        parameters={
            "beta_0": dist.LogNormal(1.0, 0.4),
            "gamma": dist.LogNormal(0.3, 0.3),
            "sigma": dist.LogNormal(-1.0, 0.5),
            "rho": dist.Beta(3.0, 7.0),
            "k": dist.LogNormal(3.0, 0.7),
            "e_0": dist.LogNormal(4.5, 0.7),
        },
        initial_state=lambda z: [
            np.log(POPULATION),
            jnp.log(z["e_0"]),
            jnp.log(z["e_0"]),
            dist.Normal(jnp.log(z["beta_0"]), z["sigma"] / np.sqrt(2 * KAPPA)),
            0.0,
        ],
        observation=Likelihood(lambda x, z: dist.NegativeBinomial2(z["rho"] * x[4], z["k"])),
        accumulators=("cases of the week",),
        states=("log susceptible", "log exposed", "log infectious", "log transmission rate", "cases of the week"),
        observed=("reports",),
    )


def data() -> Observations:
    """Simulate thirty weekly reports, of which two are missing."""
    reports = simulate(reported(), TRUTH, np.arange(1, 31), steps_per_interval=100, seed=4)
    return Observations(reports.times, np.where(np.isin(reports.times, (9, 17))[:, None], np.nan, reports.values))


EXAMPLE = Example(
    name="seir",
    summary="An epidemic in weekly counts of which a fraction is reported, with a transmission rate that wanders.",
    reference="Dureau, Kalogeropoulos and Baguelin 2013",
    model=reported,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
    natural=lambda x: np.concatenate([np.exp(x[..., :4]), x[..., 4:]], axis=-1),
)
