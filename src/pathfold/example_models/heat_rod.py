"""The stochastic heat equation on a rod with four thermometers: sixteen modes, each stepped exactly.

    dT = (kappa T'' - loss T) dt + sigma dW(t, s)

for the temperature T(t, s) above that of the surroundings, along a rod of length 1 with insulated ends, with white
noise in time and space. In cosine modes, T = sum_k x_k phi_k with phi_0 = 1 and phi_k = sqrt(2) cos(pi k s), it is

    dx_k = -lambda_k x_k dt + sigma dW_k,  lambda_k = kappa (pi k)^2 + loss,

and the first sixteen are kept. A step of any length has the exact law

    x_k' = exp(-lambda_k delta) x_k + sigma sqrt((1 - exp(-2 lambda_k delta)) / (2 lambda_k)) v_k,

given as a `CustomScheme`, so that one step from observation to observation is enough, however fast the highest mode
decays. Cialenco (2018), "Statistical inference for SPDEs: an overview", has the same equation in the same modes.
The model is linear, so that a Kalman filter gives the likelihood exactly.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, simulate
from pathfold.schemes import CustomScheme

TRUTH = {"kappa": 0.03, "loss": 0.5, "sigma": 0.3}
MODES = 16
THERMOMETERS = np.array([0.1, 0.3, 0.6, 0.9])
OBSERVATION_SCALE = 0.05


def decay(z):
    return z["kappa"] * (np.pi * np.arange(MODES)) ** 2 + z["loss"]


def shapes(s):
    """Return the modes at places s (S,), an array (S, MODES)."""
    return np.where(np.arange(MODES) == 0, 1.0, np.sqrt(2.0)) * np.cos(np.pi * np.arange(MODES) * s[:, None])


def exact_step(x, z, v, delta, t):
    rates = decay(z)
    kept = jnp.exp(-rates * delta)
    return kept * x + z["sigma"] * jnp.sqrt((1.0 - kept**2) / (2.0 * rates)) * v


def noisy() -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: -decay(z) * x,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(MODES),
        parameters={
            "kappa": dist.LogNormal(-3.5, 0.7),
            "loss": dist.LogNormal(-0.7, 0.7),
            "sigma": dist.LogNormal(-1.0, 0.7),
        },
        initial_state=dist.Normal(jnp.zeros(MODES), 1.0 / (1.0 + jnp.arange(MODES))),
        observation=GaussianNoise(lambda x, z: shapes(THERMOMETERS) @ x, OBSERVATION_SCALE),
        scheme=CustomScheme(exact_step, MODES),
        states=tuple(f"mode {k}" for k in range(MODES)),
        observed=tuple(f"temperature at {s:g}" for s in THERMOMETERS),
    )


def data() -> Observations:
    """Simulate a rod that is warm at one end and cools."""
    start = np.array([1.0, 0.6] + (MODES - 2) * [0.0])
    return simulate(noisy(), TRUTH, 0.2 * np.arange(1, 51), initial_state=start, steps_per_interval=1, seed=1)


EXAMPLE = Example(
    name="heat_rod",
    summary="Heat along a rod: a stochastic partial differential equation in sixteen modes, with four thermometers.",
    reference="Cialenco 2018",
    model=noisy,
    data=data,
    steps_per_interval=1,
    truth=TRUTH,
)
