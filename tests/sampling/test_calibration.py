"""Simulation-based calibration (slow): ranks of the truth among posterior draws are uniform.

`make test-slow ARGS=tests/sampling/test_calibration.py` runs it.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.example_models import EXAMPLES
from pathfold.model import Observation
from tests.sampling.test_integrated_chain import data as linear_data
from tests.sampling.test_integrated_chain import model as linear_panel

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


def relaxation() -> pf.DiffusionModel:
    """To a level at a rate, both of the series' own; the level's spread depends on the mean rate."""
    return pf.DiffusionModel(
        drift=lambda x, z: z["rate"] * (z["level"] - x),
        diffusion=lambda x, z: 0.3 * jnp.eye(1),
        parameters={
            "rate": pf.Varying(lambda z: dist.LogNormal(z["mean"], z["spread"])),
            "level": pf.Varying(lambda z: dist.Gamma(4.0, 4.0 * jnp.exp(-z["mean"]))),
            "mean": dist.Normal(0.0, 0.5),
            "spread": lambda z: dist.LogNormal(-1.0 + 0.3 * z["mean"], 0.4),
        },
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
    )


def counted(x, z):
    return dist.NegativeBinomial2(jnp.exp(1.5 + x[0]), jnp.exp(z["dispersion"]))


def population() -> pf.DiffusionModel:
    """The logarithm of a population, seen in over-dispersed counts, from none to hundreds."""
    return pf.DiffusionModel(
        drift=lambda x, z: z["growth"] * (1.0 - jnp.exp(x)),
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        parameters={
            "growth": dist.LogNormal(-0.5, 0.5),
            "sigma": dist.LogNormal(-0.7, 0.5),
            "dispersion": dist.Normal(1.0, 0.5),
        },
        initial_state=[dist.Normal(0.0, 0.7)],
        observation=pf.Likelihood(counted),
    )


def within_limits(data: pf.Observations) -> pf.Observations:
    """Values that are at most 0 or at least 1 are known as that, and no more."""
    outside = np.where(data.values < 0.0, -1, np.where(data.values > 1.0, 1, 0))
    return pf.Observations(data.times, np.clip(data.values, 0.0, 1.0), censored=outside)


NOISELESS = pf.Noiseless(lambda x, z: x[:1] + 0.1 * x[:1] ** 3)
NOISY = pf.GaussianNoise(lambda x, z: x[:1], lambda z: 0.3 * z["sigma"])
TIMES = 0.6 * np.arange(1, 9)
RUNS = 500
CASES: dict[str, dict[str, Any]] = {
    "noiseless": {"model": lambda: oscillator(NOISELESS)},
    "noisy, dynamic": {"model": lambda: oscillator(NOISY), "sampler": pf.DynamicHMC()},
    "censored": {"model": lambda: oscillator(NOISY), "as_seen": within_limits},
    "counts": {"model": population},
    "integrated out": {"model": EXAMPLES["ornstein_uhlenbeck"].model},
    "integrated out, exact": {"model": EXAMPLES["integrated_ornstein_uhlenbeck"].model},
    "integrated out, panel": {"model": linear_panel, "times": [*linear_data()]},
    "random effects": {  # steps in which a rate of 20, which the prior has now and then, does not explode
        "model": relaxation,
        "times": [TIMES, TIMES[:3], TIMES[2:7]],
        "steps_per_interval": None,
        "max_step": 0.1,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ranks_are_uniform(case):
    options = {"times": TIMES, "seed": 12, "runs": RUNS, "steps_per_interval": 4, "warmup": 150} | CASES[case]
    found = pf.calibrate(options.pop("model")(), **options)
    print(case, found)
    assert found.failed == 0
    assert len(found.ranks) == RUNS
    assert np.all(found.table["adjusted"] > FALSE_ALARMS / len(CASES))
