"""A chain of the parameters alone, with paths integrated out: its mode, its coordinates, its transitions."""

from __future__ import annotations

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native.integrated_paths import (
    COLUMNS,
    ROWS,
    run_integrated,
)
from pathfold.engine.native.recording import Drawn
from pathfold.errors import InitialisationError
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.integrated_modes import Density, Mode
from pathfold.sampling.progress import Monitor

TURN = 1.8  # the integration time: a little more than a quarter of a turn, as posteriors are wider than at their mode
FAR = 3.0  # where the posterior's widths either way are found, in those at the mode
NARROWEST, WIDEST, MOST_SKEWED = 0.4, 2.5, 0.9  # such widths; a skewness of 1 would have no other side


class IntegratedChain(HamiltonianChain):
    """A chain of trajectories and of proposals of the parameters, each draw with noise drawn given them (method.md,
    section 25).

    It begins at the mode next to its start, in coordinates in which the posterior is nearly standard normal.
    """

    def __init__(self, task: ChainTask, target: float, time: float) -> None:
        super().__init__(task, target, time or TURN, points=1, momenta=1)
        self.size = int(self.layout[at.U])
        self.room = np.zeros((ROWS, max(self.size, COLUMNS)))
        self.tuning.state[0].time = self.draws.integration_time = self.time

    @property
    def _searched(self) -> int:
        return 0

    @property
    def numbers(self) -> np.ndarray:
        """Centre, factor and skewness of the coordinates, as the problem has them."""
        begin, end = self.layout[at.PROBLEM_COORDINATES], self.layout[at.PROBLEM_COORDINATES + at.END]
        return self.problems[0, begin:end]

    @property
    def coordinates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """m, L and k of the coordinates q, with u = m + L f(q) and f(q) = q + k (sqrt(1 + q^2) - 1) by component."""
        centre, factor, skew = np.split(self.numbers, [self.size, -self.size])
        return centre, factor.reshape(self.size, self.size), skew

    def recorded(self, block: np.ndarray) -> np.ndarray:
        copied, (centre, factor, skew) = block.copy(), self.coordinates
        q = block[: self.size]
        copied[: self.size] = centre + factor @ (q + skew * (np.sqrt(1.0 + q * q) - 1.0))
        return copied

    def initialise(self) -> None:
        """Go from the start to the mode, and fit the coordinates to the posterior there.

        A chain that is to end before that makes no transitions.
        """
        assert self.task.start is not None
        self.begun = self.clock()
        density = Density(self.machine, self.current, self.size, self._is_over)
        mode = density.mode(self.task.start.position[: self.size])
        if mode is not None:
            self._fit(mode, density)
        elif not self._is_over():
            raise InitialisationError("the sampler cannot start where a search ended: the data have no density there")
        self.current[: self.size] = 0.0
        self.draws.seconds += self.clock() - self.begun

    def _is_over(self) -> bool:
        """Whether the chain is to end before it has begun."""
        return self.stop[0] != 0 or self.clock() - self.begun > self.task.max_seconds

    def _fit(self, mode: Mode, density: Density) -> None:
        """Take the symmetric root of the correlation there, so that coordinates are nearly parameters, and let each be
        as wide either way as the posterior is at a distance."""
        covariance = (mode.directions / mode.scales) @ mode.directions.T
        sizes = np.sqrt(np.diag(covariance))
        eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(sizes, sizes))
        root = sizes[:, None] * (vectors * np.sqrt(eigenvalues)) @ vectors.T
        values = [[density.at(mode.u + way * FAR * each)[0] for each in root.T] for way in (1.0, -1.0)]
        fallen = np.array(values) - mode.value
        with np.errstate(divide="ignore", invalid="ignore"):
            widths = FAR / np.sqrt(2.0 * np.maximum(fallen, 0.0))
        ahead, behind = np.clip(np.nan_to_num(widths, nan=NARROWEST), NARROWEST, WIDEST)
        middle, bend = 0.5 * (ahead + behind), 0.5 * FAR * (ahead - behind) / (np.sqrt(1.0 + FAR**2) - 1.0)
        centre, factor, skew = self.coordinates
        centre[:], factor[:], skew[:] = mode.u, root * middle, np.clip(bend / middle, -MOST_SKEWED, MOST_SKEWED)

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        given = self._work, self.rng, self.room, self.task.warmup, self.target
        return run_integrated(*given, Drawn(**room), monitor.stop, monitor.done)

    def _state(self) -> dict[str, np.ndarray]:
        return {**super()._state(), "room": self.room, "coordinates": self.numbers}
