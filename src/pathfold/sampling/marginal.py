"""The Laplace approximation of p(u, y), with the path integrated out, as a function of the parameters u.

Each value is found from the mode of other parameters, its origin, and depends on these two alone: points are spread
over threads, and the answers are the same for any number of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np

from pathfold.engine import Engine, LaplaceEngine
from pathfold.engine.native.constrained_step import linearise
from pathfold.engine.native.dynamics import prepare
from pathfold.engine.native.fibre import FIBRE_POINTS, draw_pair
from pathfold.engine.native.inner_mode import AT, inner_mode
from pathfold.engine.native.run import Machine
from pathfold.engine.status import CONVERGED
from pathfold.model.row_constants import row_constants
from pathfold.sampling.progress import Stages
from pathfold.sampling.spread import Rooms, spread

LAPLACE = "pathfold.engine.entries:LAPLACE"  # what is to be compiled
MOST_PROBABLE = -1
PIECES = (1, 4)  # into which the way from the origin is cut, if it cannot be gone at once


@dataclass(frozen=True)
class Origin:
    """Parameters, the point of their most probable noise, and the log of the approximate density there."""

    u: np.ndarray
    point: np.ndarray
    log_density: float


class Start(NamedTuple):
    """An inner mode to climb from, and the covariance of u that the constraints give there to first order."""

    origin: Origin
    covariance: np.ndarray

    @property
    def log_mass(self) -> float:
        """The log of the mass about it, up to a constant, if it is at a mode."""
        return float(self.origin.log_density + 0.5 * np.linalg.slogdet(self.covariance)[1])


class Pair(NamedTuple):
    """Two points of a fibre: logs of their weights, initial states (2, series, X), states (2, interval, step, X).

    z are the parameters that they belong to, with the log of their approximate density.
    """

    z: np.ndarray
    log_density: float
    log_weights: np.ndarray
    starts: np.ndarray
    states: np.ndarray


class Room:
    """Memory of one thread."""

    def __init__(self, engine: LaplaceEngine) -> None:
        self.problem = engine.problem.copy()
        self.points = np.zeros((FIBRE_POINTS, engine.block_sizes["point"]))
        self.change = engine.block("vector")
        self.machine = Machine.of(engine.layout, self.problem, engine.block("scratch"))


class Marginal:
    """log p~(u, y) at many parameters at once, and draws of paths given them.

    Without `prior` it is that of the likelihood: of p(u) the laws of latent parameters alone count. `progress` says
    whether to say what is being done with it, and `max_seconds` how long that may take.
    """

    difference = 1e-3  # of a coordinate, for gradients

    def __init__(
        self,
        full: Engine,
        *,
        threads: int,
        prior: bool = True,
        progress: bool = False,
        max_seconds: float = math.inf,
    ) -> None:
        self.full, self.prior = full, prior
        self.engine = LaplaceEngine(full.model, full.grid, solver=None)
        for record, field in (("settings", "state_scale"), ("grid", "row_scale")):
            values = full.get("problem", full.problem, record, field)
            self.engine.set("problem", self.engine.problem, record, field, values)
        parameters = full.model.parameters
        self.free = np.ones(full.sizes.U, dtype=bool)
        self.counted = self.free if prior else parameters.latent_normals
        excess = None if prior else parameters.excess_of(parameters.latent)
        self._excess = None if excess is None else jax.jit(excess)
        self.constant = float(row_constants(full.model, full.grid, np.arange(full.intervals)).sum())
        self.workers = threads
        self._rooms = Rooms(lambda: Room(self.engine), self.workers)
        self.stages = Stages(show=progress, max_seconds=max_seconds)

    @property
    def size(self) -> int:
        return self.full.sizes.U

    @cached_property
    def has_paths(self) -> bool:
        """Whether noise moves the path anywhere, at the centre of the prior."""
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

    def _reach(self, room: Room, u: np.ndarray, origin: Origin) -> float:
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

    def values(self, u: np.ndarray, origin: Origin) -> np.ndarray:
        """Return log densities at parameters (count, U); -inf where no inner mode was found."""

        def value(i: int) -> float:
            with self._rooms.one() as room:
                return self._reach(room, u[i], origin)

        return np.array(spread(value, len(u), self.workers))

    def reached(self, u: np.ndarray, origin: Origin) -> Origin | None:
        """Return the mode of other parameters as an origin, or None if none was found."""
        with self._rooms.one() as room:
            value = self._reach(room, u, origin)
            return None if value == -np.inf else Origin(u, room.points[AT].copy(), value)

    def pairs(
        self, u: np.ndarray, origin: Origin, seed: int, first: int = 0, *, drawn: bool = True, fine: bool = False
    ) -> list[Pair]:
        """Return log densities at parameters (count, U), and two paths for each, with weights.

        The paths are drawn, with the seed and the number of the parameters, which count from `first` on; or else both
        are the most probable one. Their states are those after every `fine` step, or at nodes.
        """

        def pair(i: int) -> Pair:
            with self._rooms.one() as room:
                value = self._reach(room, u[i], origin)
                if not drawn:
                    logs = np.full(2, 0.0 if value > -np.inf else -np.inf)
                    return self._pair(room, value, logs, 2 * [room.points[AT]], fine)
                logs = self._draw_pair(room, value, (seed, first + i))
                return self._pair(room, value, logs, [*room.points[1:]], fine)

        return spread(pair, len(u), self.workers)

    def _pair(self, room: Room, value: float, logs: np.ndarray, both: Sequence[np.ndarray], fine: bool) -> Pair:
        x0 = np.array([self.engine.get("point", point, "start", "x0") for point in both])
        z = self.engine.get("point", room.points[AT], "theta", "z")
        return Pair(z, value, logs, x0, np.array([self._states(point, fine) for point in both]))

    def _draw_pair(self, room: Room, value: float, key: tuple[int, int]) -> np.ndarray:
        """Draw a pair about the mode that was just found in the room; return the logs of their weights."""
        if value == -np.inf:
            return np.full(2, -np.inf)
        seed, number = key
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 3)))
        return np.array(draw_pair(room.machine, room.points, room.change, rng))

    def _states(self, point: np.ndarray, fine: bool) -> np.ndarray:
        """Return the states (interval, step, X) after every step, or after the last of each interval alone."""
        nodes = self.engine.get("point", point, "node", "x_node")[:, None]
        return np.concatenate([self.engine.get("point", point, "path", "x")[:, 1:], nodes], axis=1) if fine else nodes

    def noise(self, u: np.ndarray, origin: Origin, key: tuple[int, int], sign: int) -> tuple[np.ndarray, ...]:
        """Return the noise (v0, w, v), initial and node states of one path of a pair that was drawn with that key.

        `sign` is 0 or 1, or MOST_PROBABLE for the path that lies between them.
        """
        with self._rooms.one() as room:
            self._draw_pair(room, self._reach(room, u, origin), key)
            return self._parts(room.points[1 + sign])

    def _parts(self, point: np.ndarray) -> tuple[np.ndarray, ...]:
        states = self.engine.get("point", point, "start", "x0"), self.engine.get("point", point, "node", "x_node")
        return *self.engine.get_vector(point)[1:], *states

    def parameters(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z (Z,) and its slopes dz/du (Z, U)."""
        full, point = self.full, self.full.block("point")
        full.set("point", point, "u", "u", u)
        with np.errstate(all="ignore"):
            linearise(full.machine(), point)
        return full.get("point", point, "theta", "z"), full.get("point", point, "theta", "D")

    def start_at(self, point: np.ndarray) -> Start | None:
        """Return the inner mode found from a point of the manifold, whose block is prepared; None if none was."""
        full = self.full
        prepare(full.machine(), point)
        covariance = full.get("point", point, "sums", "C_inv").reshape(self.size, self.size)
        u, v0, w, v = full.get_vector(point)
        with self._rooms.one() as room:
            room.points[AT] = 0.0
            self.engine.set_vector(room.points[AT], np.zeros(0), v0, w, v)
            self.engine.set("point", room.points[AT], "node", "x_node", full.get("point", point, "node", "x_node"))
            value = self._inner(room, u, warm=False)
            return None if value == -np.inf else Start(Origin(u, room.points[AT].copy(), value), covariance)
