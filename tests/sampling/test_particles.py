"""The particle filter against filtering on a grid and against Kalman's, and what it cannot do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import pathfold as pf
from pathfold.model import TimeGrid
from pathfold.sampling.particles import ParticleFilter
from tests.sampling.linear_gaussian import Exact, integrated_ornstein_uhlenbeck

STEPS, DELTA = 3, 0.2
TRUTH = {"theta": 1.5, "sigma": 0.75}
TIMES = STEPS * DELTA * np.arange(1, 8)
OBSERVATIONS: dict[str, tuple[Any, list[float]]] = {
    "noisy": (pf.GaussianNoise(lambda x, z: x, 0.25), [1.0, 0.8, np.nan, -0.7, -1.2, -0.9, 0.2]),
    "exact": (pf.Noiseless(lambda x, z: x), [1.0, 0.8, np.nan, -0.7, -1.2, -0.9, 0.2]),
    "counts": (pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(2.0 * x[0]))), [6.0, 4.0, np.nan, 0.0, 1.0, 0.0, 2.0]),
}


def double_well(observation: Any, **settings: Any) -> pf.DiffusionModel:
    given: dict[str, Any] = {
        "drift": lambda x, z: z["theta"] * x * (1.0 - x**2),
        "diffusion": lambda x, z: z["sigma"] * jnp.eye(1),
        "parameters": {"theta": dist.LogNormal(0.0, 1.0), "sigma": dist.LogNormal(0.0, 1.0)},
        "initial_state": dist.Normal(jnp.ones(1), 0.5),
        "observation": observation,
    }
    return pf.DiffusionModel(**given | settings)


@cache
def of_kind(kind: str) -> tuple[pf.DiffusionModel, TimeGrid]:
    observation, values = OBSERVATIONS[kind]
    return double_well(observation), TimeGrid.build(pf.Observations(TIMES, values), steps_per_interval=STEPS)


def by_grid(kind: str, values: list[float], theta: float = TRUTH["theta"]) -> np.ndarray:
    """log p(y_n | y_1, ..., y_{n-1}) of the values that are there, with densities on a grid of states."""
    x = np.linspace(-4.0, 4.0, 801)
    sd = np.sqrt(DELTA) * TRUTH["sigma"]

    def after(state):
        return state + DELTA * theta * state * (1.0 - state**2)

    kernel = stats.norm.pdf(x[:, None], after(x), sd) * (x[1] - x[0])
    density, at, found = stats.norm.pdf(x, 1.0, 0.5), None, []
    for y in values:
        for step in range(STEPS):
            last = density
            density = kernel @ density if at is None else stats.norm.pdf(x, after(at), sd)
            at = None
            if kind == "exact" and step == STEPS - 1 and not np.isnan(y):
                found.append(np.log(np.sum(stats.norm.pdf(y, after(x), sd) * last) * (x[1] - x[0])))
                at = y
        if np.isnan(y) or kind == "exact":
            continue
        likelihood = stats.norm.pdf(y, x, 0.25) if kind == "noisy" else stats.poisson.pmf(y, np.exp(2.0 * x))
        total = np.sum(density * likelihood) * (x[1] - x[0])
        found.append(np.log(total))
        density = density * likelihood / total
    return np.array(found)


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_densities_one_step_ahead_against_a_grid(kind):
    """Each within four standard errors, and the likelihood, from few particles, without bias; 7 comparisons a kind."""
    (model, grid), expected = of_kind(kind), by_grid(kind, OBSERVATIONS[kind][1])
    z = model.parameters.flatten(TRUTH)
    many = ParticleFilter(model, grid, 1000)(np.tile(z, (30, 1)), seed=1)
    error = many.std(axis=0, ddof=1) / np.sqrt(30)
    assert many.shape == (30, 6)
    assert np.all(error < 0.03)
    # Where the state is observed exactly nothing is left to chance at the start of an interval, but for the first.
    assert np.all(np.abs(many.mean(axis=0) - expected) < 4.0 * error + 1e-12)
    few = ParticleFilter(model, grid, 20)(np.tile(z, (2000, 1)), seed=2)
    ratio = np.exp(few.sum(axis=1) - expected.sum())
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(2000)
    assert ratio.std() < 2.0


def test_exact_observations_of_a_smooth_component():
    """The position of an integrated Ornstein-Uhlenbeck process, which noise reaches through its velocity."""
    process = replace(integrated_ornstein_uhlenbeck(), start_mean=np.zeros(2), start_scale=np.array([1.0, 0.75]))
    data = pf.Observations([0.5, 1.1, 1.5, 2.2], [0.2, 0.5, 0.6, 0.6])
    expected = Exact(process, data, 4).conditional({k: np.full(1, v) for k, v in process.values.items()})[0][0]
    model = process.model(known=False)
    score = ParticleFilter(model, TimeGrid.build(data, steps_per_interval=4), 200)
    found = score(np.tile(model.parameters.flatten(process.values), (400, 1)), seed=3).sum(axis=1)
    ratio = np.exp(found - expected + 0.5 * np.log(2 * np.pi) * 4)
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(400)
    assert ratio.std() < 0.5


def test_the_number_of_threads_changes_nothing():
    model, grid = of_kind("noisy")
    score = ParticleFilter(model, grid, 10)
    z = np.tile(model.parameters.flatten(TRUTH), (5, 1))
    np.testing.assert_array_equal(score(z, 4, threads=1), score(z, 4, threads=3))
    assert len(np.unique(score(z, 4)[:, 0])) == 5


def test_a_draw_that_no_particle_survives_has_no_likelihood():
    model, grid = of_kind("noisy")
    score = ParticleFilter(model, grid, 10)
    z = model.parameters.flatten(TRUTH | {"theta": 1e200})
    assert score(z[None], 0)[0].sum() == -np.inf


SMOOTH: dict[str, Any] = {
    "drift": lambda x, z: jnp.array([x[1], -x[0]]),
    "diffusion": lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
    "initial_state": dist.Normal(jnp.zeros(2), 1.0),
}


@pytest.mark.parametrize(
    ("model", "times", "sentence"),
    [
        (double_well(pf.NoisyObservation(lambda x, z, w: x * jnp.exp(w), 1)), [1.0], "NoisyObservation has no density"),
        (double_well(pf.Noiseless(lambda x, z: x)), [0.0, 1.0], "observed exactly at the initial time"),
        (double_well(pf.Noiseless(lambda x, z: x[:1]), **SMOOTH), [1.0], "does not move all .* use pf.StrongOrder1p5"),
        (
            double_well(
                pf.Noiseless(lambda x, z: x), diffusion=lambda x, z: (z["sigma"] * x)[:, None], scheme=pf.Milstein()
            ),
            [1.0],
            "not an affine function of the noise",
        ),
    ],
    ids=["no density", "initial time", "no noise", "not affine"],
)
def test_what_it_cannot_do_is_said(model, times, sentence):
    grid = TimeGrid.build(pf.Observations(times, np.full(len(times), 0.75)), steps_per_interval=2)
    with pytest.raises(pf.ModelError, match=sentence):
        ParticleFilter(model, grid, 10)(model.parameters.flatten(TRUTH)[None], seed=0)


def test_the_constant_of_a_value_that_single_precision_takes_for_one():
    """-log [y (1 - y)] and Stirling's constant is what root and remainder of a beta distribution leave out."""
    y = 1.0 - 1e-9
    share = pf.Likelihood(lambda x, z: dist.Beta(2.0 * jnp.exp(x[0]), 3.0))
    score = ParticleFilter(
        double_well(share), TimeGrid.build(pf.Observations([1.0], [y]), steps_per_interval=1), particles=10
    )
    expected = -np.log(y) - np.log(1.0 - y) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(score._constants, expected, rtol=1e-6)
