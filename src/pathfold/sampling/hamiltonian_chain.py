"""A chain of Hamiltonian Monte Carlo on the host's side: how it begins, and at which pace."""

from __future__ import annotations

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native.chain_loop import Work, run_static
from pathfold.engine.native.integration_time import integration_time
from pathfold.engine.native.recording import Drawn
from pathfold.engine.native.step_size import start_adaptation
from pathfold.engine.native.thresholds import REGULARISATION
from pathfold.engine.native.trajectory import COUNTS, STATIC_MOMENTA, STATIC_POINTS
from pathfold.engine.native.tuning import Tuning
from pathfold.sampling.chain import Chain, ChainTask
from pathfold.sampling.progress import Monitor
from pathfold.sampling.warm_start import Pace

# A warm start joins a warm-up of which nine tenths have passed, with a step size that weighs as much as one adapted for
# a few iterations.
PASSED, WEIGHT = 9, 25.0


class HamiltonianChain(Chain):
    """A chain of static trajectories, with an integration time that warm-up finds if it is 0.

    Chains of other trajectories differ in their memory and in `_run`.
    """

    def __init__(
        self,
        task: ChainTask,
        target: float,
        time: float = 0.0,
        points: int = STATIC_POINTS,
        momenta: int = STATIC_MOMENTA,
    ) -> None:
        super().__init__(task, points, momenta)
        self.target, self.time = float(target), float(time)
        self.tuning = Tuning.of(1, self._searched)
        self.passed = 0 if task.pace is None else PASSED * max(1, task.warmup)
        blocks = self.layout, self.problems, self.points, self.momenta, self.scratch
        self._work = Work(*blocks, self.tuning, np.zeros(COUNTS, dtype=np.int64))

    @property
    def _searched(self) -> int:
        """The coordinates, those of u and v0, by which an integration time is searched for."""
        return int(self.layout[at.VECTOR_W])

    def initialise(self) -> None:
        super().initialise()
        if self.task.pace is not None:
            self._keep_pace(self.task.pace)

    def _keep_pace(self, pace: Pace) -> None:
        """Join a warm-up of which nine tenths have passed: adapt the step size further, and keep the rest."""
        state = self.tuning.state[0]
        start_adaptation(state, pace.step_size)
        state.updates = WEIGHT
        state.error_mean = REGULARISATION * np.log(10.0) / np.sqrt(WEIGHT)  # for which the step size stays
        state.iteration, state.shortened = self.passed, 1
        state.time = pace.integration_time

    @property
    def _warmup(self) -> int:
        """The iterations of warm-up, with those that passed before."""
        return self.passed + self.task.warmup

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        given = self._work, self.rng, self.time, self._warmup, self.target
        made = run_static(*given, Drawn(**room), monitor.stop, monitor.done)
        state = self.tuning.state[0]
        chosen = integration_time(float(state.time), int(state.iteration), self._warmup)
        self.draws.integration_time = float(self.time or chosen)
        return made

    def _state(self) -> dict[str, np.ndarray]:
        return {**super()._state(), **self.tuning._asdict()}
