"""A metric of the parameters: the engine in coordinates in which it is the identity, against the oracle of the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pathfold.data import Observations, TimeGrid
from pathfold.engine.model_functions import Programs
from pathfold.engine.native.run import Machine
from tests.engine.driving import Driven
from tests.engine.faults import build_anew
from tests.engine.models import with_data_from
from tests.engine.test_conditioning import CASES, NODES
from tests.engine.test_oracle import HIERARCHY, ROUND, TOLERANCE, all_errors
from tests.engine.test_step import EXAMPLES, SLOPE, TOLERANCES, VOLUME, energy_slope, step_errors, volume_errors
from tests.plain import compiled_native
from tests.thorough import thorough

SPLITTINGS = ("gaussian", "stormer-verlet")


def some_coordinates(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Far from the identity: scales from 0.3 to 2, and correlated."""
    rng = np.random.default_rng(9)
    factor = np.tril(0.5 * rng.normal(size=(size, size)), -1) + np.diag(np.geomspace(0.3, 2.0, size))
    return 0.4 * rng.normal(size=size), factor


def fixed(case=ROUND) -> tuple[Driven, np.ndarray, np.ndarray]:
    model = case.model()
    d = Driven(model, case.grid(), lanes=2, coordinates=some_coordinates(model.parameters.size))
    q, p = 0.5 * np.random.default_rng(5).normal(size=(2, d.dense.dim))
    return d, q, p


@pytest.mark.parametrize("case", thorough([ROUND, HIERARCHY]), ids=["round", "hierarchy"])
def test_every_quantity_is_the_oracles(case):
    found = all_errors(*fixed(case))
    assert max(found.values()) < TOLERANCE, found


@pytest.mark.slow
def test_with_states_that_are_held():
    case = CASES["noisy"]
    model, grid, rng = case.model(), case.grid(), np.random.default_rng(case.seed)
    states = np.full((len(grid.starts), case.X), np.nan)
    states[NODES] = rng.normal(size=(len(NODES), case.X))
    d = Driven(model, grid, states=states, lanes=4, coordinates=some_coordinates(2))
    found = all_errors(d, *0.5 * rng.normal(size=(2, d.dense.dim)))
    assert max(found.values()) < TOLERANCE, found


@cache
def on_the_manifold() -> tuple[Driven, np.ndarray, np.ndarray, float]:
    """A small series of Ornstein-Uhlenbeck's process, a position on the manifold and a momentum."""
    example = EXAMPLES["ornstein_uhlenbeck"]._replace(intervals=2, steps=2)
    model, rng = example.build(), np.random.default_rng(3)
    times = example.gap * np.arange(1, example.intervals + 1)
    empty = np.zeros((example.intervals, model.observation_dim))
    grid = TimeGrid.build(Observations(times, empty), steps_per_interval=example.steps)
    size, dim = model.parameters.size, Driven.dimension(model, grid)
    centre, factor = some_coordinates(size)
    q, p = example.spread * rng.normal(size=(2, dim))
    natural = np.concatenate([centre + factor @ q[:size], q[size:]])
    d = Driven(model, with_data_from(model, grid, natural), lanes=4, coordinates=(centre, factor))
    return d, q, d.dense.project(q, p / example.spread), example.t


@pytest.mark.parametrize("splitting", SPLITTINGS)
def test_a_step_holds_the_constraints_returns_and_preserves_volume(splitting):
    d, q, p, t = on_the_manifold()
    d.use_splitting(splitting)
    errors = step_errors(d, q, p, t)
    assert all(errors[key] < tolerance for key, tolerance in TOLERANCES.items()), errors
    assert SLOPE[0] < energy_slope(d.step, d, q, p, 0.5 * t) < SLOPE[1]
    assert max(volume_errors(d, q, p, t)) < VOLUME


def test_changing_the_coordinates_leaves_the_point_where_it_is():
    d, q, _, _ = on_the_manifold()
    d.use_splitting("gaussian")
    engine, native = d.engine, compiled_native
    problems, point, scratch = engine.problem[None].copy(), d.point(q), engine.block("scratch")
    size = engine.sizes.U
    before = {name: engine.get("point", point, *name) for name in (("theta", "z"), ("node", "x_node"), ("path", "x"))}
    centre, factor = np.linspace(-1.0, 1.0, size), np.tril(np.full((size, size), 0.2)) + np.eye(size)
    machine = Machine.of(engine.layout, problems[0], scratch)
    native.coordinates.change_coordinates(machine, problems, point, centre, factor.ravel())
    for name, values in before.items():
        np.testing.assert_allclose(engine.get("point", point, *name), values, rtol=1e-13, atol=1e-13)
    old_centre, old_factor = some_coordinates(size)
    u = old_centre + old_factor @ q[:size]
    np.testing.assert_allclose(centre + factor @ point[:size], u, atol=1e-13)
    found = point[:size].copy()
    native.coordinates.to_normals(machine, found)
    np.testing.assert_allclose(found, u, atol=1e-13)
    other = Driven(d.engine.model, d.engine.grid, lanes=4, coordinates=(centre, factor))
    there = other.flat(point)
    np.testing.assert_allclose(engine.gradient(point), engine.gradient(other.point(there)), rtol=1e-9, atol=1e-11)


def test_a_planted_fault_is_seen(monkeypatch):
    """Without the excess the prior in these coordinates would be standard normal, which it is not."""
    d, q, _, _ = on_the_manifold()
    assert d.potential_error(q) < TOLERANCE
    sound = Programs.in_coordinates

    def faulty(f, q, centre, factor):
        excess = f.parameter_excess(centre + factor @ q)
        gradient = factor.T @ excess.jacobian(0)
        return sound(f, q, centre, factor)._replace(excess=excess.value(), excess_gradient=gradient)

    monkeypatch.setattr(Programs, "in_coordinates", faulty)
    build_anew(monkeypatch)
    wrong = Driven(
        d.engine.model, d.engine.grid, dense=d.dense, lanes=4, coordinates=some_coordinates(d.engine.sizes.U)
    )
    assert wrong.potential_error(q) > 1e3 * TOLERANCE
    assert wrong.gradient_error(q, verlet=False) > 1e3 * TOLERANCE
