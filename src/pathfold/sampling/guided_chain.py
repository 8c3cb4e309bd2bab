"""A chain of guided proposals on the host's side, and its start: a point of the manifold, along whose path guides are
linearised at first."""

from __future__ import annotations

import numpy as np

from pathfold.engine import Engine, GuidedEngine
from pathfold.engine.native import metropolis
from pathfold.engine.native.recording import Drawn
from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError
from pathfold.sampling.chain import Chain
from pathfold.sampling.chain_task import ChainTask, Monitor
from pathfold.sampling.samplers import GuidedProposals, Reference
from pathfold.sampling.starts import Point


class GuidedChain(Chain):
    """A chain of guided proposals. Its point holds the normals that guides turn into noise."""

    def __init__(self, task: ChainTask) -> None:
        super().__init__(task, metropolis.GUIDED_POINTS, 1)
        assert isinstance(task.sampler, GuidedProposals)
        self.search = np.zeros(metropolis.guided_search_size(self.layout))
        metropolis.begin_search(self.layout, self.search, float(task.sampler.thin), task.sampler.reference == "path")

    def initialise(self) -> None:
        start = self.task.start
        assert start is not None
        metropolis.node_record(self.layout, self.points[metropolis.REFERENCE])[:] = start.nodes
        blocks = (self.layout, self.problems[0], self.points, start.position, self.scratch)
        if (status := metropolis.begin(*blocks)) != CONVERGED:
            raise InitialisationError(
                f"guided proposals cannot start where a search ended: {MEANING[status]}; try another seed, or take "
                "more steps_per_interval"
            )

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        blocks = (self.layout, self.problems[0], self.points, self.scratch, self.rng, self.search)
        return metropolis.run_guided(*blocks, self.task.warmup, Drawn(**room), monitor.stop, monitor.done)

    def _position(self) -> np.ndarray:
        metropolis.exchange_noise(self.layout, self.current, self.momenta[0], False)
        return self.momenta[0].copy()

    def _state(self) -> dict[str, np.ndarray]:
        return {"point": self.current, "search": self.search, "paths": self.points[metropolis.REFERENCE :]}


def guided_start(engine: Engine, guided: GuidedEngine, point: np.ndarray, reference: Reference) -> Point:
    """Return the noise of a point of the constrained engine, as a vector of the guided one, and the reference path."""
    u, v0, _, v = engine.get_vector(point)
    position, block = guided.block("vector"), guided.block("point")
    guided.set_vector(position, u, v0, np.zeros((guided.intervals, 0)), v.reshape(guided.intervals, -1))
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
