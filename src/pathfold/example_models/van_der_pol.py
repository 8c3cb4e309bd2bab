"""Relaxation oscillations (van der Pol 1926), driven by noise: slow creeping and sudden leaps.

    dx_0 = x_1 dt,  dx_1 = (mu (1 - x_0^2) x_1 - omega^2 x_0) dt + sigma dW.

With large mu the system is stiff: where it creeps, at |x_0| near 2, the velocity relaxes at rate 3 mu, a hundred
times faster than the position moves. The position is seen with Gaussian noise, the velocity is not seen.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, simulate
from pathfold.schemes import StrongOrder1p5

TRUTH = {"mu": 5.0, "omega": 1.0, "sigma": 0.5}
OBSERVATION_SCALE = 0.1


def drift(x, z):
    return jnp.array([x[1], z["mu"] * (1.0 - x[0] ** 2) * x[1] - z["omega"] ** 2 * x[0]])


def noisy() -> DiffusionModel:
    """Return the model with y = x_0 + 0.1 w observed."""
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={
            "mu": dist.LogNormal(1.0, 0.7),
            "omega": dist.LogNormal(0.0, 0.3),
            "sigma": dist.LogNormal(-0.5, 0.7),
        },
        initial_state=dist.Normal(jnp.array([1.5, 0.0]), jnp.array([1.0, 0.5])),
        observation=GaussianNoise(lambda x, z: x[:1], OBSERVATION_SCALE),
        scheme=StrongOrder1p5(),
        states=("position", "velocity"),
        observed=("position",),
    )


def data() -> Observations:
    times = 0.4 * np.arange(1, 101)
    return simulate(noisy(), TRUTH, times, initial_state=[2.0, 0.0], steps_per_interval=200, seed=1)


EXAMPLE = Example(
    name="van_der_pol",
    summary="Relaxation oscillations, stiff, of which the position is seen through noise and the velocity is not.",
    reference="van der Pol 1926",
    model=noisy,
    data=data,
    steps_per_interval=20,
    truth=TRUTH,
    observed={0: 0},
)
