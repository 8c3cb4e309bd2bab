"""A chain of dynamic trajectories: in blocks or not, with a metric that is given, adapted, or the identity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native.recording import Drawn
from pathfold.errors import SettingsError
from pathfold.paper.native.coordinates import change_coordinates, to_normals
from pathfold.paper.native.dynamic_hmc import DYNAMIC_POINTS, TREE, dynamic_momenta
from pathfold.paper.native.dynamic_loop import run_dynamic
from pathfold.paper.parameter_metric import BEGIN, END, Window
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.progress import Monitor


class DynamicChain(HamiltonianChain):
    """A chain of dynamic trajectories, with constraints or without.

    The metric of the parameters can be `adapted`; without constraints that of everything, which has a scale for each
    if it is `scaled`. A metric is found early in warm-up, so that a chain which adapts one takes over no pace.
    """

    def __init__(self, task: ChainTask, target: float, *, adapted: bool = False, scaled: bool = False) -> None:
        task = replace(task, pace=None) if adapted else task
        momenta = dynamic_momenta(task.layout[at.MAX_DEPTH])
        super().__init__(task, target, points=DYNAMIC_POINTS, momenta=momenta)
        self.scaled, self.trees = scaled, np.zeros(1, TREE)
        self.window = Window(int(self.layout[at.U]) if adapted else 0)

    @property
    def metric(self) -> np.ndarray:
        """The scales of the adapted metric without constraints, and the sums that they are being estimated from."""
        return self.problems[0, self.layout[at.PROBLEM_METRIC] : self.layout[at.PROBLEM_WINDOW_SQUARES + at.END]]

    @property
    def coordinates(self) -> np.ndarray:
        """The parameters' coordinates in all problems, centre and factor; empty if their metric is the identity."""
        return self.problems[:, self.layout[at.PROBLEM_COORDINATES] : self.layout[at.PROBLEM_COORDINATES + at.END]]

    def recorded(self, block: np.ndarray) -> np.ndarray:
        copied = block.copy()
        to_normals(self.machine, copied[: self.layout[at.U]])
        return copied

    def initialise(self) -> None:
        """Begin with the identity as the metric, and go over to one that is given."""
        given, identity = self.coordinates[0].copy(), np.concatenate([np.zeros(U := self._size), np.eye(U).ravel()])
        self.coordinates[:] = identity
        super().initialise()
        if np.any(given != identity):
            self._go_over_to(given)

    @property
    def _size(self) -> int:
        """The number of parameters that have coordinates."""
        return int(self.layout[at.U]) if self.coordinates.size else 0

    def _go_over_to(self, coordinates: np.ndarray) -> None:
        centre, factor = np.split(coordinates, [self._size])
        change_coordinates(self.machine, self.problems, self.current, centre.copy(), factor.copy())

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        given = self._work, self.rng, self.trees, self.scaled, self._warmup, self.target
        made = run_dynamic(*given, Drawn(**room), monitor.stop, monitor.done)
        if made < 0:
            raise SettingsError(
                "observations_per_block: the states between blocks cannot be held, since the noise of an interval does "
                "not move the whole state; take more steps_per_interval, a scheme of higher order, or no blocks"
            )
        return made

    @property
    def _adapting(self) -> tuple[int, int]:
        """The iterations between which draws count for the metric; none if it is not adapted."""
        warmup = self.task.warmup if self.window.size else 0
        return int(BEGIN * warmup), int(END * warmup)

    @property
    def _looking(self) -> bool:
        return self.tuning.state[0].iteration < self._adapting[1]

    def _look(self) -> None:
        """Add the last draw to those that the metric is adapted to; after the last of these, switch to the new metric.

        Until then the metric is the identity: the position holds u, and C is the mass with the identity.
        """
        (first, last), state = self._adapting, self.tuning.state[0]
        if not first < state.iteration <= last:
            return
        U, C_inv = self.layout[at.U], self.layout[at.POINT_SUMS] + self.layout[at.SUMS_C_INV]
        self.window.add(self.current[:U], np.linalg.inv(self.current[C_inv : C_inv + U * U].reshape(U, U)))
        if state.iteration == last:
            self._go_over_to(self.window.coordinates().numbers)
            state.first_step = 0.0  # the step size is sought anew

    def _state(self) -> dict[str, np.ndarray]:
        adapted = {"metric": self.metric, "coordinates": self.coordinates, "window": self.window.numbers}
        return {**super()._state(), **adapted}
