"""Simulation of the discretised model: paths and observations from parameters, initial states and noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data.checks import whole
from pathfold.data.data import Observations
from pathfold.data.dates import in_unit
from pathfold.data.inputs import Input
from pathfold.data.real_arrays import real_array
from pathfold.data.time_grid import TimeGrid, warn_of_skipped_values
from pathfold.errors import DataError, told, warn
from pathfold.model.check_data import check_inputs_and_events
from pathfold.model.diffusion_model import DiffusionModel, check_model
from pathfold.model.functions import at_values
from pathfold.model.memory import check_memory
from pathfold.model.parameters import check_values
from pathfold.model.reactions import ENDS
from pathfold.model.transform import BOUNDED

UNLIKE = 0.4  # of the change by a step: what half steps may make of it; an explicit one is unstable from 0.5 on
PART = 0.3  # of all that a path does: smaller differences do not matter


def simulate_path(model: DiffusionModel, grid: TimeGrid, z, x0, v) -> np.ndarray:
    """Return the augmented states (N, S, X) after all fine steps of one series, from z (flat), x_0 and v (N, S, V)."""
    with jax.enable_x64(True):
        given = (z, x0, v, grid.delta, model.clocks(grid)[0])
        run = model.kept.get(_compiled_path, model)
        return np.asarray(run(*jax.tree.map(lambda a: jnp.asarray(a, dtype=float), given)))


def _compiled_path(model: DiffusionModel) -> Callable[..., Any]:
    """Return the function of z, x_0 and v, lengths and times of the steps that gives the states after them."""

    def run(z, x0, *along):
        named = model.parameters.unflatten(z)

        def step(x, delta, v, t):
            after = model.step(named, x, v, delta, t)
            return after, after

        def interval(x, inputs):
            v_n, delta, times = inputs
            return jax.lax.scan(lambda x, vt: step(x, delta, *vt), x, (v_n, times))

        return jax.lax.scan(interval, x0, along)[1]

    return jax.jit(run)


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
    """Draw observations (N, Y) of the states (N, X) at times (N,)."""
    chance = model.observation.chance(z, rng, len(states), shared=True)
    drawn = model.kept.get(_compiled_draw, model)
    return np.asarray(drawn(jnp.asarray(states), z, chance, t))


def _compiled_draw(model: DiffusionModel) -> Callable[..., Any]:
    """Return the function that draws observations of several states for the same parameters."""
    return jax.jit(jax.vmap(model.observation.drawn, (0, None, 0, 0)))


def _values(
    model: DiffusionModel, values: Any, covariates: Mapping[str, Any], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return the values of the shared parameters, and of those that vary, which are drawn if they are not given.

    And what the functions find in z, by name.
    """
    check_values(values, model.maps)
    shared, own = ({name: v for name, v in values.items() if name in part.maps}
                   for part in (model.parameters, model.varying))  # fmt: skip
    z = model.parameters.flatten(shared)
    given = model.of_series(model.parameters.unflatten(jnp.asarray(z)), jax.tree.map(jnp.asarray, covariates))
    varying = model.varying.flatten(own, given, lambda m, before: jnp.asarray(m.draw(before, rng, 1)[0]))
    return z, varying, model.named(given, jnp.asarray(varying))


def simulate(
    model: DiffusionModel,
    parameters: dict[str, Any],
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
    seed = whole("seed", seed, least=0)
    times, initial_time, calendar = in_unit(times, initial_time, unit)
    times = real_array("times", times)
    given: dict[str, Any] = {"initial_time": initial_time, "inputs": inputs, "events": events, "covariates": covariates}
    given["unit"] = calendar
    empty = Observations(times, np.zeros((times.size, model.observation_dim)), **given)
    check_inputs_and_events(model, empty)
    grid = TimeGrid.build(empty, steps_per_interval=steps_per_interval, max_step=max_step)
    path = 8 * len(grid.starts) * grid.steps * (model.noise_dim + model.augmented_dim)
    check_memory("the noise of the path", 2 * path, "fewer steps_per_interval, a longer max_step or fewer times")
    warn_of_skipped_values(model.inputs, grid)
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        z, varying, named = _values(model, parameters, model.numbers(empty.covariates), rng)
        with at_values("initial_state", "these parameters"):
            (v0,) = model.initial_state.draw(named, rng, 1)
        v = rng.standard_normal((len(grid.starts), grid.steps, model.noise_dim))
        if initial_state is None:
            initial_state = model.initial_state.push(named, jnp.asarray(v0))
        else:
            initial_state = model.state_of(initial_state)
    x0 = real_array("the numbers of initial_state", initial_state).astype(np.float64)
    if x0.shape != (model.state_dim,):
        raise DataError(f"initial_state has shape {x0.shape}, expected ({model.state_dim},), the state of the model")
    if not np.all(np.isfinite(x0)):
        raise DataError(f"initial_state is {told(x0)}; give finite numbers")
    begin = np.concatenate([x0, varying])
    path = simulate_path(model, grid, z, begin, v)
    states = path[:, -1, : model.state_dim]
    with jax.enable_x64(True), at_values("the observation", "these parameters"):
        values = observe(model, states, named, model.clocks(grid)[1], rng)[grid.rows]
    if not np.isfinite(values).all():
        raise DataError(f"the simulated path is not finite: {_remedy(model, np.vstack([x0, states]))}")
    _warn_of_leaps(model, grid, z, begin, v, path)
    return Observations(times, values, **given)


def _remedy(model: DiffusionModel, states: np.ndarray) -> str:
    """Advise what to do about a path that went through these states before it was lost."""
    if model.network is not None:
        before = states[np.isfinite(states).all(axis=1)]
        name, amount = model.network.least(before[-1])
        return f"the amount of {name!r} was {amount:.2g} at the last time before, and {ENDS}"
    return f"take smaller steps (steps_per_interval, max_step) or other parameters, or {BOUNDED}"
