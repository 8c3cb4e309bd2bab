"""The short-term interest rate of Chan, Karolyi, Longstaff and Sanders (1992), seen exactly at irregular times.

    dr = kappa (mu - r) dt + sigma (r / R)^gamma R dW,

in per cent a year, with R = 5 %: sigma is how much a rate of R wanders in relation to itself, and gamma how this
depends on the level (1/2 in the model of Cox, Ingersoll and Ross, about 3/2 in the reference, "An empirical
comparison of alternative models of the short-term interest rate"). The model is written as it stands; `transform`
makes its state log r.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Noiseless, simulate
from pathfold.schemes import Milstein

TRUTH = {"kappa": 0.5, "mu": 6.0, "sigma": 0.3, "gamma": 1.2}
R = 5.0


def noiseless() -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: z["kappa"] * (z["mu"] - x),
        diffusion=lambda x, z: (z["sigma"] * R * (x / R) ** z["gamma"])[:, None],
        parameters={
            "kappa": dist.LogNormal(-1.0, 0.7),
            "mu": dist.LogNormal(1.7, 0.4),
            "sigma": dist.LogNormal(-1.5, 0.7),
            "gamma": dist.Normal(1.0, 0.5),
        },
        initial_state=dist.LogNormal(jnp.full(1, 1.7), 0.5),
        observation=Noiseless(lambda x, z: x),
        scheme=Milstein(),
        states=("rate",),
        observed=("rate",),
    ).transform(jnp.log, jnp.exp)


def data() -> Observations:
    """Simulate twenty years of rates, one on some day of each month, of which a quarter is missing."""
    rng = np.random.default_rng(1)
    months = np.sort(rng.choice(np.arange(1, 241), size=180, replace=False))
    times = (months + rng.uniform(-0.4, 0.4, size=180)) / 12
    return simulate(noiseless(), TRUTH, times, initial_state=[np.log(6.0)], steps_per_interval=100, seed=1)


EXAMPLE = Example(
    name="interest_rate",
    summary="An interest rate, exact, at irregular times; how its volatility depends on its level.",
    reference="Chan, Karolyi, Longstaff and Sanders 1992",
    model=noiseless,
    data=data,
    steps_per_interval=5,
    truth=TRUTH,
    natural=np.exp,
    observed={0: 0},
)
