"""The Ornstein-Uhlenbeck process (Uhlenbeck and Ornstein 1930), a level that returns to its mean.

    dx = -theta (x - mu) dt + sigma dW.

Given the parameters, the Euler-Maruyama path and its observations are jointly Gaussian, so that a Kalman filter gives
the likelihood exactly.
"""

import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless, Observation, simulate
from pathfold.schemes import EulerMaruyama, Scheme

TRUTH = {"theta": 0.7, "mu": 1.0, "sigma": 0.5}
OBSERVATION_SCALE = 0.1


def noiseless(scheme: Scheme = EulerMaruyama()) -> DiffusionModel:  # noqa: B008, a frozen dataclass
    """Return the model with y = x observed."""
    return _model(Noiseless(lambda x, z: x), scheme)


def noisy(scale: float = OBSERVATION_SCALE, scheme: Scheme = EulerMaruyama()) -> DiffusionModel:  # noqa: B008
    """Return the model with y = x + scale w observed."""
    return _model(GaussianNoise(lambda x, z: x, scale), scheme)


def data(model: DiffusionModel) -> Observations:
    return simulate(model, TRUTH, 0.5 * np.arange(1, 101), steps_per_interval=200, seed=1)


def _model(observation: Observation, scheme: Scheme) -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: -z["theta"] * (x - z["mu"]),
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        parameters={"theta": dist.LogNormal(0.0, 1.0), "mu": dist.Normal(0.0, 1.0), "sigma": dist.LogNormal(0.0, 1.0)},
        initial_state=lambda z: dist.Normal(z["mu"], 1.0),
        observation=observation,
        scheme=scheme,
        states=("level",),
        observed=("level",),
    )


EXAMPLE = Example(
    name="ornstein_uhlenbeck",
    summary="Reversion to a mean, seen through noise of known scale.",
    reference="Uhlenbeck and Ornstein 1930",
    model=noisy,
    data=lambda: data(noisy()),
    steps_per_interval=10,
    truth=TRUTH,
    observed={0: 0},
)
