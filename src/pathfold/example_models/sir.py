"""An epidemic in a closed population: susceptible, infected and recovered, with a contact rate that wanders.

With s susceptible and i infected of N people, and a contact rate c,

    ds = -c s i / N dt + sqrt(c s i / N) dW_0,
    di = (c s i / N - gamma i) dt - sqrt(c s i / N) dW_0 + sqrt(gamma i) dW_1,
    dx_2 = alpha (beta - x_2) dt + sigma dW_2,  x_2 = log c.

The state is x = [log s; log i; log c]. What is observed is the number of people in bed, y = exp(x_1) + sigma_y w, once
a day for 14 days (paper, section on the SIR model and its appendix; Ryder et al. 2018; `datasets.influenza` says where
the data come from).
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold import datasets
from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise
from pathfold.schemes import EulerMaruyama

POPULATION = 763.0


def data() -> Observations:
    """Return the 14 daily counts, the first a day after the initial state."""
    table = datasets.influenza()
    return Observations(table["day"].to_numpy(), table["in_bed"].to_numpy())


def noisy(*, sigma_y: float | None = None) -> DiffusionModel:
    """Return the model with the priors of the paper's text; `sigma_y` is fixed if a number is given."""
    reversion = {"alpha": dist.LogNormal(0.0, 1.0), "sigma": dist.LogNormal(-3.0, 1.0)}
    return _model(drift, diffusion, reversion, sigma_y)


def noisy_correlated(correlation: float = 0.5, *, sigma_y: float | None = None) -> DiffusionModel:
    """Return the model with the prior of the authors' code, where log alpha and log sigma are correlated.

    The paper does not say so. The two are one parameter, `alpha_sigma`.
    """
    covariance = jnp.array([[1.0, correlation], [correlation, 1.0]])
    logarithms = dist.MultivariateNormal(jnp.array([0.0, -3.0]), covariance)

    def apart(z):
        return {**z, "alpha": z["alpha_sigma"][0], "sigma": z["alpha_sigma"][1]}

    return _model(
        lambda x, z: drift(x, apart(z)),
        lambda x, z: diffusion(x, apart(z)),
        {"alpha_sigma": dist.TransformedDistribution(logarithms, dist.transforms.ExpTransform())},
        sigma_y,
    )


def _model(
    drift: Callable[..., Any], diffusion: Callable[..., Any], reversion: dict[str, Any], sigma_y: float | None
) -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=diffusion,
        parameters={
            "gamma": dist.LogNormal(0.0, 1.0),
            **reversion,
            "beta": dist.Normal(0.0, 1.0),
            "sigma_y": dist.LogNormal(0.0, 1.0) if sigma_y is None else sigma_y,
        },
        initial_state=[np.log(762.0), np.log(1.0), dist.Normal(0.0, 1.0)],
        observation=GaussianNoise(lambda x, z: jnp.exp(x[1:2]), "sigma_y"),
        scheme=EulerMaruyama(),
        states=("log susceptible", "log infected", "log contact rate"),
        observed=("in bed",),
    )


def drift(x, z):
    """Return the drift of the logarithms, by Ito's lemma; that of log s is -c i / N - 1/2 (c i / N) / s."""
    s, i, c = jnp.exp(x)
    infection = c / POPULATION  # a day, for each pair of a susceptible and an infected person
    return jnp.array(
        [
            -infection * i - 0.5 * infection * i / s,
            infection * s - z["gamma"] - 0.5 * (infection * s + z["gamma"]) / i,
            z["alpha"] * (z["beta"] - x[2]),
        ]
    )


def diffusion(x, z):
    """Return the diffusion of the logarithms, with columns for infection, recovery and the contact rate."""
    s, i, c = jnp.exp(x)
    infection = jnp.sqrt(c * s * i / POPULATION)
    return jnp.array(
        [
            [infection / s, 0.0, 0.0],
            [-infection / i, jnp.sqrt(z["gamma"] / i), 0.0],
            [0.0, 0.0, z["sigma"]],
        ]
    )


EXAMPLE = Example(
    name="sir",
    summary="An influenza outbreak in a boarding school with a contact rate that wanders; real data, unknown noise.",
    reference="Ryder et al. 2018; Graham, Thiery and Beskos 2022",
    model=noisy,
    data=data,
    steps_per_interval=20,
    natural=np.exp,
    observed={1: 0},
)
