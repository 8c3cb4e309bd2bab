"""Simulation of the discretised model: paths and observations from parameters, initial states and noise.

One series, by JAX, which takes no time to compile; many draws are carried by the compiled code of `engine.forward`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data.checks import whole
from pathfold.data.data import Observations, without_values
from pathfold.data.dates import in_unit
from pathfold.data.inputs import Input
from pathfold.data.real_arrays import real_array
from pathfold.data.time_grid import TimeGrid, warn_of_skipped_values
from pathfold.errors import DataError, ModelError, told, warn
from pathfold.model.check_data import check_inputs_and_events
from pathfold.model.diffusion_model import DiffusionModel, check_model
from pathfold.model.ensemble import Ensemble
from pathfold.model.functions import at_values, listed
from pathfold.model.memory import check_memory
from pathfold.model.parameters import check_values, read_value
from pathfold.model.reactions import ENDS
from pathfold.model.transform import BOUNDED

UNLIKE = 0.4  # of the change by a step: what half steps may make of it; an explicit one is unstable from 0.5 on
PART = 0.3  # of all that a path does: smaller differences do not matter


def states_of(model: DiffusionModel, z: dict[str, Any], x0: Any, v: Any, delta: Any, times: Any) -> Any:
    """Return the augmented states (N, S, X) after all fine steps, from x_0, noise v (N, S, V), lengths (N,), times."""

    def interval(x, along):
        v, delta, times = along

        def step(x, vt):
            x = model.step(z, x, vt[0], delta, vt[1])
            return x, x

        return jax.lax.scan(step, x, (v, times))

    return jax.lax.scan(interval, x0, (v, delta, times))[1]


def simulate_path(model: DiffusionModel, grid: TimeGrid, z, x0, v) -> np.ndarray:
    """Return the augmented states (N, S, X) after all fine steps of one series, from z (flat), x_0 and v (N, S, V)."""
    with jax.enable_x64(True):
        given = (z, x0, v, grid.delta, model.clocks(grid)[0])
        run = model.kept.get(_compiled_path, model)
        return np.asarray(run(*jax.tree.map(lambda a: jnp.asarray(a, dtype=float), given)))


def _compiled_path(model: DiffusionModel) -> Callable[..., Any]:
    return jax.jit(lambda z, *given: states_of(model, model.parameters.unflatten(z), *given))


def leaps(before: np.ndarray, after: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Mark the steps (..., steps, X) of paths that two half steps would end far `apart` from.

    Far is a part of what the step does, and of all that the path does.
    """
    reach = np.ptp(np.append(before[..., :1, :], after, axis=-2), axis=-2, keepdims=True)
    return (np.abs(apart) > UNLIKE * np.abs(after - before)) & (np.abs(apart) > PART * reach)


def _warn_of_leaps(model: DiffusionModel, grid: TimeGrid, z: np.ndarray, x0: np.ndarray, v: Any, after: Any) -> None:
    """Warn of a step, from x0 on with noise v (N, S, V) to the states `after`, that leaps.

    Euler's step of d log x = (u / x) dt, an inflow into a small amount, is the usual case.
    """
    halves = model.scheme.halve(v, np.zeros_like(v), lambda halves: (v, v)) if model.scheme.explicit else None
    if halves is None:
        return
    finer = replace(grid, steps=2 * grid.steps)
    with jax.enable_x64(True):
        times = jax.tree.map(lambda a: a.reshape(*v.shape[:2], 2, *a.shape[2:]), model.clocks(finer)[0])
        before = np.concatenate([x0[None], after.reshape(-1, x0.size)[:-1]]).reshape(after.shape)
        run = model.kept.get(_compiled_halves, model)
        given = z, before, np.stack(halves, axis=2), finer.delta, times
        twice = np.asarray(run(*jax.tree.map(lambda a: jnp.asarray(a, dtype=float), given)))
    x, once, twice = (states.reshape(-1, x0.size)[:, : model.state_dim] for states in (before, after, twice))
    if (found := leaps(x, once, twice - once)).any():
        step, i = np.unravel_index(np.argmax(np.where(found, np.abs(once - x), -np.inf)), found.shape)
        name, t = model.states[i] if model.states else f"x[{i}]", grid.refined().starts[step]
        warn(
            f"at t = {t:g} one fine step changes {name} from {x[step, i]:.3g} to {once[step, i]:.3g}, and two of half "
            f"the length change it to {twice[step, i]:.3g}: take smaller steps (steps_per_interval, max_step), or "
            f"{BOUNDED}"
        )


def _compiled_halves(model: DiffusionModel) -> Callable[..., Any]:
    """Return the function of z and of states (N, S, X), noise, lengths (N,) and times that makes two half steps."""

    def run(z, *along):
        named = model.parameters.unflatten(z)

        def twice(x, v, delta, t):
            return jax.lax.scan(lambda x, vt: (model.step(named, x, vt[0], delta, vt[1]), None), x, (v, t))[0]

        return jax.vmap(jax.vmap(twice, (0, 0, None, 0)))(*along)

    return jax.jit(run)


