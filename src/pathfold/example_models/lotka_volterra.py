"""Predators and prey as a chemical Langevin equation (Boys, Wilkinson and Kirkwood 2008).

Prey y_0 are born at rate c_1 y_0, predation turns prey into predators y_1 at rate c_2 y_0 y_1, and predators die at
rate c_3 y_1. The state is x = log y.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.example_models.example import Example
from pathfold.example_models.reactions import langevin
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless, Observation, Observations, simulate
from pathfold.schemes import EulerMaruyama

TRUTH = {"c_1": 0.5, "c_2": 0.0025, "c_3": 0.3}
INITIAL_COUNTS = [71.0, 79.0]
OBSERVATION_SCALE = 10.0
STOICHIOMETRY = [[1, -1, 0], [0, 1, -1]]


def hazards(y, z):
    return jnp.array([z["c_1"] * y[0], z["c_2"] * y[0] * y[1], z["c_3"] * y[1]])


def noiseless() -> DiffusionModel:
    """Both species counted exactly."""
    return _model(Noiseless(lambda x, z: jnp.exp(x)))


def noisy(scale: float = OBSERVATION_SCALE) -> DiffusionModel:
    """Prey alone, y_0 + scale w."""
    return _model(GaussianNoise(lambda x, z: jnp.exp(x[:1]), scale))


def data(model: DiffusionModel) -> Observations:
    return simulate(model, TRUTH, np.arange(1, 41), steps_per_interval=200, seed=1)


def _model(observation: Observation) -> DiffusionModel:
    drift, diffusion = langevin(STOICHIOMETRY, hazards)
    return DiffusionModel(
        drift=drift,
        diffusion=diffusion,
        parameters={
            "c_1": dist.LogNormal(-1.0, 1.0),
            "c_2": dist.LogNormal(-6.0, 1.0),
            "c_3": dist.LogNormal(-1.0, 1.0),
        },
        initial_state=np.log(INITIAL_COUNTS),
        observation=observation,
        scheme=EulerMaruyama(),
    )


EXAMPLE = Example(
    name="lotka_volterra",
    summary="Predators and prey, both counted exactly at long intervals.",
    reference="Boys, Wilkinson and Kirkwood 2008",
    model=noiseless,
    data=lambda: data(noiseless()),
    steps_per_interval=20,
    truth=TRUTH,
    natural=np.exp,
    observed={0: 0, 1: 1},
)
