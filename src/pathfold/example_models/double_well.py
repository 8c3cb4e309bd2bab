"""A particle in a potential with two wells, seen through noise.

    dx = theta x (mu - x^2) dt + sigma dW.

The wells are at +-sqrt(mu). Values as Archambeau, Opper, Shen, Cornford and Shawe-Taylor (2008), "Variational inference
for diffusion processes", study them: drift 4 x (1 - x^2), observation noise of standard deviation 0.2.
"""

import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, simulate
from pathfold.schemes import StrongOrder1p5

TRUTH = {"theta": 4.0, "mu": 1.0, "sigma": 0.87}
OBSERVATION_SCALE = 0.2


def noisy(scale: float = OBSERVATION_SCALE) -> DiffusionModel:
    """Return the model with y = x + scale w observed."""
    return DiffusionModel(
        drift=lambda x, z: z["theta"] * x * (z["mu"] - x**2),
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        parameters={
            "theta": dist.LogNormal(1.0, 0.7),
            "mu": dist.LogNormal(0.0, 0.5),
            "sigma": dist.LogNormal(0.0, 0.7),
        },
        initial_state=dist.Normal(np.zeros(1), 1.0),
        observation=GaussianNoise(lambda x, z: x, scale),
        scheme=StrongOrder1p5(),
        states=("position",),
        observed=("position",),
    )


def data() -> Observations:
    return simulate(noisy(), TRUTH, 0.2 * np.arange(1, 201), initial_state=[1.0], steps_per_interval=200, seed=1)


EXAMPLE = Example(
    name="double_well",
    summary="A particle that hops between two wells, seen through noise.",
    reference="Archambeau et al. 2008",
    model=noisy,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
    observed={0: 0},
)
