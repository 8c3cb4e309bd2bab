"""Bergman's minimal model of glucose after an injection of it, with the measured insulin as an input.

    dG = (-(p_1 + X) G + p_1 G_b) dt + sigma G dW,  dX = p_2 (S_I (I(t) - I_b) - X) dt,

with glucose G, insulin I and its action X, which starts at 0 and is never seen. S_I, the sensitivity to insulin, is
what the test is made for. Glucose is measured with log-normal error; the state is [log G; X]. Times are in minutes.

Glucose (mg/dl) and insulin (uU/ml) of one person as printed by Pacini and Bergman (1986), "MINMOD: a computer program
to calculate insulin sensitivity and pancreatic responsivity from the frequently sampled intravenous glucose tolerance
test". As they do, the first eight minutes, in which the injected glucose spreads, are left out of the fit. Bayesian
analyses of the model: Andersen and Hojbjerre (2005), "A population-based Bayesian approach to the minimal model of
glucose and insulin homeostasis".
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Input, Likelihood, Observations

MINUTES = [0, 2, 4, 6, 8, 10, 12, 14, 16, 19, 22, 27, 32, 42, 52, 62, 72, 82, 92, 102, 122, 142, 162, 182]
GLUCOSE = [
    *(92, 350, 287, 251, 240, 216, 211, 205, 196, 192, 172, 163),
    *(142, 124, 105, 92, 84, 77, 82, 81, 82, 82, 85, 90),
]
INSULIN = [11, 26, 130, 85, 51, 49, 45, 41, 35, 30, 30, 27, 30, 22, 15, 15, 11, 10, 8, 11, 7, 8, 8, 7]
SPREAD = 8  # minutes until injected glucose has spread


def drift(x, z, t, inputs):
    pull = z["p_1"] * (GLUCOSE[0] * jnp.exp(-x[0]) - 1.0)
    action = z["p_2"] * (z["S_I"] * (inputs["insulin"] - INSULIN[0]) - x[1])
    return jnp.array([pull - x[1] - 0.5 * z["sigma"] ** 2, action])


def measured() -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.array([[z["sigma"]], [0.0]]),
        parameters={
            "p_1": dist.LogNormal(-3.7, 0.5),
            "p_2": dist.LogNormal(-3.5, 0.7),
            "S_I": dist.LogNormal(-7.5, 0.7),
            "sigma": dist.LogNormal(-4.5, 0.7),
            "tau": dist.LogNormal(-4.0, 0.5),
        },
        initial_state=[dist.Normal(5.6, 0.3), 0.0],
        observation=Likelihood(lambda x, z: dist.LogNormal(x[:1], z["tau"])),
        inputs={"insulin": Input(MINUTES, INSULIN)},
        states=("log glucose", "insulin action"),
        observed=("glucose",),
    )


def data() -> Observations:
    """Return the twenty measured concentrations, at times that lie further and further apart."""
    first = MINUTES.index(SPREAD)
    return Observations(MINUTES[first:], GLUCOSE[first:])


EXAMPLE = Example(
    name="glucose",
    summary="A glucose tolerance test: sensitivity to insulin, from irregular samples and measured insulin; real data.",
    reference="Pacini and Bergman 1986; Andersen and Hojbjerre 2005",
    model=measured,
    data=data,
    steps_per_interval=10,
    natural=lambda x: np.concatenate([np.exp(x[..., :1]), x[..., 1:]], axis=-1),
    observed={0: 0},
)
