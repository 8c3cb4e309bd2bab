"""A chain of guided proposals on the host's side."""

from __future__ import annotations

import numpy as np

from pathfold.engine.native import metropolis
from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError
from pathfold.sampling.chain_task import Monitor
from pathfold.sampling.draws import in_order
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.samplers import GuidedProposals


class GuidedChain(HamiltonianChain):
    """The state of a chain of guided proposals: its point has the normals that guides turn into noise."""

    def _rows(self) -> tuple[int, int]:
        return metropolis.GUIDED_POINTS, 1

    def _new_search(self) -> np.ndarray:
        sampler, search = self.task.sampler, np.zeros(metropolis.search_size(self.layout))
        assert isinstance(sampler, GuidedProposals)
        metropolis.begin_search(self.layout, search, float(sampler.thin), sampler.reference == "path")
        return search

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
        return metropolis.run(*blocks, self.task.warmup, *in_order(room), monitor.stop, monitor.done)

    def _position(self) -> np.ndarray:
        metropolis.exchange_noise(self.layout, self.current, self.momenta[0], False)
        return self.momenta[0].copy()

    def _state(self) -> dict[str, np.ndarray]:
        return {**super()._state(), "paths": self.points[metropolis.REFERENCE :]}
