"""Hares and lynxes, prey and predator, whose numbers are known from the pelts that trappers brought in.

In logarithms, with noise in how fast each species grows,

    dx_0 = (alpha - beta exp(x_1)) dt + sigma_0 dW_0,  dx_1 = (-gamma + delta exp(x_0)) dt + sigma_1 dW_1,

and a survey with log-normal error, y ~ LogNormal(x, tau). The pelts, in thousands, are `datasets.hare_lynx`.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold import datasets
from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood


def surveyed() -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: jnp.array(
            [z["alpha"] - z["beta"] * jnp.exp(x[1]), -z["gamma"] + z["delta"] * jnp.exp(x[0])]
        ),
        diffusion=lambda x, z: jnp.diag(z["sigma"]),
        parameters={
            "alpha": dist.LogNormal(-0.7, 0.5),
            "beta": dist.LogNormal(-3.5, 0.5),
            "gamma": dist.LogNormal(-0.2, 0.5),
            "delta": dist.LogNormal(-3.5, 0.5),
            "sigma": dist.LogNormal(jnp.full(2, -2.0), 0.7),
            "tau": dist.LogNormal(-1.5, 0.7),
        },
        initial_state=[dist.Normal(3.0, 1.0), dist.Normal(1.5, 1.0)],
        observation=Likelihood(lambda x, z: dist.LogNormal(x, z["tau"])),
        states=("log hares", "log lynxes"),
        observed=("hares", "lynxes"),
    )


def data() -> Observations:
    """Return the pelts of both species in thousands, with times in years since 1900."""
    table = datasets.hare_lynx()
    return Observations(table["year"].to_numpy() - 1900, table[["hares", "lynxes"]].to_numpy())


EXAMPLE = Example(
    name="hare_lynx",
    summary="Pelts of hares and lynxes: a predator and its prey, a survey with log-normal error; real data.",
    reference="Hewitt 1921; Howard 2009",
    model=surveyed,
    data=data,
    steps_per_interval=20,
    natural=np.exp,
    observed={0: 0, 1: 1},
)
