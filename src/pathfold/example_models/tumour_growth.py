"""Tumours of mice, half of them treated: a panel with random effects and with an input for each animal.

The size v of a tumour follows the law of Gompertz with noise,

    dv = (a v - b v log v - effect treated(t) v) dt + sigma v dW,

with a growth a of each animal, log-normal among them. The therapy begins on day 8, in every other animal. Sizes are
measured by calliper, with log-normal error. The state is log v. Ferrante, Bompadre, Possati and Leone (2000),
"Parameter estimation in a Gompertzian stochastic model for tumor growth"; the therapy, Albano, Giorno, Roman-Roman
and Torres-Ruiz (2011), "Inferring the effect of therapy on tumors showing stochastic Gompertzian growth".
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Input, Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood, Varying, simulate

TRUTH = {"a_mean": 0.6, "a_spread": 0.15, "b": 0.1, "effect": 0.2, "sigma": 0.08, "tau": 0.1}
ANIMALS, START_OF_THERAPY = 10, 8.0
DAYS = np.array([2.0, 4.0, 6.0, 8.0, 9.0, 10.0, 12.0, 14.0, 17.0, 20.0, 24.0])
NONE, THERAPY = Input([0.0], [0.0], kind="previous"), Input([0.0, START_OF_THERAPY], [0.0, 1.0], kind="hold")


def drift(x, z, t, inputs):
    return z["a"] - z["b"] * x - z["effect"] * inputs["treated"] - 0.5 * z["sigma"] ** 2


def measured() -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "a_mean": dist.LogNormal(-0.5, 0.5),
            "a_spread": dist.LogNormal(-2.0, 0.5),
            "b": dist.LogNormal(-2.0, 0.5),
            "effect": dist.Normal(0.0, 0.3),
            "sigma": dist.LogNormal(-2.0, 0.7),
            "tau": dist.LogNormal(-2.0, 0.7),
            "a": Varying(lambda z: dist.LogNormal(jnp.log(z["a_mean"]), z["a_spread"])),
        },
        initial_state=dist.Normal(jnp.zeros(1), 0.3),
        observation=Likelihood(lambda x, z: dist.LogNormal(x, z["tau"])),
        inputs={"treated": NONE},
        states=("log size",),
        observed=("size",),
    )


def data() -> list[Observations]:
    """Simulate one series for each animal, of which two measurements are missing."""
    model, rng, panel = measured(), np.random.default_rng(1), []
    for animal in range(ANIMALS):
        inputs = {"treated": THERAPY if animal % 2 else NONE}
        sizes = simulate(model, TRUTH, DAYS, steps_per_interval=50, seed=animal, inputs=inputs)
        values = np.where(np.isin(DAYS, rng.choice(DAYS, 2, replace=False))[:, None], np.nan, sizes.values)
        panel.append(Observations(DAYS, values, inputs=inputs, name=f"mouse {animal + 1}"))
    return panel


EXAMPLE = Example(
    name="tumour_growth",
    summary="Tumours of mice, some of them treated: Gompertz growth that differs between animals, gaps in the data.",
    reference="Ferrante et al. 2000; Albano et al. 2011",
    model=measured,
    data=data,
    steps_per_interval=4,
    truth=TRUTH,
    natural=np.exp,
    observed={0: 0},
)
