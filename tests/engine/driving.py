"""The engine driven by hand, next to the oracle; each `..._error` compares one quantity of the two."""

from __future__ import annotations

from typing import Any

import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine import Engine, plans
from pathfold.engine.status import CONVERGED
from pathfold.model import DiffusionModel
from pathfold.paper.blocks import held
from tests.dense import Dense, InCoordinates
from tests.plain import compiled_native, plain_native

# The gradient with the solve for its normal part left out.
_LAST = [stage.kernels for stage in plans.GRADIENT.stages].index(("parameter_gradient", "begin_solve"))
NOT_PROJECTED = plans.plan(
    *plans.GRADIENT.stages[: _LAST + 1], *plans.SMOOTHED, plans.chunks("gradient_vector"), plans.once("pull_start")
)


def relative(found, expected, scale=None) -> float:
    """The largest difference over the largest entry expected (or of `scale`); 0 for empty arrays, NaN never passes."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    if found.size == 0:
        return 0.0
    size = np.max(np.abs(expected if scale is None else scale))
    error = float(np.max(np.abs(found - expected)) / max(size, 1e-300))
    return error if error >= 0.0 else np.inf


class Driven:
    """An engine and the oracle of the same manifold. Flat vectors are in the oracle's order.

    The native functions run as plain Python, which keeps many small models cheap, or compiled.
    """

    def __init__(
        self,
        model: DiffusionModel,
        grid: TimeGrid,
        *,
        states=None,
        mask=None,
        dense: Dense | None = None,
        plain: bool = True,
        lanes: int | None = None,
        abreast: int | None = None,
        longest: int | None = None,
        coordinates: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        given, metric = states is not None, coordinates is not None
        cut: dict[str, Any] = {"lanes": lanes, "abreast": abreast, "longest": longest}
        self.engine = Engine(model, grid, conditioned=given, metric=metric, **cut)
        if coordinates is not None:
            dense = dense or InCoordinates(model, grid, *coordinates, states=states, mask=mask)
            for name, values in zip(("centre", "factor"), coordinates, strict=True):
                self.engine.set("problem", self.engine.problem, "coordinates", name, values)
        self.counts = np.zeros(compiled_native.trajectory.COUNTS, dtype=np.int64)
        self.dense = dense or Dense(model, grid, states=states, mask=mask)
        self.native: Any = plain_native() if plain else compiled_native
        if states is not None:
            nodes = np.flatnonzero(~np.isnan(states).any(axis=1))
            self.engine.problem[:] = held(self.engine, nodes, np.asarray(states)[nodes])

    @staticmethod
    def dimension(model: DiffusionModel, grid: TimeGrid) -> int:
        return Dense(model, grid).dim

    @staticmethod
    def states(model: DiffusionModel, grid: TimeGrid, q: np.ndarray) -> np.ndarray:
        return Dense(model, grid).node_states(q)

    def machine(self, scratch: np.ndarray) -> Any:
        return self.engine.machine(scratch)._replace(counts=self.counts)

    def use_splitting(self, splitting: str) -> None:
        """Change the splitting of the engine; it is a setting of the problem, read when the code runs."""
        self.engine.set("problem", self.engine.problem, "settings", "verlet", splitting == "stormer-verlet")

    def write(self, block: np.ndarray, flat: np.ndarray) -> None:
        self.engine.set_vector(block, *np.split(flat, np.cumsum(self.dense.sizes)[:-1]))

    def flat(self, block: np.ndarray) -> np.ndarray:
        return np.concatenate([part.ravel() for part in self.engine.get_vector(block)])

    def vector(self, flat: np.ndarray) -> np.ndarray:
        block = self.engine.block("vector")
        self.write(block, flat)
        return block

    def raw_point(self, q: np.ndarray, nodes: np.ndarray | None = None) -> np.ndarray:
        """A point at q with its node states, nothing else computed."""
        point = self.engine.block("point")
        self.write(point, q)
        self.engine.set("point", point, "node", "x_node", self.dense.node_states(q) if nodes is None else nodes)
        return point

    def point(self, q: np.ndarray) -> np.ndarray:
        """A point that is ready for a step."""
        point, scratch = self.raw_point(q), self.engine.block("scratch")
        assert self.native.dynamics.prepare(self.machine(scratch), point) == CONVERGED
        return point

    def rows(self, by_node: np.ndarray) -> np.ndarray:
        """Constraint rows of the engine (N, rows) in the oracle's order: those that count."""
        mask = self.engine.get("problem", self.engine.problem, "grid", "mask")
        return by_node[mask > 0.0]

    def step(self, point: np.ndarray, p: np.ndarray, t: float) -> tuple[int, np.ndarray, np.ndarray]:
        """One constrained step from a prepared point; the status, the new point and the new momentum."""
        block = self.engine.block
        target, back, vector, scratch = (block(k) for k in ("point", "point", "vector", "scratch"))
        self.write(vector, p)
        with np.errstate(all="ignore"):  # native code does not warn either
            blocks = point, target, back, vector
            status = self.native.dynamics.step(self.machine(scratch), *blocks, t, 0.5 * t, 0.5 * t)
        return int(status), target, self.flat(vector)

    def pair(self, point: np.ndarray, p: np.ndarray, t: float) -> tuple[int, np.ndarray, np.ndarray]:
        """The same for a pair of steps with unequal kicks."""
        at = self.native.trajectory
        points = np.zeros((at.STATIC_POINTS, point.size))
        momenta = np.zeros((at.STATIC_MOMENTA, self.engine.block_sizes["vector"]))
        points[at.CURRENT], momenta[at.MOVING] = point, self.vector(p)
        with np.errstate(all="ignore"):
            machine = self.machine(self.engine.block("scratch"))
            status = self.native.two_stage.take_pair(machine, points, momenta, at.CURRENT, at.NEXT, t)
        return int(status), points[at.NEXT], self.flat(momenta[at.MOVING])

    def energy(self, point: np.ndarray, p: np.ndarray) -> float:
        return float(self.native.dynamics.hamiltonian(self.engine.layout, point, self.vector(p)))

    def log_det_error(self, q: np.ndarray) -> float:
        expected = self.dense.log_det_gram(q)
        found = self.engine.get("point", self.point(q), "sums", "log_det")
        return relative(found, expected, max(1.0, abs(expected)))

    def gradient_error(self, q: np.ndarray, *, verlet: bool) -> float:
        """Of the projected gradient of h1, relative to the gradient before it is projected."""
        self.use_splitting("stormer-verlet" if verlet else "gaussian")
        plain = self.dense.h1_gradient(q, verlet=verlet)
        found = self.flat(self.engine.gradient(self.point(q)))
        return relative(found, self.dense.project(q, plain), plain)

    def plain_gradient_error(self, q: np.ndarray) -> float:
        """Of the gradient of h1 before it is projected: with the solve for its normal part left out.

        Nor are rows of J added to it, which the solve would take away again: as while a start is sought.
        """
        self.use_splitting("gaussian")
        code, point, scratch = plain_native(), self.point(q), self.engine.block("scratch")
        self.engine.set("problem", self.engine.problem, "settings", "gap_relaxation", 1e-300)
        code.run.run(self.machine(scratch), NOT_PROJECTED, point, self.engine.gradient(point))
        self.engine.set("problem", self.engine.problem, "settings", "gap_relaxation", 0.0)
        return relative(self.flat(self.engine.gradient(point)), self.dense.h1_gradient(q, verlet=False))

    def potential_error(self, q: np.ndarray) -> float:
        expected = 0.5 * q @ q + self.dense.excess(q) + 0.5 * self.dense.log_det_gram(q)
        found = self.native.dynamics.potential(self.engine.layout, self.point(q))
        return relative(found, expected, max(1.0, abs(expected)))

    def projector_errors(self, q: np.ndarray, p: np.ndarray) -> tuple[float, float]:
        """Of p - J^T G^{-1} J p, relative to p; and of lam = G^{-1} J p."""
        point, vector, scratch = self.point(q), self.vector(p), self.engine.block("scratch")
        self.native.constrained_step.project(self.machine(scratch), point, vector)
        lam = self.rows(self.engine.get("scratch", scratch, "newton", "lam"))
        expected = self.dense.solve_pushed(q, p)
        return relative(self.flat(vector), self.dense.project(q, p), p), relative(lam, expected)

    def newton_errors(self, q: np.ndarray, moving: np.ndarray) -> dict[str, float]:
        """One Newton iteration from a consistent path, q' - J(q)^T (J(q') J(q)^T)^{-1} c(q'); its nodes, and c(q')."""
        engine, code = self.engine, self.native
        origin, target, scratch = self.point(q), self.raw_point(moving), engine.block("scratch")
        machine = self.machine(scratch)
        code.run.run(machine, plans.SHOOT_AFRESH, origin, target)
        residual = engine.get("scratch", scratch, "newton_sums", "residual")
        constraint, gap = (engine.get("scratch", scratch, "newton", field) for field in ("o", "gap"))
        if self.engine.conditioned:  # a node state that is conditioned on stays; the gap before it is what is amiss
            constraint[:, self.engine.model.observation_dim :] += gap
        code.run.run(machine, plans.CROSS_SMOOTH, origin, target)
        nodes = engine.get("point", target, "node", "x_node")
        code.run.run(machine, plans.JUST_SHOOT, origin, target)

        expected = self.dense.constraint(moving)
        change, lam = self.dense.newton_change(q, moving)
        states, push = self.dense.moved_states(moving, change)
        free = ~self.dense.given
        found = engine.get("scratch", scratch, "newton", "lam")
        return {
            "constraint": relative(self.rows(constraint), expected, np.append(expected, 1.0)),
            "gap": relative(gap[free], 0.0 * gap[free], np.append(states, 1.0)),
            "residual": relative(residual, np.max(np.abs(expected))),
            "mixed multipliers": relative(self.rows(found), lam),
            "mixed position": relative(self.flat(target) - moving, change),
            "mixed nodes": relative((nodes - states)[free], push[free], np.append(states, 1.0)),
        }
