"""Predators and prey as a chemical Langevin equation (Boys, Wilkinson and Kirkwood 2008).

Prey y_0 are born at rate c_1 y_0, predation turns prey into predators y_1 at rate c_2 y_0 y_1, and predators die at
rate c_3 y_1. As reactions, with their rate constants, these are

    prey -> 2 prey (c_1),  prey + predators -> 2 predators (c_2),  predators -> 0 (c_3).

The state is x = log y.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless, Observation, Reactions, simulate
from pathfold.schemes import EulerMaruyama

TRUTH = {"c_1": 0.5, "c_2": 0.0025, "c_3": 0.3}
INITIAL_COUNTS = {"prey": 71.0, "predators": 79.0}
OBSERVATION_SCALE = 10.0
NETWORK = Reactions(
    {"birth": "prey -> 2 prey", "predation": "prey + predators -> 2 predators", "death": "predators -> 0"},
    rates={"birth": "c_1", "predation": "c_2", "death": "c_3"},
)


def noiseless() -> DiffusionModel:
    """Return the model with both species counted exactly."""
    return _model(Noiseless(lambda x, z: jnp.exp(x)), NETWORK.species)


def noisy(scale: float = OBSERVATION_SCALE) -> DiffusionModel:
    """Return the model with the prey alone observed, as y_0 + scale w."""
    return _model(GaussianNoise(lambda x, z: jnp.exp(x[:1]), scale), NETWORK.species[:1])


def data(model: DiffusionModel) -> Observations:
    return simulate(model, TRUTH, np.arange(1, 41), steps_per_interval=200, seed=1)


def _model(observation: Observation, observed: tuple[str, ...]) -> DiffusionModel:
    return DiffusionModel(
        drift=NETWORK.drift,
        diffusion=NETWORK.diffusion,
        parameters={
            "c_1": dist.LogNormal(-1.0, 1.0),
            "c_2": dist.LogNormal(-6.0, 1.0),
            "c_3": dist.LogNormal(-1.0, 1.0),
        },
        initial_state=INITIAL_COUNTS,
        observation=observation,
        scheme=EulerMaruyama(),
        states=NETWORK.species,
        observed=observed,
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
