"""What a chain has drawn, and how much memory that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pathfold.sampling.parameter_metric import Coordinates

ARRAYS = ("z", "x0", "statistics", "nodes", "path")
STATES = ("nodes", "path")


@dataclass(frozen=True)
class Shape:
    """How many draws there are, and how large each is; `unkept` are the first ones, whose states are not kept."""

    total: int
    unkept: int
    z_size: int
    series: int
    state_dim: int
    augmented_dim: int
    steps: int
    intervals: int
    nodes: int  # intervals whose last state is kept
    path: int  # intervals whose states are all kept
    statistics: int

    def arrays(self) -> dict[str, tuple[int, ...]]:
        kept = self.total - self.unkept
        return {
            "z": (self.total, self.z_size),
            "x0": (self.total, self.series, self.augmented_dim),
            "statistics": (self.total, self.statistics),
            "nodes": (kept, self.nodes, self.state_dim),
            "path": (kept, self.path, self.steps, self.state_dim),
        }

    @property
    def nbytes(self) -> int:
        """Of all arrays; in whole numbers, which do not overflow."""
        return sum(8 * _product(shape) for shape in self.arrays().values())


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= int(size)
    return result


@dataclass
class Draws:
    """What a chain has drawn, warm-up first: `made` draws, the first `unkept` of them without their states."""

    z: np.ndarray
    x0: np.ndarray
    statistics: np.ndarray
    nodes: np.ndarray
    path: np.ndarray
    unkept: int = 0
    made: int = 0
    seconds: float = 0.0  # of its core: the time that others had it does not count
    main_seconds: float = 0.0  # of these after warm-up
    start_attempts: int = 0
    last: np.ndarray = field(default_factory=lambda: np.zeros(0))  # the point where the chain is
    positions: dict[int, np.ndarray] = field(default_factory=dict)  # of a few draws, by how many were made with it
    integration_time: float = 0.0  # of static trajectories, as warm-up chose it
    coordinates: Coordinates | None = None  # of a metric of the parameters, at the end
    unsaved: str = ""  # why the checkpoint does not hold all of them, if so

    @classmethod
    def empty(cls, shape: Shape) -> Draws:
        arrays: dict[str, Any] = {name: np.zeros(size) for name, size in shape.arrays().items()}
        return cls(**arrays, unkept=shape.unkept)

    def rows(self, name: str, begin: int, end: int) -> np.ndarray:
        """Of one array, what belongs to the draws from `begin` to `end`: of states only those that are kept."""
        skip = self.unkept if name in STATES else 0
        return getattr(self, name)[max(0, begin - skip) : max(0, end - skip)]

    def first(self, count: int) -> Draws:
        """The first draws alone."""
        positions = {number: q for number, q in self.positions.items() if number <= count}
        made = min(self.made, count)
        return replace(self, **self._each(lambda name: self.rows(name, 0, count)), positions=positions, made=made)

    def with_room(self, total: int) -> Draws:
        """The same, empty, for at least so many draws."""
        if total <= len(self.z):
            return self
        more = total - len(self.z)

        def longer(name: str) -> np.ndarray:
            array = getattr(self, name)
            return np.zeros((len(array) + more, *array.shape[1:]))

        return replace(self, **self._each(longer))

    def _each(self, make: Callable[[str], np.ndarray]) -> dict[str, Any]:
        return {name: make(name) for name in ARRAYS}
