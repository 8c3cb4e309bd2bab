"""An animal that learns: right and wrong answers, from a skill that grows and wanders.

The skill is never seen, only whether each of the trials succeeds,

    dx = theta (mu - x) dt + sigma dW,  x(0) = 0,  y ~ Bernoulli(1 / (1 + exp(-x)));

at first answers are guesses between two, later they are nearly all right. A state-space model of learning from binary
outcomes: Smith, Frank, Wirth, Yanike, Hu, Kubota, Graybiel, Suzuki and Brown (2004), "Dynamic analysis of learning in
behavioral experiments".
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood, simulate

TRUTH = {"theta": 0.05, "mu": 3.0, "sigma": 0.25}
TRIALS = 120


def answered() -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: z["theta"] * (z["mu"] - x),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "theta": dist.LogNormal(-3.0, 0.7),
            "mu": dist.Normal(2.0, 1.5),
            "sigma": dist.LogNormal(-1.5, 0.5),
        },
        initial_state=[0.0],
        observation=Likelihood(lambda x, z: dist.Bernoulli(logits=x)),
        states=("skill",),
        observed=("right",),
    )


def data() -> Observations:
    """Simulate right (1) and wrong (0) answers, trial by trial."""
    return simulate(answered(), TRUTH, np.arange(1, TRIALS + 1), steps_per_interval=20, seed=2)


EXAMPLE = Example(
    name="learning",
    summary="Right and wrong answers of an animal that learns: a latent state seen through binary outcomes.",
    reference="Smith et al. 2004",
    model=answered,
    data=data,
    steps_per_interval=2,
    truth=TRUTH,
)
