"""Bergman's minimal model of glucose after an injection of it, with the measured insulin as an input.

    dG = (-(p_1 + X) G + p_1 G_b) dt + sigma G dW,  dX = p_2 (S_I (I(t) - I_b) - X) dt,

with glucose G, insulin I and its action X, which starts at 0 and is never seen. S_I, the sensitivity to insulin, is
what the test is made for. Glucose is measured with log-normal error; the state is [log G; X]. Times are in minutes.

The data (`datasets.glucose_tolerance`) are those of Pacini and Bergman (1986). As they do, the first eight minutes, in
which the injected glucose spreads, are left out of the fit. Bayesian analyses of the model: Andersen and Hojbjerre
(2005), "A population-based Bayesian approach to the minimal model of glucose and insulin homeostasis".
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold import datasets
from pathfold.data import Input, Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood

TEST = datasets.glucose_tolerance()
BASAL_GLUCOSE, BASAL_INSULIN = TEST[["glucose", "insulin"]].iloc[0].tolist()  # before the injection
SPREAD = 8  # minutes until injected glucose has spread


def drift(x, z, t, inputs):
    pull = z["p_1"] * (BASAL_GLUCOSE * jnp.exp(-x[0]) - 1.0)
    action = z["p_2"] * (z["S_I"] * (inputs["insulin"] - BASAL_INSULIN) - x[1])
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
        inputs={"insulin": Input(TEST["minutes"].to_numpy(), TEST["insulin"].to_numpy())},
        states=("log glucose", "insulin action"),
        observed=("glucose",),
    )


def data() -> Observations:
    """Return the twenty measured concentrations, at times that lie further and further apart."""
    table = TEST[TEST["minutes"] >= SPREAD]
    return Observations(table["minutes"].to_numpy(), table["glucose"].to_numpy())


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
