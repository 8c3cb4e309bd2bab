"""A drug injected into several people: two compartments, with noise in the system and in the assay.

The amounts in the central and the peripheral compartment follow

    da_0 = (-(CL_i / V + Q / V) a_0 + Q / U a_1) dt + sigma a_0 dW,  da_1 = (Q / V a_0 - Q / U a_1) dt,

with a_0(0) the dose and a_1(0) = 0, V and U the volumes of the compartments, Q the flow between them, and CL_i the
clearance of person i, log-normal among people with median CL and spread omega. Concentrations are measured with
log-normal error, y = a_0 / V exp(tau w), in a few samples of each person's blood. The state is
[log a_0; a_1; log CL_i]: an effect that differs between people is a state that does not move. Noise enters the first of
the three components alone.

Diffusions in pharmacokinetics: Donnet and Samson (2013), "A review on estimation of stochastic differential equations
for pharmacokinetic/pharmacodynamic models".
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, NoisyObservation, simulate
from pathfold.schemes import EulerMaruyama

TRUTH = {"CL": 5.0, "V": 20.0, "Q": 8.0, "U": 40.0, "sigma": 0.15, "tau": 0.1, "omega": 0.3}
DOSE = 100.0  # mg; volumes are in litres, times in hours
PEOPLE = 8
TIMES = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0]


def drift(x, z):
    central, clearance = jnp.exp(x[0]), jnp.exp(x[2])
    out, back = z["Q"] / z["V"], z["Q"] / z["U"] * x[1]
    return jnp.array(
        [back / central - out - clearance / z["V"] - 0.5 * z["sigma"] ** 2, out * central - back, 0.0 * clearance]
    )


def noisy() -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.array([[z["sigma"]], [0.0], [0.0]]),
        parameters={
            "CL": dist.LogNormal(1.5, 0.7),
            "V": dist.LogNormal(3.0, 0.7),
            "Q": dist.LogNormal(2.0, 0.7),
            "U": dist.LogNormal(3.5, 0.7),
            "sigma": dist.LogNormal(-2.0, 0.7),
            "tau": dist.LogNormal(-2.0, 0.7),
            "omega": dist.LogNormal(-1.5, 0.7),
        },
        initial_state=lambda z: [np.log(DOSE), 0.0, dist.Normal(jnp.log(z["CL"]), z["omega"])],
        observation=NoisyObservation(lambda x, z, w: jnp.exp(x[:1] + z["tau"] * w) / z["V"], 1),
        scheme=EulerMaruyama(),
        states=("log central", "peripheral", "log clearance"),
        observed=("concentration",),
    )


def data() -> list[Observations]:
    """Simulate one series for each person."""
    model = noisy()
    return [simulate(model, TRUTH, TIMES, steps_per_interval=200, seed=seed) for seed in range(PEOPLE)]


EXAMPLE = Example(
    name="pharmacokinetics",
    summary="A drug in two compartments of several people, who share parameters but not their clearance.",
    reference="Donnet and Samson 2013",
    model=noisy,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
    natural=lambda x: np.stack([np.exp(x[..., 0]), x[..., 1], np.exp(x[..., 2])], axis=-1),
)
