"""What is not finite gives a failed status: never a hang, a crash or a wrong number."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from pathfold.data import Observations, TimeGrid
from pathfold.engine.status import CONVERGED, DIVERGED, MEANING, NON_FINITE, NON_REVERSIBLE, NOT_CONVERGED
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless
from tests.engine.driving import Driven
from tests.engine.models import with_data_from

GRID = TimeGrid.build(Observations(0.5 * np.arange(1, 6), np.full(5, 0.3)), steps_per_interval=4)


def model(drift, mean=lambda x, z: x) -> DiffusionModel:
    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.exp(0.3 * z["s"]) * jnp.ones((1, 1)),
        parameters={"s": dist.Normal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.ones(1), 0.5),
        observation=GaussianNoise(mean, 0.2),
    )


BREAKING: dict[str, tuple[tuple, float]] = {  # the functions of the model, and noise that leads there
    "log of a negative state": ((lambda x, z: -jnp.log(x),), -8.0),
    "square root of a negative state": ((lambda x, z: -x, lambda x, z: jnp.sqrt(x)), -8.0),
    "exp of a large state": ((lambda x, z: jnp.exp(x),), 8.0),
    "division by zero": ((lambda x, z: 1.0 / (x - 1.0),), 0.0),
}


def breaking(name: str) -> tuple[DiffusionModel, float]:
    functions, noise = BREAKING[name]
    return model(*functions), noise


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", BREAKING)
def test_is_seen_at_the_start(name, plain):
    broken, noise = breaking(name)
    d = Driven(broken, GRID, lanes=2, plain=plain)
    q = np.full(d.dense.dim, noise)
    q[0] = 0.0
    point, scratch = d.raw_point(q), d.engine.block("scratch")
    assert not np.all(np.isfinite(d.dense.predicted(q)))  # the model does break there
    with np.errstate(all="ignore"):  # native code does not warn either
        assert d.native.dynamics.prepare(d.machine(scratch), point) == NON_FINITE


@pytest.mark.parametrize(("name", "begin"), [("log of a negative state", 0.0), ("exp of a large state", -1.5)])
def test_is_seen_in_a_step(name, begin):
    """From a sound point, with momenta that lead to where the function breaks: a failure, or a sound point again."""
    broken, noise = breaking(name)
    q = np.full(Driven.dimension(broken, GRID), begin)
    d = Driven(broken, with_data_from(broken, GRID, q), lanes=2)
    point, failed = d.point(q), 0
    for size in (1.0, 10.0, 100.0, 1000.0):
        for p in (np.full(q.size, size * noise), size * np.random.default_rng(0).normal(size=q.size)):
            status, target, momentum = d.step(point, d.dense.project(q, p), 1.0)
            assert status in MEANING
            if status == CONVERGED:
                assert np.max(np.abs(d.dense.constraint(d.flat(target)))) < 1e-8  # gaps below 1e-9 add up
                assert np.isfinite(d.energy(target, momentum))
            failed += status != CONVERGED
    assert failed > 3


@pytest.mark.parametrize("splitting", ["gaussian", "stormer-verlet"])
def test_huge_steps_fail_and_leave_the_origin_usable(splitting):
    sound = model(lambda x, z: jnp.sin(3.0 * x), lambda x, z: x + 0.3 * x**3)
    rng = np.random.default_rng(1)
    q, p = 0.5 * rng.normal(size=(2, Driven.dimension(sound, GRID)))
    d = Driven(sound, with_data_from(sound, GRID, q), lanes=2)
    d.use_splitting(splitting)
    p = d.dense.project(q, p)
    point = d.point(q)
    before = point.copy()
    for scale in (1e2, 1e4, 1e8, 1e200):
        t = 1.0 if splitting == "gaussian" else scale
        status, _, _ = d.step(point, scale * p, t)
        assert status in (NOT_CONVERGED, DIVERGED, NON_REVERSIBLE, NON_FINITE), MEANING[status]
        np.testing.assert_array_equal(point, before)
    status, target, _ = d.step(point, p, 0.05)
    assert status == CONVERGED
    assert np.max(np.abs(d.dense.constraint(d.flat(target)))) < 1e-9


def test_nan_momentum_fails():
    sound = model(lambda x, z: -x)
    q = np.zeros(Driven.dimension(sound, GRID))
    d = Driven(sound, with_data_from(sound, GRID, q), lanes=2)
    for bad in (np.nan, np.inf):
        p = np.zeros(q.size)
        p[-1] = bad
        status, _, _ = d.step(d.point(q), p, 0.1)
        assert status not in (CONVERGED,)


@pytest.mark.parametrize("plain", [False, True])
def test_singular_gram_matrix_fails(plain):
    """The same number observed twice without noise."""
    twice = DiffusionModel(
        drift=lambda x, z: -z["a"] * x,
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={"a": dist.Normal(0.0, 1.0)},
        initial_state=[1.0],
        observation=Noiseless(lambda x, z: jnp.concatenate([x, x])),
    )
    grid = TimeGrid.build(Observations([1.0, 2.0], np.zeros((2, 2))), steps_per_interval=2)
    d = Driven(twice, grid, lanes=2, plain=plain)
    point = d.raw_point(np.zeros(d.dense.dim))
    assert d.native.dynamics.prepare(d.engine.machine(), point) == NON_FINITE
