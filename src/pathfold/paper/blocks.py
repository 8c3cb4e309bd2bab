"""Blocking (paper, section 5): conditioning on the full state every R observations, with two partitions by turns.

The paper needs it for a linear cost. Here the cost is linear without it; it is kept for comparison.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data import Seen, TimeGrid
from pathfold.engine import Engine
from pathfold.errors import SettingsError
from pathfold.model import DiffusionModel
from pathfold.model.functions import listed


def blocked_problems(engine: Engine, observations_per_block: int | None) -> np.ndarray:
    """Return the plain problem; and, if there are blocks, one problem for each of two sets of nodes that are held."""
    problems = [engine.problem.copy()]
    for nodes in partitions(engine.grid, observations_per_block) if observations_per_block else []:
        problems.append(held(engine, nodes, np.zeros((len(nodes), engine.sizes.X))))
    return np.stack(problems)


def partitions(grid: TimeGrid, R: int) -> list[np.ndarray]:
    """Return two sets of nodes to hold, in every series observations R, 2R, ... and floor((2b - 1) R / 2); or none."""
    found = ([], [])
    observed = grid.mask.any(axis=1) & (grid.delta > 0.0)
    for nodes in np.split(np.arange(len(grid.starts)), grid.first[1:]):
        nodes = nodes[observed[nodes]]
        for b in range(1, len(nodes) // R + 2):
            for half, position in zip(found, (b * R, (2 * b - 1) * R // 2), strict=True):
                if position < len(nodes):
                    half.append(nodes[position - 1])
    return [np.array(half, dtype=int) for half in found] if any(found) else []


def held(engine: Engine, nodes, states) -> np.ndarray:
    """Return the problem of holding the full states at some nodes, without exact observations there: these are
    implied."""
    problem, observed = engine.problem.copy(), engine.model.observation_dim
    values = engine.get("problem", problem, "grid", "y")
    mask = np.zeros_like(values)
    mask[:, :observed] = engine.grid.mask
    values[nodes, observed:], mask[nodes, observed:] = states, 1.0
    mask[np.ix_(nodes, np.flatnonzero(engine.model.exactly_observed))] = 0.0
    engine.set("problem", problem, "grid", "y", values)
    engine.set("problem", problem, "grid", "mask", mask)
    return problem


def check_blocks(model: DiffusionModel) -> None:
    """Raise SettingsError if something varies between series, or if an exact observation depends on parameters."""
    if model.varying.names:
        raise SettingsError(
            f"observations_per_block cannot be used, since {listed(model.varying.names)} varies between series: "
            "holding the state of a series would hold that value too; sample without blocks"
        )
    with jax.enable_x64(True):
        x, z = jnp.ones(model.state_dim), model.parameters.push(jnp.zeros(model.parameters.size))
        w, t = jnp.zeros(model.observation_noise_dim), model.some_clock()
        seen = Seen(jnp.full(model.observation_dim, 0.5), jnp.ones(model.observation_dim), jnp.zeros(0), jnp.zeros(0))
        slope = jax.jacfwd(lambda z: model.misfit(model.parameters.unflatten(z), x, w, t, seen))(z)
    if np.any(np.asarray(slope)[model.exactly_observed] != 0.0):
        raise SettingsError(
            "observations_per_block cannot be used: an exact observation depends on parameters, so that holding the "
            "state does not hold it; add the parameter to the state, or sample without blocks"
        )
