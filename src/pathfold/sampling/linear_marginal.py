"""p(u, y) of a model that is affine in its noise, exactly, as a function of parameters u (method.md, section 25)."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine import IntegratedEngine
from pathfold.engine.native.integrated_paths import condition, integrate, integrate_with_gradient
from pathfold.model import DiffusionModel
from pathfold.sampling.differences import ROUGHLY, Origin, where_known
from pathfold.sampling.marginal import AT, MINUS, PLUS, Marginal, Room, Start
from pathfold.sampling.spread import spread

if TYPE_CHECKING:
    from pathfold.sampling.starts import Point

LINEAR = "pathfold.engine.entries:LINEAR"  # what is to be compiled
FLATTEST = 0.25  # curvature at a start, in units of the prior's, at least


class LinearMarginal(Marginal):
    """log p(u, y) with its gradient, and exact draws of paths given both, in pairs about their mean."""

    exact = True
    engine: IntegratedEngine

    def __init__(self, model: DiffusionModel, grid: TimeGrid, *, prior: bool = True, **options: Any) -> None:
        super().__init__(IntegratedEngine(model, grid), prior=prior, **options)
        parameters = model.parameters
        left_out = None if prior else parameters.excess_of([n for n in parameters.names if n not in parameters.latent])
        self._left_out = None if left_out is None else jax.jit(jax.value_and_grad(left_out))

    def with_prior(self) -> LinearMarginal:
        """Return the same with all of the prior."""
        whole = copy(self)
        whole.prior, whole.counted, whole._left_out = True, self.free, None
        return whole

    @cached_property
    def has_paths(self) -> bool:
        with self._rooms.one() as room:
            self._evaluated(room, np.zeros(self.size), integrate)
            return bool(self.engine.get("point", room.points[AT], "node", "Q").any())

    def _evaluated(self, room: Room, u: np.ndarray, function: Any) -> tuple[float, np.ndarray]:
        """Return the log density, -inf if there is none, and of the prior's excess the gradient that is left out."""
        room.points[AT, : self.size] = u
        value, counted, slope = -function(room.machine, room.points[AT]), u[self.counted], np.zeros(self.size)
        if self._left_out is not None:
            with jax.enable_x64(True):
                excess, slope = (np.asarray(each) for each in self._left_out(u))
            value += float(excess)
        value += self.constant - 0.5 * float(counted @ counted) - 0.5 * counted.size * np.log(2.0 * np.pi)
        return value if np.isfinite(value) else -np.inf, slope

    def reach(self, room: Room, u: np.ndarray, origin: Origin) -> float:
        return self._evaluated(room, u, integrate)[0]

    def reached(self, u: np.ndarray, origin: Origin) -> Origin | None:
        (value,) = self.values(u[None], origin)
        return None if value == -np.inf else Origin(u, np.zeros(0), float(value))

    def start_at(self, start: Point) -> Start | None:
        if (origin := self.reached(start.position, Origin(start.position, np.zeros(0), -np.inf))) is None:
            return None
        L = np.eye(self.size)
        scales, directions = np.linalg.eigh(where_known(self._second(origin, L, ROUGHLY)))
        return Start(origin, (directions / np.maximum(np.abs(scales), FLATTEST)) @ directions.T)

    def settle(self, room: Room) -> None:
        self._condition(room, AT, np.zeros(room.change.size - self.size))

    def draw_pair(self, room: Room, seed: np.random.SeedSequence) -> tuple[float, float]:
        """Draw a path, and what is as far from the mean on the other side: everything is affine in the noise."""
        self.settle(room)
        room.points[PLUS] = room.points[AT]
        self._condition(room, PLUS, np.random.default_rng(seed).standard_normal(room.change.size - self.size))
        with np.errstate(all="ignore"):  # of lanes that nothing reads
            room.points[MINUS] = 2.0 * room.points[AT] - room.points[PLUS]
        return 0.0, 0.0

    def _condition(self, room: Room, place: int, normals: np.ndarray) -> None:
        room.points[place, self.size : room.change.size] = normals
        condition(room.machine, room.points[place])

    def _gradients(self, u: np.ndarray) -> np.ndarray:
        """Return the gradients of the log density by u (count, U)."""

        def gradient(i: int) -> np.ndarray:
            with self._rooms.one() as room:
                value, left_out = self._evaluated(room, u[i], integrate_with_gradient)
                slope = self.engine.gradient(room.points[AT])[: self.size]
                return left_out - slope - u[i] * self.counted if value > -np.inf else np.full(self.size, np.nan)

        return np.array(spread(gradient, len(u), self.workers))

    def gradient(self, origin: Origin, L: np.ndarray) -> np.ndarray:
        return self._gradients(origin.u[None])[0] @ L

    def hessian(self, origin: Origin, L: np.ndarray, step: float) -> np.ndarray:
        """Minus the second derivatives by s, by differences of gradients, extrapolated to steps of no length."""
        halves = (4.0 * self._second(origin, L, 0.5 * step) - self._second(origin, L, step)) / 3.0
        return where_known(halves)

    def _second(self, origin: Origin, L: np.ndarray, step: float) -> np.ndarray:
        """Return minus the second derivatives by s, by differences of gradients."""
        moved = step * L.T
        up, down = np.split(self._gradients(origin.u + np.concatenate([moved, -moved])), 2)
        with np.errstate(all="ignore"):
            rows = (down - up) @ L / (2.0 * step)
        return 0.5 * (rows + rows.T)
