"""The dependence of the posterior on the time step: what half steps would change, to first order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.engine import Engine
from pathfold.engine.native.constrained_step import first_order_shift, linearise
from pathfold.engine.status import CONVERGED
from pathfold.model import DiffusionModel
from pathfold.sampling.draws import Draws, Held, held_by_all
from pathfold.schemes.scheme import Halves

LEAST = 1e-12  # of the prior's variance: where the posterior has less, no digits of it are left


@dataclass(frozen=True)
class Shift:
    """The distances, in posterior standard deviations, by which half steps would move the draws that all chains hold;
    `draws` are their numbers after warm-up, from 0. NaN stands where a distance is not known."""

    draws: np.ndarray
    z: np.ndarray  # (chain, draw, Z)
    x0: np.ndarray  # (chain, draw, series, ...), with what varies


def half_step_shift(model: DiffusionModel, engine: Engine, chains: list[Draws], warmup: int) -> Shift | None:
    """Return the shift of parameters, initial states and what varies, at the draws that all chains hold, or None.

    Each step is made in two halves that follow the same Wiener path. Where an interval then ends beside its node, by c,
    the constraints are not met any more, and the posterior mean of (u, v0) changes by -J^T G^{-1} c to first order
    (method.md, section 5). The normals that a Wiener path is refined by are always the same.
    """
    numbers, nothing, rng = held_by_all(chains), np.zeros(model.noise_dim), np.random.default_rng(41)
    if not numbers or model.scheme.halve(nothing, nothing, lambda halves: (nothing, nothing)) is None:
        return None
    fine = _with_steps(model, engine, 2 * engine.grid.steps)
    coarse = cache(partial(_with_steps, model, engine, engine.grid.steps))
    point, scratch = fine.block("point"), fine.block("scratch")

    def shifts(draw: Held) -> Iterator[np.ndarray]:
        u, v0, w, v = engine.get_vector(draw.position)
        fresh = rng.standard_normal(v.shape)
        halves = model.scheme.halve(v, fresh, partial(_at_steps, model, coarse, draw, fresh))
        assert halves is not None
        _place(model, fine, point, draw, u, v0, w, np.stack(halves, axis=2))
        moved = fine.block("vector")
        status = first_order_shift(fine.machine(scratch), point, moved)
        for shift, variance, prior in (_of_parameters(fine, point, moved), _of_starts(fine, point, moved, scratch)):
            spread = np.sqrt(np.where(variance > LEAST * prior, variance, np.nan))
            relative = np.divide(shift, spread, out=np.zeros_like(shift), where=prior != 0.0)  # what is fixed stays
            yield relative if status == CONVERGED else np.full_like(relative, np.nan)

    by_chain = [[tuple(shifts(chain.held[number])) for number in numbers] for chain in chains]
    z, x0 = (np.array([[draw[i] for draw in chain] for chain in by_chain]) for i in range(2))
    return Shift(np.array(numbers, dtype=np.int64) - warmup - 1, z, x0)


def _with_steps(model: DiffusionModel, engine: Engine, steps: int) -> Engine:
    """Return the constrained engine of the same problem with so many fine steps an interval."""
    return Engine(
        model,
        replace(engine.grid, steps=steps),
        conditioned=engine.conditioned,
        metric=engine.metric,
        tempered=engine.tempered,
    )


def _place(model: DiffusionModel, engine: Engine, point: np.ndarray, draw: Held, *parts: np.ndarray) -> None:
    """Write u, v0, w and v, and the nodes of a draw, to a point."""
    engine.set_vector(point, *parts)
    own = draw.x0[engine.grid.series_of_intervals, model.state_dim :]
    engine.set("point", point, "node", "x_node", np.concatenate([draw.nodes, own], axis=1))


def _at_steps(
    model: DiffusionModel, coarse: Callable[[], Engine], draw: Held, fresh: np.ndarray, halves: Halves
) -> tuple[np.ndarray, np.ndarray]:
    """Return the noise (N, S, V) of the halves of all fine steps of a draw, where it depends on the states.

    `coarse` gives the constrained engine with the steps of the draw.
    """
    engine = coarse()
    point, parts = engine.block("point"), engine.get_vector(draw.position)
    _place(model, engine, point, draw, *parts)
    linearise(engine.machine(), point)
    states, grid = engine.get("point", point, "path", "x"), engine.grid
    with jax.enable_x64(True):
        given = (draw.z, states, parts[-1], fresh, grid.delta, model.clocks(grid)[0])
        run = model.kept.get(_compiled_halves, model, halves)
        first, second = run(*jax.tree.map(lambda a: jnp.asarray(a, dtype=float), given))
        return np.asarray(first), np.asarray(second)


def _compiled_halves(model: DiffusionModel, halves: Halves) -> Callable[..., Any]:
    """Return the function of z and of states (N, S, X), noise, lengths (N,) and times that gives the halves."""

    def of_step(z, x, v, fresh, delta, t):
        state, named, time = model.before_step(model.parameters.unflatten(z), x, t)
        return halves(model.sde, named, state, v, fresh, delta, time)

    of_interval = jax.vmap(of_step, (None, 0, 0, 0, None, 0))
    return jax.jit(jax.vmap(of_interval, (None, 0, 0, 0, 0, 0)))


def _of_parameters(engine: Engine, point: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the shift of z, its posterior variance and its prior variance, all linearised; u has the posterior
    covariance C^{-1} (method.md, section 4)."""
    D, C_inv = engine.get("point", point, "theta", "D"), engine.get("point", point, "sums", "C_inv")
    return D @ engine.get("vector", moved, "u", "u"), np.sum((D @ C_inv) * D, axis=-1), np.sum(D**2, axis=-1)


def _of_starts(engine: Engine, point: np.ndarray, moved: np.ndarray, scratch: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return shift, posterior and prior variance of x0 = x0(u, v0), with what varies, by series.

    The posterior covariance of v0 is I - B0^T W and that of x0's share of u with it -E0z Z^T B0, with Z and W the
    weights of E0z and B0 (method.md, section 6).
    """
    E0z, E0, B0 = (engine.get("point", point, "start", name) for name in ("E0z", "E0", "B0"))
    Z, W = (engine.get("scratch", scratch, "start_weights", name) for name in ("wE0", "wB0"))
    u, v0 = (engine.get("vector", moved, name, name) for name in ("u", "v0"))
    C_inv = engine.get("point", point, "sums", "C_inv")
    across = np.swapaxes(Z, 1, 2) @ B0
    own = np.eye(B0.shape[-1]) - np.swapaxes(B0, 1, 2) @ W
    variance = np.sum((E0 @ C_inv) * E0, axis=-1) + np.sum((B0 @ own - 2.0 * E0z @ across) * B0, axis=-1)
    return E0 @ u + (B0 @ v0[..., None])[..., 0], variance, np.sum(E0**2, axis=-1) + np.sum(B0**2, axis=-1)
