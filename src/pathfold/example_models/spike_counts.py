"""Spikes of several neurons that follow one hidden state, which a stimulus drives.

    dx = (-rate x + alpha stimulus(t)) dt + sqrt(2 rate) dW,  y_c ~ Poisson(BIN exp(mu_c + beta_c x)),

counts of spikes of neuron c in bins of 50 ms. The noise gives x a variance of 1 at rest, which fixes its unit; mu and
beta are vectors, with an entry for each neuron. Smith and Brown (2003), "Estimating a state-space model from point
process observations", have the same model in discrete time. Times are in seconds.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Input, Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood, simulate

TRUTH = {
    "rate": 3.0,
    "alpha": 12.0,
    "mu": [2.0, 2.5, 3.0, 2.2, 1.5],
    "beta": [0.8, 0.5, 0.4, 0.6, 1.0],
}
NEURONS, BIN = 5, 0.05
ONSETS = np.arange(0.5, 8.0, 2.0)  # of stimuli that last a quarter of a second
STIMULUS = Input([0.0, *np.sort([*ONSETS, *(ONSETS + 0.25)])], [0.0, *[1.0, 0.0] * len(ONSETS)], kind="hold")


def counted() -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z, t, inputs: -z["rate"] * x + z["alpha"] * inputs["stimulus"],
        diffusion=lambda x, z: jnp.sqrt(2.0 * z["rate"]) * jnp.eye(1),
        parameters={
            "rate": dist.LogNormal(1.0, 0.5),
            "alpha": dist.LogNormal(2.0, 0.7),
            "mu": dist.Normal(jnp.full(NEURONS, 2.0), 1.0),
            "beta": dist.LogNormal(jnp.full(NEURONS, -0.7), 0.5),
        },
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=Likelihood(lambda x, z: dist.Poisson(BIN * jnp.exp(z["mu"] + z["beta"] * x[0]))),
        inputs={"stimulus": STIMULUS},
        states=("drive",),
        observed=tuple(f"neuron {c}" for c in range(NEURONS)),
    )


def data() -> Observations:
    return simulate(counted(), TRUTH, BIN * np.arange(1, 161), steps_per_interval=20, seed=1)


EXAMPLE = Example(
    name="spike_counts",
    summary="Spikes of five neurons: counts of a common hidden state that a stimulus drives, vector parameters.",
    reference="Smith and Brown 2003",
    model=counted,
    data=data,
    steps_per_interval=2,
    truth=TRUTH,
)
