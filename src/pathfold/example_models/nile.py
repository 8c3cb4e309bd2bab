"""The flow of the Nile: a level that wanders, measured once a year.

    dx = sigma dW,  y = x + tau w.

This is the local level model, whose likelihood a Kalman filter gives exactly. The data are the flow at Aswan
(`datasets.nile`; Cobb 1978), for which Durbin and Koopman (2001), "Time series analysis by state space methods", find
the maximum of the likelihood at sigma = 38.3, tau = 122.9.
"""

import jax.numpy as jnp
import numpyro.distributions as dist

from pathfold import datasets
from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise


def noisy() -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: jnp.zeros(1),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={"sigma": dist.LogNormal(3.5, 1.0), "tau": dist.LogNormal(4.5, 1.0)},
        initial_state=dist.Normal(jnp.full(1, 1000.0), 300.0),
        observation=GaussianNoise(lambda x, z: x, "tau"),
        states=("level",),
        observed=("flow",),
    )


def data() -> Observations:
    """Return the flow, with times in years since 1871."""
    table = datasets.nile()
    return Observations(table["year"].to_numpy() - 1871, table["flow"].to_numpy())


EXAMPLE = Example(
    name="nile",
    summary="The yearly flow of the Nile: a level that wanders, two unknown noises; real data.",
    reference="Cobb 1978; Durbin and Koopman 2001",
    model=noisy,
    data=data,
    steps_per_interval=1,
    observed={0: 0},
)
