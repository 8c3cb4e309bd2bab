"""A genetic toggle switch: two genes that repress each other, thrown over by an inducer.

Numbers U and V of two proteins follow a chemical Langevin equation: each is made at a rate that the other represses,
and decays at rate 1. The inducer keeps U from repressing, so that only a part u of it does:

    dU = (a_U - U) dt + sqrt(a_U) dW_0 - sqrt(U) dW_2,  a_U = (K alpha_U) / (1 + (V / K)^n),
    dV = (a_V - V) dt + sqrt(a_V) dW_1 - sqrt(V) dW_3,  a_V = (K alpha_V) / (1 + (u / K)^n),
    u = U / (1 + inducer(t) / eta).

There are two stable states, and a pulse of inducer takes the system from one to the other, where it stays. Fluorescence
shows both proteins, with log-normal error. Gardner, Cantor and Collins (2000), "Construction of a genetic toggle switch
in Escherichia coli"; K, which they scale away, is known here. Times are in lifetimes of the proteins. The state is
[log U; log V].
"""

import numpy as np
import numpyro.distributions as dist

from pathfold.data import Input, Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood, Reactions, simulate

TRUTH = {"alpha_U": 4.0, "alpha_V": 5.0, "n": 2.0, "eta": 0.5, "tau": 0.1}
K = 100.0
INITIAL_AMOUNTS = {"U": 370.0, "V": 35.0}
PULSE = Input([0.0, 5.0, 12.0], [0.0, 1.0, 0.0], kind="hold")


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
