"""What the values before each observation say of it: log p(y_n | y_1, ..., y_{n-1}, z), and where its values lie."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.errors import SettingsError
from pathfold.model.row_constants import row_constants
from pathfold.sampling.progress import Counted
from pathfold.sampling.spread import spread


@dataclass(frozen=True)
class Estimates:
    """How estimates of log p(y | z), the sums over time, vary with the particles alone; exact ones have none."""

    particles: int = 0
    variance: float = 0.0

    @property
    def enough(self) -> int:
        """The number of particles with a variance of about one, to two digits; what there are if they have that."""
        if self.variance <= 1.0:
            return self.particles
        unit = 10 ** max(0, int(np.log10(self.particles * self.variance)) - 1)
        return unit * int(np.ceil(self.particles * self.variance / unit))

    def __str__(self) -> str:
        return (
            f"estimates of log p(y | z) by {self.particles} particles differ by about {np.sqrt(2 * self.variance):.1f} "
            f"from each other: take particles={self.enough}"
        )


class Ahead[E: Engine](ABC):
    """A filter for a model and its data, which goes from one observation to the next.

    Parameters `z` are those that series share, (draw, Z). What comes out depends on `seed` where there are particles.
    """

    method: ClassVar[str]  # what results call it
    told: ClassVar[str]  # what it is in a sentence
    lost: ClassVar[str]  # what has happened where there is no density
    remedy: str  # for that
    if_few = "give more draws"  # what makes more of the draws effective

    def __init__(self, engine: E, grid: TimeGrid) -> None:
        self.engine, self.grid = engine, grid
        self.model = engine.model  # whose u is that of the compiled model
        self.rows = np.flatnonzero(grid.mask.any(axis=1))  # the intervals that end at an observation

    @cached_property
    def known(self) -> np.ndarray:
        """A mask of the values (observation, Y) that are known, and not by bounds alone."""
        return self.grid.mask[self.rows] & (self.grid.censored[self.rows] == 0.0)

    @cached_property
    def _constants(self) -> np.ndarray:
        return row_constants(self.model, self.grid, self.rows)

    def __call__(
        self,
        z: np.ndarray,
        seed: int | list[int],
        *,
        threads: int = 1,
        progress: Counted | None = None,
        deadline: float = np.inf,
    ) -> np.ndarray:
        """Return log densities (draw, observation) given parameters; -inf where there is none.

        Each draw has a random stream of its own: what comes out does not depend on the number of threads. Draws that
        the `deadline`, a time of the monotonic clock, comes before are NaN.
        """
        ahead = np.full((len(z), len(self.rows)), np.nan)

        def run(draw: int) -> None:
            if time.monotonic() <= deadline:
                ahead[draw] = self._densities(z[draw], seed, draw)
                if progress is not None:
                    progress.advance()

        spread(run, len(z), threads)
        return ahead + self._constants

    def final(self, z: np.ndarray, seed: int, *, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(y | z) (draw,), up to a constant, and a draw of the state (draw, X) at the last observation.

        The density is -inf where there is none.
        """
        density, states = np.full(len(z), -np.inf), np.zeros((len(z), self.engine.sizes.X))

        def run(draw: int) -> None:
            density[draw], states[draw] = self._last(z[draw], seed, draw)

        spread(run, len(z), threads)
        return density, states

    def refuse_lost(self, lost: np.ndarray) -> None:
        """Raise SettingsError if any of the observations has no density."""
        if lost.any():
            raise SettingsError(f"{self.lost} at t = {self.grid.ends[self.rows[np.argmax(lost)]]:g}; {self.remedy}")

    @abstractmethod
    def residuals(self, z: np.ndarray, seed: int, *, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Return normal scores of the values and the means of those expected, both (draw, observation, Y).

        They are NaN but where a value is `known`.
        """

    @abstractmethod
    def judged(self, z: np.ndarray, seed: int, *, threads: int = 1) -> Estimates:
        """Say how much the densities depend on the particles."""

    @abstractmethod
    def _densities(self, z: np.ndarray, seed: int | list[int], draw: int) -> np.ndarray:
        """Return log densities (observation,), less what depends on the data alone."""

    @abstractmethod
    def _last(self, z: np.ndarray, seed: int, draw: int) -> tuple[float, np.ndarray]:
        """Return the sum of the log densities, and a draw of the state at the last observation."""
