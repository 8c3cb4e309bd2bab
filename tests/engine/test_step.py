"""Properties of one constrained step, on every example model and with both splittings.

Each check first asserts that the step succeeded. Positions start on the manifold, with data generated from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from pathfold.data import Observations, TimeGrid
from pathfold.engine.equations import gram, log_det
from pathfold.engine.status import CONVERGED, RETURNED
from pathfold.example_models import (
    cox_ingersoll_ross,
    fitzhugh_nagumo,
    integrated_ornstein_uhlenbeck,
    ornstein_uhlenbeck,
    sir,
)
from pathfold.model import DiffusionModel
from tests.engine.driving import Driven
from tests.engine.faults import plant
from tests.engine.models import with_data_from
from tests.thorough import sparing, thorough

CONSTRAINT = 1e-9  # of the position, in open loop
COTANGENT = 1e-9  # |J p| / (|J| |p|)
RETURN = 2e-8  # of the position after forward and backward
RETURN_MOMENTUM = 1e-6  # it follows from the position divided by t
SLOPE = (1.75, 2.25)  # of log(energy error) over log(t), for trajectories of one length
VOLUME = 1e-6  # of the determinant and of the symplectic form, from fourth-order differences


class Example(NamedTuple):
    build: Callable[[], DiffusionModel]
    gap: float  # between observations
    intervals: int
    steps: int
    spread: float  # of the position the data come from, in prior standard deviations
    t: float  # step size
    centre: tuple[float, ...] = ()  # of the first entries of that position


EXAMPLES = {
    "ornstein_uhlenbeck": Example(ornstein_uhlenbeck.noiseless, 0.5, 8, 6, 0.7, 0.2),
    "ornstein_uhlenbeck_noisy": Example(ornstein_uhlenbeck.noisy, 0.5, 8, 6, 0.7, 0.2),
    "integrated_ornstein_uhlenbeck": Example(integrated_ornstein_uhlenbeck.noiseless, 0.5, 8, 5, 0.7, 0.2),
    "fitzhugh_nagumo": Example(fitzhugh_nagumo.noiseless, 0.2, 8, 8, 0.4, 0.1),
    "fitzhugh_nagumo_noisy": Example(fitzhugh_nagumo.noisy, 0.2, 8, 8, 0.4, 0.1),
    "cox_ingersoll_ross": Example(cox_ingersoll_ross.noiseless, 0.3, 8, 6, 0.4, 0.1),
    "sir": Example(sir.noisy, 0.5, 6, 8, 0.2, 0.05, (-0.7, 0.0, 0.7, 0.0, 0.0, 0.7)),  # the epidemic grows,
}
SPLITTINGS = ("gaussian", "stormer-verlet")


@cache
def start(name: str, **changes: int) -> tuple[Driven, np.ndarray, np.ndarray]:
    """The engine of an example, a position on its manifold and a momentum in its cotangent space."""
    example = EXAMPLES[name]._replace(**changes)
    model = example.build()
    times = example.gap * np.arange(1, example.intervals + 1)
    grid = TimeGrid.build(
        Observations(times, np.zeros((example.intervals, model.observation_dim))), steps_per_interval=example.steps
    )
    rng = np.random.default_rng(3)
    dim = Driven.dimension(model, grid)
    q, p = example.spread * rng.normal(size=dim), rng.normal(size=dim)
    q[: len(example.centre)] += example.centre
    driven = Driven(model, with_data_from(model, grid, q), lanes=4)
    return driven, q, driven.dense.project(q, p)


def cotangent_error(d: Driven, q: np.ndarray, p: np.ndarray) -> float:
    J = d.dense.jacobian(q)
    return float(np.linalg.norm(J @ p) / (np.linalg.norm(J, 2) * np.linalg.norm(p)))


def step_errors(d: Driven, q: np.ndarray, p: np.ndarray, t: float) -> dict[str, float]:
    """One step and the same step backward: what is left of the constraint, the cotangent space and the way back."""
    status, there, p_there = d.step(d.point(q), p, t)
    assert status == CONVERGED
    q_there = d.flat(there)
    assert np.max(np.abs(q_there - q)) > 0.1 * abs(t)  # it moved
    status, back, p_back = d.step(there, -p_there, t)
    assert status == CONVERGED
    return {
        "constraint": float(np.max(np.abs(d.dense.constraint(q_there)))),
        "cotangent": cotangent_error(d, q_there, p_there),
        "return": float(np.max(np.abs(d.flat(back) - q))),
        "return of momentum": float(np.max(np.abs(p_back + p))),
    }


TOLERANCES = {
    "constraint": CONSTRAINT,
    "cotangent": COTANGENT,
    "return": RETURN,
    "return of momentum": RETURN_MOMENTUM,
}


def energy_slope(step: Callable[..., Any], d: Driven, q: np.ndarray, p: np.ndarray, t: float) -> float:
    """Slope of log(largest energy error of a trajectory) over log(step size), at t, t/2, t/4 and for six steps of t."""
    errors, sizes = [], [t, t / 2, t / 4]
    for size in sizes:
        point, momentum = d.point(q), p
        energies = [d.energy(point, momentum)]
        for _ in range(round(6 * t / size)):
            status, point, momentum = step(point, momentum, size)
            assert status == CONVERGED
            energies.append(d.energy(point, momentum))
        errors.append(np.max(np.abs(np.array(energies) - energies[0])))
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


@pytest.mark.parametrize("splitting", SPLITTINGS)
@pytest.mark.parametrize("name", sparing(EXAMPLES, "fitzhugh_nagumo", "sir"))
class TestExamples:
    def test_holds_constraints_and_returns(self, name, splitting):
        d, q, p = start(name)
        d.use_splitting(splitting)
        for t in (EXAMPLES[name].t, -0.5 * EXAMPLES[name].t):
            errors = step_errors(d, q, p, t)
            assert all(errors[key] < tolerance for key, tolerance in TOLERANCES.items()), errors

    def test_energy_error_is_of_second_order(self, name, splitting):
        d, q, p = start(name)
        d.use_splitting(splitting)
        slope = energy_slope(d.step, d, q, p, 0.5 * EXAMPLES[name].t)
        assert SLOPE[0] < slope < SLOPE[1], slope


@pytest.mark.parametrize("splitting", SPLITTINGS)
@pytest.mark.parametrize("name", ["ornstein_uhlenbeck_noisy", "fitzhugh_nagumo"])
class TestPairs:
    """Two steps with unequal kicks: as reversible as one step, and of the same order."""

    def test_hold_constraints_and_return(self, name, splitting):
        d, q, p = start(name)
        d.use_splitting(splitting)
        status, there, p_there = d.pair(d.point(q), p, EXAMPLES[name].t)
        assert status == CONVERGED
        assert np.max(np.abs(d.dense.constraint(d.flat(there)))) < CONSTRAINT
        assert cotangent_error(d, d.flat(there), p_there) < COTANGENT
        status, back, p_back = d.pair(there, -p_there, EXAMPLES[name].t)
        assert status == CONVERGED
        assert np.max(np.abs(d.flat(back) - q)) < RETURN
        assert np.max(np.abs(p_back + p)) < RETURN_MOMENTUM

    def test_energy_error_is_of_second_order(self, name, splitting):
        d, q, p = start(name)
        d.use_splitting(splitting)
        slope = energy_slope(d.pair, d, q, p, 0.5 * EXAMPLES[name].t)
        assert SLOPE[0] < slope < SLOPE[1], slope


@pytest.mark.slow  # along chains: test_way_back.py
@np.errstate(all="ignore")
def test_a_way_back_that_ends_early_would_have_come_back():
    """For short and long steps, of which some do not return: the same verdict as of the whole solve."""
    verdicts = []
    for name, times in (("fitzhugh_nagumo", (0.3, 1.4)), ("ornstein_uhlenbeck", (1.4,))):
        d, q, _ = start(name)
        d.use_splitting("gaussian")
        native, rng, origin = d.native.constrained_step, np.random.default_rng(6), d.point(q)
        goal = origin[: d.engine.block_sizes["vector"]]
        for t in times:
            for _ in range(400 if name == "ornstein_uhlenbeck" else 60):
                p = d.vector(d.dense.project(q, rng.normal(size=q.size)))
                there, back, scratch = (d.engine.block(kind) for kind in ("point", "point", "scratch"))
                if native.position_step(d.machine(scratch), origin, there, goal[:0], p, t) != CONVERGED:
                    continue
                native.momentum_step(d.machine(scratch), origin, there, p, t)
                if native.linearise_and_factorise(d.machine(scratch), there) != CONVERGED:
                    continue
                native.project(d.machine(scratch), there, p)
                counted = []
                for sought in (goal, goal[:0]):
                    d.counts[:] = 0
                    status = native.position_step(d.machine(scratch), there, back, sought, p, -t)
                    counted.append((status, int(d.counts[0])))
                (early, few), (whole, many) = counted
                returned = whole == CONVERGED and np.max(np.abs(back[: goal.size] - goal)) < RETURN
                close = early == CONVERGED and few == many  # sought to the end, which the step then compares
                assert (early == RETURNED or (close and returned)) == returned
                verdicts.append((returned, early == RETURNED, few, many))
    returned, early, few, many = np.array(verdicts).T
    assert returned.sum() > 100
    assert (returned == 0).sum() > 5, "ways that lead elsewhere are tried too"
    assert np.mean(early[returned == 1]) > 0.95
    assert few[returned == 1].mean() < 0.7 * many[returned == 1].mean()


class Chart:
    """Canonical coordinates (xi, alpha) of the cotangent bundle near q0: xi moves along the tangent basis T0 and back
    to the manifold along the normals at q0; alpha = (dq/dxi)^T p, with dq/dxi = T (T0^T T)^{-1}."""

    def __init__(self, d: Driven, q0: np.ndarray) -> None:
        self.d, self.q0 = d, q0
        self.normals, self.T0 = self._split(q0)

    def _split(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        J = self.d.dense.jacobian(q)
        basis, _ = np.linalg.qr(J.T, mode="complete")
        return basis[:, : len(J)], basis[:, len(J) :]

    def point(self, xi: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q, dense = self.q0 + self.T0 @ xi, self.d.dense
        for _ in range(20):
            change = np.linalg.solve(dense.jacobian(q) @ self.normals, dense.constraint(q))
            q = q - self.normals @ change
            if np.max(np.abs(change)) < 1e-12:  # squared by the next one
                break
        return q, dense.project(q, self.T0 @ alpha)

    def coordinates(self, q: np.ndarray, p: np.ndarray) -> np.ndarray:
        _, T = self._split(q)
        return np.concatenate([self.T0.T @ (q - self.q0), np.linalg.solve((self.T0.T @ T).T, T.T @ p)])


def volume_errors(d: Driven, q: np.ndarray, p: np.ndarray, t: float, *, h: float = 1e-3) -> tuple[float, float]:
    """How far the step's Jacobian in canonical coordinates is from determinant one, and from being symplectic."""

    def step(q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        status, there, momentum = d.step(d.point(q), p, t)
        assert status == CONVERGED
        return d.flat(there), momentum

    here, there = Chart(d, q), Chart(d, step(q, p)[0])
    k = here.T0.shape[1]
    origin = np.concatenate([np.zeros(k), here.T0.T @ p])

    def mapped(i: int, distance: float) -> np.ndarray:
        at = origin.copy()
        at[i] += distance
        return there.coordinates(*step(*here.point(at[:k], at[k:])))

    columns = [
        (8.0 * (mapped(i, h) - mapped(i, -h)) - (mapped(i, 2 * h) - mapped(i, -2 * h))) / (12.0 * h)
        for i in range(2 * k)
    ]
    M = np.stack(columns, axis=1)
    form = np.block([[np.zeros((k, k)), np.eye(k)], [-np.eye(k), np.zeros((k, k))]])
    return abs(float(np.linalg.det(M)) - 1.0), float(np.max(np.abs(M.T @ form @ M - form)))


SMALL = {
    "ornstein_uhlenbeck": {"intervals": 2, "steps": 2},
    "fitzhugh_nagumo_noisy": {"intervals": 2, "steps": 1},
}


@pytest.mark.parametrize(
    ("name", "splitting"), sparing([*product(SMALL, SPLITTINGS)], ("fitzhugh_nagumo_noisy", "stormer-verlet"))
)
def test_preserves_volume(name, splitting):
    d, q, p = start(name, **SMALL[name])
    d.use_splitting(splitting)
    determinant, form = volume_errors(d, q, p, EXAMPLES[name].t)
    assert determinant < VOLUME
    assert form < VOLUME


def test_planted_faults_are_seen_by_step_checks(monkeypatch):
    name = "ornstein_uhlenbeck"
    d, q, p = start(name, **SMALL[name])
    d = Driven(d.dense.model, d.dense.grid, dense=d.dense, plain=True, lanes=4)
    d.use_splitting("gaussian")
    t, kick = EXAMPLES[name].t, d.native.constrained_step.kick

    def kick_with_friction(m, p, slope, t):
        p *= 1.0 - 0.05 * t
        return kick(m, p, slope, t)

    with monkeypatch.context() as patch:
        patch.setattr(d.native.constrained_step, "kick", kick_with_friction)
        determinant, form = volume_errors(d, q, p, t)
        assert min(determinant, form) > 1e3 * VOLUME
        assert not SLOPE[0] < energy_slope(d.step, d, q, p, t) < SLOPE[1]
    with monkeypatch.context() as patch:
        patch.setattr(d.native.constrained_step, "project", lambda *_: None)
        status, there, p_there = d.step(d.point(q), p, t)
        assert status == CONVERGED
        assert cotangent_error(d, d.flat(there), p_there) > 1e3 * COTANGENT


KERNEL_FAULTS = {
    "sign of a weight": (log_det, "_weights", lambda out, given: {"Lam0": -out["Lam0"]}),
    "Woodbury term": (gram, "_factorise", lambda out, given: {"C": given["C"]}),
}


@pytest.mark.parametrize("fault", thorough(KERNEL_FAULTS, "sign of a weight"))
def test_planted_faults_of_kernels_are_seen(fault, monkeypatch):
    sound, q, p = start("ornstein_uhlenbeck_noisy")
    plant(monkeypatch, *KERNEL_FAULTS[fault])
    d = Driven(sound.dense.model, sound.dense.grid, dense=sound.dense, lanes=4)
    if fault == "Woodbury term":
        with pytest.raises(AssertionError):  # steps fail, or leave the cotangent space
            assert step_errors(d, q, p, 0.2)["cotangent"] < 1e3 * COTANGENT
    else:
        assert not SLOPE[0] < energy_slope(d.step, d, q, p, 0.1) < SLOPE[1]