def observe(model: DiffusionModel, states: Any, z: dict[str, Any], t: Any, rng: np.random.Generator) -> np.ndarray:
    """Draw observations (N, Y) of the states (N, X) of one series, with parameters z, at times (N,).

    `Ensemble.observe` has parameters for each row: the same numbers but for rounding, which would change the data of
    examples.
    """
    each = jax.tree.map(lambda value: np.broadcast_to(value, (len(states), *np.shape(value))), z)
    chance = model.observation.chance(each, rng, len(states))
    return np.asarray(model.kept.get(_compiled_draw, model)(jnp.asarray(states), z, chance, t))


def _compiled_draw(model: DiffusionModel) -> Callable[..., Any]:
    return jax.jit(jax.vmap(model.observation.drawn, (0, None, 0, 0)))


def series_to_simulate(
    model: DiffusionModel, times: Any, initial_time: Any, unit: Any = None, **known: Any
) -> Observations:
    """Return times, and what happens meanwhile, as observations without values, if the model knows what it needs."""
    times, initial_time, calendar = in_unit(times, initial_time, unit)
    asked = without_values(real_array("times", times), model.observation_dim, initial_time, unit=calendar, **known)
    check_inputs_and_events(model, asked)
    return asked


def known_parameters(model: DiffusionModel, values: Any, rows: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
    """Return the user's parameters for every draw, (D, ...), and (D, 1, ...) of what varies; without rows for one."""
    check_values(values, model.maps)
    if missing := [name for name, m in model.parameters.maps.items() if name not in values and m.size]:
        raise ModelError(f"no value was given for parameter {listed(missing)}")
    given = {name: read_value(name, values[name], m, rows) for name, m in model.maps.items() if name in values}
    given = {name: value if rows else value[None] for name, value in given.items()}
    return {name: value if name in model.parameters.maps else value[:, None] for name, value in given.items()}


def given_starts(model: DiffusionModel, given: Any, rows: tuple[int, ...] = ()) -> np.ndarray:
    """Return the user's initial states (D, 1, X); without rows that of one draw."""
    x0, shape = real_array("the numbers of initial_state", model.state_of(given)).astype(np.float64), (model.state_dim,)
    if x0.shape not in (shape, (*rows, *shape)):
        each = f", or {(*rows, *shape)} with a row for each draw" if rows else ""
        raise DataError(f"initial_state has shape {x0.shape}, expected {shape}, the state of the model{each}")
    if not np.all(np.isfinite(x0)):
        raise DataError(f"initial_state is {told(x0)}; give finite numbers")
    return np.broadcast_to(x0, (*(rows or (1,)), *shape))[:, None]


def simulate(
    model: DiffusionModel,
    parameters: Mapping[str, Any],
    times: Any,
    *,
    initial_state: Any = None,
    initial_time: Any = 0.0,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    seed: int = 0,
    inputs: Mapping[str, Input] | None = None,
    events: Mapping[str, tuple[Any, Any]] | None = None,
    covariates: Mapping[str, Any] | None = None,
    unit: str | None = None,
) -> Observations:
    """Simulate one series on a fine grid by the model's scheme and observe it; `pf.simulate` explains the arguments."""
    check_model(model)
    rng = np.random.default_rng(whole("seed", seed, least=0))
    known = {"inputs": inputs, "events": events, "covariates": covariates}
    asked = series_to_simulate(model, times, initial_time, unit, **known)
    grid = TimeGrid.build(asked, steps_per_interval=steps_per_interval, max_step=max_step)
    ensemble = Ensemble.build(model, known_parameters(model, parameters), 1, grid.covariates, rng)
    start = None if initial_state is None else given_starts(model, initial_state)
    path = 8 * len(grid.starts) * grid.steps * (model.noise_dim + model.augmented_dim)
    check_memory("the noise of the path", 2 * path, "fewer steps_per_interval, a longer max_step or fewer times")
    warn_of_skipped_values(model.inputs, grid)
    drawn = ensemble.draw_starts(rng)  # also where one is given, so that the noise after it is the same
    v = rng.standard_normal((len(grid.starts), grid.steps, model.noise_dim))
    z, series = ensemble.z[0], np.zeros(1, dtype=int)
    x0 = ensemble.augmented(drawn if start is None else start, series)[0, 0]
    path = simulate_path(model, grid, z, x0, v)
    states, named = path[:, -1, : model.state_dim], {name: each[0] for name, each in ensemble.named(series).items()}
    with jax.enable_x64(True), at_values("the observation", "these parameters"):
        values = observe(model, states, named, model.clocks(grid)[1], rng)[grid.rows]
    if not np.isfinite(values).all():
        remedy = _remedy(model, np.vstack([x0[: model.state_dim], states]))
        raise DataError(f"the simulated path is not finite: {remedy}")
    _warn_of_leaps(model, grid, z, x0, v, path)
    return asked.with_values(values)


def _remedy(model: DiffusionModel, states: np.ndarray) -> str:
    """Advise what to do about a path that went through these states before it was lost."""
    if model.network is not None:
        before = states[np.isfinite(states).all(axis=1)]
        name, amount = model.network.least(before[-1])
        return f"the amount of {name!r} was {amount:.2g} at the last time before, and {ENDS}"
    return f"take smaller steps (steps_per_interval, max_step) or other parameters, or {BOUNDED}"
