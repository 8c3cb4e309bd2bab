"""Heston's (1993) model of a price whose variance is a diffusion that is not observed.

With price s and variance v,

    ds = mu s dt + sqrt(v) s dW_0,  dv = kappa (theta - v) dt + xi sqrt(v) (rho dW_0 + sqrt(1 - rho^2) dW_1),

the variance is stationary with a gamma distribution of mean theta and shape nu = 2 kappa theta / xi^2, and stays away
from zero when nu > 1 (Feller's condition). With nu in the place of xi, Ito's lemma gives for x_0 = log s and
x_1 = log(v / theta)

    dx_0 = (mu - v / 2) dt + sqrt(v) dW_0,
    dx_1 = kappa ((1 - 1 / nu) exp(-x_1) - 1) dt + sqrt(2 kappa / nu) exp(-x_1 / 2) (rho dW_0 + sqrt(1 - rho^2) dW_1),

in which the variance is positive at every step of any discretisation. The prior of nu is mostly above 1, since a
variance that reaches zero has no logarithm for fine steps to follow; near zero they have to be short as well (with five
a week instead of ten, x_1 leaps by more than 3 in a single step in 1.4 % of the posterior draws, not in 0.5 %). Time is
in years; x_0 is observed exactly.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Noiseless, simulate
from pathfold.schemes import EulerMaruyama

TRUTH = {"mu": 0.1, "kappa": 4.0, "theta": 0.04, "nu": 3.0, "rho": -0.6}
INITIAL_STATE = [0.0, 0.0]


def drift(x, z):
    return jnp.array(
        [
            z["mu"] - 0.5 * z["theta"] * jnp.exp(x[1]),
            z["kappa"] * ((1.0 - 1.0 / z["nu"]) * jnp.exp(-x[1]) - 1.0),
        ]
    )


def diffusion(x, z):
    price, variance = (
        jnp.sqrt(z["theta"]) * jnp.exp(0.5 * x[1]),
        jnp.sqrt(2.0 * z["kappa"] / z["nu"]) * jnp.exp(-0.5 * x[1]),
    )
    return jnp.array([[price, 0.0], [variance * z["rho"], variance * jnp.sqrt(1.0 - z["rho"] ** 2)]])


def noiseless() -> DiffusionModel:
    """Return the model with y = log s observed, relative to its first value."""
    return DiffusionModel(
        drift=drift,
        diffusion=diffusion,
        parameters={
            "mu": dist.Normal(0.0, 0.3),
            "kappa": dist.LogNormal(1.0, 0.5),
            "theta": dist.LogNormal(-3.0, 0.5),
            "nu": dist.LogNormal(1.2, 0.5),
            "rho": dist.Uniform(-1.0, 1.0),
        },
        initial_state=[0.0, dist.Normal(0.0, 0.5)],
        observation=Noiseless(lambda x, z: x[:1]),
        scheme=EulerMaruyama(),
        states=("log price", "log relative variance"),
        observed=("log price",),
    )


def data() -> Observations:
    """Simulate five years of weekly prices."""
    times = np.arange(1, 261) / 52
    return simulate(noiseless(), TRUTH, times, initial_state=INITIAL_STATE, steps_per_interval=100, seed=2)


EXAMPLE = Example(
    name="heston",
    summary="A price observed without noise, driven by a variance that is not observed.",
    reference="Heston 1993",
    model=noiseless,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
    observed={0: 0},
)
