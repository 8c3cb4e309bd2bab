"""A chain of Hamiltonian Monte Carlo on the host's side: how it begins, what it adapts."""

from __future__ import annotations

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native.chain_loop import Work, run_hamiltonian
from pathfold.engine.native.coordinates import change_coordinates, to_normals
from pathfold.engine.native.dynamic_hmc import RESULT
from pathfold.engine.native.dynamics import prepare
from pathfold.engine.native.integration_time import CHOSEN, integration_time, time_search_size
from pathfold.engine.native.recording import Drawn
from pathfold.engine.native.step_size import (
    ERROR_MEAN,
    FIRST_STEP,
    ITERATION,
    SHORTENED,
    STATE,
    UPDATES,
    start_adaptation,
)
from pathfold.engine.native.thresholds import REGULARISATION
from pathfold.engine.native.trajectory import COUNTS, DYNAMIC_POINTS, STATIC_MOMENTA, STATIC_POINTS, dynamic_momenta
from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError, SettingsError
from pathfold.sampling.chain import Chain
from pathfold.sampling.chain_task import ChainTask, Monitor
from pathfold.sampling.parameter_metric import BEGIN, END, Coordinates, Window
from pathfold.sampling.warm_start import Pace

# A warm start joins a warm-up of which nine tenths have passed, with a step size that weighs as much as one adapted for
# a few iterations.
PASSED, WEIGHT = 9, 25.0


class HamiltonianChain(Chain):
    """A chain of Hamiltonian Monte Carlo, with constraints or without.

    Trajectories are dynamic, or static of an integration time, which warm-up finds if it is 0. The metric of the
    parameters can be adapted; without constraints that of everything, which has a scale for each.
    """

    def __init__(
        self,
        task: ChainTask,
        target: float,
        *,
        time: float = 0.0,
        dynamic: bool = False,
        adapted: bool = False,
        scaled: bool = False,
    ) -> None:
        self.target, self.time, self.dynamic, self.scaled = float(target), float(time), dynamic, scaled
        if dynamic:
            super().__init__(task, DYNAMIC_POINTS, dynamic_momenta(task.layout[at.MAX_DEPTH]))
        else:
            super().__init__(task, STATIC_POINTS, STATIC_MOMENTA)
        self.state = np.zeros(STATE)
        self.search = np.zeros(time_search_size(self.layout))  # what warm-up is to find, but for the step size
        self.passed = 0 if task.pace is None else PASSED * max(1, task.warmup)
        blocks = self.layout, self.problems, self.points, self.momenta, self.scratch, self.rng
        places = np.zeros(COUNTS, dtype=np.int64), np.zeros(RESULT)
        self._work = Work(*blocks, self.state, self.search, *places)
        self.window = Window(int(self.layout[at.U]) if adapted and task.coordinates is None else 0)

    @property
    def metric(self) -> np.ndarray:
        """The scales of the adapted metric without constraints, and the sums that they are being estimated from."""
        return self.problems[0, self.layout[at.PROBLEM_METRIC] : self.layout[at.PROBLEM_WINDOW_SQUARES + at.END]]

    @property
    def _coordinates(self) -> np.ndarray:
        """The parameters' coordinates in all problems; empty if their metric is the identity."""
        return self.problems[:, self.layout[at.PROBLEM_COORDINATES] : self.layout[at.PROBLEM_COORDINATES + at.END]]

    @property
    def coordinates(self) -> Coordinates | None:
        if not self._coordinates.size:
            return None
        U, record = self.layout[at.U], self._coordinates[0].copy()
        return Coordinates(record[:U], record[U:].reshape(U, U))

    def recorded(self, block: np.ndarray) -> np.ndarray:
        copied = block.copy()
        to_normals(self.layout, self.problems[0], copied[: self.layout[at.U]])
        return copied

    def _go_over_to(self, coordinates: Coordinates) -> None:
        given = coordinates.centre, coordinates.factor.ravel()
        change_coordinates(self.layout, self.problems, self.problems[0], self.current, *given, self.scratch)

    def initialise(self) -> None:
        start, nodes = self.task.start, slice(self.layout[at.POINT_NODE], self.layout[at.POINT_NODE + at.END])
        assert start is not None
        self.current[: start.position.size] = start.position
        self.current[nodes][: start.nodes.size] = start.nodes
        if (status := prepare(self.layout, self.problems[0], self.current, self.scratch)) != CONVERGED:
            raise InitialisationError(f"the sampler cannot start where a search ended: {MEANING[status]}")
        if self.task.coordinates is not None:
            self._go_over_to(self.task.coordinates)
        if self.task.pace is not None:
            self._keep_pace(self.task.pace)

    def _keep_pace(self, pace: Pace) -> None:
        """Join a warm-up of which nine tenths have passed: adapt the step size further, and keep the rest."""
        start_adaptation(self.state, pace.step_size)
        self.state[UPDATES] = WEIGHT
        self.state[ERROR_MEAN] = REGULARISATION * np.log(10.0) / np.sqrt(WEIGHT)  # for which the step size stays
        self.state[[ITERATION, SHORTENED]] = self.passed, 1.0
        self.search[CHOSEN] = pace.integration_time

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        warmup = self.passed + self.task.warmup
        made = run_hamiltonian(
            self._work,
            True if self.dynamic else None,
            self.scaled,
            self.time,
            warmup,
            self.target,
            Drawn(**room),
            monitor.stop,
            monitor.done,
        )
        if made < 0:
            raise SettingsError(
                "observations_per_block: the states between blocks cannot be held, since the noise of an interval does "
                "not move the whole state; take more steps_per_interval, a scheme of higher order, or no blocks"
            )
        if not self.dynamic:
            chosen = integration_time(self.search, int(self.state[ITERATION]), warmup)
            self.draws.integration_time = float(self.time or chosen)
        return made

    @property
    def _window(self) -> tuple[int, int]:
        """The iterations between which draws count for the metric; none if it is not adapted."""
        warmup = self.task.warmup if self.window.size else 0
        return int(BEGIN * warmup), int(END * warmup)

    @property
    def _looking(self) -> bool:
        return self.state[ITERATION] < self._window[1]

    def _look(self) -> None:
        """Add the last draw to those that the metric is adapted to; after the last of these, switch to the new metric.

        Until then the metric is the identity: the position holds u, and C is the mass with the identity.
        """
        first, last = self._window
        if not first < self.state[ITERATION] <= last:
            return
        U, C_inv = self.layout[at.U], self.layout[at.POINT_SUMS] + self.layout[at.SUMS_C_INV]
        self.window.add(self.current[:U], np.linalg.inv(self.current[C_inv : C_inv + U * U].reshape(U, U)))
        if self.state[ITERATION] == last:
            self._go_over_to(self.window.coordinates())
            self.state[FIRST_STEP] = 0.0  # the step size is sought anew

    def _state(self) -> dict[str, np.ndarray]:
        return {
            "point": self.current,
            "state": self.state,
            "search": self.search,
            "metric": self.metric,
            "coordinates": self._coordinates,
            "window": self.window.numbers,
        }
