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
from pathfold.data import Seen, TimeGrid
from pathfold.example_models import (
    EXAMPLES,
    autoregulation,
    glucose,
    heat_rod,
    jansen_rit,
    kuramoto,
    lotka_volterra,
    repressilator,
    sir,
    tumour_growth,
)
from pathfold.model.check_data import check_data
from tests.by_numpy import by_numpy
from tests.sampling.comparing import mean_scores, threshold
from tests.thorough import thorough

# Sampled in the slow tests: each takes seconds to build, and shows the engine nothing that the others do not.
NOISE = 6.0  # standard deviations of the observation noise, which no draw of a few hundred should exceed


@functools.cache
def series_of(name: str) -> list[pf.Observations]:
    data = EXAMPLES[name].data()
    return data if isinstance(data, list) else [data]


@pytest.mark.parametrize("name", EXAMPLES)
def test_names_and_truth_fit_the_model(name):
    example = EXAMPLES[name]
    model = example.model()
    assert example.name == name
    assert example.truth is None or set(example.truth) == set(model.parameters.names)
    assert model.states, "pictures would say x[0]"
    assert model.observed, "pictures would say y[0]"


@pytest.mark.parametrize("name", thorough(EXAMPLES, *(name for name in EXAMPLES if EXAMPLES[name].truth is None)))
def test_data_fit_the_model(name):
    """By default where they are real; others are simulated from the model."""
    model = EXAMPLES[name].model()
    for each in series_of(name):
        check_data(model, each)


