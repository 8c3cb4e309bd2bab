"""The start of guided proposals: a point of the manifold, along whose path guides are linearised at first."""

from __future__ import annotations

import numpy as np

from pathfold.engine import Engine, GuidedEngine
from pathfold.sampling.initialise import Guess
from pathfold.sampling.samplers import Reference


def guided_start(engine: Engine, guided: GuidedEngine, point: np.ndarray, reference: Reference) -> Guess:
    """Return the noise of a point of the constrained engine, as a vector of the guided one, and the reference path."""
    u, v0, _, v = engine.get_vector(point)
    position, block = guided.block("vector"), guided.block("point")
    guided.set_vector(position, u, v0, np.zeros((guided.intervals, 0)), v.reshape(guided.intervals, -1))
    nodes = engine.get("point", point, "node", "x_node")
    starts = engine.get("point", point, "path", "x")
    ends = np.concatenate([starts[:, 1:], nodes[:, None]], axis=1)
    path = [each.reshape(guided.intervals, -1) for each in (starts, ends)]
    if reference == "endpoint":
        path = 2 * [_endpoints(guided, path[1])]
    for field, states in zip(("x_start", "x_node"), path, strict=True):
        guided.set("point", block, "node", field, states)
    return Guess(position, guided.record("point", block, "node").copy())


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
