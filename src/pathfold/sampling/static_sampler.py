"""Static trajectories on the manifold of the data: the sampler that runs have by default."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pathfold.engine.engine import Solver, Splitting
from pathfold.model.checks import positive
from pathfold.sampling.chain_task import ChainTask
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.parameter_metric import Metric, checked_metric
from pathfold.sampling.sampler import SOLVER, InitialStates, Sampler


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
    metric
        The mass of the standard normals that the parameters are made of, besides the mass of what moves with them
        (method.md, section 7): "identity", which is right for linear models; "adapted" in the first part of warm-up; or
        a positive definite matrix, its diagonal, or a dict of that by parameter.
    splitting
        How the Hamiltonian is split: "gaussian", whose step size does not depend on the number of fine steps, or
        "stormer-verlet".
    solver
        `pf.Solver(...)`: when the projection of a step onto the manifold has converged.
    observations_per_block
        Condition on the full state every so many observations, as the paper does. The posterior is the same; here it
        saves nothing.
    initial_states
        How a first point that meets the data is sought: by "descent" to the modes of the posterior, or with one of the
        paper's heuristics, "interpolation", "adam" and "adam-states".
    """

    native: ClassVar = "static"

    integration_time: float | None = None
    target_acceptance: float = 0.95
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
        if self.integration_time is not None:
            self._set("integration_time", positive("integration_time", self.integration_time))

    @property
    def parameter_metric(self) -> Metric:
        return self.metric

    def chain(self, task: ChainTask) -> HamiltonianChain:
        return HamiltonianChain(
            task, self.target_acceptance, time=self.integration_time or 0.0, adapted=self.metric == "adapted"
        )
