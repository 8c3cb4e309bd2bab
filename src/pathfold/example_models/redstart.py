"""Counts of a bird: a population that grows towards the capacity of its land, counted once a year along one route.

The logarithm of the density follows Gompertz' law with noise of the environment, and counts are Poisson,

    dx = theta (mu - x) dt + sigma dW,  y ~ Poisson(exp(x)).

The counts (`datasets.redstart`) are those of Dennis, Ponciano, Lele, Taper and Staples (2006), "Estimating density
dependence, process noise, and observation error", who assume log-normal errors instead.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold import datasets
from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood


def counted() -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: z["theta"] * (z["mu"] - x),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "theta": dist.LogNormal(-1.0, 1.0),
            "mu": dist.Normal(2.0, 1.0),
            "sigma": dist.LogNormal(-1.0, 0.7),
        },
        initial_state=lambda z: dist.Normal(z["mu"], z["sigma"] / jnp.sqrt(2 * z["theta"])),
        observation=Likelihood(lambda x, z: dist.Poisson(jnp.exp(x))),
        states=("log density",),
        observed=("count",),
    )


def data() -> Observations:
    """Return the counts, with times in years since the first."""
    table = datasets.redstart()
    return Observations(table["year"].to_numpy() - 1966, table["count"].to_numpy())


EXAMPLE = Example(
    name="redstart",
    summary="Yearly counts of a bird: a population in logarithms, seen with Poisson error; real data.",
    reference="Dennis, Ponciano, Lele, Taper and Staples 2006",
    model=counted,
    data=data,
    steps_per_interval=10,
    natural=np.exp,
    observed={0: 0},
)
