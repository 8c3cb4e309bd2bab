"""The heat of a building, from its indoor temperature alone: three inputs, and walls that nobody measures.

    dT_i = ((T_e - T_i) / (R_ie C_i) + (heating + A_w sun) / C_i) dt + sigma_i dW_i,
    dT_e = ((T_i - T_e) / (R_ie C_e) + (T_a - T_e) / (R_ea C_e)) dt + sigma_e dW_e,

for the temperatures inside, T_i, and of the walls, T_e, with the outdoor temperature T_a, heating and sunshine as
known inputs. T_i is measured with Gaussian noise. Bacher and Madsen (2011), "Identifying suitable models for the heat
dynamics of buildings"; the values are like theirs. Times are in hours, capacities C in kWh/K, resistances R in K/kW,
A_w in square metres.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Input, Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, simulate
from pathfold.schemes import StrongOrder1p5

TRUTH = {"C_i": 1.4, "C_e": 2.9, "R_ie": 0.9, "R_ea": 4.5, "A_w": 8.0, "sigma_i": 0.15, "sigma_e": 0.15, "tau": 0.05}
HOURS = np.arange(0.0, 97.0)
DAY = 2.0 * np.pi * HOURS / 24.0
INPUTS = {
    "outdoor": Input(HOURS, 4.0 - 3.0 * np.cos(DAY - 0.8) + np.sin(HOURS / 17.0)),
    "sun": Input(HOURS, 0.25 * np.maximum(0.0, -np.cos(DAY)) * (1.0 + 0.5 * np.sin(HOURS / 3.0))),  # kW a square metre
    "heating": Input(HOURS[::6], np.random.default_rng(1).permutation(np.tile([0.0, 4.0], 9)[:17]), kind="previous"),
}


def drift(x, z, t, inputs):
    inward, outward = (x[1] - x[0]) / z["R_ie"], (x[1] - inputs["outdoor"]) / z["R_ea"]
    gained = inputs["heating"] + z["A_w"] * inputs["sun"]
    return jnp.array([(inward + gained) / z["C_i"], (-inward - outward) / z["C_e"]])


def noisy() -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.diag(jnp.array([z["sigma_i"], z["sigma_e"]])),
        parameters={
            "C_i": dist.LogNormal(0.0, 0.5),
            "C_e": dist.LogNormal(1.0, 0.5),
            "R_ie": dist.LogNormal(0.0, 0.5),
            "R_ea": dist.LogNormal(1.5, 0.5),
            "A_w": dist.LogNormal(2.0, 0.5),
            "sigma_i": dist.LogNormal(-2.0, 0.7),
            "sigma_e": dist.LogNormal(-2.0, 0.7),
            "tau": dist.LogNormal(-3.0, 0.5),
        },
        initial_state=dist.Normal(jnp.array([20.0, 17.0]), 2.0),
        observation=GaussianNoise(lambda x, z: x[:1], "tau"),
        scheme=StrongOrder1p5(),
        inputs=INPUTS,
        states=("indoor", "walls"),
        observed=("indoor",),
    )


def data() -> Observations:
    """Simulate four days of temperatures, measured every half hour."""
    return simulate(noisy(), TRUTH, 0.5 * np.arange(1, 193), initial_state=[20.0, 17.0], steps_per_interval=50, seed=1)


EXAMPLE = Example(
    name="building",
    summary="Heat of a building: weather and heating as inputs, walls whose temperature is never seen.",
    reference="Bacher and Madsen 2011",
    model=noisy,
    data=data,
    steps_per_interval=2,
    truth=TRUTH,
    observed={0: 0},
)
