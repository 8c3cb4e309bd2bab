"""The system of Lorenz (1996), a ring of states that drive their neighbours, with noise; every other one is observed.

    dx_i = ((x_{i+1} - x_{i-2}) x_{i-1} - x_i + F) dt + sigma dW_i,   i modulo X.

As a problem of inference: Vrettas, Opper and Cornford (2015), "Variational mean-field algorithm for efficient inference
in large systems of stochastic differential equations". Any number of states from four on.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, simulate
from pathfold.schemes import EulerMaruyama, Scheme

TRUTH = {"F": 8.0, "sigma": 1.0}
OBSERVATION_SCALE = 0.5
STATES = 5


def drift(x, z):
    return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + z["F"]


def noisy(states: int = STATES, scheme: Scheme | None = None) -> DiffusionModel:
    """Return the model with y = (x_0, x_2, ...) + 0.5 w observed."""
    sites = tuple(f"site {i}" for i in range(states))
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(states),
        parameters={"F": dist.Normal(8.0, 2.0), "sigma": dist.LogNormal(0.0, 0.5)},
        initial_state=dist.Normal(jnp.full(states, 2.5), 4.0),
        observation=GaussianNoise(lambda x, z: x[::2], OBSERVATION_SCALE),
        scheme=EulerMaruyama() if scheme is None else scheme,
        states=sites,
        observed=sites[::2],
    )


def data(states: int = STATES, observations: int = 40, seed: int = 1) -> Observations:
    times = 0.1 * np.arange(1, observations + 1)
    start = 2.5 + 3.0 * np.sin(np.arange(states))
    return simulate(noisy(states), TRUTH, times, initial_state=start, steps_per_interval=200, seed=seed)


EXAMPLE = Example(
    name="lorenz96",
    summary="A ring of states that drive their neighbours, every other one observed; any number of them.",
    reference="Lorenz 1996; Vrettas, Opper and Cornford 2015",
    model=noisy,
    data=data,
    steps_per_interval=20,
    truth=TRUTH,
    observed={0: 0, 2: 1, 4: 2},
)
