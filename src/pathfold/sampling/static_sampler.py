"""Static trajectories on the manifold of the data: the sampler that runs have by default."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from pathfold.data import TimeGrid
from pathfold.data.checks import positive, truth
from pathfold.engine import Engine, IntegratedEngine
from pathfold.engine import table as at
from pathfold.engine.affine import why_not_affine
from pathfold.engine.engine import Solver
from pathfold.errors import SettingsError
from pathfold.model import DiffusionModel
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.integrated_chain import IntegratedChain
from pathfold.sampling.sampler import SOLVER, Sampler

MANIFOLD, INTEGRATED = "manifold", "integrated"  # what results call the method


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
    integrate
        Whether paths are integrated out, so that parameters alone move and each draw gets an exact draw of its path:
        possible where path and observations are linear in their noise given the parameters, and by default done there.
    solver
        `pf.Solver(...)`: when the projection of a step onto the manifold has converged.
    """

    native: ClassVar = "pathfold.engine.entries:STATIC"

    integration_time: float | None = None
    target_acceptance: float = 0.95
    _: KW_ONLY
    integrate: bool | None = None
    solver: Solver = SOLVER

    def __post_init__(self) -> None:
        self._check_solver()
        self._check_target(self.target_acceptance)
        if self.integration_time is not None:
            self._set("integration_time", positive("integration_time", self.integration_time))
        if self.integrate is not None:
            self._set("integrate", truth("integrate", self.integrate))

    @property
    def recorded(self) -> dict[str, Any]:
        return {name: value for name, value in super().recorded.items() if name != "integrate"}

    def chosen(self, model: DiffusionModel, grid: TimeGrid) -> dict[str, Any]:
        if self._why_not(model, grid):
            return {"method": MANIFOLD}
        return {"method": MANIFOLD, "integrate": "False"} if self.integrate is False else {"method": INTEGRATED}

    def _why_not(self, model: DiffusionModel, grid: TimeGrid) -> str:
        """Return why paths cannot be integrated out and the parameters sampled alone; empty if they can."""
        if not model.parameters.size:
            return "no parameter is unknown"
        return why_not_affine(model, censored=bool(grid.censored.any()))

    def check(self, model: DiffusionModel, grid: TimeGrid) -> None:
        if self.integrate and (why := self._why_not(model, grid)):
            raise SettingsError(f"integrate=True: paths cannot be integrated out, since {why}; leave integrate out")

    def engine(self, model: DiffusionModel, grid: TimeGrid) -> Engine:
        integrated = self.chosen(model, grid)["method"] == INTEGRATED
        return IntegratedEngine(model, grid) if integrated else super().engine(model, grid)

    def chain(self, task: ChainTask) -> HamiltonianChain:
        integrated = task.layout[at.METHOD] == at.INTEGRATED
        kind = IntegratedChain if integrated else HamiltonianChain
        return kind(task, self.target_acceptance, self.integration_time or 0.0)
