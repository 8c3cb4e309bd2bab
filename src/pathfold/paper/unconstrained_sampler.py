"""Dynamic trajectories without constraints: the paper's baseline."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from pathfold.data import TimeGrid
from pathfold.data.checks import choice
from pathfold.engine import Engine, UnconstrainedEngine
from pathfold.engine.engine import Splitting
from pathfold.model import DiffusionModel
from pathfold.paper.dynamic_chain import DynamicChain
from pathfold.paper.paper_sampler import InitialStates, PaperSampler
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.sampler import check_noise
from pathfold.sampling.starts import Point
from pathfold.sampling.warm_start import WARMUP, Earlier

Scales = Literal["adapted", "identity"]


@dataclass(frozen=True)
class UnconstrainedHMC(PaperSampler):
    """The paper's baseline for additive Gaussian noise: dynamic trajectories on the density of (u, v0, v).

    Steps must be as small as the observation noise: it is meant for comparison and not recommended.

    Parameters
    ----------
    target_acceptance
        The acceptance rate that warm-up tunes the step size for, between 0 and 1.
    metric
        "adapted": diagonal, from the variances in growing windows of warm-up, which should have 500 iterations or more;
        or "identity".
    splitting
        How the Hamiltonian is split, "stormer-verlet" or "gaussian".
    initial_states
        As those of `pf.DynamicHMC`; a chain begins with a point that meets the data, without its observation noise.
    """

    native: ClassVar = "pathfold.paper.paper_entries:DYNAMIC"

    target_acceptance: float = 0.8
    metric: Scales = "adapted"
    _: KW_ONLY
    splitting: Splitting = "stormer-verlet"
    initial_states: InitialStates = "descent"

    def __post_init__(self) -> None:
        self._check_settings()
        self._check_target(self.target_acceptance)
        choice("metric", self.metric, get_args(Scales))

    def check(self, model: DiffusionModel, grid: TimeGrid) -> None:
        check_noise(self, model, "(u, v0, v) have no density")

    def warmup(self, start: Earlier | None) -> int:
        return WARMUP

    def sampled(self, engine: Engine) -> Engine:
        return UnconstrainedEngine(engine.model, engine.grid, splitting=self.splitting)

    def start(self, engine: Engine, point: np.ndarray, own: Engine) -> Point:
        return Point(without_observation_noise(engine, point, own), np.zeros(0))

    def chain(self, task: ChainTask) -> DynamicChain:
        return DynamicChain(task, self.target_acceptance, scaled=self.metric == "adapted")


def without_observation_noise(engine: Engine, point: np.ndarray, own: Engine) -> np.ndarray:
    """Return the noise of a point of the manifold as a vector of an engine whose intervals are fine steps."""
    u, v0, _, v = engine.get_vector(point)
    position = own.block("vector")
    own.set_vector(position, u, v0, np.zeros((own.intervals, 0)), v.reshape(own.intervals, -1))
    return position
