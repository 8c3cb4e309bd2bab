"""Guided proposals: the sampler, its chains on the host's side, and their start, a point of the manifold along whose
path guides are linearised at first."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from pathfold.data import TimeGrid
from pathfold.data.checks import choice, whole
from pathfold.engine import Engine, GuidedEngine
from pathfold.engine import table as at
from pathfold.engine.native.constrained_step import linearise
from pathfold.engine.native.recording import Drawn
from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError, SettingsError
from pathfold.model import DiffusionModel
from pathfold.paper.native import metropolis
from pathfold.paper.paper_sampler import InitialStates, PaperSampler
from pathfold.paper.unconstrained_sampler import without_observation_noise
from pathfold.sampling.chain import Chain, ChainTask
from pathfold.sampling.held_noise import names_of_normals
from pathfold.sampling.progress import Monitor
from pathfold.sampling.sampler import Statistic, check_noise
from pathfold.sampling.starts import Point
from pathfold.sampling.warm_start import Earlier

Reference = Literal["path", "endpoint"]


@dataclass(frozen=True)
class GuidedProposals(PaperSampler):
    """Guided proposals with random-walk Metropolis moves: the paper's other comparator, for noise with a density.

    Paths follow a guide to the data, a Gaussian one from the model linearised along a reference path. Metropolis moves
    change the noise that the guide makes them of, all at once, then the parameters and the initial states one by one.
    The posterior is that of the other samplers. It needs no gradients, and thousands of iterations.

    Parameters
    ----------
    reference
        The path that the model is linearised along: "path", the mean of the paths drawn in the first half of warm-up;
        or "endpoint", over every interval the state at its end, as far as it is observed, which is what the paper does
        and is slower by far.
    thin
        Iterations for each draw, of warm-up too.
    initial_states
        As those of `pf.UnconstrainedHMC`.
    """

    native: ClassVar = "pathfold.paper.paper_entries:GUIDED"

    reference: Reference = "path"
    thin: int = 10
    _: KW_ONLY
    initial_states: InitialStates = "descent"

    def __post_init__(self) -> None:
        self._check_settings()
        choice("reference", self.reference, get_args(Reference))
        self._set("thin", whole("thin", self.thin, least=1))

    def check(self, model: DiffusionModel, grid: TimeGrid) -> None:
        check_noise(self, model, "(u, v0, v) have no density")

    def warmup(self, start: Earlier | None) -> int:
        return 500  # draws, each of several iterations

    def check_thin(self, thin: int) -> None:
        if thin > 1:
            raise SettingsError(
                f"a draw of pf.GuidedProposals() has its own thin: write pf.GuidedProposals(thin={thin})"
            )

    def statistics(self, model: DiffusionModel) -> list[Statistic]:
        """Return acceptance of the path and rho; acceptance and width of all coordinates of parameters and starts."""
        found = [Statistic(name) for name in metropolis.GUIDED_STATISTICS]
        for what in ("acceptance", "width"):
            for kind, labels in zip(("parameter", "initial"), names_of_normals(model), strict=True):
                if labels:
                    found.append(Statistic(f"{kind}_{what}", dim=f"{kind}_normal", labels=labels))
        return found

    def sampled(self, engine: Engine) -> Engine:
        return GuidedEngine(engine.model, engine.grid)

    def start(self, engine: Engine, point: np.ndarray, own: Engine) -> Point:
        assert isinstance(own, GuidedEngine)
        linearise(engine.machine(), point)
        return guided_start(engine, own, point, self.reference)

    def chain(self, task: ChainTask) -> GuidedChain:
        return GuidedChain(task, self)


class GuidedChain(Chain):
    """A chain of guided proposals. Its point holds the normals that guides turn into noise."""

    def __init__(self, task: ChainTask, sampler: GuidedProposals) -> None:
        super().__init__(task, metropolis.GUIDED_POINTS, 1)
        coordinates = int(self.layout[at.U] + self.layout[at.V0])
        self.search = metropolis.Search.of(coordinates, sampler.thin, sampler.reference == "path")

    def initialise(self) -> None:
        start = self.task.start
        assert start is not None
        if (status := metropolis.begin(self.machine, self.points, start.position, start.nodes)) != CONVERGED:
            raise InitialisationError(
                f"guided proposals cannot start where a search ended: {MEANING[status]}; try another seed, or take "
                "more steps_per_interval"
            )

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        given = self.machine, self.points, self.rng, self.search, self.task.warmup
        return metropolis.run_guided(*given, Drawn(**room), monitor.stop, monitor.done)

    def _position(self) -> np.ndarray:
        metropolis.exchange_noise(self.layout, self.current, self.momenta[0], False)
        return self.momenta[0].copy()

    def _state(self) -> dict[str, np.ndarray]:
        return {"point": self.current, **self.search._asdict(), "paths": self.points[metropolis.REFERENCE :]}


def guided_start(engine: Engine, guided: GuidedEngine, point: np.ndarray, reference: Reference) -> Point:
    """Return the noise of a point of the constrained engine, as a vector of the guided one, and the reference path."""
    position, block = without_observation_noise(engine, point, guided), guided.block("point")
    nodes = engine.get("point", point, "node", "x_node")
    starts = engine.get("point", point, "path", "x")
    ends = np.concatenate([starts[:, 1:], nodes[:, None]], axis=1)
    path = [states.reshape(guided.intervals, -1) for states in (starts, ends)]
    if reference == "endpoint":
        path = 2 * [_endpoints(guided, path[1])]
    for field, states in zip(("x_start", "x_node"), path, strict=True):
        guided.set("point", block, "node", field, states)
    return Point(position, guided.record("point", block, "node").copy())


def _endpoints(guided: GuidedEngine, ends: np.ndarray) -> np.ndarray:
    """Return, for every step, the state at the next observation, with observed values in components that they show."""
    grid, at_end = guided.grid, ends.copy()
    for column, component in enumerate(guided.model.components_shown()):
        seen = grid.mask[:, column] & (grid.censored[:, column] == 0) & (component >= 0)
        at_end[seen, component] = grid.values[seen, column]
    following = np.searchsorted(guided.nodes, np.arange(guided.intervals))
    last = np.arange(guided.intervals)  # of steps that nothing is seen after, which have no guide
    ahead = following < len(guided.nodes)
    last[ahead] = guided.nodes[following[ahead]]
    return at_end[last]
