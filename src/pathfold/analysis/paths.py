"""The path between the states that results have: pf.paths (method.md, section 24)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from pathfold.analysis.asked_times import coordinates_of, read_times
from pathfold.analysis.chosen import Chosen
from pathfold.data import Observations, TimeGrid
from pathfold.data.checks import selected, whole
from pathfold.data.data import without_values
from pathfold.data.dates import told_time
from pathfold.data.events import close
from pathfold.errors import DataError, SettingsError
from pathfold.model import DiffusionModel
from pathfold.model.ensemble import Ensemble
from pathfold.model.memory import check_memory
from pathfold.results.grid import grid_of
from pathfold.results.in_order import results_of
from pathfold.results.overview import extended
from pathfold.results.posterior import kept_states
from pathfold.results.reading import series_names
from pathfold.sampling.selection import component_labels
from pathfold.schemes.small_matrices import cholesky, inverse_factor

AT_A_TIME = 1024  # pairs of a draw and a step, always as many, so that a function of them is compiled once
ITERATIONS = 4  # of Newton's method for the noise of a step; one does where the step is affine in it


def paths(
    model: DiffusionModel,
    posterior: xr.DataTree,
    times: Any,
    *,
    series: Sequence[str | int] | str | int | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> xr.DataTree:
    """Draw the path of every draw of a posterior at any times within the data, given all of the data.

    Draws have states after fine steps. At these times the path is the draw's own state. Within a fine step from x to x'
    it is a step of the same scheme over a part of the length, whose noise is drawn given that of the whole step, which
    x and x' tell. For `pf.EulerMaruyama()` that is, after a share s of the length δ, with b the diffusion at x::

        x + s (x' - x) + sqrt(s (1 - s) δ) b e,   e ~ N(0, I),

    a Brownian bridge, and for `pf.ExactLinearDrift()` the law of the model itself given x and x', however long the step
    is. With other schemes, too, draws at several times belong to one path.

    Parameters
    ----------
    model
        The `pf.DiffusionModel` that was sampled.
    posterior
        Results of `pf.sample`, with the states on both sides of every fine step: with `keep_path="all"`, or with
        `steps_per_interval=1`.
    times
        Increasing times (T,) in the unit of the data; or dates (also as text), where the data have dates. Each is to be
        within the data of a series, from `initial_time` to the last of them; `pf.predict` goes on from there.
    series
        Series of a panel, by name or number; all by default. Each has the path at those times that are within its data.
    draws
        So many draws of each chain, evenly spread; all by default.
    seed
        A whole number: the same gives the same paths.

    Returns
    -------
    xarray.DataTree
        The results with one group more, `paths`, with `state` (chain, draw, time, component), which `pf.plot_paths`
        draws with the states that the results have. A panel has a dimension `node`, with coordinates `time` and
        `node_series`, in the place of `time`. Where the data have dates, a coordinate `date` has those of the times.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["ornstein_uhlenbeck"]
    >>> model, data = example.model(), example.data()
    >>> posterior = pf.sample(
    ...     model, data, steps_per_interval=5, chains=2, keep_path="all", progress=False
    ... )
    >>> hourly = pf.paths(model, posterior, [1.0, 1.05, 1.1], draws=100)
    >>> dict(hourly.paths["state"].sizes)
    {'chain': 2, 'draw': 100, 'time': 3, 'component': 1}
    """
    tree, rng = results_of(posterior, model=model), np.random.default_rng(whole("seed", seed, least=0))
    chosen, grid = Chosen.of(tree, draws), grid_of(tree)
    asked = _within(model, grid, selected("series", series, series_names(tree)), times)
    states = _between(chosen, chosen.ensemble(model, grid, rng), grid, asked, rng)
    names = tree.constant_data["series"].values[[*asked]]
    dim, coordinates = coordinates_of(tree, names, [*asked.values()])
    coordinates["component"] = component_labels(model)
    drawn = chosen.dataset({"state": ([dim, "component"], states)}, coordinates, seed=int(seed))
    return extended(tree, {"paths": drawn})


def _within(model: DiffusionModel, grid: TimeGrid, numbers: Sequence[int], times: Any) -> dict[int, Observations]:
    """Return the times within the data of each series, by its number; raise DataError for one that is within none."""
    asked, outside, last = {}, [], [*(grid.first[1:] - 1), -1]
    spans = [*zip(grid.starts[grid.first].tolist(), grid.ends[last].tolist(), grid.calendars, strict=True)]
    for k in numbers:
        begin, end, calendar = spans[k]
        at = read_times(times, calendar)
        inside = (at >= begin - close(begin)) & (at <= end + close(end))
        outside.append(~inside)
        if inside.any() or not at.size:
            asked[k] = without_values(at[inside], model.observation_dim, begin, unit=calendar)
    if np.any(nowhere := np.all(outside, axis=0)):
        begin, end, calendar = spans[numbers[0]]
        first, *span = (told_time(t, calendar) for t in (read_times(times, calendar)[nowhere][0], begin, end))
        whose = f"those of the series {grid.series[numbers[0]]}" if len(spans) > 1 else "they"
        raise DataError(
            f"times have {first}, which is not within the data: {whose} are known from {span[0]} to {span[1]}; "
            "pf.predict goes on from there"
        )
    return asked


def _between(
    chosen: Chosen, ensemble: Ensemble, grid: TimeGrid, asked: dict[int, Observations], rng: np.random.Generator
) -> np.ndarray:
    """Return the states (D, R, X) at the times asked for, of series one after the other."""
    model, keep_path = ensemble.model, chosen.tree.attrs["keep_path"]
    after = chosen.states(model, "keep those after 'all' fine steps, with all components")
    initial = chosen["initial_state"].reshape(chosen.count, -1, model.state_dim)
    times = np.concatenate([observations.times for observations in asked.values()])
    width = 4 * (model.augmented_dim + model.noise_dim)
    check_memory("the paths", 8 * chosen.count * times.size * width, "fewer draws or fewer times")
    states, begin, between = np.empty((chosen.count, times.size, model.state_dim)), 0, []

    kept = kept_states(grid, keep_path)
    fine, kept = (grid.refined(), kept.ravel()) if keep_path == "all" else (grid, kept[:, -1])
    for k, observations in asked.items():
        t, own = observations.times, kept & (fine.series_of_intervals == k)
        rows, begin = begin + np.arange(t.size), begin + t.size
        nodes = np.concatenate([initial[:, k, None], after[:, own[kept]]], axis=1)
        node_times = np.append(observations.initial_time, fine.ends[own])
        last = np.searchsorted(node_times, t + close(t), side="right") - 1
        states[:, rows] = nodes[:, last]
        later = t - node_times[last] > close(t)
        between.append((rows[later], np.flatnonzero(own)[last[later]], nodes[:, last[later] + 1]))
    rows, steps = (np.concatenate(parts) for parts in list(zip(*between, strict=True))[:2])
    ends = np.concatenate([part for _, _, part in between], axis=1)
    if rows.size and fine.steps > 1:
        raise SettingsError(
            f"t = {times[rows[0]]:g} is between two nodes, {fine.steps} fine steps apart, and the posterior has the "
            "states at nodes alone: sample with keep_path='all', from start=posterior on to be quick"
        )
    if rows.size:
        states[:, rows] = _along_steps(ensemble, fine, steps, states[:, rows], ends, times[rows], rng)
    return states


def _along_steps(
    ensemble: Ensemble,
    fine: TimeGrid,
    of_times: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    times: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the states (D, R, X) at times within intervals of one step (R,), from those at both of their ends.

    The last time of an interval comes first: what is before it is the first part of a shorter step.
    """
    model = ensemble.model
    intervals, places, of_rows = np.unique(of_times, return_index=True, return_inverse=True)
    share = (times - fine.starts[of_times]) / fine.delta[of_times]
    x, z = ensemble.augmented(begins[:, places], fine.series_of_intervals[intervals]), ensemble.z
    clock = jax.tree.map(lambda array: array[intervals, 0], model.clocks(fine)[0])
    length, states = fine.delta[intervals], np.empty_like(begins)

    def fresh(count: int) -> np.ndarray:
        return rng.standard_normal((len(z), count, model.noise_dim))

    with jax.enable_x64(True):
        given = (x, ends[:, places], fresh(len(intervals))), (length, clock)
        v = _of_pairs(model.kept.get(_compiled_noise, model), z, *given)
        part, whole = model.kept.get(_compiled_part, model), np.ones(len(intervals))
        order = np.lexsort((-share, of_rows))
        turn = np.arange(len(order)) - np.searchsorted(of_rows[order], of_rows[order])
        for k in range(turn.max() + 1):
            rows = order[turn == k]
            j = of_rows[rows]
            known = length[j] * whole[j], share[rows] / whole[j], jax.tree.map(lambda array, j=j: array[j], clock)
            v[:, j], states[:, rows] = _of_pairs(part, z, (x[:, j], v[:, j], fresh(len(j))), known)
            whole[j] = share[rows]
    return states


def _of_pairs(function: Callable[..., Any], z: np.ndarray, of_both: tuple[Any, ...], of_steps: tuple[Any, ...]) -> Any:
    """Apply a function to what draws (D,), draws and steps (D, J), and steps (J,) have, some pairs at a time.

    They are always as many, so that it is compiled once.
    """
    shape, found = of_both[0].shape[:2], []
    for begin in range(0, shape[0] * shape[1], AT_A_TIME):
        some = np.minimum(np.arange(begin, begin + AT_A_TIME), shape[0] * shape[1] - 1)
        d, j = np.unravel_index(some, shape)
        of_step = jax.tree.map(lambda array, j=j: array[j], of_steps)
        found.append(jax.tree.map(np.asarray, function(z[d], *(array[d, j] for array in of_both), *of_step)))
    count = shape[0] * shape[1]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count].reshape(*shape, -1), *found)


