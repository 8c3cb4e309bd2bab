"""Tempered rows against the dense density: the parameters and paths have prior times likelihood^power, and nothing else
(method.md, section 22)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.installation import compile_sampler
from pathfold.engine.model_functions import ModelFunctions
from pathfold.engine.native.constrained_step import constrained_potential
from pathfold.engine.native.nodes import follow
from pathfold.engine.native.replica_exchange import meet, set_coldness
from pathfold.engine.native.run import Machine
from pathfold.engine.status import CONVERGED
from tests.by_numpy import by_numpy
from tests.engine.faults import build_anew
from tests.thorough import thorough

POWERS = (1.0, 0.3, 1e-4, 0.0)
MIXED = [0, -1, 0, 1, 0]  # which values are censored, and on which side
KINDS: dict[str, Callable[[], Any]] = {
    "gaussian": lambda: pf.GaussianNoise(lambda x, z: x[:1], "s"),
    "matrix": lambda: pf.GaussianNoise(
        lambda x, z: x, lambda z: jnp.array([[z["s"], 0.2], [0.3 * z["g"], 1.0 + z["s"]]])
    ),
    "counts": lambda: pf.Likelihood(lambda x, z: dist.NegativeBinomial2(jnp.exp(x[0]), z["g"])),
    "factor": lambda: pf.Likelihood(lambda x, z: dist.StudentT(4.0, x[0], z["s"]), plain=True),
    "censored": lambda: pf.GaussianNoise(lambda x, z: x[:1], "s"),
    "several": lambda: [
        pf.GaussianNoise(lambda x, z: x[:1], "s"),
        pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(x[1]))),
    ],
}


@cache
def tempered(kind: str) -> Engine:
    """Return the engine of a model with such observations, one of them missing, and a prior with an excess."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["a"] * x - x**3,
        diffusion=lambda x, z: z["b"] * jnp.eye(2),
        parameters={
            "a": dist.Normal(0.3, 0.5),
            "b": dist.LogNormal(-0.7, 0.3),
            "s": dist.LogNormal(-1.0, 0.7),
            "g": dist.Gamma(2.0, 1.0),
        },
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=KINDS[kind](),
    )
    values = np.random.default_rng(1).integers(0, 4, size=(5, model.observation_dim)).astype(float)
    values[2, 0] = np.nan
    censored = np.array(MIXED)[:, None] if kind == "censored" else None
    data = pf.Observations(np.arange(1, 6) / 2, values, initial_time=0.0, censored=censored)
    return Engine(model, TimeGrid.build(data, steps_per_interval=3), tempered=True)


@cache
def densities(engine: Engine) -> Callable[[np.ndarray, np.ndarray], tuple[float, float]]:
    """A function of u and the node states: log p(y) by the model's distributions, and the excess of the prior."""
    model, grid = engine.model, engine.grid
    seen = jax.tree.map(lambda array: np.asarray(array, float), grid.seen())

    @by_numpy
    def compute(u, states):
        z = model.parameters.unflatten(model.parameters.push(u))

        def at_node(x, t, own):
            return jnp.nansum(model.observation.log_density(*model.in_series(z, x, t), t, own))

        excess = model.parameters.excess
        assert excess is not None
        return jnp.sum(jax.vmap(at_node)(states, jnp.asarray(grid.ends), seen)), excess(u)

    return compute


