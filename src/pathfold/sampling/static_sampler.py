"""Static trajectories on the manifold of the data: the sampler that runs have by default."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pathfold.data.checks import positive
from pathfold.engine.engine import Solver
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.sampler import SOLVER, Sampler


@dataclass(frozen=True)
class StaticHMC(Sampler):
    """Trajectories of a random length about an integration time, accepted or rejected as a whole.

    Parameters
    ----------
    integration_time
        How long trajectories are on average. With the Gaussian splitting, directions that the data leave alone turn
        with period 2 pi, and a quarter of a turn makes them almost independent. By default warm-up chooses between a
        quarter and three quarters of a turn.
    target_acceptance
        The acceptance rate that warm-up tunes the step size for, between 0 and 1.
    solver
        `pf.Solver(...)`: when the projection of a step onto the manifold has converged.
    """

    native: ClassVar = "pathfold.engine.entries:STATIC"

    integration_time: float | None = None
    target_acceptance: float = 0.95
    _: KW_ONLY
    solver: Solver = SOLVER

    def __post_init__(self) -> None:
        self._check_solver()
        self._check_target(self.target_acceptance)
        if self.integration_time is not None:
            self._set("integration_time", positive("integration_time", self.integration_time))

    def chain(self, task: ChainTask) -> HamiltonianChain:
        return HamiltonianChain(task, self.target_acceptance, self.integration_time or 0.0)
