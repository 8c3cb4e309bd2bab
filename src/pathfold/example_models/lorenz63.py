"""The chaotic system of Lorenz (1963) with noise, one of its three components observed.

    dx_0 = s (x_1 - x_0) dt + sigma dW_0,
    dx_1 = (x_0 (r - x_2) - x_1) dt + sigma dW_1,
    dx_2 = (x_0 x_1 - b x_2) dt + sigma dW_2.

As a problem of inference: Vrettas, Opper and Cornford (2015), "Variational mean-field algorithm for efficient inference
in large systems of stochastic differential equations".
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, simulate
from pathfold.schemes import StrongOrder1p5

TRUTH = {"s": 10.0, "r": 28.0, "b": 8.0 / 3.0, "sigma": 3.0}
INITIAL_STATE = [-7.0, -7.0, 25.0]
OBSERVATION_SCALE = 1.0


def drift(x, z):
    return jnp.array([z["s"] * (x[1] - x[0]), x[0] * (z["r"] - x[2]) - x[1], x[0] * x[1] - z["b"] * x[2]])


def noisy(scale: float = OBSERVATION_SCALE) -> DiffusionModel:
    """Return the model with y = x_0 + scale w observed."""
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(3),
        parameters={
            "s": dist.LogNormal(2.3, 0.3),
            "r": dist.LogNormal(3.3, 0.3),
            "b": dist.LogNormal(1.0, 0.3),
            "sigma": dist.LogNormal(1.0, 0.5),
        },
        initial_state=dist.Normal(jnp.array([0.0, 0.0, 25.0]), 10.0),
        observation=GaussianNoise(lambda x, z: x[:1], scale),
        scheme=StrongOrder1p5(),
        states=("X", "Y", "Z"),
        observed=("X",),
    )


def data() -> Observations:
    times = 0.1 * np.arange(1, 81)
    return simulate(noisy(), TRUTH, times, initial_state=INITIAL_STATE, steps_per_interval=400, seed=1)


EXAMPLE = Example(
    name="lorenz63",
    summary="A chaotic system of three components with noise, one of them observed.",
    reference="Lorenz 1963; Vrettas, Opper and Cornford 2015",
    model=noisy,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
    observed={0: 0},
)
