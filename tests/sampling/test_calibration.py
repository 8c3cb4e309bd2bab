"""Simulation-based calibration (slow): ranks of the truth among posterior draws are uniform.

`make test-slow ARGS=tests/sampling/test_calibration.py` runs it.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.model import Observation

FALSE_ALARMS = 1e-3  # of this file


def oscillator(observation: Observation) -> pf.DiffusionModel:
    """A non-linear oscillator whose noise depends on the state; only the position is seen."""
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], -jnp.sin(z["pull"] * x[0]) - z["drag"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"] * jnp.sqrt(1.0 + 0.5 * x[0] ** 2)]]),
        parameters={
            "pull": dist.LogNormal(0.0, 0.4),
            "drag": dist.LogNormal(-0.5, 0.4),
            "sigma": dist.LogNormal(-0.5, 0.4),
        },
        initial_state=lambda z: dist.Normal(jnp.array([0.5, 0.0]), jnp.array([0.5, z["sigma"]])),
        observation=observation,
        scheme=pf.StrongOrder1p5(),
    )


MODELS = {
    "noiseless": lambda: oscillator(pf.Noiseless(lambda x, z: x[:1] + 0.1 * x[:1] ** 3)),
    "noisy": lambda: oscillator(pf.GaussianNoise(lambda x, z: x[:1], lambda z: 0.3 * z["sigma"])),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sampler"), [("noiseless", pf.StaticHMC()), ("noisy", pf.DynamicHMC())])
def test_ranks_are_uniform(kind, sampler):
    found = pf.calibrate(
        MODELS[kind](), 0.6 * np.arange(1, 9), runs=500, steps_per_interval=4, warmup=150, sampler=sampler, seed=12
    )
    print(kind, type(sampler).__name__, found)
    assert found.failed == 0
    assert found.ranks.shape == (500, 5)
    assert np.all(found.table["adjusted"] > FALSE_ALARMS / 2)
