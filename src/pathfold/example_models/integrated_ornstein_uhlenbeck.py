"""The integrated Ornstein-Uhlenbeck process: a particle with friction, whose position x_0 is observed.

    dx_0 = x_1 dt,  dx_1 = -theta x_1 dt + sigma dW.

The process is hypoelliptic, since noise reaches the position only through the velocity x_1 (Ditlevsen and Sorensen
2004, "Inference for observations of integrated diffusion processes"). Given the parameters everything is jointly
Gaussian: a Kalman filter gives the likelihood exactly.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless, Observation, simulate
from pathfold.schemes import StrongOrder1p5

TRUTH = {"theta": 1.0, "sigma": 0.8}
INITIAL_STATE = [0.0, 0.5]
OBSERVATION_SCALE = 0.05


def noiseless() -> DiffusionModel:
    """Return the model with y = x_0 observed."""
    return _model(Noiseless(lambda x, z: x[:1]))


def noisy(scale: float = OBSERVATION_SCALE) -> DiffusionModel:
    """Return the model with y = x_0 + scale w observed."""
    return _model(GaussianNoise(lambda x, z: x[:1], scale))


def data(model: DiffusionModel) -> Observations:
    times = 0.3 * np.arange(1, 101)
    return simulate(model, TRUTH, times, initial_state=INITIAL_STATE, steps_per_interval=200, seed=1)


def _model(observation: Observation) -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], -z["theta"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={"theta": dist.LogNormal(0.0, 1.0), "sigma": dist.LogNormal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=observation,
        scheme=StrongOrder1p5(),
        states=("position", "velocity"),
        observed=("position",),
    )


EXAMPLE = Example(
    name="integrated_ornstein_uhlenbeck",
    summary="A particle with friction whose position is seen exactly and whose velocity is not seen.",
    reference="Ditlevsen and Sorensen 2004",
    model=noiseless,
    data=lambda: data(noiseless()),
    steps_per_interval=10,
    truth=TRUTH,
    observed={0: 0},
)
