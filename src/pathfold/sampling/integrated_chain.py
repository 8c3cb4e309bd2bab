"""A chain of the parameters alone, with paths integrated out: its mode, its coordinates, its transitions."""

from __future__ import annotations

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native.integrated_paths import (
    COLUMNS,
    NOISY,
    NUMBERS,
    ROWS,
    integrate_with_gradient,
    run_integrated,
)
from pathfold.engine.native.recording import Drawn
from pathfold.errors import InitialisationError
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.progress import Monitor

TURN = 1.8  # the integration time: a little more than a quarter of a turn, as posteriors are wider than at their mode
STEPS = 30  # of Newton's method to the mode, at most
SETTLED = 1e-4  # what a step of it promises to gain of the log density, at the mode
DIFFERENCE = 1e-4  # of a parameter's normal, for second derivatives
FLATTEST = 0.1  # curvature that the posterior has at least, in units of the prior's
LONGEST, SHORTEST = 3.0, 1e-3  # steps of Newton's method, in prior standard deviations; shares of one that are tried
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
        self.room[NUMBERS, NOISY] = task.shape.unkept if task.shape.nodes else 0
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
        """Go from the start to the mode, by Newton's method, and fit the coordinates to the posterior there.

        A chain that is to end before that makes no transitions.
        """
        assert self.task.start is not None
        self.begun = self.clock()
        u = self.task.start.position[: self.size].copy()
        value, slope = self._at(u)
        if not np.isfinite(value) and not self._is_over:
            raise InitialisationError("the sampler cannot start where a search ended: the data have no density there")
        for _ in range(STEPS):
            scales, directions = self._curvature(u)
            step = -directions @ (directions.T @ slope / scales)
            if -slope @ step < SETTLED:
                break
            share = min(1.0, LONGEST / float(np.linalg.norm(step)))
            while share > SHORTEST and not self._at(u + share * step)[0] < value:
                share *= 0.5
            if share <= SHORTEST:
                break
            u += share * step
            value, slope = self._at(u)
        self._fit(u, value)
        self.current[: self.size] = 0.0
        self.draws.seconds += self.clock() - self.begun

    @property
    def _is_over(self) -> bool:
        """Whether the chain is to end before it has begun."""
        return self.stop[0] != 0 or self.clock() - self.begun > self.task.max_seconds

    def _fit(self, mode: np.ndarray, value: float) -> None:
        """Take the symmetric root of the correlation there, so that coordinates are nearly parameters, and let each be
        as wide either way as the posterior is at a distance."""
        scales, directions = self._curvature(mode)
        covariance = (directions / scales) @ directions.T
        sizes = np.sqrt(np.diag(covariance))
        eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(sizes, sizes))
        root = sizes[:, None] * (vectors * np.sqrt(eigenvalues)) @ vectors.T
        fallen = np.array([[self._at(mode + way * FAR * a)[0] - value for a in root.T] for way in (1.0, -1.0)])
        with np.errstate(divide="ignore", invalid="ignore"):
            widths = FAR / np.sqrt(2.0 * np.maximum(fallen, 0.0))
        ahead, behind = np.clip(np.nan_to_num(widths, nan=NARROWEST), NARROWEST, WIDEST)
        middle, bend = 0.5 * (ahead + behind), 0.5 * FAR * (ahead - behind) / (np.sqrt(1.0 + FAR**2) - 1.0)
        centre, factor, skew = self.coordinates
        centre[:], factor[:], skew[:] = mode, root * middle, np.clip(bend / middle, -MOST_SKEWED, MOST_SKEWED)

    def _at(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log density of parameters, in their own coordinates, and its gradient.

        There is none once the chain is to end, so that all that goes by it soon ends too.
        """
        if self._is_over:
            return np.inf, np.zeros(self.size)
        self.current[: self.size] = u
        value = integrate_with_gradient(self.machine, self.current)
        begin = self.momenta.shape[1]
        slope = self.current[begin : begin + self.size] + u
        return value + 0.5 * float(u @ u), slope

    def _curvature(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return size and directions of the curvature, by differences of gradients, at least `FLATTEST`."""
        rows = [self._at(u + step)[1] - self._at(u - step)[1] for step in DIFFERENCE * np.eye(self.size)]
        curvature = np.reshape(rows, (self.size, self.size)) / (2.0 * DIFFERENCE)
        if not np.all(np.isfinite(curvature)):
            curvature = np.eye(self.size)
        scales, directions = np.linalg.eigh(0.5 * (curvature + curvature.T))
        return np.maximum(np.abs(scales), FLATTEST), directions

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        given = self._work, self.rng, self.room, self.task.warmup, self.target
        return run_integrated(*given, Drawn(**room), monitor.stop, monitor.done)

    def _state(self) -> dict[str, np.ndarray]:
        return {**super()._state(), "room": self.room, "coordinates": self.numbers}
