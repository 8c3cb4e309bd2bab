"""A gene that represses itself in a prokaryote (Golightly and Wilkinson 2005), as a chemical Langevin equation.

The amounts are y = [RNA; P; P2; DNA], of RNA, protein, its dimer and free DNA; there are K copies of the DNA, of which
dimers bind K - DNA.

    DNA + P2 -> DNA.P2 (c_1),  DNA.P2 -> DNA + P2 (c_2),  DNA -> DNA + RNA (c_3),  RNA -> RNA + P (c_4),
    2 P -> P2 (c_5),  P2 -> 2 P (c_6),  RNA -> 0 (c_7),  P -> 0 (c_8).

The reference has K = 10, where a diffusion approximates the counts poorly and reaches zero. Here a volume VOLUME times
as large is observed: all amounts are VOLUME times as large, and the rates of encounters, c_1 and c_5, stay those of the
reference when they are divided by it. The state is x = [log RNA; log P; log P2; logit(DNA / K)].
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, Reactions, simulate
from pathfold.schemes import EulerMaruyama

TRUTH = {f"c_{i + 1}": c for i, c in enumerate([0.1, 0.7, 0.35, 0.2, 0.1, 0.9, 0.3, 0.1])}
VOLUME = 10.0
K = 10.0 * VOLUME
INITIAL_AMOUNTS = {"RNA": 8.0 * VOLUME, "P": 8.0 * VOLUME, "P2": 8.0 * VOLUME, "DNA": 5.0 * VOLUME}
OBSERVATION_SCALE = 2.0


def amounts(x):
    return jnp.where(jnp.arange(4) < 3, jnp.exp(x), K * jax.nn.sigmoid(x))


def states(y):
    return jnp.log(jnp.where(jnp.arange(4) < 3, y, y / (K - y)))


NETWORK = Reactions(
    {
        "binding": "DNA + P2 -> 0",
        "unbinding": "0 -> DNA + P2",
        "transcription": "DNA -> DNA + RNA",
        "translation": "RNA -> RNA + P",
        "dimerisation": "2 P -> P2",
        "dissociation": "P2 -> 2 P",
        "RNA decay": "RNA -> 0",
        "P decay": "P -> 0",
    },
    rates={
        "binding": lambda y, z: z["c_1"] / VOLUME * y["DNA"] * y["P2"],
        "unbinding": lambda y, z: z["c_2"] * (K - y["DNA"]),
        "transcription": "c_3",
        "translation": "c_4",
        "dimerisation": lambda y, z: 0.5 * z["c_5"] / VOLUME * y["P"] ** 2,
        "dissociation": "c_6",
        "RNA decay": "c_7",
        "P decay": "c_8",
    },
    species=("RNA", "P", "P2", "DNA"),
    amounts=amounts,
    inverse=states,
)


def noisy(scale: float = OBSERVATION_SCALE) -> DiffusionModel:
    """Return the model with RNA, P and P2 observed, each with Gaussian noise; DNA is not observed."""
    return DiffusionModel(
        drift=NETWORK.drift,
        diffusion=NETWORK.diffusion,
        parameters={name: dist.LogNormal(-1.5, 1.0) for name in TRUTH},
        initial_state=INITIAL_AMOUNTS,
        observation=GaussianNoise(lambda x, z: amounts(x)[:3], scale),
        scheme=EulerMaruyama(),
        states=NETWORK.species,
        observed=NETWORK.species[:3],
    )


def data() -> Observations:
    return simulate(noisy(), TRUTH, 0.5 * np.arange(1, 101), steps_per_interval=100, seed=1)


EXAMPLE = Example(
    name="autoregulation",
    summary="A gene that represses itself: eight rates from RNA, protein and dimers seen through noise.",
    reference="Golightly and Wilkinson 2005",
    model=noisy,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
    natural=lambda x: np.concatenate([np.exp(x[..., :3]), K / (1.0 + np.exp(-x[..., 3:]))], axis=-1),
    observed={0: 0, 1: 1, 2: 2},
)
