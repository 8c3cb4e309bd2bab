"""Simulation-based calibration (slow): ranks of the truth among posterior draws are uniform.

Parameters and initial state are drawn from the prior, data are simulated from them with the model's own discretisation,
and the posterior is sampled (Talts et al. 2018). `make test-slow ARGS=tests/sampling/test_calibration.py` runs it.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import chisquare

import pathfold as pf
from pathfold.engine import Engine
from pathfold.model import Observation, TimeGrid

FALSE_ALARMS = 1e-3  # of this file
REPEATS, BINS = 500, 20
STEPS, THIN, KEPT = 4, 5, 99  # ranks 0..99


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


class OneEngine:
    """Makes the engine for the first data and gives it again for others at the same times: tracing takes seconds."""

    engine: Engine | None = None

    def __call__(self, model: pf.DiffusionModel, grid: TimeGrid, *, splitting: Any) -> Engine:
        self.engine = self.engine or Engine(model, grid, splitting=splitting)
        self.engine.set("problem", self.engine.problem, "grid", "y", grid.values)
        return self.engine


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sampler"), [("noiseless", pf.StaticHMC()), ("noisy", pf.DynamicHMC())])
def test_ranks_are_uniform(kind, sampler, monkeypatch):
    monkeypatch.setattr("pathfold.sampling.sample.Engine", OneEngine())
    model, rng = MODELS[kind](), np.random.default_rng(12)
    ranks: dict[str, list[int]] = {name: [] for name in (*model.parameters.names, "x_0[0]", "x_0[1]")}
    failures = []
    for repeat in range(REPEATS):
        normals = rng.standard_normal(5)
        truth = {
            "pull": np.exp(0.4 * normals[0]),
            "drag": np.exp(-0.5 + 0.4 * normals[1]),
            "sigma": np.exp(-0.5 + 0.4 * normals[2]),
        }
        start = [0.5 + 0.5 * normals[3], truth["sigma"] * normals[4]]
        times = 0.6 * np.arange(1, 9)
        data = pf.simulate(model, truth, times, initial_state=start, steps_per_interval=STEPS, seed=1000 + repeat)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)")
            warnings.filterwarnings("ignore", "(.*) of the trajectories failed")  # counted below
            tree = pf.sample(
                model,
                data,
                steps_per_interval=STEPS,
                chains=1,
                warmup=150,
                draws=THIN * KEPT,
                seed=repeat,
                sampler=sampler,
                keep_path="none",
                progress=False,
            )
        failures.append(np.mean(tree.sample_stats["status"].values != 0))
        for name, value in truth.items():
            ranks[name].append(int(np.sum(tree.posterior[name].values[0, ::THIN] < value)))
        for i in (0, 1):
            x0 = tree.posterior["initial_state"].values[0, ::THIN, i]
            ranks[f"x_0[{i}]"].append(int(np.sum(x0 < start[i])))
    assert np.mean(failures) < 0.02
    p_values = {}
    for name, found in ranks.items():
        counts = np.bincount(np.array(found) * BINS // (KEPT + 1), minlength=BINS)
        p_values[name] = float(chisquare(counts).pvalue)
    print(kind, type(sampler).__name__, {name: round(p, 3) for name, p in p_values.items()}, np.mean(failures))
    assert min(p_values.values()) > FALSE_ALARMS / (2 * len(p_values)), p_values
