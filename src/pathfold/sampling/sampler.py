"""A sampler: its settings, what it asks of a model, and how it makes a chain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pathfold.data import TimeGrid
from pathfold.data.checks import positive
from pathfold.engine import Engine
from pathfold.engine.engine import Solver
from pathfold.errors import SettingsError, told
from pathfold.model import DiffusionModel
from pathfold.sampling.starts import Point
from pathfold.sampling.warm_start import AFTER_FIT, AFTER_RUN, WARMUP, Earlier

if TYPE_CHECKING:
    import numpy as np

    from pathfold.sampling.chain import Chain, ChainTask

SOLVER = Solver()


@dataclass(frozen=True)
class Statistic:
    """What a sampler records with every draw under a name: a number, or one for each of the labels of a dimension."""

    name: str
    dtype: str = "float64"
    dim: str = ""
    labels: Sequence[Any] = ()

    @property
    def size(self) -> int:
        return len(self.labels) if self.dim else 1


class Sampler(ABC):
    """A way to draw from the posterior: a frozen dataclass of settings, with the chains that they make.

    `pf.sample` compiles the model, finds a point that meets the data for every chain, runs chains in threads or
    processes, saves them, and packs their draws. It asks a sampler for what stands here and for nothing else.
    """

    native: ClassVar[str]  # the functions that its chains call, as in "pathfold.engine.entries:STATIC"
    tempered: ClassVar[bool] = False  # whether it takes likelihoods to powers, and has starts from all modes
    solver: Solver = SOLVER

    @abstractmethod
    def chain(self, task: ChainTask) -> Chain:
        """Return a chain that has not begun."""

    def check(self, model: DiffusionModel, grid: TimeGrid) -> None:
        """Raise SettingsError if it cannot sample this model with these data."""

    def warmup(self, start: Earlier | None) -> int:
        """Return the length of warm-up by default: short for chains that go on at the pace of an earlier run."""
        if start is None or not (start.fitted or start.has_pace):
            return WARMUP
        return AFTER_FIT if start.fitted else AFTER_RUN

    def check_thin(self, thin: int) -> None:
        """Raise SettingsError if it has a setting of its own for the iterations of a draw."""

    def statistics(self, model: DiffusionModel) -> list[Statistic]:
        """Return what it records besides the statistics of all samplers, in the order of its columns."""
        return []

    @property
    def recorded(self) -> dict[str, Any]:
        """Its settings as results record them."""
        own = {name: value for name, value in vars(self).items() if name != "solver"}
        return {name: "adapted" if value is None else value for name, value in own.items()}

    def chosen(self, model: DiffusionModel, grid: TimeGrid) -> dict[str, Any]:
        """Return what it chooses for a model and its data, as results record it besides its settings."""
        return {}

    def engine(self, model: DiffusionModel, grid: TimeGrid) -> Engine:
        """Return the engine that finds where chains are to begin, on the manifold of the data if paths are sampled."""
        return Engine(model, grid, solver=self.solver, tempered=self.tempered)

    def guesses(self, engine: Engine, seed: int, chains: Sequence[int]) -> dict[int, Point]:
        """Return a guess for each chain where it should begin; none if modes of the posterior are to be sought."""
        return {}

    def sampled(self, engine: Engine) -> Engine:
        """Return the engine that its chains run on, for the model and grid of the one that finds their starts."""
        return engine

    def start(self, engine: Engine, point: np.ndarray, own: Engine) -> Point:
        """Return the beginning of a chain on its own engine, from a point of the other."""
        raise NotImplementedError

    def problems(self, engine: Engine) -> np.ndarray:
        """Return the problems that its chains are given, one a row, of the engine that they run on."""
        return engine.problem[None].copy()

    def _check_solver(self) -> None:
        if not isinstance(self.solver, Solver):
            raise SettingsError(f"solver must be pf.Solver(), with other tolerances or limits, not {told(self.solver)}")

    def _check_target(self, given: float) -> None:
        self._set("target_acceptance", positive("target_acceptance", given, below=1.0))

    def _set(self, name: str, value: Any) -> None:
        """Put a setting in its plain type."""
        object.__setattr__(self, name, value)


def check_noise(sampler: Sampler, model: DiffusionModel, why: str) -> None:
    """Raise SettingsError, which says why, unless all that is observed has noise."""
    if not model.noise_everywhere:
        raise SettingsError(
            f"sampler=pf.{type(sampler).__name__}() needs noise in every component, pf.GaussianNoise(mean, scale) or "
            f"pf.Likelihood(f): without it {why}; give all that is observed a little noise, or use pf.StaticHMC() or "
            "pf.DynamicHMC()"
        )
