"""The noise of a few draws: what a model is checked by, and where a later run can begin.

A draw is a position (u, v0, w, v) of the sampler: the standard normals that parameters, initial states, observations
and path are made of. It is as large as a path with all its fine steps, so that a chain holds only a few of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pathfold.engine import Engine, UnconstrainedEngine
from pathfold.model import DiffusionModel, GaussianNoise, TimeGrid
from pathfold.model.time_grid import clocks
from pathfold.sampling.draws import Draws

STRIDE = 10  # the chain's pieces end at multiples of it after warm-up
MOST = 8  # of a chain, besides the last


def is_held(number: int, made: int) -> bool:
    """Whether, of the draws 1, ..., `made` after warm-up, this one is held: the last, and every 10th, 20th, 40th, ...

    What is held does not depend on how many draws there will be, so that a run that is made longer holds the same.
    """
    stride = STRIDE
    while made > MOST * stride:
        stride *= 2
    return number == made or number % stride == 0


@dataclass(frozen=True)
class Noise:
    """Of the draws held by all chains, with `draws` their numbers after warm-up, from 0.

    `standard` says which of the normals are standard a priori: where a distribution has no map of standard normals that
    can be compiled, the sampler's are only nearly so.
    """

    draws: np.ndarray
    u: np.ndarray  # (chain, draw, U)
    v0: np.ndarray  # (chain, draw, series, V0)
    w: np.ndarray  # (chain, draw, interval, W)
    v: np.ndarray  # (chain, draw, interval, step, V)
    standard: dict[str, np.ndarray]
    parameters: list[str]  # the name that each of u belongs to


def noise_of(engine: Engine, grid: TimeGrid, chains: list[Draws], warmup: int) -> Noise | None:
    """What all chains of an engine hold, taken apart, or None; the grid is the one of the data."""
    numbers = sorted(set.intersection(*(set(chain.positions) for chain in chains)))
    if not numbers:
        return None
    names = [name for name, each in engine.model.parameters.maps.items() for _ in range(each.size)]
    parts = [[_parts(engine, grid, chain, number) for number in numbers] for chain in chains]
    u, v0, w, v = (np.array([[each[i] for each in chain] for chain in parts]) for i in range(4))
    return Noise(np.array(numbers, dtype=np.int64) - warmup - 1, u, v0, w, v, _standard(engine), names)


def _parts(engine: Engine, grid: TimeGrid, chain: Draws, number: int) -> tuple[np.ndarray, ...]:
    """(u, v0, w, v) of a draw."""
    u, v0, w, v = engine.get_vector(chain.positions[number])
    if not isinstance(engine, UnconstrainedEngine):
        return u, v0, w, v
    states = chain.rows("nodes", number - 1, number)[0]
    if len(states):
        w = _misfits(engine.model, grid, chain.z[number - 1], states)
    return u, v0, w.reshape(len(grid.starts), -1), v.reshape(len(grid.starts), grid.steps, -1)


def _misfits(model: DiffusionModel, grid: TimeGrid, z: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The observation noise (N, Y), which is no part of the unconstrained sampler's position."""
    observation: Any = model.observation
    assert isinstance(observation, GaussianNoise)
    named = model.parameters.unflatten(z)

    def misfit(x, y, t):
        scale = observation.scale_matrix(model.observation_dim, named, t)
        return jax.numpy.linalg.solve(scale, y - observation.state_function(x, named, t))

    with jax.enable_x64(True):
        return np.asarray(jax.vmap(misfit)(states, grid.values, clocks(model.inputs, grid)[1]))


def _standard(engine: Engine) -> dict[str, np.ndarray]:
    model = engine.model
    exact = [np.full(m.size, m.excess is None) for m in model.parameters.maps.values()]
    return {
        "u": np.concatenate([np.zeros(0, dtype=bool), *exact]),
        "v0": np.array(model.initial_state.gaussian),
        "w": np.array(model.observation.noise_excess is None),
        "v": np.array(True),
    }
