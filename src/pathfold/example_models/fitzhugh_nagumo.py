"""The stochastic FitzHugh-Nagumo model of a spiking neuron, whose membrane potential x_0 is observed.

    dx_0 = (x_0 - x_0^3 - x_1) / epsilon dt,  dx_1 = (gamma x_0 - x_1 + beta) dt + sigma dW.

The model is hypoelliptic (Ditlevsen and Samson 2019). Equations, priors and scheme are those of the paper's appendix.
The prior mean of the initial state is [0; -beta], as in the reference runs this package is compared with; the paper's
appendix prints [0; beta].
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless, Observation, simulate
from pathfold.schemes import Scheme, StrongOrder1p5

TRUTH = {"sigma": 0.3, "epsilon": 0.1, "gamma": 1.5, "beta": 0.8}
INITIAL_STATE = [-0.5, 0.2]
OBSERVATION_SCALE = 0.1


def noiseless(scheme: Scheme = StrongOrder1p5()) -> DiffusionModel:  # noqa: B008, a frozen dataclass
    """Return the model with y = x_0 observed."""
    return observed_by(Noiseless(lambda x, z: x[:1]), scheme)


def noisy(scale: float | str = OBSERVATION_SCALE, scheme: Scheme = StrongOrder1p5()) -> DiffusionModel:  # noqa: B008
    """Return the model with y = x_0 + scale w observed."""
    return observed_by(GaussianNoise(lambda x, z: x[:1], scale), scheme)


def data(model: DiffusionModel, observations: int = 100, seed: int = 1) -> Observations:
    times = 0.2 * np.arange(1, observations + 1)
    return simulate(model, TRUTH, times, initial_state=INITIAL_STATE, steps_per_interval=1000, seed=seed)


def drift(x, z):
    return jnp.array([(x[0] - x[0] ** 3 - x[1]) / z["epsilon"], z["gamma"] * x[0] - x[1] + z["beta"]])


def diffusion(x, z):
    return jnp.array([[0.0], [z["sigma"]]])


def observed_by(observation: Observation, scheme: Scheme = StrongOrder1p5()) -> DiffusionModel:  # noqa: B008
    return DiffusionModel(
        drift=drift,
        diffusion=diffusion,
        parameters={
            "sigma": dist.LogNormal(0.0, 1.0),
            "epsilon": dist.LogNormal(0.0, 1.0),
            "gamma": dist.LogNormal(0.0, 1.0),
            "beta": dist.Normal(0.0, 1.0),
        },
        initial_state=lambda z: dist.Normal(jnp.array([0.0, -z["beta"]]), 1.0),
        observation=observation,
        scheme=scheme,
        states=("potential", "recovery"),
        observed=("potential",),
    )


EXAMPLE = Example(
    name="fitzhugh_nagumo",
    summary="A spiking neuron whose membrane potential is seen exactly, with noise in the recovery alone.",
    reference="Ditlevsen and Samson 2019; Graham, Thiery and Beskos 2022",
    model=noiseless,
    data=lambda: data(noiseless()),
    steps_per_interval=25,
    truth=TRUTH,
    observed={0: 0},
)
