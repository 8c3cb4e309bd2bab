"""Dynamic trajectories on the manifold of the data: the paper's choice."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pathfold.engine.engine import Solver, Splitting
from pathfold.sampling.chain_task import ChainTask
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.parameter_metric import Metric, checked_metric
from pathfold.sampling.sampler import SOLVER, InitialStates, Sampler


@dataclass(frozen=True)
class DynamicHMC(Sampler):
    """Trajectories doubled until they turn back (at most 1023 steps), states drawn by weight: the paper's choice.

    A few trajectories have shorter steps, by up to a factor of 256, so that a chain comes into corners where the usual
    ones fail.

    Parameters
    ----------
    target_acceptance
        The acceptance rate that warm-up tunes the step size for, between 0 and 1.
    metric
        The metric, as for `pf.StaticHMC`.
    splitting
        As that of `pf.StaticHMC`; the paper's experiments have both.
    solver
        As that of `pf.StaticHMC`.
    observations_per_block
        As that of `pf.StaticHMC`.
    initial_states
        As those of `pf.StaticHMC`.
    """

    native: ClassVar = "dynamic"

    target_acceptance: float = 0.8
    metric: Metric = "identity"
    _: KW_ONLY
    splitting: Splitting = "gaussian"
    solver: Solver = SOLVER
    observations_per_block: int | None = None
    initial_states: InitialStates = "descent"

    def __post_init__(self) -> None:
        self._check_settings()
        self._check_target(self.target_acceptance)
        self._set("metric", checked_metric(self.metric))

    @property
    def parameter_metric(self) -> Metric:
        return self.metric

    def chain(self, task: ChainTask) -> HamiltonianChain:
        return HamiltonianChain(task, self.target_acceptance, dynamic=True, adapted=self.metric == "adapted")