def _compiled_noise(model: DiffusionModel) -> Callable[..., Any]:
    """Return the function that draws the noise v of a step from x, by which it ends at x', from standard normals e.

    Where x' = m + J v, v = e + J^T (J J^T)^{-1} (x' - m - J e) is normal as e is, given x' (Hoffman and Ribak 1991).
    Else it is the limit of this with the step linearised where the last one led, from v = 0 on: of several solutions
    the one that is nearest to no noise.
    """

    def noise(z, x, end, e, delta, t):
        named = model.parameters.unflatten(z)

        def step(v):
            return model.step(named, x, v, delta, t)[: model.state_dim]

        v = jnp.zeros_like(e)
        for _ in range(ITERATIONS):
            led_to, push = jax.linearize(step, v)
            J = jax.vmap(push, out_axes=1)(jnp.eye(len(v)))
            v = e + J.T @ _solved(J @ J.T, end - led_to - J @ (e - v))
        return v

    return jax.jit(jax.vmap(noise))


def _solved(gram: Any, b: Any) -> Any:
    """Solve G y = b for a b that G reaches; what has no variance of its own is left out."""
    inverse = inverse_factor(cholesky(gram))
    return inverse.T @ (inverse @ b)


def _compiled_part(model: DiffusionModel) -> Callable[..., Any]:
    """Return the function that draws the noise of the first part of a step given that of all, and where it leads."""

    def part(z, x, v, e, delta, share, t):
        state, named, time = model.before_step(model.parameters.unflatten(z), x, t)
        v = model.scheme.part(model.sde, named, state, v, e, delta, time, share)
        return v, model.scheme.step(model.sde, named, state, v, share * delta, time)

    return jax.jit(jax.vmap(part))
