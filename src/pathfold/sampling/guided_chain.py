"""A chain of guided proposals on the host's side."""

from __future__ import annotations

import numpy as np

from pathfold.engine.native import metropolis
from pathfold.engine.native.recording import Drawn
from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError
from pathfold.sampling.chain import Chain
from pathfold.sampling.chain_task import ChainTask, Monitor
from pathfold.sampling.samplers import GuidedProposals


class GuidedChain(Chain):
    """A chain of guided proposals. Its point holds the normals that guides turn into noise."""

    def __init__(self, task: ChainTask) -> None:
        super().__init__(task, metropolis.GUIDED_POINTS, 1)
        assert isinstance(task.sampler, GuidedProposals)
        self.search = np.zeros(metropolis.search_size(self.layout))
        metropolis.begin_search(self.layout, self.search, float(task.sampler.thin), task.sampler.reference == "path")

    def initialise(self) -> None:
        guess = self.task.start.guess
        assert guess is not None
        metropolis.node_record(self.layout, self.points[metropolis.REFERENCE])[:] = guess.nodes
        blocks = (self.layout, self.problems[0], self.points, guess.position, self.scratch)
        if (status := metropolis.begin(*blocks)) != CONVERGED:
            raise InitialisationError(
                f"guided proposals cannot start where a projection ended: {MEANING[status]}; try another seed, or take "
                "more steps_per_interval"
            )
        self.draws.start_attempts = 1

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        blocks = (self.layout, self.problems[0], self.points, self.scratch, self.rng, self.search)
        return metropolis.run(*blocks, self.task.warmup, Drawn(**room), monitor.stop, monitor.done)

    def _position(self) -> np.ndarray:
        metropolis.exchange_noise(self.layout, self.current, self.momenta[0], False)
        return self.momenta[0].copy()

    def _state(self) -> dict[str, np.ndarray]:
        return {"point": self.current, "search": self.search, "paths": self.points[metropolis.REFERENCE :]}
