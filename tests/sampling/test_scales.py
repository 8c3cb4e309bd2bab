"""The same model and data in other units give the same chain, up to rounding."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.example_models import EXAMPLES
from pathfold.sampling.scales import set_scales
from tests.thorough import thorough

UNITS = [(1e-8, 1.0), (1e4, 1.0), (1e8, 1.0), (1e12, 1.0), (1.0, 1e-6), (1.0, 1e6), (1e8, 1e-6)]
TIMES = 0.4 * np.arange(1, 13)


def constant(value: float) -> pf.Input:
    return pf.Input([0.0, 1e9], [value, value])


def model(seed: int, *, noisy: bool) -> pf.DiffusionModel:
    """A random model of two states in units that are inputs, so that it is compiled once: x = c x', t = tau t'."""
    rng = np.random.default_rng(seed)
    A, turn = -np.eye(2) + 0.5 * rng.normal(size=(2, 2)), rng.normal(size=(2, 2))

    def drift(x, z, t, inputs):
        inside = x / inputs["c"]
        return (inputs["c"] / inputs["tau"]) * (A @ inside + z["a"] * jnp.sin(turn @ inside) + 0.5)

    def diffusion(x, z, t, inputs):
        return inputs["c"] / jnp.sqrt(inputs["tau"]) * jnp.array([[0.3, 0.0], [0.0, z["s"]]])

    def noise(z, t, inputs):
        return 0.2 * inputs["c"] * jnp.ones(1)

    return pf.DiffusionModel(
        drift=drift,
        diffusion=diffusion,
        parameters={"a": dist.Normal(0.0, 1.0), "s": dist.LogNormal(-1.0, 0.5)},
        initial_state=[0.0, 0.0],
        observation=pf.GaussianNoise(lambda x, z: x[:1], noise) if noisy else pf.Noiseless(lambda x, z: x[:1]),
        inputs={"c": constant(1.0), "tau": constant(1.0)},
    )


def run(m: pf.DiffusionModel, values: np.ndarray, c: float, tau: float, **settings: Any) -> xr.DataTree:
    data = pf.Observations(tau * TIMES, c * values, inputs={"c": constant(c), "tau": constant(tau)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws have not converged
        return pf.sample(m, data, steps_per_interval=4, chains=2, progress=False, seed=3, **settings)


@pytest.mark.parametrize(
    ("seed", "noisy"), thorough([(seed, noisy) for seed in (1, 2) for noisy in (True, False)], (1, True), (2, False))
)
def test_units_do_not_matter(seed, noisy):
    """A few draws, before differences of rounding have grown."""
    m, values = model(seed, noisy=noisy), 0.5 * np.sin(TIMES) + 0.1 * np.random.default_rng(seed).normal(size=12)
    plain = run(m, values, 1.0, 1.0, warmup=4, draws=3, keep_warmup=True)
    for c, tau in UNITS:
        other = run(m, values, c, tau, warmup=4, draws=3, keep_warmup=True)
        for group in ("posterior", "warmup_posterior"):
            for name in ("a", "s"):
                np.testing.assert_allclose(other[group][name], plain[group][name], rtol=1e-5, err_msg=f"{c} {tau}")
            np.testing.assert_allclose(other[group]["state"] / c, plain[group]["state"], rtol=1e-5, atol=1e-6)
        for name in ("n_steps", "n_failed_steps", "status"):
            np.testing.assert_array_equal(other.sample_stats[name], plain.sample_stats[name])
        np.testing.assert_allclose(other.sample_stats["step_size"], plain.sample_stats["step_size"], rtol=1e-6)


def random_model(seed: int) -> tuple[pf.DiffusionModel, pf.Observations]:
    """One to three states, some seen, exactly or with noise, some data missing; a unit for each state, row and time.

    The units are inputs: x_i = c_i x'_i, y_j = d_j y'_j, t = tau t'.
    """
    rng = np.random.default_rng([9, seed])
    X = 1 + seed % 3
    Y, noisy, multiplicative = int(rng.integers(1, X + 1)), bool(rng.integers(2)), bool(rng.integers(2))
    A, turn, H = -np.eye(X) + 0.4 * rng.normal(size=(X, X)), rng.normal(size=(X, X)), rng.normal(size=(Y, X))
    mixing = 0.3 * np.eye(X) + 0.1 * rng.normal(size=(X, X))

    def of(inputs, letter, size):
        return jnp.stack([inputs[f"{letter}{i}"] for i in range(size)])

    def drift(x, z, t, inputs):
        c = of(inputs, "c", X)
        return c / inputs["tau"] * (A @ (x / c) + z["a"] * jnp.sin(turn @ (x / c)) + 0.5)

    def diffusion(x, z, t, inputs):
        c = of(inputs, "c", X)
        size = z["s"] * (1.0 + 0.3 * jnp.cos(x / c)) if multiplicative else z["s"] * jnp.ones(X)
        return (c * size / jnp.sqrt(inputs["tau"]))[:, None] * mixing

    def seen(x, z, t, inputs):
        return of(inputs, "d", Y) * (H @ (x / of(inputs, "c", X)))

    def scale(z, t, inputs):
        return 0.2 * of(inputs, "d", Y)

    names = ["tau", *(f"c{i}" for i in range(X)), *(f"d{j}" for j in range(Y))]
    m = pf.DiffusionModel(
        drift=drift,
        diffusion=diffusion,
        parameters={"a": dist.Normal(0.0, 1.0), "s": dist.LogNormal(-0.5, 0.5)},
        initial_state=np.zeros(X),
        observation=pf.GaussianNoise(seen, scale) if noisy else pf.Noiseless(seen),
        inputs={name: constant(1.0) for name in names},
    )
    values = 0.5 * np.sin(np.outer(TIMES, 1.0 + np.arange(Y))) + 0.1 * rng.normal(size=(TIMES.size, Y))
    values[rng.uniform(size=values.shape) < 0.2] = np.nan
    values[0] = 0.1
    return m, pf.Observations(TIMES, values)


@pytest.mark.parametrize("seed", thorough(range(12), 0, 1))
def test_the_unit_of_every_state_and_row_does_not_matter(seed):
    """Random units between 1e-8 and 1e12, of time between 1e-6 and 1e6, six of each random model.

    Powers of four: they and their roots scale numbers without rounding. Steps are not the longest, since a Newton
    iteration that fails makes much of a rounding.
    """
    m, data = random_model(seed)
    rng, plain = np.random.default_rng([10, seed]), None
    for turn in range(7):
        powers = {name: rng.integers(-10, 11) if name == "tau" else rng.integers(-13, 20) for name in m.inputs}
        units = {name: 4.0 ** float(power) if turn else 1.0 for name, power in powers.items()}
        rows = np.array([units[f"d{j}"] for j in range(m.observation_dim)])
        states = np.array([units[f"c{i}"] for i in range(m.state_dim)])
        inputs = {name: constant(value) for name, value in units.items()}
        scaled = pf.Observations(units["tau"] * TIMES, rows * data.values, inputs=inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = pf.sample(
                m, scaled, steps_per_interval=4, chains=2, warmup=4, draws=3, seed=3, progress=False, keep_warmup=True,
                sampler=pf.StaticHMC(target_acceptance=0.95),
            )  # fmt: skip
        if plain is None:
            plain = tree
            continue
        for group in ("posterior", "warmup_posterior"):
            for name in m.parameters.names:
                np.testing.assert_allclose(
                    tree[group][name], plain[group][name], rtol=1e-5, atol=1e-6, err_msg=f"{units}"
                )
            np.testing.assert_allclose(tree[group]["state"] / states, plain[group]["state"], rtol=1e-5, atol=1e-5)
        for name in ("n_steps", "n_failed_steps", "status"):
            np.testing.assert_array_equal(tree.sample_stats[name], plain.sample_stats[name])
        np.testing.assert_allclose(
            tree.sample_stats["newton_iterations"], plain.sample_stats["newton_iterations"], rtol=0.25
        )
        np.testing.assert_allclose(tree.sample_stats["step_size"], plain.sample_stats["step_size"], rtol=1e-6)


def test_large_numbers_with_small_changes():
    """Data about 1e7 that change by one: rounding is within the tolerance, and steps are as long as about zero."""
    steps = []
    for offset in (0.0, 1e7):

        def drift(x, z, offset=offset):
            return -z["k"] * (x - offset)

        m = pf.DiffusionModel(
            drift=drift,
            diffusion=lambda x, z: jnp.array([[z["s"]]]),
            parameters={"k": dist.LogNormal(0.0, 0.5), "s": dist.LogNormal(0.0, 0.5)},
            initial_state=dist.Normal(jnp.full(1, offset), 1.0),
            observation=pf.GaussianNoise(lambda x, z: x, 0.2),
        )
        values = offset + np.sin(TIMES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = pf.sample(
                m, pf.Observations(TIMES, values), steps_per_interval=4, chains=2, warmup=150, draws=50, progress=False
            )
        assert float((tree.sample_stats["status"] != 0).mean()) < 0.02
        steps.append(float(tree.sample_stats["step_size"].mean()))
    assert steps[1] > 0.7 * steps[0], steps


def test_states_that_no_likelihood_bounds_have_a_unit_all_the_same():
    """Binary outcomes are likeliest at infinity: nodes that go there would make 1e15 of the unit of the state."""
    example = EXAMPLES["learning"]
    grid = TimeGrid.build(example.data(), steps_per_interval=example.steps_per_interval)
    engine = Engine(example.model(), grid)
    set_scales(engine)
    assert engine.get("problem", engine.problem, "settings", "state_scale").max() < 1e3
