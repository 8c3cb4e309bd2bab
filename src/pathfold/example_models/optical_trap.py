"""A particle that light holds in thin gas: its position is seen exactly, its velocity is not seen.

Position x_0 in units of 100 nm and velocity x_1, with time in microseconds,

    dx_0 = x_1 dt,  dx_1 = (-Omega^2 (1 + xi x_0^2) x_0 - Gamma x_1) dt + sigma dW.

The trap is an oscillator of frequency Omega that the gas damps and shakes; it softens away from its centre (xi < 0),
so that large oscillations are slower. Gieseler, Novotny and Quidant (2013), "Thermal nonlinearities in a
nanomechanical oscillator"; frequency (125 kHz) and xi (-10 per square micrometre) are of the order of theirs.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Noiseless, simulate
from pathfold.schemes import StrongOrder1p5

TRUTH = {"Omega": 0.785, "Gamma": 0.06, "xi": -0.1, "sigma": 0.16}


def drift(x, z):
    return jnp.array([x[1], -(z["Omega"] ** 2) * (1.0 + z["xi"] * x[0] ** 2) * x[0] - z["Gamma"] * x[1]])


def noiseless() -> DiffusionModel:
    """Return the model with y = x_0 observed."""
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={
            "Omega": dist.LogNormal(0.0, 0.5),
            "Gamma": dist.LogNormal(-3.0, 1.0),
            "xi": dist.Normal(0.0, 0.2),
            "sigma": dist.LogNormal(-2.0, 0.7),
        },
        initial_state=dist.Normal(jnp.zeros(2), 0.7),
        observation=Noiseless(lambda x, z: x[:1]),
        scheme=StrongOrder1p5(),
        states=("position", "velocity"),
        observed=("position",),
    )


def data() -> Observations:
    times = np.arange(1.0, 201.0)
    return simulate(noiseless(), TRUTH, times, initial_state=[0.7, 0.0], steps_per_interval=100, seed=1)


EXAMPLE = Example(
    name="optical_trap",
    summary="A particle in an optical trap that softens, with its position seen exactly and its velocity not at all.",
    reference="Gieseler, Novotny and Quidant 2013",
    model=noiseless,
    data=data,
    steps_per_interval=5,
    truth=TRUTH,
    observed={0: 0},
)
