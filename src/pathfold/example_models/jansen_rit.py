"""Jansen and Rit's model of a piece of cortex: six states, of which an electroencephalogram shows one difference.

Pyramidal cells (x_0), excitatory (x_1) and inhibitory (x_2) feedback upon them, and their rates of change,

    dx_i = x_{3+i} dt,
    dx_3 = (A a S(x_1 - x_2) - 2 a x_3 - a^2 x_0) dt,
    dx_4 = (A a (mu + 0.8 C S(C x_0)) - 2 a x_4 - a^2 x_1) dt + sigma dW,
    dx_5 = (B b C / 4 S(C x_0 / 4) - 2 b x_5 - b^2 x_2) dt,

with S(x) = nu / (1 + exp(r (6 - x))), are the stochastic model of Ableidinger, Buckwar and Hinterleitner (2017), "A
stochastic version of the Jansen and Rit neural mass model". Time is in units of 10 ms, potentials are in mV. Buckwar,
Tamborrino and Tubikanec (2020), "Spectral density-based and measure-preserving ABC for partially observed diffusion
processes", infer the same sigma, mu and C from the same y = x_1 - x_2, seen without noise; they have a little noise
in x_3 and x_5 as well. Here noise enters one state of six.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Noiseless, simulate
from pathfold.schemes import StrongOrder1p5

TRUTH = {"sigma": 2.0, "mu": 2.2, "C": 135.0}
A, B, a, b = 3.25, 22.0, 1.0, 0.5  # mV, and per 10 ms
NU, R = 0.05, 0.56  # spikes per 10 ms, per mV
CELLS = ("pyramidal", "excitatory", "inhibitory")
TYPICAL = [0.08, 18.0, 12.0, 0.0, 0.0, 0.0]


def spikes(potential):
    return NU * jax.nn.sigmoid(R * (potential - 6.0))


def drift(x, z):
    force = jnp.array(
        [
            A * a * spikes(x[1] - x[2]),
            A * a * (z["mu"] + 0.8 * z["C"] * spikes(z["C"] * x[0])),
            B * b * 0.25 * z["C"] * spikes(0.25 * z["C"] * x[0]),
        ]
    )
    rates = jnp.array([a, a, b])
    return jnp.concatenate([x[3:], force - 2.0 * rates * x[3:] - rates**2 * x[:3]])


def noiseless() -> DiffusionModel:
    """Return the model with y = x_1 - x_2 observed."""
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.zeros((6, 1)).at[4, 0].set(z["sigma"]),
        parameters={
            "sigma": dist.LogNormal(0.5, 0.5),
            "mu": dist.LogNormal(0.7, 0.5),
            "C": dist.LogNormal(np.log(135.0), 0.2),
        },
        initial_state=dist.Normal(jnp.array(TYPICAL), jnp.array([0.03, 5.0, 5.0, 0.03, 4.0, 4.0])),
        observation=Noiseless(lambda x, z: x[1:2] - x[2:3]),
        scheme=StrongOrder1p5(),
        states=(*CELLS, *(f"change of {cells}" for cells in CELLS)),
        observed=("EEG",),
    )


def data() -> Observations:
    """Simulate one second, observed every 5 ms."""
    times = 0.5 * np.arange(1, 201)
    return simulate(noiseless(), TRUTH, times, initial_state=TYPICAL, steps_per_interval=50, seed=1)


EXAMPLE = Example(
    name="jansen_rit",
    summary="An electroencephalogram of a piece of cortex: six states, noise in one, one difference seen exactly.",
    reference="Ableidinger, Buckwar and Hinterleitner 2017; Buckwar, Tamborrino and Tubikanec 2020",
    model=noiseless,
    data=data,
    steps_per_interval=4,
    truth=TRUTH,
)
