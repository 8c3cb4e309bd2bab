"""The noise of a few draws, by which a model is checked, and from which a later run can begin.

A draw is a position (u, v0, w, v) of the sampler: the standard normals that parameters, initial states, observations
and path are made of. It is as large as a path with all its fine steps, so that a chain holds only a few of them,
and these as a whole, whatever else is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.model import ConditionalMap, DiffusionModel, GaussianNoise, Noiseless, NoisyObservation, Observation
from pathfold.sampling.draws import Draws, Held, held_by_all

STRIDE = 10  # the chain's pieces end at multiples of it after warm-up
MOST = 8  # of a chain, besides the last


def is_held(number: int, made: int) -> bool:
    """Return whether a draw is held, of draws 1, ..., `made` after warm-up: the last, and every 10th, 20th, 40th, ...

    What is held does not depend on how many draws there will be, so that a run that is made longer holds the same.
    """
    stride = STRIDE
    while made > MOST * stride:
        stride *= 2
    return number == made or number % stride == 0


@dataclass(frozen=True)
class Noise:
    """The noise of the draws that all chains hold; `draws` are their numbers after warm-up, from 0.

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
    of_series: list[str]  # the name of what varies, or "initial_state", that each of v0 belongs to
    columns: np.ndarray  # the observed column that each of w belongs to, -1 where it is not one alone
    z: np.ndarray  # (chain, draw, Z), what the draws are
    x0: np.ndarray  # (chain, draw, series, ...), with what varies
    nodes: np.ndarray  # (chain, draw, interval, X)


def noise_of(engine: Engine, grid: TimeGrid, chains: list[Draws], warmup: int) -> Noise | None:
    """Return the noise of the draws that all chains hold, or None if there are none; the grid is that of the data."""
    numbers = held_by_all(chains)
    if not numbers:
        return None
    held = [[chain.held[number] for number in numbers] for chain in chains]
    parts = [[(*_parts(engine, grid, draw), draw.z, draw.x0, draw.nodes) for draw in chain] for chain in held]
    return gathered(engine.model, np.array(numbers, dtype=np.int64) - warmup - 1, parts)


def gathered(model: DiffusionModel, draws: np.ndarray, parts: list[list[tuple[np.ndarray, ...]]]) -> Noise:
    """Return the noise of draws by chain, of which (u, v0, w, v, z, x0, nodes) are given."""
    u, v0, w, v, *whole = (np.array([[draw[i] for draw in chain] for chain in parts]) for i in range(7))
    names, columns = names_of_normals(model), _columns(model.observation)
    return Noise(draws, u, v0, w, v, standard_normals(model), *names, columns, *whole)


def names_of_normals(model: DiffusionModel) -> tuple[list[str], list[str]]:
    """Return the name of the parameter or state that each of u, and each of v0, belongs to."""
    shared = [name for name, m in model.parameters.maps.items() for _ in range(m.size)]
    own = [name for name, m in model.varying.maps.items() for _ in range(m.size)]
    return shared, [*own, *["initial_state"] * model.initial_state.size]


def _parts(engine: Engine, grid: TimeGrid, draw: Held) -> tuple[np.ndarray, ...]:
    """Return (u, v0, w, v) of a draw."""
    u, v0, w, v = engine.get_vector(draw.position)
    if not engine.of_fine_steps:
        return u, v0, w, v
    return u, v0, _observation_noise(engine.model, grid, draw), v.reshape(len(grid.starts), grid.steps, -1)


def _observation_noise(model: DiffusionModel, grid: TimeGrid, draw: Held) -> np.ndarray:
    """Return the observation noise (N, W), which is not part of a position without constraints.

    The rows of what was observed are r + E w = 0, affine in w. They determine its projection on their span; the rest,
    and all of it where nothing was observed, is drawn anew: w = n - E^+ (r + E n) with n standard normal, so that w is
    standard normal if the model is right. The normals follow from the draw, the same ones whenever it is taken apart.
    """
    shared, size = model.parameters.unflatten(draw.z), model.observation_noise_dim
    states = np.concatenate([draw.nodes, draw.x0[grid.series_of_intervals, model.state_dim :]], axis=1)
    digest = np.frombuffer(hashlib.sha256(draw.position.tobytes()).digest(), dtype=np.uint32)
    fresh = np.random.default_rng(digest).standard_normal((len(grid.ends), size))

    def conditioned(w, x, t, seen):
        x, named = model.in_series(shared, x, t)
        misfit = partial(model.observation.misfit, x, named, t=t, seen=seen)
        r, E = misfit(w), jax.jacfwd(misfit)(w)
        length = jnp.linalg.norm(E, axis=1)
        known = (seen.mask > 0.0) & (length > 0.0)
        r, E = jnp.where(known, r / length, 0.0), jnp.where(known[:, None], E / length[:, None], 0.0)
        return w - jnp.linalg.pinv(E) @ r

    with jax.enable_x64(True):
        seen = jax.tree.map(lambda field: jnp.asarray(field, float), grid.seen())
        return np.asarray(jax.vmap(conditioned)(fresh, states, model.clocks(grid)[1], seen))


def standard_normals(model: DiffusionModel) -> dict[str, np.ndarray]:
    """Mark the normals of each kind that are standard a priori."""

    def exact(maps: Iterable[ConditionalMap]) -> np.ndarray:
        return np.concatenate([np.zeros(0, dtype=bool), *(np.full(m.size, m.gaussian) for m in maps)])

    errors = [np.full(part.noise_dim, _has_standard_noise(part)) for _, part in model.observation.parts]
    return {
        "u": exact(model.parameters.maps.values()),
        "v0": exact([*model.varying.maps.values(), model.initial_state]),
        "w": np.concatenate([np.zeros(0, dtype=bool), *errors]),
        "v": np.array(True),
    }


def _has_standard_noise(observation: Observation) -> bool:
    """Return whether the noise is standard normal; the signed root of a likelihood is only nearly so."""
    if isinstance(observation, NoisyObservation):
        return observation.map.gaussian
    return isinstance(observation, GaussianNoise | Noiseless)


def _columns(observation: Observation) -> np.ndarray:
    """Return the observed column that each of w belongs to; -1 where it belongs to several."""
    of_parts = [np.zeros(0, dtype=np.int64)]
    for columns, part in observation.parts:
        own = not isinstance(part, NoisyObservation)
        of_parts.append(
            np.arange(columns.start, columns.stop) if own and part.noise_dim else np.full(part.noise_dim, -1)
        )
    return np.concatenate(of_parts)