class Tempered:
    """A point of the manifold, on the rung of a power."""

    def __init__(self, engine: Engine, power: float, normals: tuple[np.ndarray, ...]) -> None:
        compile_sampler("pathfold.engine.entries:REPLICAS", announce=False)
        self.engine, self.normals = engine, normals
        self.point, scratch, problem = engine.block("point"), engine.block("scratch"), engine.problem.copy()
        machine = Machine.of(engine.layout, problem, scratch)
        set_coldness(machine, power)
        engine.set_vector(self.point, *normals)
        follow(machine, self.point, 0)
        assert meet(machine, self.point) == CONVERGED

    @property
    def _missing(self) -> np.ndarray:
        """1/2 |w|^2 of values that are missing, which is part of no density."""
        return 0.5 * np.sum(self.engine.get_vector(self.point)[2][~self.engine.grid.mask] ** 2)

    @property
    def log_density(self) -> float:
        """Of (u, v0, v): e^-potential is a density by area, of which a unit of (u, v0, v) has |G|^(1/2)."""
        log_det = self.engine.get("point", self.point, "sums", "log_det")
        return float(0.5 * log_det - constrained_potential(self.engine.layout, self.point) + self._missing)

    @property
    def log_likelihood(self) -> float:
        return densities(self.engine)(self.normals[0], self.engine.get("point", self.point, "node", "x_node"))[0]

    @property
    def log_prior(self) -> float:
        u, v0, _, v = self.normals
        excess = densities(self.engine)(u, self.engine.get("point", self.point, "node", "x_node"))[1]
        return -0.5 * sum(float(np.sum(part**2)) for part in (u, v0, v)) - excess

    @property
    def loss(self) -> float:
        return float(self.engine.get("point", self.point, "node", "loss").sum())

    @property
    def split_potential(self) -> float:
        """h1, what the potential has besides 1/2 |q|^2."""
        q = self.point[: self.engine.block_sizes["vector"]]
        return float(constrained_potential(self.engine.layout, self.point) - 0.5 * q @ q)


def draw(engine: Engine, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return tuple(0.7 * rng.standard_normal(part.shape) for part in engine.get_vector(engine.block("point")))


def largest_error(engine: Engine, power: float) -> tuple[float, float]:
    """By how much density and loss differ from the dense ones, up to a constant."""
    points = [Tempered(engine, power, draw(engine, seed)) for seed in range(4)]
    density = [point.log_density - point.log_prior - power * point.log_likelihood for point in points]
    return float(np.ptp(density)), float(np.ptp([point.loss + point.log_likelihood for point in points]))


@pytest.mark.parametrize("kind", thorough(KINDS, "matrix", "factor", "censored", "several"))
def test_density_is_prior_times_likelihood_to_a_power(kind):
    engine = tempered(kind)
    for power in POWERS:
        assert max(largest_error(engine, power)) < 1e-11


@pytest.mark.parametrize("kind", thorough(["matrix", "counts"], "matrix"))
def test_a_remainder_without_its_power_is_noticed(kind, monkeypatch):
    right = ModelFunctions.node_excess
    monkeypatch.setattr(
        ModelFunctions, "node_excess", lambda self, z, x, w, t, seen, coldness=1.0: right(self, z, x, w, t, seen)
    )
    build_anew(monkeypatch)
    engine = tempered.__wrapped__(kind)
    assert largest_error(engine, 1.0)[0] < 1e-11
    assert largest_error(engine, 0.3)[0] > 0.1


@pytest.mark.parametrize("power", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("kind", thorough(["gaussian", "matrix", "counts", "censored"], "matrix", "censored"))
def test_gradient_is_that_of_the_potential(kind, power):
    """Along curves of the manifold, to the accuracy of central differences."""
    engine, step, rng = tempered(kind), 1e-5, np.random.default_rng(5)
    normals = draw(engine, 0)
    here = Tempered(engine, power, normals)
    slope = tuple(part.copy() for part in engine.get_vector(engine.gradient(here.point)))
    way = tuple(rng.standard_normal(part.shape) for part in normals)
    ahead, behind = (
        Tempered(engine, power, tuple(a + sign * step * b for a, b in zip(normals, way, strict=True)))
        for sign in (1, -1)
    )
    ends = engine.get_vector(ahead.point), engine.get_vector(behind.point)
    tangent = [(a - b) / (2 * step) for a, b in zip(*ends, strict=True)]
    expected = (ahead.split_potential - behind.split_potential) / (2 * step)
    found = sum(float(np.sum(a * b)) for a, b in zip(slope, tangent, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
