"""The Laplace approximation of p(u, y) as a function of the parameters u (method.md, section 21).

Each value is found from the mode of other parameters, its origin.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from pathfold.engine import Engine, LaplaceEngine
from pathfold.engine.native.dynamics import prepare
from pathfold.engine.native.fibre import draw_pair
from pathfold.engine.native.inner_mode import inner_mode
from pathfold.engine.status import CONVERGED
from pathfold.sampling.differences import Origin
from pathfold.sampling.marginal import AT, Marginal, Room, Start

if TYPE_CHECKING:
    from pathfold.sampling.starts import Point

LAPLACE = "pathfold.engine.entries:LAPLACE"  # what is to be compiled
PIECES = (1, 4)  # into which the way from the origin is cut, if it cannot be gone at once


class LaplaceMarginal(Marginal):
    """log p~(u, y), with paths integrated out about the most probable one; `full` is the engine on the manifold."""

    exact = False
    engine: LaplaceEngine

    def __init__(self, full: Engine, *, prior: bool = True, **options: Any) -> None:
        super().__init__(LaplaceEngine(full.model, full.grid, solver=None), prior=prior, **options)
        self.full = full
        for record, field in (("settings", "state_scale"), ("grid", "row_scale")):
            values = full.get("problem", full.problem, record, field)
            self.engine.set("problem", self.engine.problem, record, field, values)
        parameters = full.model.parameters
        excess = None if prior else parameters.excess_of(parameters.latent)
        self._excess = None if excess is None else jax.jit(excess)

    @cached_property
    def has_paths(self) -> bool:
        full, point = self.full, self.full.block("point")
        with np.errstate(all="ignore"):
            prepare(full.machine(), point)
        return bool(full.get("point", point, "node", "Q").any())

    def _inner(self, room: Room, u: np.ndarray, *, warm: bool) -> float:
        """Find the inner mode from the point of the room; return the log density, -inf if there is none."""
        self.engine.give(room.problem, u)
        status, potential, log_det, _ = inner_mode(room.machine, room.points, room.change, warm)
        if status != CONVERGED:
            return -np.inf
        counted, excess = u[self.counted], 0.0
        if self.prior:
            excess = float(self.engine.get("point", room.points[AT], "theta", "excess_u")[()])
        elif self._excess is not None:
            with jax.enable_x64(True):
                excess = float(self._excess(u))
        log_prior = -0.5 * float(counted @ counted) - 0.5 * counted.size * np.log(2 * np.pi) - excess
        value = log_prior + self.constant - potential - 0.5 * log_det
        return value if np.isfinite(value) else -np.inf

    def reach(self, room: Room, u: np.ndarray, origin: Origin) -> float:
        """Go from the origin to the mode of other parameters, in pieces if need be."""
        for pieces in PIECES:
            room.points[AT], value = origin.point, -np.inf
            for k in range(1, pieces + 1):
                value = self._inner(room, origin.u + k / pieces * (u - origin.u), warm=True)
                if value == -np.inf:
                    break
            if value > -np.inf:
                return value
        return -np.inf

    def settle(self, room: Room) -> None:
        """It is the most probable one."""

    def draw_pair(self, room: Room, seed: np.random.SeedSequence) -> tuple[float, float]:
        return draw_pair(room.machine, room.points, room.change, np.random.default_rng(seed))

    def start_at(self, start: Point) -> Start | None:
        """Return the inner mode found from a point of the manifold, with what the constraints give to first order."""
        full, point = self.full, start.block(self.full)
        prepare(full.machine(), point)
        covariance = full.get("point", point, "sums", "C_inv").reshape(self.size, self.size)
        u, v0, w, v = full.get_vector(point)
        with self._rooms.one() as room:
            room.points[AT] = 0.0
            self.engine.set_vector(room.points[AT], np.zeros(0), v0, w, v)
            self.engine.set("point", room.points[AT], "node", "x_node", full.get("point", point, "node", "x_node"))
            value = self._inner(room, u, warm=False)
            return None if value == -np.inf else Start(Origin(u, room.points[AT].copy(), value), covariance)
