"""Oscillators that fall into step: the model of Kuramoto (1975), with noise.

    dx_i = (omega_i + K / N sum_j sin(x_j - x_i)) dt + sigma dW_i,

phases of N oscillators whose own frequencies omega_i are normal with mean Omega and spread S; the frequencies have a
prior that depends on other parameters. Phases are seen with Gaussian noise, counted on over full turns. Kuramoto,
"Self-entrainment of a population of coupled non-linear oscillators"; with noise, Sakaguchi (1988), "Cooperative
phenomena in coupled oscillator systems under external fields". Any number of oscillators.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, simulate

OSCILLATORS = 6
TRUTH = {"Omega": 2.0, "S": 0.5, "K": 1.2, "sigma": 0.3, "omega": [1.3, 1.7, 1.9, 2.1, 2.3, 2.7]}
OBSERVATION_SCALE = 0.1


def drift(x, z):
    """Return the drift, with the sum over sines by the addition theorem."""
    s, c = jnp.sin(x), jnp.cos(x)
    return z["omega"] + z["K"] * (c * s.mean() - s * c.mean())


def noisy(oscillators: int = OSCILLATORS) -> DiffusionModel:
    phases = tuple(f"phase {i}" for i in range(oscillators))
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(oscillators),
        parameters={
            "Omega": dist.Normal(2.0, 1.0),
            "S": dist.LogNormal(-0.7, 0.5),
            "K": dist.LogNormal(0.0, 0.7),
            "sigma": dist.LogNormal(-1.0, 0.5),
            "omega": lambda z: dist.Normal(jnp.full(oscillators, z["Omega"]), z["S"]),
        },
        initial_state=dist.Normal(jnp.zeros(oscillators), 2.0),
        observation=GaussianNoise(lambda x, z: x, OBSERVATION_SCALE),
        states=phases,
        observed=phases,
    )


def data() -> Observations:
    times, start = 0.5 * np.arange(1, 31), np.linspace(-2.0, 2.0, OSCILLATORS)
    return simulate(noisy(), TRUTH, times, initial_state=start, steps_per_interval=100, seed=1)


EXAMPLE = Example(
    name="kuramoto",
    summary="Coupled oscillators with frequencies of their own, which have a common prior.",
    reference="Kuramoto 1975; Sakaguchi 1988",
    model=noisy,
    data=data,
    steps_per_interval=5,
    truth=TRUTH,
    observed={i: i for i in range(OSCILLATORS)},
)