@pytest.mark.parametrize("name", thorough(EXAMPLES, "redstart"))
def test_a_few_draws_reproduce_the_data(name):
    """Of up to two short series: exactly where observation is exact, else with noise of a plausible size."""
    model, steps = EXAMPLES[name].model(), EXAMPLES[name].steps_per_interval
    data = [
        pf.Observations(
            each.times[:3], each.values[:3], inputs=each.inputs, events=each.events, censored=each.censored[:3]
        )
        for each in series_of(name)[:2]
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a run has not converged
        tree = pf.sample(model, data, steps_per_interval=steps, chains=1, warmup=20, draws=10, seed=2, progress=False)
    posterior, stats = tree.posterior, tree.sample_stats
    assert np.mean(stats["status"] == 0) > 0.5, "most steps succeed; after so short a warm-up some may not"
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
        seen = Seen(grid.values[rows], grid.mask[rows], *bounds)
        check_misfits(model, sample[:, rows], z, grid.ends[rows], seen)


def check_misfits(model: pf.DiffusionModel, x: Any, z: dict[str, Any], times: np.ndarray, seen: Seen) -> None:
    """Of the states (draw, time, component) of one series."""
    W = model.observation_noise_dim

    def misfit(noise):
        with jax.enable_x64(True):
            over_nodes = jax.vmap(model.observation.misfit, (0, None, None, 0, 0))
            found = jax.vmap(over_nodes, (0, 0, None, None, None))(x, z, jnp.full(W, noise), times, seen)
            return np.asarray(found)[:, seen.mask]

    if W == 0:
        assert np.abs(misfit(0.0)).max() < 1e-7 * np.abs(seen.value).max()
    else:
        assert np.all(misfit(-NOISE) < 0.0)
        assert np.all(misfit(NOISE) > 0.0)


def test_lotka_volterra_in_logarithms_as_derived_by_hand():
    network, z = lotka_volterra.NETWORK, lotka_volterra.TRUTH
    a, b, c = z["c_1"], z["c_2"], z["c_3"]
    evaluated = by_numpy(lambda x: (network.drift(x, z, 0.0), network.diffusion(x, z, 0.0)))
    for x in np.random.default_rng(1).normal(4.0, 1.0, size=(5, 2)):
        prey, predators = np.exp(x)
        expected = [
            a - b * predators - (a + b * predators) / (2 * prey),
            b * prey - c - (b * prey + c) / (2 * predators),
        ]
        noise = [
            [np.sqrt(a / prey), -np.sqrt(b * predators / prey), 0.0],
            [0.0, np.sqrt(b * prey / predators), -np.sqrt(c / predators)],
        ]
        drift, diffusion = evaluated(x)
        np.testing.assert_allclose(drift, expected, rtol=1e-12)
        np.testing.assert_allclose(diffusion, noise, rtol=1e-12)


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

    @by_numpy
    def terms(x):
        f = autoregulation.amounts
        return f(x), jax.jacfwd(f)(x), jax.hessian(f)(x), network.drift(x, z, 0.0), network.diffusion(x, z, 0.0)

    (rna, p, p2, dna), slope, bend, drift, B = terms(np.array([4.0, 3.5, 4.5, -0.4]))
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
    mean = slope @ drift + 0.5 * np.einsum("ijk,jl,kl->i", bend, B, B)
    np.testing.assert_allclose(mean, S @ h, rtol=1e-10)
    np.testing.assert_allclose(slope @ B @ B.T @ slope.T, S @ np.diag(h) @ S.T, atol=1e-9)


@pytest.mark.parametrize(
    ("log_drift", "drift", "diffusion", "z"),
    [
        (
            lambda x, z: repressilator.drift(x, z),
            lambda y, z: jnp.concatenate(
                [
                    z["alpha_0"] + z["alpha"] / (1.0 + y[jnp.array([5, 3, 4])] ** z["n"]) - y[:3],
                    z["beta"] * (y[:3] - y[3:]),
                ]
            ),
            lambda y, z: z["sigma"] * y * (jnp.arange(6) < 3),
            repressilator.TRUTH,
        ),
        (
            lambda x, z: tumour_growth.drift(x, z, 0.0, {"treated": 1.0}),
            lambda v, z: z["a"] * v - z["b"] * v * jnp.log(v) - z["effect"] * v,
            lambda v, z: z["sigma"] * v,
            tumour_growth.TRUTH | {"a": 0.7},
        ),
        (
            lambda x, z: glucose.drift(jnp.array([x[0], 0.01]), z, 0.0, {"insulin": 30.0})[:1],
            lambda g, z: -(z["p_1"] + 0.01) * g + z["p_1"] * 92.0,
            lambda g, z: z["sigma"] * g,
            {"p_1": 0.03, "p_2": 0.02, "S_I": 5e-4, "sigma": 0.3},
        ),
    ],
    ids=["repressilator", "tumour_growth", "glucose"],
)
def test_logarithms_by_itos_lemma(log_drift, drift, diffusion, z):
    """d log y = (drift / y - 1/2 (diffusion / y)^2) dt + ..., component by component."""
    y = np.exp(np.linspace(-0.5, 1.5, 6 if "beta" in z else 1))
    of_log, plain, noise = by_numpy(lambda y: (log_drift(jnp.log(y), z), drift(y, z), diffusion(y, z)))(y)
    np.testing.assert_allclose(of_log, plain / y - 0.5 * (noise / y) ** 2, rtol=1e-12)


def test_kuramoto_is_the_sum_over_pairs():
    x, z = np.random.default_rng(1).normal(size=6), {"omega": np.arange(6.0), "K": 1.7}
    expected = z["omega"] + z["K"] * np.sin(x[None, :] - x[:, None]).mean(axis=1)
    with jax.enable_x64(True):
        np.testing.assert_allclose(kuramoto.drift(jnp.array(x), z), expected, rtol=1e-12)


def test_jansen_rit_in_seconds_as_the_paper_has_it():
    """Rates of the paper, per second, are those of the example times 100, accelerations times 100^2."""
    x = np.array([0.1, 20.0, 12.0, 3.0, 400.0, -200.0])
    A, B, a, b, C, mu = 3.25, 22.0, 100.0, 50.0, 135.0, 220.0
    S = lambda v: 5.0 / (1.0 + np.exp(0.56 * (6.0 - v)))  # noqa: E731
    expected = [
        *x[3:],
        A * a * S(x[1] - x[2]) - 2 * a * x[3] - a**2 * x[0],
        A * a * (mu + 0.8 * C * S(C * x[0])) - 2 * a * x[4] - a**2 * x[1],
        B * b * 0.25 * C * S(0.25 * C * x[0]) - 2 * b * x[5] - b**2 * x[2],
    ]
    unit = np.array([1.0, 1.0, 1.0, 100.0, 100.0, 100.0])
    with jax.enable_x64(True):
        found = 100.0 * unit * jansen_rit.drift(jnp.array(x / unit), jansen_rit.TRUTH)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_heat_rod_steps_by_the_law_of_the_equation():
    """Short steps have the drift and the diffusion of the model; two halves have the law of a whole step."""
    sde, z = heat_rod.noisy().sde, heat_rod.TRUTH
    x, zero = np.linspace(1.0, -1.0, heat_rod.MODES), np.zeros(heat_rod.MODES)
    step = by_numpy(lambda x, v, delta: heat_rod.exact_step(x, z, v, delta, 0.0))
    drift, diffusion = by_numpy(lambda x: (sde.drift(x, z, 0.0), sde.diffusion(x, z, 0.0)))(x)
    short, once, twice = (step(x, zero, delta) for delta in (1e-7, 0.1, 0.2))
    spread = [step(zero, zero + 1.0, delta) for delta in (1e-7, 0.1, 0.2)]
    np.testing.assert_allclose((short - x) / 1e-7, drift, atol=1e-3)
    np.testing.assert_allclose(spread[0] / np.sqrt(1e-7), np.diag(diffusion), rtol=1e-5)
    np.testing.assert_allclose((once / x) ** 2, twice / x, rtol=1e-12)
    np.testing.assert_allclose((once / x) ** 2 * spread[1] ** 2 + spread[1] ** 2, spread[2] ** 2, rtol=1e-12)


def log_likelihood(y: np.ndarray, a: Any, Q: np.ndarray, H: np.ndarray, R: float, m: Any, P: np.ndarray) -> float:
    """Of y (N, Y) by a Kalman filter: x' = a x + N(0, Q) from N(m, P) before the first of them, y = H x + N(0, R)."""
    total = 0.0
    for row in y:
        S = H @ P @ H.T + R * np.eye(len(H))
        miss, K = row - H @ m, P @ H.T @ np.linalg.inv(S)
        total -= 0.5 * (miss @ np.linalg.solve(S, miss) + np.linalg.slogdet(S)[1])
        m, P = a * (m + K @ miss), np.outer(a, a) * (P - K @ H @ P) + Q
    return total


def of_nile(sigma: float, tau: float) -> float:
    one = np.eye(1)
    return log_likelihood(
        series_of("nile")[0].values, np.ones(1), sigma**2 * one, one, tau**2, np.array([1000.0]), 300.0**2 * one
    )


def of_heat_rod(kappa: float, loss: float, sigma: float) -> float:
    (data,) = series_of("heat_rod")
    k = np.arange(heat_rod.MODES)
    rates = kappa * (np.pi * k) ** 2 + loss
    a = np.exp(-0.2 * rates)
    Q, start = np.diag(sigma**2 * (1.0 - a**2) / (2.0 * rates)), np.diag(1.0 / (1.0 + k) ** 2)
    H, R = heat_rod.shapes(heat_rod.THERMOMETERS), heat_rod.OBSERVATION_SCALE**2
    return log_likelihood(data.values, a, Q, H, R, np.zeros(len(k)), np.outer(a, a) * start + Q)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "likelihood", "grids"),
    [
        ("nile", of_nile, {"sigma": np.linspace(1.0, 5.5, 46), "tau": np.linspace(4.4, 5.2, 33)}),
        (
            "heat_rod",
            of_heat_rod,
            {
                "kappa": np.linspace(-4.5, -1.5, 17),
                "loss": np.linspace(-3.5, 1.0, 17),
                "sigma": np.linspace(-1.5, -0.6, 13),
            },
        ),
    ],
)
def test_linear_examples_have_the_posterior_of_a_kalman_filter(name, likelihood, grids):
    """Means of the logarithms, by quadrature on a grid of them; one false alarm in a thousand runs."""
    model = EXAMPLES[name].model()
    points = np.stack(np.meshgrid(*grids.values(), indexing="ij"), axis=-1)
    log_posterior = np.apply_along_axis(lambda log_z: likelihood(*np.exp(log_z)), -1, points)
    for i, prior in enumerate(model.priors[name].base_dist for name in grids):
        log_posterior -= 0.5 * ((points[..., i] - float(prior.loc)) / float(prior.scale)) ** 2
    weights = np.exp(log_posterior - log_posterior.max())
    expected = np.tensordot(weights, points, weights.ndim) / weights.sum()
    steps = EXAMPLES[name].steps_per_interval
    tree = pf.sample(model, series_of(name)[0], steps_per_interval=steps, seed=5, progress=False)
    found = np.stack([np.log(tree.posterior[name].values) for name in grids])
    assert np.abs(mean_scores(found, expected)).max() < threshold(5, 1e-3)


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
