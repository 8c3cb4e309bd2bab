"""Dynamic trajectories on the manifold of the data, with all that the paper varies about them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from pathfold.data import TimeGrid
from pathfold.data.checks import whole
from pathfold.engine import Engine
from pathfold.engine.engine import Solver, Splitting
from pathfold.model import DiffusionModel
from pathfold.paper.blocks import blocked_problems, check_blocks
from pathfold.paper.dynamic_chain import DynamicChain
from pathfold.paper.paper_sampler import InitialStates, PaperSampler
from pathfold.paper.parameter_metric import Metric, checked_metric, coordinates_of
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.sampler import SOLVER
from pathfold.sampling.warm_start import WARMUP, Earlier


@dataclass(frozen=True)
class DynamicHMC(PaperSampler):
    """Trajectories doubled until they turn back (at most 1023 steps), states drawn by weight: the paper's choice.

    A few trajectories have shorter steps, by up to a factor of 256, so that a chain comes into corners where the usual
    ones fail. `pf.StaticHMC` is faster; this is what it is compared with, and what the paper varies stands here.

    Parameters
    ----------
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
        As that of `pf.StaticHMC`.
    observations_per_block
        Condition on the full state every so many observations, as the paper does. The posterior is the same; here it
        saves nothing.
    initial_states
        How a first point that meets the data is sought: by "descent" to the modes of the posterior, or with one of the
        paper's heuristics, "interpolation", "adam" and "adam-states".
    """

    native: ClassVar = "pathfold.paper.paper_entries:DYNAMIC"

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
        if self.observations_per_block is not None:
            self._set("observations_per_block", whole("observations_per_block", self.observations_per_block, least=2))

    @property
    def recorded(self) -> dict[str, Any]:
        return {**super().recorded, "observations_per_block": self.observations_per_block or 0}

    def check(self, model: DiffusionModel, grid: TimeGrid) -> None:
        coordinates_of(self.metric, model.parameters)
        if self.observations_per_block is not None:
            check_blocks(model)

    def warmup(self, start: Earlier | None) -> int:
        return WARMUP if self.metric == "adapted" else super().warmup(start)

    def engine(self, model: DiffusionModel, grid: TimeGrid) -> Engine:
        return Engine(
            model,
            grid,
            splitting=self.splitting,
            solver=self.solver,
            conditioned=self.observations_per_block is not None,
            metric=self.metric != "identity" and model.parameters.size > 0,
        )

    def problems(self, engine: Engine) -> np.ndarray:
        problems = blocked_problems(engine, self.observations_per_block)
        if (given := coordinates_of(self.metric, engine.model.parameters)) is not None and engine.metric:
            for problem in problems:
                engine.record("problem", problem, "coordinates")[:] = given.numbers
        return problems

    def chain(self, task: ChainTask) -> DynamicChain:
        return DynamicChain(task, self.target_acceptance, adapted=self.metric == "adapted")
