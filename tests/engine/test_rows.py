"""Rows of likelihoods, censored values, accumulators and events against the dense oracle."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import UnconstrainedEngine
from pathfold.engine.status import CONVERGED
from tests.by_numpy import by_numpy
from tests.engine.driving import Driven
from tests.engine.test_oracle import TOLERANCE, all_errors
from tests.plain import compiled_native
from tests.thorough import thorough

PARTS: dict[str, Any] = {
    "counts": pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(0.5 + jnp.sin(x)))),
    "dispersed": pf.Likelihood(lambda x, z: dist.NegativeBinomial2(jnp.exp(x), jnp.exp(z["b"]))),
    "shares": pf.Likelihood(lambda x, z: dist.Binomial(5, logits=x + z["b"])),
    "plain factor": pf.Likelihood(lambda x, z: dist.Laplace(x, jnp.exp(0.3 * z["b"]))),
    "of several kinds": pf.Likelihood(
        lambda x, z: [dist.Poisson(jnp.exp(x[0])), dist.StudentT(4.0, x[1], jnp.exp(z["b"]))]
    ),
    "joint": pf.Likelihood(lambda x, z: dist.MultivariateNormal(x, jnp.array([[1.0, 0.3], [0.3, 1.0]]))),
    "noise": pf.GaussianNoise(lambda x, z: x + 0.2 * x**2, lambda z: jnp.exp(0.2 * z["b"])),
}


def model(observation: Any, **options: Any) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-x[0] + 0.5 * jnp.sin(x[1]), z["a"] * x[0] - 0.3 * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.5, 0.0], [0.1 * x[0], 0.4 + 0.1 * jnp.tanh(z["b"])]]),
        parameters={"a": dist.Normal(0.3, 0.5), "b": dist.Gamma(3.0, 3.0)},
        initial_state=[dist.Normal(0.2, 0.5), 0.4],
        observation=observation,
        **options,
    )


def series(width: int, **options: Any) -> pf.Observations:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 4, size=(4, width)).astype(float)
    values[1, 0] = 0.0
    values[2] = np.nan
    return pf.Observations([0.3, 0.6, 1.1, 1.4], values, **options)


def errors(m: pf.DiffusionModel, data: Any) -> dict[str, float]:
    d = Driven(m, TimeGrid.build(data, steps_per_interval=3), lanes=2)
    q, p = 0.5 * np.random.default_rng(5).normal(size=(2, d.dense.dim))
    return all_errors(d, q, p)


@pytest.mark.parametrize("kind", thorough(PARTS))
def test_likelihoods(kind):
    m = model(PARTS[kind])
    found = errors(m, series(2))
    assert max(found.values()) < TOLERANCE, found


def test_several_observations():
    m = model([pf.Noiseless(lambda x, z: x[:1] + z["a"]), PARTS["noise"], PARTS["counts"]])
    assert (m.observation_dim, m.observation_noise_dim) == (5, 4)
    assert m.exactly_observed.tolist() == [True] + [False] * 4
    found = errors(m, series(5))
    assert max(found.values()) < TOLERANCE, found


CENSORED = np.array([[-1, 0], [1, 1], [0, 0], [0, -1]])
BOUNDS = (
    np.array([[-np.inf, np.nan], [0.5, 1.0], [np.nan] * 2, [np.nan] * 2]),
    np.array([[1.0, np.nan], [np.inf, 2.5], [np.nan] * 2, [np.nan] * 2]),
)


@pytest.mark.parametrize(
    ("kind", "bounds"),
    thorough(
        [(kind, bounds) for kind in ("noise", "of several kinds") for bounds in ("sides", "intervals")],
        ("of several kinds", "intervals"),
    ),
)
def test_censored_values(kind, bounds):
    censored = {"sides": CENSORED, "intervals": BOUNDS}[bounds]
    part = pf.Likelihood(lambda x, z: dist.LogNormal(x, jnp.exp(z["b"]))) if kind != "noise" else PARTS["noise"]
    data = series(2, censored=censored)
    values = np.where(data.values <= 0.0, 0.7, data.values)
    data = pf.Observations(data.times, values, censored=censored)
    m = model(part)
    found = errors(m, data)
    assert max(found.values()) < TOLERANCE, found


def test_accumulators_and_events():
    options: dict[str, Any] = {
        "accumulators": 1,
        "events": {
            "dose": lambda x, z, amount: x.at[0].add(jnp.exp(z["a"]) * amount),
            "mix": lambda x, z, amount: jnp.array([x[0] * x[1], amount * x[0] + x[1] ** 2]),
        },
    }
    happenings = {"dose": ([0.0, 0.45, 0.6, 9.0], [1.0, 2.0, 0.5, 7.0]), "mix": ([0.6, 0.8], 0.3)}
    m = model(PARTS["noise"], **options)
    found = errors(m, [series(2, events=happenings), series(2)])
    assert max(found.values()) < TOLERANCE, found


@pytest.mark.parametrize(
    ("kind", "jumps"),
    thorough(
        [(kind, jumps) for kind in ("counts", "dispersed", "plain factor", "several") for jumps in (False, True)],
        ("several", True),
    ),
)
def test_without_constraints(kind, jumps):
    """Potential and gradient of the sampler without constraints, from log_prob and automatic differentiation."""
    observation = [PARTS["noise"], PARTS["counts"]] if kind == "several" else PARTS[kind]
    events = {"dose": lambda x, z, amount: x.at[0].add(amount)} if jumps else None
    m = model(observation, accumulators=1 if jumps else (), events=events)
    data = series(m.observation_dim, events={"dose": ([0.45, 0.6], [1.0, 0.5])} if jumps else None)
    grid = TimeGrid.build(data, steps_per_interval=3)
    engine = UnconstrainedEngine(m, grid, lanes=4)
    rng = np.random.default_rng(1)
    u, v0, v = (0.5 * rng.normal(size=shape) for shape in (2, (1, 1), (engine.intervals, 2)))
    point = engine.block("point")
    engine.set_vector(point, u, v0, np.zeros((engine.intervals, 0)), v)
    assert compiled_native.dynamics.prepare(engine.machine(), point) == CONVERGED
    dense = by_numpy(jax.value_and_grad(partial(_potential, m, data), (0, 1, 2)))
    (expected, slopes), (moved, _) = dense(u, v0, v), dense(1.1 * u, v0, v)
    gradient = engine.get_vector(engine.gradient(point))
    before = compiled_native.dynamics.potential(engine.layout, point)
    engine.set_vector(point, 1.1 * u, v0, np.zeros((engine.intervals, 0)), v)
    compiled_native.dynamics.prepare(engine.machine(), point)
    after = compiled_native.dynamics.potential(engine.layout, point)
    assert after - before == pytest.approx(float(moved - expected), rel=1e-9)  # up to a constant of the data
    for q, g, slope in zip((u, v0, v), (gradient[0], gradient[1], gradient[3]), slopes, strict=True):
        np.testing.assert_allclose(g.reshape(q.shape) + q, slope, rtol=1e-9, atol=1e-9)


def _potential(m: pf.DiffusionModel, data: pf.Observations, u, v0, v):
    """Minus the log density step by step, with the distributions' own log_prob and the jumps written out."""
    z = m.parameters.unflatten(m.parameters.push(u))
    excess = m.parameters.excess
    total = 0.5 * (jnp.sum(u**2) + jnp.sum(v0**2) + jnp.sum(v**2)) + (excess(u) if excess else 0.0)
    doses = dict(zip(*data.events["dose"], strict=True)) if data.events else {}
    nodes = sorted({*data.times.tolist(), *doses})
    x, t, k, reset = m.initial_state.push(z, v0[0]), 0.0, 0, False
    for end in nodes:
        if reset and m.jumps:
            x = x.at[1].set(0.0)
        for s in range(3):
            delta = (end - t) / 3
            x = m.scheme.step(m.sde, z, x, v[k], delta, t + s * delta)
            k += 1
        if end in doses:
            x = x.at[0].add(doses[end])
        reset = end in data.times
        if reset:
            total += _misfit(m, z, x, end, data.values[data.times == end][0])
        t = end
    return total


def _misfit(m: pf.DiffusionModel, z, x, t, y):
    if np.isnan(y).any():
        return 0.0
    total, parts = 0.0, m.observation.parts
    for columns, part in parts:
        own = y[columns]
        if isinstance(part, pf.GaussianNoise):
            d = dist.Normal(part.state_function(x, z, t), part._scale(z, t))
        else:
            assert isinstance(part, pf.Likelihood)
            d = part.f(x, z)
        total -= jnp.sum(d.log_prob(own))
    return total
