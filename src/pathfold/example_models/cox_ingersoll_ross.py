"""The Cox-Ingersoll-Ross process (1985), in its logarithm, with state-dependent noise.

For r > 0 with dr = kappa (mu - r) dt + sigma sqrt(r) dW, Ito's lemma gives for x = log r

    dx = ((kappa mu - sigma^2 / 2) exp(-x) - kappa) dt + sigma exp(-x / 2) dW,

which keeps r positive at every step of any discretisation. The transition of r is non-central chi-squared.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless, Observation, simulate
from pathfold.schemes import Milstein

TRUTH = {"kappa": 0.8, "mu": 1.0, "sigma": 0.4}
OBSERVATION_SCALE = 0.05


def noiseless() -> DiffusionModel:
    """Return the model with y = r observed."""
    return _model(Noiseless(lambda x, z: jnp.exp(x)))


def noisy(scale: float = OBSERVATION_SCALE) -> DiffusionModel:
    """Return the model with y = r + scale w observed."""
    return _model(GaussianNoise(lambda x, z: jnp.exp(x), scale))


def data(model: DiffusionModel) -> Observations:
    return simulate(model, TRUTH, 0.5 * np.arange(1, 101), initial_state=[0.0], steps_per_interval=200, seed=1)


def _model(observation: Observation) -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: (z["kappa"] * z["mu"] - 0.5 * z["sigma"] ** 2) * jnp.exp(-x) - z["kappa"],
        diffusion=lambda x, z: (z["sigma"] * jnp.exp(-0.5 * x))[:, None],
        parameters={
            "kappa": dist.LogNormal(0.0, 0.5),
            "mu": dist.LogNormal(0.0, 0.5),
            "sigma": dist.LogNormal(-1.0, 0.5),
        },
        initial_state=lambda z: dist.Normal(jnp.log(z["mu"])[None], 0.3),
        observation=observation,
        scheme=Milstein(),
        states=("log rate",),
        observed=("rate",),
    )


EXAMPLE = Example(
    name="cox_ingersoll_ross",
    summary="An interest rate that stays positive, with noise that grows with it, seen exactly.",
    reference="Cox, Ingersoll and Ross 1985",
    model=noiseless,
    data=lambda: data(noiseless()),
    steps_per_interval=10,
    truth=TRUTH,
    natural=np.exp,
    observed={0: 0},
)
