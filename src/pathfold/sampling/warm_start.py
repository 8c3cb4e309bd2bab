"""Beginning where an earlier run of the model ended: with other data, at other times, or with finer steps.

The noise of the path is that of a Wiener process: it is carried over to another grid by what that grid sees of it, with
fresh noise for the rest. The result is near the manifold of the new data, and is projected onto it like any guess.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.errors import SettingsError
from pathfold.model import DiffusionModel
from pathfold.sampling.starts import Point

# Iterations of warm-up by default: from anywhere, from where a run ended, from a fit, which has no step sizes.
WARMUP, AFTER_RUN, AFTER_FIT = 250, 50, 100


@dataclass(frozen=True)
class Pace:
    """The pace of a chain: its step size and, with static trajectories, its integration time (otherwise 0)."""

    step_size: float
    integration_time: float


@dataclass(frozen=True)
class Earlier:
    """The last draw of each chain of an earlier run: its noise, its states, and the grid that they belong to."""

    u: np.ndarray  # (chain, U)
    v0: np.ndarray  # (chain, series, V0)
    w: np.ndarray  # (chain, interval, W)
    v: np.ndarray  # (chain, interval, step, V)
    x0: np.ndarray  # (chain, series, X)
    nodes: np.ndarray  # (chain, interval, X)
    starts: np.ndarray  # (interval,)
    ends: np.ndarray
    first: np.ndarray  # (series,)
    step_sizes: np.ndarray  # (chain,), 0 of moves that were not trajectories
    integration_times: np.ndarray
    fitted: bool = False  # whether it is a fit, and its draws no chain's
    exchanged: bool = False  # whether its chains were of replica exchange

    def pace(self, chain: int) -> Pace:
        """Return the pace for a chain of the new run; if it has more chains, the earlier ones are taken in turn."""
        k = chain % len(self.u)
        return Pace(float(self.step_sizes[k]), float(self.integration_times[k]))

    @property
    def has_pace(self) -> bool:
        """Whether the chains of the earlier run had step sizes that others can take over."""
        return bool(np.all(self.step_sizes > 0.0))

    @property
    def digest(self) -> str:
        arrays = (getattr(self, field.name) for field in fields(self))
        return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def check_start(earlier: Earlier, model: DiffusionModel) -> None:
    """Raise SettingsError unless the noise of the earlier run is that of this model."""
    sizes = {
        "parameters": (earlier.u.shape[-1], model.parameters.size),
        "components of the state": (earlier.nodes.shape[-1], model.state_dim),
        "normals of an initial state": (earlier.v0.shape[-1], model.start_dim),
        "normals of an observation": (earlier.w.shape[-1], model.observation_noise_dim),
        "normals of a step": (earlier.v.shape[-1], model.noise_dim),
    }
    for what, (before, now) in sizes.items():
        none = before == 0 and what == "normals of an observation"  # of the baseline there are none
        if before != now and not none:
            raise SettingsError(
                f"start is of another model: it has {before} {what} where this one has {now}; give results of the same "
                "model, or leave start out"
            )


def guess_from(engine: Engine, earlier: Earlier, seed: int, chain: int) -> Point:
    """Return the position and states of an earlier chain on the grid of the engine."""
    rng, k = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain, 2))), chain % len(earlier.u)
    grid, sizes = engine.grid, engine.sizes
    v0 = rng.standard_normal((engine.series, sizes.V0))
    w = rng.standard_normal((engine.intervals, sizes.W))
    v = rng.standard_normal((engine.intervals, grid.steps, sizes.V))
    nodes = np.zeros((engine.intervals, engine.model.state_dim))
    before = np.split(np.arange(len(earlier.ends)), earlier.first[1:])
    for series, rows in enumerate(np.split(np.arange(engine.intervals), grid.first[1:])):
        old = before[min(series, len(before) - 1)]
        times, states = _nodes(earlier, k, old, min(series, len(before) - 1))
        nodes[rows] = np.stack([np.interp(grid.ends[rows], times, x) for x in states.T], axis=1)
        if series < len(before):
            v0[series] = earlier.v0[k, series]
            same, where = same_times(earlier.ends[old], grid.ends[rows])
            if earlier.w.shape[-1]:
                w[rows[where]] = earlier.w[k, old[same]]
            fine = (
                earlier.v[k, old].reshape(-1, sizes.V),
                _edges(earlier.starts[old], earlier.ends[old], earlier.v.shape[2]),
            )
            fresh = v[rows].reshape(-1, sizes.V), _edges(grid.starts[rows], grid.ends[rows], grid.steps)
            v[rows] = carried_over(*fine, *fresh).reshape(len(rows), grid.steps, sizes.V)
    point, own = engine.block("point"), _own(engine.model, grid, earlier.u[k], v0)
    counts = np.diff([*grid.first, engine.intervals])
    nodes = np.concatenate([nodes, np.repeat(own, counts, axis=0)], axis=1)
    engine.set_vector(point, earlier.u[k], v0, w, v)
    engine.set("point", point, "node", "x_node", nodes)
    return Point.of(engine, point)


def _own(model: DiffusionModel, grid: TimeGrid, u: np.ndarray, v0: np.ndarray) -> np.ndarray:
    """Return the values that vary between series (series, values), from the normals."""
    with jax.enable_x64(True):
        z = model.parameters.unflatten(model.parameters.push(jnp.asarray(u)))

        def of_series(normals, covariates):
            return model.varying.push(normals, model.of_series(z, covariates))

        return np.asarray(jax.vmap(of_series)(v0[:, : model.varying.size], model.covariates_of(grid)))


def _nodes(earlier: Earlier, chain: int, rows: np.ndarray, series: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the times and states of a series, the initial state first."""
    times = np.append(earlier.starts[rows[0]], earlier.ends[rows])
    return times, np.vstack([earlier.x0[chain, series], earlier.nodes[chain, rows]])


