"""log p(u, y), with the path integrated out, as a function of the parameters u, and draws of paths given them.

Each value depends on its parameters and on an origin, other parameters, alone: points are spread over threads, and the
answers are the same for any number of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from pathfold.engine import Engine
from pathfold.engine.native.run import Machine
from pathfold.model.row_constants import row_constants
from pathfold.program.trace import computed
from pathfold.sampling.differences import ByDifferences, Origin
from pathfold.sampling.progress import Stages
from pathfold.sampling.spread import Rooms, spread

if TYPE_CHECKING:
    from pathfold.sampling.starts import Point

MOST_PROBABLE = -1
AT, PLUS, MINUS, POINTS = range(4)  # of a room: that of the most probable noise, and a pair of draws


class Start(NamedTuple):
    """Parameters to climb from, and the covariance of u that is expected there."""

    origin: Origin
    covariance: np.ndarray

    @property
    def log_mass(self) -> float:
        """The log of the mass about it, up to a constant, if it is at a mode."""
        return float(self.origin.log_density + 0.5 * np.linalg.slogdet(self.covariance)[1])


class Pair(NamedTuple):
    """Two paths: logs of their weights, initial states (2, series, X), states (2, interval, step, X).

    z are the parameters that they belong to, with the log of their density.
    """

    z: np.ndarray
    log_density: float
    log_weights: np.ndarray
    starts: np.ndarray
    states: np.ndarray


class Room:
    """Memory of one thread."""

    def __init__(self, engine: Engine) -> None:
        self.problem = engine.problem.copy()
        self.points = np.zeros((POINTS, engine.block_sizes["point"]))
        self.change = engine.block("vector")
        self.machine = Machine.of(engine.layout, self.problem, engine.block("scratch"))


class Marginal(ByDifferences):
    """log p(u, y) at many parameters at once, and draws of paths given them, on an engine that has the paths.

    Without `prior` it is that of the likelihood: of p(u) the laws of latent parameters alone count. `progress` says
    whether to say what is being done with it, and `max_seconds` how long that may take.
    """

    exact: bool  # whether paths are integrated out without an error

    def __init__(
        self,
        engine: Engine,
        *,
        threads: int,
        prior: bool = True,
        progress: bool = False,
        max_seconds: float = math.inf,
    ) -> None:
        self.engine, self.prior, self.workers = engine, prior, threads
        self.free = np.ones(engine.model.parameters.size, dtype=bool)
        self.counted = self.free if prior else engine.model.parameters.latent_normals
        self.constant = float(row_constants(engine.model, engine.grid, np.arange(engine.intervals)).sum())
        self._rooms = Rooms(partial(Room, engine), threads)
        self.stages = Stages(show=progress, max_seconds=max_seconds)

    @property
    def size(self) -> int:
        return self.engine.sizes.U

    @cached_property
    @abstractmethod
    def has_paths(self) -> bool:
        """Whether noise moves the path anywhere, at the centre of the prior."""

    def parameters(self, u: np.ndarray) -> np.ndarray:
        """Return z (Z,)."""
        return computed(self.engine.model.parameters.push, u)

    def slopes(self, u: np.ndarray) -> np.ndarray:
        """Return dz/du (Z, U)."""
        return computed(jax.jacfwd(self.engine.model.parameters.push), u)

    @abstractmethod
    def start_at(self, start: Point) -> Start | None:
        """Return the parameters of a point to climb from, and the covariance there; None if they have no density."""

    @abstractmethod
    def reach(self, room: Room, u: np.ndarray, origin: Origin) -> float:
        """Go to parameters with the first point of the room; return their log density, -inf if none was found."""

    @abstractmethod
    def draw_pair(self, room: Room, seed: np.random.SeedSequence) -> tuple[float, float]:
        """Draw a pair about the point that was reached in the room; return the logs of their weights."""

    @abstractmethod
    def settle(self, room: Room) -> None:
        """Make the path at the point that was reached in the room the most probable one."""

    def values(self, u: np.ndarray, origin: Origin) -> np.ndarray:
        def value(i: int) -> float:
            with self._rooms.one() as room:
                return self.reach(room, u[i], origin)

        return np.array(spread(value, len(u), self.workers))

    def reached(self, u: np.ndarray, origin: Origin) -> Origin | None:
        """Return other parameters as an origin, or None if no density was found there."""
        with self._rooms.one() as room:
            value = self.reach(room, u, origin)
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
                value = self.reach(room, u[i], origin)
                if drawn:
                    logs = self._draw_pair(room, value, (seed, first + i))
                    return self._pair(room, value, logs, [*room.points[1:]], fine)
                self.settle(room)
                logs = np.full(2, 0.0 if value > -np.inf else -np.inf)
                return self._pair(room, value, logs, 2 * [room.points[AT]], fine)

        return spread(pair, len(u), self.workers)

    def _pair(self, room: Room, value: float, logs: np.ndarray, both: Sequence[np.ndarray], fine: bool) -> Pair:
        x0 = np.array([self.engine.get("point", point, "start", "x0") for point in both])
        z = self.engine.get("point", room.points[AT], "theta", "z")
        return Pair(z, value, logs, x0, np.array([self._states(point, fine) for point in both]))

    def _draw_pair(self, room: Room, value: float, key: tuple[int, int]) -> np.ndarray:
        if value == -np.inf:
            return np.full(2, -np.inf)
        seed, number = key
        return np.array(self.draw_pair(room, np.random.SeedSequence(seed, spawn_key=(number, 3))))

    def _states(self, point: np.ndarray, fine: bool) -> np.ndarray:
        """Return the states (interval, step, X) after every step, or after the last of each interval alone."""
        nodes = self.engine.get("point", point, "node", "x_node")[:, None]
        return np.concatenate([self.engine.get("point", point, "path", "x")[:, 1:], nodes], axis=1) if fine else nodes

    def noise(self, u: np.ndarray, origin: Origin, key: tuple[int, int], sign: int) -> tuple[np.ndarray, ...]:
        """Return the noise (v0, w, v), initial and node states of one path of a pair that was drawn with that key.

        `sign` is 0 or 1, or MOST_PROBABLE for the path that lies between them.
        """
        with self._rooms.one() as room:
            value = self.reach(room, u, origin)
            if sign == MOST_PROBABLE:
                self.settle(room)
            else:
                self._draw_pair(room, value, key)
            return self._parts(room.points[1 + sign])

    def _parts(self, point: np.ndarray) -> tuple[np.ndarray, ...]:
        states = self.engine.get("point", point, "start", "x0"), self.engine.get("point", point, "node", "x_node")
        return *self.engine.get_vector(point)[1:], *states
