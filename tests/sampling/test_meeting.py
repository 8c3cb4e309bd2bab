"""A chain that warm-up leaves in a mode without mass begins again from a better one, and says so."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.engine import Engine
from pathfold.sampling import execution, workers
from pathfold.sampling.starts import Point, Starts, find_starts

MEAN, SPREAD = 0.7, 0.2


def squared() -> pf.DiffusionModel:
    """A state that is seen squared, with a prior that knows its sign: the other sign has a mass of e^-25 or so."""
    return pf.DiffusionModel(
        drift=lambda x, z: -0.1 * x,
        diffusion=lambda x, z: jnp.full((1, 1), 0.1),
        parameters={"a": dist.Normal(MEAN, SPREAD)},
        initial_state=lambda z: [z["a"]],
        observation=pf.GaussianNoise(lambda x, z: x**2, 0.05),
    )


def mirrored(engine: Engine, point: Point) -> Point:
    """The point with x and -x exchanged."""
    block = engine.block("point")
    block[: point.position.size] = point.position
    engine.record("point", block, "node")[:] = point.nodes
    u, v0, w, v = engine.get_vector(block)
    engine.set_vector(block, -u - 2.0 * MEAN / SPREAD, v0, w, -v)
    engine.set("point", block, "node", "x_node", -engine.get("point", block, "node", "x_node"))
    return Point(block[: point.position.size].copy(), engine.record("point", block, "node").copy())


def run(monkeypatch) -> xr.DataTree:
    def astray(engine: Engine, chains, **settings) -> Starts:
        best = find_starts(engine, chains, **settings).candidates[0]
        return Starts([best, replace(best, point=mirrored(engine, best.point))], {0: 0, 1: 1, 2: 0})

    monkeypatch.setattr(execution, "find_starts", astray)
    data = pf.Observations(0.5 * np.arange(1, 11), 0.5 * np.ones(10))
    settings = {"steps_per_interval": 2, "chains": 3, "warmup": 60, "draws": 40, "seed": 2, "progress": False}
    return pf.sample(squared(), data, sampler=pf.StaticHMC(), **settings)


@pytest.mark.filterwarnings("ignore:.*few effective draws", "ignore:.*has not converged", "ignore:.*things are amiss")
def test_a_chain_in_a_mode_without_mass_begins_again(monkeypatch):
    with pytest.warns(
        UserWarning, match=r"chain 1 ended its warm-up in a mode whose mass is e\^-\d\d of that of chain"
    ):
        tree = run(monkeypatch)
    assert np.all(tree.posterior["a"] > 0.0)
    a = tree.posterior["a"].values
    assert not np.array_equal(a[1], a[0]), "its random numbers are its own"


@pytest.mark.filterwarnings("ignore")
def test_without_the_meeting_it_stays(monkeypatch):
    """What the other test rests on."""
    monkeypatch.setattr(workers, "meet", lambda chains, monitors: [])
    assert np.all(run(monkeypatch).posterior["a"].isel(chain=1) < 0.0)