def same_times(old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the times that both have, up to rounding; both are in order."""
    nearest = np.searchsorted(0.5 * (old[1:] + old[:-1]), new)
    same = np.isclose(old[nearest], new, rtol=1e-9, atol=1e-12)
    return nearest[same], np.flatnonzero(same)


def _edges(starts: np.ndarray, ends: np.ndarray, steps: int) -> np.ndarray:
    """Return the times at which fine steps begin, and at which the last one ends."""
    fine = starts[:, None] + (ends - starts)[:, None] * np.arange(steps) / steps
    return np.append(fine.ravel(), ends[-1])


def carried_over(v: np.ndarray, edges: np.ndarray, fresh: np.ndarray, new_edges: np.ndarray) -> np.ndarray:
    """Return normals of the steps between `new_edges` for the Wiener process whose normals between `edges` are v.

    They are M v + (I - M M^T) fresh, with M the map from increments on the one grid to those on the other. For finer
    grids M M^T is a projection, and the result is standard normal if v and fresh are; on the same grid it is v.
    """
    seen = _seen(v, edges, new_edges, fresh)
    there = _seen(fresh, new_edges, edges, np.zeros_like(v))
    return seen + fresh - _seen(there, edges, new_edges, np.zeros_like(fresh))


def _seen(v: np.ndarray, edges: np.ndarray, new_edges: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return increments between new edges of the process made from v, linear between edges and constant beyond them."""
    process = np.vstack([np.zeros(v.shape[1]), np.cumsum(v * np.sqrt(np.diff(edges))[:, None], axis=0)])
    increments = np.stack([np.diff(np.interp(new_edges, edges, component)) for component in process.T], axis=1)
    length = np.sqrt(np.diff(new_edges))[:, None]
    return np.divide(increments, length, out=np.zeros_like(like), where=length > 0.0)


def check_same_series(earlier: Earlier, grid: TimeGrid) -> None:
    """Raise SettingsError if the times of the new data do not overlap with those of the earlier run."""
    if grid.ends.min() > earlier.ends.max() or grid.ends.max() < earlier.starts.min():
        raise SettingsError(
            f"start is of data between t = {earlier.starts.min():g} and {earlier.ends.max():g}, and the data lie "
            "outside of that; give results of data that overlap, or leave start out"
        )
