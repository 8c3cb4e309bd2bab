"""Patients who take a drug twice a day: repeated doses, people who differ, and values below the limit of the assay.

The amounts in the gut and in the blood follow

    dg = -ka g dt,  da = (ka g - CL / V a) dt + sigma a dW

with clearance CL and volume V of each patient log-normal among people. A dose adds its amount to the gut. The assay of
the concentration a / V has a log-normal error and reports nothing below a limit: such a sample is known to be below it.

Diffusions in pharmacokinetics: Donnet and Samson (2013), "A review on estimation of stochastic differential equations
for pharmacokinetic/pharmacodynamic models"; values below the limit: Beal (2001), "Ways to fit a PK model with some data
below the quantification limit".
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood, Varying, simulate

TRUTH = {"ka": 0.8, "CL_mean": 5.0, "CL_spread": 0.3, "V_mean": 40.0, "V_spread": 0.2, "sigma": 0.1, "tau": 0.15}
DOSE, INTERVAL = 100.0, 12.0  # mg, hours
LIMIT = 0.6  # of the assay, in mg a litre
PATIENTS = 10
TIMES = [0.25, 1.0, 3.0, 8.0, 11.5, 12.5, 15.0, 23.0, 25.0, 30.0, 40.0]


def drift(x, z):
    absorbed = z["ka"] * x[0]
    return jnp.array([-absorbed, absorbed - z["CL"] / z["V"] * x[1]])


def dosed() -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"] * x[1]]]),
        parameters={
            "ka": dist.LogNormal(0.0, 0.5),
            "CL_mean": dist.LogNormal(1.5, 0.7),
            "CL_spread": dist.LogNormal(-1.5, 0.5),
            "V_mean": dist.LogNormal(3.5, 0.7),
            "V_spread": dist.LogNormal(-1.5, 0.5),
            "sigma": dist.LogNormal(-2.0, 0.7),
            "tau": dist.LogNormal(-2.0, 0.7),
            "CL": Varying(lambda z: dist.LogNormal(jnp.log(z["CL_mean"]), z["CL_spread"])),
            "V": Varying(lambda z: dist.LogNormal(jnp.log(z["V_mean"]), z["V_spread"])),
        },
        initial_state=[0.0, 0.0],
        observation=Likelihood(lambda x, z: dist.LogNormal(jnp.log(x[1] / z["V"]), z["tau"])),
        events={"dose": lambda x, z, amount: x.at[0].add(amount)},
        states=("gut", "blood"),
        observed=("concentration",),
    )


def data() -> list[Observations]:
    """Simulate one series for each patient: three doses and eleven samples, censored where they are below the limit."""
    model, doses = dosed(), {"dose": (INTERVAL * np.arange(3), DOSE)}
    panel = []
    for seed in range(PATIENTS):
        simulated = simulate(model, TRUTH, TIMES, steps_per_interval=100, seed=seed, events=doses)
        below = simulated.values < LIMIT
        values = np.where(below, LIMIT, simulated.values)
        panel.append(Observations(TIMES, values, censored=-1.0 * below, events=doses, name=f"patient {seed + 1}"))
    return panel


EXAMPLE = Example(
    name="doses",
    summary="Patients who take a drug repeatedly: doses, random effects, and values below the limit of the assay.",
    reference="Donnet and Samson 2013; Beal 2001",
    model=dosed,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
)
