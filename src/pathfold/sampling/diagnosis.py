"""Reasons why no start was found, from the model, the grid and prior draws, however the start was sought."""

from __future__ import annotations

from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data import TimeGrid
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel
from pathfold.model.jumps import Moment
from pathfold.model.simulation import states_of
from pathfold.schemes import ExactLinearDrift

DRAWS = 8  # from the prior
NODES = 3  # whose rows are compared with each other
SAME = 1e-12  # rows that differ by less, as a share of what moves them, are redundant
LONGEST = 2.0  # step times rate beyond which an explicit step overshoots by more each time
LARGE = 1e60  # a state from which products of a few overflow
SHOWN = 6  # components of a state in a sentence
MOST_NUMBERS = 10**7  # of paths that are looked at


def why_no_start(model: DiffusionModel, grid: TimeGrid, seed: int) -> str:
    """Return a sentence that says which rows are redundant, or where paths explode; empty if neither is so."""
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        return redundant_rows(model, grid, rng) or explosion(model, grid, rng)


def redundant_rows(model: DiffusionModel, grid: TimeGrid, rng: np.random.Generator) -> str:
    """Return a sentence that names observed values, among the first, that cannot be met independently of each other.

    Their rows of the constraint, as functions of all normals, have a Jacobian without full rank at prior draws.
    """
    nodes = np.flatnonzero(grid.mask.any(axis=1) & (grid.series_of_intervals == 0))[:NODES]
    jacobians = _jacobians(model, grid, nodes, rng)
    for count in range(1, len(nodes) + 1):
        time, row = np.nonzero(grid.mask[nodes[:count]])
        found = [_dependent(each[time, row]) for each in jacobians]
        if all(each.any() for each in found):
            places = [(_name("y", model.observed, row[i]), grid.ends[nodes[time[i]]]) for i in np.flatnonzero(found[0])]
            return (
                f"{' and '.join(f'{name} at t = {t:g}' for name, t in places)} are redundant: nothing random moves one "
                "without the others, so that what was observed either contradicts itself or says the same twice; leave "
                "one out, or give it noise (pf.GaussianNoise)"
            )
    return ""


