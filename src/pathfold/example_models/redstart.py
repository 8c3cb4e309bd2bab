"""Counts of a bird: a population that grows towards the capacity of its land, counted once a year along one route.

The logarithm of the density follows Gompertz' law with noise of the environment, and counts are Poisson,

    dx = theta (mu - x) dt + sigma dW,  y ~ Poisson(exp(x)).

Counts of American redstarts on one route of the North American Breeding Bird Survey, 1966 to 1995, as printed by
Dennis, Ponciano, Lele, Taper and Staples (2006), "Estimating density dependence, process noise, and observation error",
who assume log-normal errors instead.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood, Observations

COUNTS = [18, 10, 9, 14, 17, 14, 5, 10, 9, 5, 11, 11, 4, 5, 4, 8, 2, 3, 9, 2, 4, 7, 4, 1, 2, 4, 11, 11, 9, 6]


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
    )


def data() -> Observations:
    """Return the counts, with times in years since the first."""
    return Observations(np.arange(len(COUNTS)), COUNTS)


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
