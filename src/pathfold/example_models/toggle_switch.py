"""A genetic toggle switch: two genes that repress each other, thrown over by an inducer.

Numbers of two proteins as a chemical Langevin equation. Each is made at the rate K alpha / (1 + (other / K)^n) and
decays at rate 1; the inducer keeps U from repressing, by the factor 1 / (1 + inducer / eta). There are two stable
states, and a pulse of inducer takes the system from one to the other, where it stays. Fluorescence shows both, with
log-normal error. Gardner, Cantor and Collins (2000), "Construction of a genetic toggle switch in Escherichia coli";
K, which they scale away, is known here. Times are in lifetimes of the proteins.
"""

import numpy as np
import numpyro.distributions as dist

from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Input, Likelihood, Observations, Reactions, simulate

TRUTH = {"alpha_U": 4.0, "alpha_V": 5.0, "n": 2.0, "eta": 0.5, "tau": 0.1}
K = 100.0
INITIAL_AMOUNTS = {"U": 370.0, "V": 35.0}
PULSE = Input([0.0, 5.0, 12.0], [0.0, 1.0, 0.0], kind="previous")


def made_u(y, z):
    return K * z["alpha_U"] / (1.0 + (y["V"] / K) ** z["n"])


def made_v(y, z, t, inputs):
    return K * z["alpha_V"] / (1.0 + (y["U"] / K / (1.0 + inputs["inducer"] / z["eta"])) ** z["n"])


NETWORK = Reactions(
    {"U made": "0 -> U", "V made": "0 -> V", "U decay": "U -> 0", "V decay": "V -> 0"},
    rates={"U made": made_u, "V made": made_v, "U decay": 1.0, "V decay": 1.0},
    species=("U", "V"),
)


def noisy() -> DiffusionModel:
    return DiffusionModel(
        drift=NETWORK.drift,
        diffusion=NETWORK.diffusion,
        parameters={
            "alpha_U": dist.LogNormal(1.5, 0.5),
            "alpha_V": dist.LogNormal(1.5, 0.5),
            "n": dist.LogNormal(0.7, 0.3),
            "eta": dist.LogNormal(-0.5, 0.7),
            "tau": dist.LogNormal(-2.0, 0.7),
        },
        initial_state=INITIAL_AMOUNTS,
        observation=Likelihood(lambda x, z: dist.LogNormal(x, z["tau"])),
        inputs={"inducer": PULSE},
        states=NETWORK.species,
        observed=NETWORK.species,
    )


def data() -> Observations:
    return simulate(noisy(), TRUTH, 0.5 * np.arange(1, 51), steps_per_interval=100, seed=1)


EXAMPLE = Example(
    name="toggle_switch",
    summary="Two genes that repress each other, switched by a pulse of inducer: two stable states, a known input.",
    reference="Gardner, Cantor and Collins 2000",
    model=noisy,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
    natural=np.exp,
    observed={0: 0, 1: 1},
)