def _jacobians(model: DiffusionModel, grid: TimeGrid, nodes: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the Jacobians of the rows (nodes, Y) with respect to all normals, at two draws of these."""
    count = nodes[-1] + 1
    covariates = _covariates_of(model, grid, 0)
    along = jax.tree.map(lambda each: jnp.asarray(each[:count], float), (grid.delta, model.clocks(grid)[0]))
    ends, seen = jax.tree.map(lambda each: jnp.asarray(each[nodes], float), (model.clocks(grid)[1], grid.seen()))

    def rows(normals):
        u, v0, v, w = normals
        z = model.parameters.unflatten(model.parameters.push(u))
        x = states_of(model, z, model.start(model.of_series(z, covariates), v0), v, *along)[nodes, -1]
        return jax.vmap(lambda x, w, t, seen: model.misfit(z, x, w, t, seen))(x, w, ends, seen)

    shapes = (
        (model.parameters.size,),
        (model.start_dim,),
        (count, grid.steps, model.noise_dim),
        (len(nodes), model.observation_noise_dim),
    )
    slopes_at = jax.jit(jax.jacrev(rows))

    def jacobian() -> np.ndarray:
        slopes = slopes_at(tuple(jnp.asarray(rng.standard_normal(shape)) for shape in shapes))
        return np.concatenate([np.reshape(each, (len(nodes), model.observation_dim, -1)) for each in slopes], axis=-1)

    return [jacobian(), jacobian()]


def _dependent(rows: np.ndarray) -> np.ndarray:
    """Return a mask of the rows of a matrix that are a combination of others; none if the matrix is not finite."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not np.all(np.isfinite(largest)):
        return np.zeros(len(rows), dtype=bool)
    triangle = np.linalg.qr((rows / np.where(largest > 0.0, largest, 1.0)).T, mode="r")  # small, with the same rank
    left, sizes, _ = np.linalg.svd(triangle.T)
    null = left[:, np.sum(sizes > SAME * sizes[0]) :]
    return np.linalg.norm(null, axis=1) > 1e-6


def explosion(model: DiffusionModel, grid: TimeGrid, rng: np.random.Generator) -> str:
    """Return a sentence that says where paths from prior draws explode, if half of them do, and which steps would help.

    The paths are those of the series with the longest steps. An explicit step of a drift that pulls back at a rate r
    overshoots by more each time if it is longer than 2 / r.
    """
    series = grid.series_of_intervals
    mine = np.flatnonzero(series == series[np.argmax(grid.delta)])
    mine = mine[: max(1, MOST_NUMBERS // (DRAWS * grid.steps * model.augmented_dim))]
    delta = np.repeat(grid.delta[mine], grid.steps)
    times = (grid.starts[mine][:, None] + grid.delta[mine][:, None] * np.arange(grid.steps)).ravel()
    clock = jax.tree.map(lambda each: jnp.asarray(each[mine], float), model.clocks(grid)[0])
    covariates = _covariates_of(model, grid, int(series[mine[0]]))
    z, states = _paths(model, jnp.asarray(grid.delta[mine]), clock, covariates, rng)
    steps = np.isfinite(states).all(axis=2).argmin(axis=1)  # after which a path is lost, or 0
    if 2 * np.sum(steps > 0) < DRAWS:
        return ""
    draw = int(np.argmin(np.where(steps > 0, steps, states.shape[1])))
    count, state = steps[draw], np.abs(states[draw, :, : model.state_dim])
    if np.isnan(states[draw, count]).any() and state[count - 1].max() < LARGE:
        here = ", ".join(f"{x:.3g}" for x in states[draw, count - 1, : min(model.state_dim, SHOWN)])
        return (
            f"drift or diffusion is not a number where paths come: {np.sum(steps > 0)} of {DRAWS} from prior draws end "
            f"so, one of them at t = {times[count - 1]:g} with the state {here}{', ...' * (model.state_dim > SHOWN)}"
        )
    component = _name("x", model.states, int(np.argmax(state[count - 1] / (1.0 + state[0]))))
    said = (
        f"paths explode: {np.sum(steps > 0)} of {DRAWS} from prior draws leave all bounds, one of them in {component} "
        f"after t = {times[count - 1]:g}"
    )
    clock = jax.tree.map(lambda each: each.reshape(-1)[:count], clock)
    rates = _rates(model, {name: each[draw] for name, each in z.items()}, states[draw, :count], clock)
    too_fast = np.flatnonzero(np.isfinite(rates) & (delta[:count] * rates > LONGEST))
    if not (too_fast.size and model.scheme.explicit):
        return f"{said}; its drift grows with the state, which shorter steps do not mend: check signs, units and priors"
    n = too_fast[0]
    return (
        f"{said}. At t = {times[n]:g} the largest eigenvalue of its drift's Jacobian is a rate of {rates[n]:.3g}, too "
        f"fast for explicit steps of {delta[n]:.3g}: use scheme={_stable_scheme(model)}, whose long steps are stable "
        f"too, or take {ceil(delta[n] * grid.steps * rates[n])} or more steps_per_interval, or max_step = "
        f"{1.0 / rates[n]:.2g}, which can follow it; or narrow the priors"
    )


def _covariates_of(model: DiffusionModel, grid: TimeGrid, series: int) -> dict[str, Any]:
    """Return the numbers of the covariates of a series, by name."""
    return {name: jnp.asarray(each[series]) for name, each in model.covariates_of(grid).items()}


def _stable_scheme(model: DiffusionModel) -> str:
    """Return the scheme for a stiff model: the exact one where the drift is linear in the state."""
    try:
        ExactLinearDrift().check(model.sde, model.points())
    except ModelError:
        return "pf.LinearlyImplicit()"
    return "pf.ExactLinearDrift()"


def _paths(
    model: DiffusionModel, delta: Any, clock: Any, covariates: dict[str, Any], rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draw parameters from the prior, and paths (draw, state, X) with initial states; delta (N,), clock (N, S)."""

    def path(u, v0, v):
        z = model.parameters.unflatten(model.parameters.push(u))
        x = model.start(model.of_series(z, covariates), v0)
        return z, jnp.concatenate([x[None], states_of(model, z, x, v, delta, clock).reshape(-1, x.size)])

    steps = jax.tree.leaves(clock)[0].shape
    shapes = ((model.parameters.size,), (model.start_dim,), (*steps[:2], model.noise_dim))
    z, states = jax.jit(jax.vmap(path))(*(jnp.asarray(rng.standard_normal((DRAWS, *shape))) for shape in shapes))
    return z, np.asarray(states)


def _rates(model: DiffusionModel, z: dict[str, Any], states: np.ndarray, clock: Any) -> np.ndarray:
    """Return the largest modulus of the eigenvalues of the drift's Jacobian at each state; infinite where undefined."""

    def slope(state, t):
        x, named = model.in_series(z, state, t)
        return jax.jacfwd(lambda x: model.sde.drift(x, named, t.time if isinstance(t, Moment) else t))(x)

    slopes = np.asarray(jax.jit(jax.vmap(slope))(jnp.asarray(states), clock))
    known = np.isfinite(slopes).all(axis=(1, 2))
    rates = np.full(len(states), np.inf)
    rates[known] = np.abs(np.linalg.eigvals(slopes[known])).max(axis=1)
    return rates


def _name(letter: str, names: Any, i: int) -> str:
    return f"{letter}[{i}]" if names is None else repr(names[i])
