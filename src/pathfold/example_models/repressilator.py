"""The repressilator: three genes that repress each other in a ring, of which one is seen.

For each gene i, with j the one before it, RNA m_i and protein p_i follow

    dm_i = (alpha_0 + alpha / (1 + p_j^n) - m_i) dt + sigma m_i dW_i,  dp_i = beta (m_i - p_i) dt,

in units of an RNA's lifetime and of the protein that represses by half (Elowitz and Leibler 2000, "A synthetic
oscillatory network of transcriptional regulators"). One protein fluoresces, and is measured with log-normal error.
The state is [log m; log p]: of its six components one is seen, and noise enters three.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, Likelihood, simulate

TRUTH = {"alpha": 50.0, "alpha_0": 0.2, "n": 2.0, "beta": 0.5, "sigma": 0.15, "tau": 0.1}
STATES = ("log m_0", "log m_1", "log m_2", "log p_0", "log p_1", "log p_2")


def drift(x, z):
    m, p = jnp.exp(x[:3]), jnp.exp(x[3:])
    made = z["alpha_0"] + z["alpha"] / (1.0 + jnp.roll(p, 1) ** z["n"])
    return jnp.concatenate([made / m - 1.0 - 0.5 * z["sigma"] ** 2, z["beta"] * (m / p - 1.0)])


def noisy() -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(6)[:, :3],
        parameters={
            "alpha": dist.LogNormal(4.0, 0.5),
            "alpha_0": dist.LogNormal(-1.5, 0.7),
            "n": dist.LogNormal(0.7, 0.2),
            "beta": dist.LogNormal(-0.5, 0.5),
            "sigma": dist.LogNormal(-2.0, 0.5),
            "tau": dist.LogNormal(-2.0, 0.5),
        },
        initial_state=dist.Normal(jnp.ones(6), 1.0),
        observation=Likelihood(lambda x, z: dist.LogNormal(x[3:4], z["tau"])),
        states=STATES,
        observed=("fluorescence",),
    )


def data() -> Observations:
    start = np.log([8.0, 2.0, 1.0, 4.0, 2.0, 1.0])
    return simulate(noisy(), TRUTH, np.arange(1, 61), initial_state=start, steps_per_interval=100, seed=1)


EXAMPLE = Example(
    name="repressilator",
    summary="Three genes that repress each other in a ring and oscillate; one of six components is seen.",
    reference="Elowitz and Leibler 2000",
    model=noisy,
    data=data,
    steps_per_interval=10,
    truth=TRUTH,
    natural=np.exp,
    observed={3: 0},
)
