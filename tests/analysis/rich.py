"""A model with one of everything that predictions have to do with, and a panel of two series for it."""

from __future__ import annotations

import warnings
from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr

import pathfold as pf

HEAT = pf.Input([0.0, 50.0], [0.0, 5.0])
DOSES = {"dose": ([0.0, 1.3], [0.5, 0.8])}
STEPS = 4


@cache
def model() -> pf.DiffusionModel:
    """Time, an accumulator, an event, an input, what varies and what follows; a Gaussian observation and a count."""
    return pf.DiffusionModel(
        drift=lambda x, z, t, inputs: jnp.array(
            [z["growth"] + jnp.sin(t) + inputs["heat"] - 0.5 * x[0], jnp.exp(x[0])]
        ),
        diffusion=lambda x, z: jnp.array([[z["sigma"]], [0.0]]),
        parameters={
            "typical": dist.Normal(0.0, 1.0),
            "growth": pf.Varying(lambda z: dist.Normal(z["typical"], 0.3)),
            "sigma": dist.LogNormal(-1.0, 0.5),
            "twice": lambda z: 2.0 * z["typical"],
        },
        initial_state=[dist.Normal(0.0, 0.5), 0.0],
        observation=[
            pf.GaussianNoise(lambda x, z: x[:1] + z["twice"], 0.2),
            pf.Likelihood(lambda x, z: dist.Poisson(x[1] + 0.1)),
        ],
        accumulators="eaten",
        events={"dose": lambda x, z, amount: x.at[0].add(amount)},
        inputs={"heat": HEAT},
        states=("log amount", "eaten"),
        observed=("size", "count"),
    )


@cache
def panel() -> dict[str, pf.Observations]:
    """One series with doses, missing values and a time at which all are missing; one with an input of its own."""
    first = np.array([[0.3, np.nan], [0.4, 1.0], [np.nan, np.nan], [1.1, 3.0]])
    second = np.array([[0.1, 2.0], [0.2, 0.0], [-0.1, 1.0]])
    own = {"heat": pf.Input([0.0, 1.0], [0.3, 0.1], kind="hold")}
    return {
        "fed": pf.Observations([0.5, 1.0, 1.5, 2.0], first, events=DOSES),
        "other": pf.Observations([0.75, 1.5, 2.25], second, initial_time=0.25, inputs=own),
    }


@cache
def run() -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pf.sample(
            model(), panel(), steps_per_interval=STEPS, chains=2, warmup=40, draws=30, seed=1, progress=False
        )
