"""The density of (u, v0, v) and its gradient against plain JAX, and the windows in which its metric is adapted."""

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
from pathfold.engine.status import CONVERGED, NON_FINITE
from tests.by_numpy import by_numpy
from tests.once import once
from tests.plain import compiled_native
from tests.thorough import thorough

SCALES: dict[str, Any] = {
    "number": 0.3,
    "parameter": "s",
    "each": [0.3, 0.5],
    "matrix": lambda z: jnp.array([[1.0, 0.2], [0.1, 0.5]]) * z["s"],
}


@once
def model(scale: Any) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z, t: jnp.array([jnp.sin(x[1]) - z["a"] * x[0], -x[0] * x[1] + 0.1 * t]),
        diffusion=lambda x, z: jnp.array([[0.3 + 0.1 * x[0] ** 2], [z["s"]]]),
        parameters={"a": dist.Gamma(2.0, 1.0), "s": dist.LogNormal(0.0, 0.5)},
        initial_state=lambda z: dist.Normal(jnp.array([0.0, z["a"]]), 1.0),
        observation=pf.GaussianNoise(lambda x, z: jnp.array([x[0] * z["s"], x[0] + x[1]]), scale),
    )


def series() -> list[pf.Observations]:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(5, 2))
    values[1, 0] = values[3, 1] = np.nan
    values[2] = np.nan
    return [pf.Observations([0.2, 0.5, 0.7, 1.1, 1.2], values), pf.Observations([0.4, 0.6], rng.normal(size=(2, 2)))]


def potential(model: pf.DiffusionModel, grid: TimeGrid, u, v0, v):
    """Minus the log density, from the model's own functions; `grid` has one fine step an interval."""
    z = model.parameters.unflatten(model.parameters.push(u))
    excess, start = model.parameters.excess, model.initial_state
    observation: Any = model.observation
    total = 0.5 * (u @ u + jnp.sum(v0**2) + jnp.sum(v**2)) + (excess(u) if excess else 0.0)
    ends = [*grid.first[1:], len(grid.starts)]
    for k, (first, end) in enumerate(zip(grid.first, ends, strict=True)):
        x = start.push(z, v0[k])
        for n in range(first, end):
            x = model.step(z, x, v[n], grid.delta[n], grid.starts[n])
            seen = np.flatnonzero(grid.mask[n])
            if len(seen):
                zero, one = jnp.zeros(2), jnp.eye(2)
                mean = observation.observe(x, z, zero, grid.ends[n])
                scale = jnp.stack([observation.observe(x, z, w, grid.ends[n]) - mean for w in one], axis=1)
                covariance = (scale @ scale.T)[np.ix_(seen, seen)]
                away = jnp.asarray(grid.values[n])[seen] - mean[seen]
                total += 0.5 * away @ jnp.linalg.solve(covariance, away) + 0.5 * jnp.linalg.slogdet(covariance)[1]
    return total


@pytest.mark.parametrize("scale", thorough(SCALES, "each", "matrix"))
def test_potential_and_gradient(scale):
    m = model(SCALES[scale])
    grid = TimeGrid.build(series(), steps_per_interval=3)
    engine = UnconstrainedEngine(m, grid, lanes=4)
    rng = np.random.default_rng(1)
    u, v0, v = (0.5 * rng.normal(size=shape) for shape in (2, (2, 2), (engine.intervals, 1)))
    point = engine.block("point")
    engine.set_vector(point, u, v0, np.zeros((engine.intervals, 0)), v)
    assert compiled_native.dynamics.prepare(engine.machine(), point) == CONVERGED
    expected, gradients = by_numpy(jax.value_and_grad(partial(potential, m, engine.grid), (0, 1, 2)))(u, v0, v)
    assert compiled_native.dynamics.potential(engine.layout, point) == pytest.approx(float(expected), rel=1e-12)
    found = engine.get_vector(engine.gradient(point))
    for q, g, plain in zip((u, v0, v), (found[0], found[1], found[3]), gradients, strict=True):
        np.testing.assert_allclose(g.reshape(q.shape) + q, plain, rtol=1e-10, atol=1e-12)


def test_steps_keep_the_energy_and_can_be_undone():
    m = model(0.3)
    engine = UnconstrainedEngine(m, TimeGrid.build(series(), steps_per_interval=2), lanes=4)
    native, rng, size = compiled_native, np.random.default_rng(3), engine.block_sizes["vector"]
    engine.record("problem", engine.problem, "metric")[:] = rng.uniform(0.5, 1.5, size=size)
    start, p = engine.block("point"), np.zeros(size)
    start[:size] = 0.3 * rng.normal(size=size)
    native.vectors.clear_idle(engine.layout, start[:size])
    native.vectors.draw_normals(engine.layout, p, rng)
    scratch = engine.block("scratch")
    native.dynamics.prepare(engine.machine(scratch), start)
    for verlet in (0.0, 1.0):
        engine.set("problem", engine.problem, "settings", "verlet", verlet)
        errors = []
        for t in (0.004, 0.002):
            there, back, moving = engine.block("point"), engine.block("point"), p.copy()
            step, energy = native.unconstrained.unconstrained_step, native.dynamics.hamiltonian
            lengths = t, 0.5 * t, 0.5 * t
            assert step(engine.machine(scratch), start, there, moving, *lengths) == CONVERGED
            errors.append(energy(engine.layout, there, moving) - energy(engine.layout, start, p))
            moving *= -1.0
            assert step(engine.machine(scratch), there, back, moving, *lengths) == CONVERGED
            np.testing.assert_allclose(back[:size], start[:size], atol=1e-13)
            np.testing.assert_allclose(moving, -p, atol=1e-12)
        assert abs(errors[0] / errors[1]) == pytest.approx(8.0, rel=0.2)  # of one step of order t^3


def test_what_is_not_finite_is_seen():
    m = model(0.3)
    engine = UnconstrainedEngine(m, TimeGrid.build(series(), steps_per_interval=2), lanes=4)
    point, scratch = engine.block("point"), engine.block("scratch")
    point[0] = np.nan
    assert compiled_native.dynamics.prepare(engine.machine(scratch), point) == NON_FINITE


def test_windows_are_stans():
    window = compiled_native.metric.window
    found = sorted({window(i, 500) for i in range(500)})
    assert found == [(0, 0), (75, 100), (100, 150), (150, 250), (250, 450)]
    for warmup in (1, 10, 37, 250, 1000):
        windows = [window(i, warmup) for i in range(warmup)]
        assert all(begin <= i < end for i, (begin, end) in enumerate(windows) if begin != end)


@pytest.mark.parametrize("sampler", [pf.UnconstrainedHMC(), pf.GuidedProposals()])
@pytest.mark.parametrize(
    "observation", [pf.Noiseless(lambda x, z: x[:1]), pf.NoisyObservation(lambda x, z, w: x[:1] * jnp.exp(w), 1)]
)
def test_what_cannot_be_sampled_without_constraints_is_said(observation, sampler):
    m = pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=observation,
    )
    data = pf.Observations([1.0, 2.0, 3.0], np.zeros(3))
    with pytest.raises(pf.SettingsError, match="needs noise in every component") as caught:
        pf.sample(m, data, steps_per_interval=2, sampler=sampler, progress=False)
    assert type(sampler).__name__ in str(caught.value)
