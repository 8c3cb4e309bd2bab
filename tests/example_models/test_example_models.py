"""Every example model: its data, a few draws as plain Python, and what is derived by hand in some of them."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pathfold as pf
from pathfold.example_models import EXAMPLES, autoregulation, lotka_volterra, sir
from pathfold.model import Seen, TimeGrid

NOISE = 6.0  # standard deviations of the observation noise, which no draw of a few hundred should exceed


@functools.cache
def series_of(name: str) -> list[pf.Observations]:
    data = EXAMPLES[name].data()
    return data if isinstance(data, list) else [data]


@pytest.mark.parametrize("name", EXAMPLES)
def test_data_and_truth_fit_the_model(name):
    example = EXAMPLES[name]
    model = example.model()
    assert example.name == name
    assert example.truth is None or set(example.truth) == set(model.parameters.names)
    for each in series_of(name):
        model.check_data(each)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_few_draws_reproduce_the_data(name):
    """Of up to two short series: exactly where observation is exact, else with noise of a plausible size."""
    model, steps = EXAMPLES[name].model(), EXAMPLES[name].steps_per_interval
    data = [
        pf.Observations(each.times[:3], each.values[:3], events=each.events, censored=each.censored[:3])
        for each in series_of(name)[:2]
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a run has not converged
        tree = pf.sample(model, data, steps_per_interval=steps, chains=1, warmup=10, draws=10, seed=2, progress=False)
    posterior, stats = tree.posterior, tree.sample_stats
    assert np.all(stats["status"] == 0)
    for parameter in model.parameters.names:
        values = posterior[parameter].values
        assert np.isfinite(values).all()
        assert np.ptp(values) > 0, "the chain moves"

    grid, (sample,) = TimeGrid.build(data, steps_per_interval=steps), posterior["state"].values
    for k, rows in enumerate(np.split(np.arange(len(grid.starts)), grid.first[1:])):
        rows = rows[grid.rows[rows]]
        z = {name: posterior[name].values[0] for name in model.parameters.names}
        z |= {name: posterior[name].isel(series=k).values[0] for name in model.varying.names}
        bounds = (grid.censored[rows], grid.upper[rows]) if grid.censored.any() else 2 * (np.zeros((len(rows), 0)),)
        seen = Seen(grid.values[rows], np.ones((len(rows), model.observation_dim)), *bounds)
        check_misfits(model, sample[:, rows], z, grid.ends[rows], seen)


def check_misfits(model: pf.DiffusionModel, x: Any, z: dict[str, Any], times: np.ndarray, seen: Seen) -> None:
    """Of the states (draw, time, component) of one series."""
    W = model.observation_noise_dim

    def misfit(noise):
        with jax.enable_x64(True):
            over_nodes = jax.vmap(model.observation.misfit, (0, None, None, 0, 0))
            return np.asarray(jax.vmap(over_nodes, (0, 0, None, None, None))(x, z, jnp.full(W, noise), times, seen))

    if W == 0:
        assert np.abs(misfit(0.0)).max() < 1e-7 * np.abs(seen.value).max()
    else:
        assert np.all(misfit(-NOISE) < 0.0)
        assert np.all(misfit(NOISE) > 0.0)


def test_lotka_volterra_in_logarithms_as_derived_by_hand():
    rng = np.random.default_rng(1)
    drift, diffusion = lotka_volterra.NETWORK.drift, lotka_volterra.NETWORK.diffusion
    z = lotka_volterra.TRUTH
    a, b, c = z["c_1"], z["c_2"], z["c_3"]
    with jax.enable_x64(True):
        for x in rng.normal(4.0, 1.0, size=(5, 2)):
            prey, predators = np.exp(x)
            expected = [
                a - b * predators - (a + b * predators) / (2 * prey),
                b * prey - c - (b * prey + c) / (2 * predators),
            ]
            noise = [
                [np.sqrt(a / prey), -np.sqrt(b * predators / prey), 0.0],
                [0.0, np.sqrt(b * prey / predators), -np.sqrt(c / predators)],
            ]
            np.testing.assert_allclose(drift(jnp.array(x), z, 0.0), expected, rtol=1e-12)
            np.testing.assert_allclose(diffusion(jnp.array(x), z, 0.0), noise, rtol=1e-12)


def test_reactions_in_any_coordinates_have_the_moments_of_the_amounts():
    """Ito's lemma back from x to y = g(x): drift S h and covariance S diag(h) S^T."""
    network, z = autoregulation.NETWORK, autoregulation.TRUTH
    S = np.array(
        [
            [0, 0, 1, 0, 0, 0, -1, 0],
            [0, 0, 0, 1, -2, 2, 0, -1],
            [-1, 1, 0, 0, 1, -1, 0, 0],
            [-1, 1, 0, 0, 0, 0, 0, 0],
        ]
    )
    np.testing.assert_array_equal(network.stoichiometry, S)
    with jax.enable_x64(True):
        x = jnp.array([4.0, 3.5, 4.5, -0.4])
        rna, p, p2, dna = autoregulation.amounts(x)
        c, V, K = [z[f"c_{i + 1}"] for i in range(8)], autoregulation.VOLUME, autoregulation.K
        h = np.array(
            [
                c[0] / V * dna * p2,
                c[1] * (K - dna),
                c[2] * dna,
                c[3] * rna,
                c[4] / V * p**2 / 2,
                c[5] * p2,
                c[6] * rna,
                c[7] * p,
            ]
        )
        slope = jax.jacfwd(autoregulation.amounts)(x)
        bend = jax.jacfwd(jax.jacfwd(autoregulation.amounts))(x)
        B = network.diffusion(x, z, 0.0)
        mean = slope @ network.drift(x, z, 0.0) + 0.5 * jnp.einsum("ijk,jl,kl->i", bend, B, B)
        np.testing.assert_allclose(mean, S @ h, rtol=1e-10)
        np.testing.assert_allclose(slope @ B @ B.T @ slope.T, S @ np.diag(h) @ S.T, atol=1e-9)


def test_sir_with_the_prior_of_the_authors_code():
    model, independent = sir.noisy_correlated(), sir.noisy()
    with jax.enable_x64(True):
        prior = model.parameters.maps["alpha_sigma"]
        u = jnp.array([0.3, -0.7])
        spread = jax.jacfwd(lambda u: jnp.log(prior.push({}, u)))(u)
        np.testing.assert_allclose(spread @ spread.T, [[1.0, 0.5], [0.5, 1.0]], rtol=1e-6)
        np.testing.assert_allclose(jnp.log(prior.push({}, jnp.zeros(2))), [0.0, -3.0], atol=1e-12)
        x, z = jnp.array([6.0, 3.0, 0.4]), {"gamma": 0.5, "beta": 0.6, "sigma_y": 5.0}
        apart, together = {**z, "alpha": 1.2, "sigma": 0.2}, {**z, "alpha_sigma": jnp.array([1.2, 0.2])}
        assert np.array_equal(model.sde.drift(x, together, 0.0), independent.sde.drift(x, apart, 0.0))
        assert np.array_equal(model.sde.diffusion(x, together, 0.0), independent.sde.diffusion(x, apart, 0.0))


def test_sir_with_known_noise():
    assert sir.noisy(sigma_y=5.0).parameters.size == sir.noisy().parameters.size - 1
