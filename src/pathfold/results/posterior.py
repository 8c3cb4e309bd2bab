"""Draws as an xarray.DataTree that ArviZ reads."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np
import xarray as xr

from pathfold.engine.status import MEANING
from pathfold.model import DiffusionModel, Parameters, TimeGrid
from pathfold.model.censoring import BETWEEN
from pathfold.model.names import dimensions
from pathfold.results.deterministics import with_deterministics
from pathfold.results.model_text import model_text
from pathfold.results.noise import noise_dataset
from pathfold.results.prior import priors_text
from pathfold.sampling import Run
from pathfold.sampling.noise import names_of_normals

STATISTICS = (
    "acceptance_rate",
    "n_steps",
    "step_size",
    "energy",
    "lp",
    "status",
    "newton_iterations",
    "tree_depth",
    "diverging",
    "n_failed_steps",
)
_WHOLE = {"n_steps", "status", "tree_depth", "n_failed_steps"}


def to_datatree(run: Run, *, keep_warmup: bool, deterministics: dict[str, Callable[..., Any]]) -> xr.DataTree:
    """Groups posterior, sample_stats, observed_data, constant_data, noise, and warmup_* when kept."""
    warmup = min(run.settings["warmup"], run.chains[0].made)

    made = run.chains[0].made

    def posterior(begin: int, end: int) -> xr.Dataset:
        return with_deterministics(_posterior(run, begin, end), deterministics, tuple(run.model.priors))

    groups: dict[str, xr.Dataset] = {
        "/posterior": posterior(warmup, made),
        "/sample_stats": _statistics(run, warmup, made),
        "/observed_data": observed_dataset(run.model, run.grid),
        "/constant_data": constant_dataset(run.grid),
    }
    if run.noise is not None:
        groups["/noise"] = noise_dataset(run, run.noise)
    if keep_warmup:
        groups["/warmup_posterior"] = posterior(0, warmup)
        groups["/warmup_sample_stats"] = _statistics(run, 0, warmup)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = _attributes(run)
    return tree


def _stacked(run: Run, name: str, begin: int, end: int) -> np.ndarray:
    """One array of all chains, (chain, draw, ...)."""
    return np.stack([chain.rows(name, begin, end) for chain in run.chains])


def _posterior(run: Run, begin: int, end: int) -> xr.Dataset:
    states, keep_path = None, run.settings["keep_path"]
    if keep_path != "none":
        states = _states(run, kept_states(run.grid, keep_path), begin, end)
    drawn = _stacked(run, "z", begin, end), _stacked(run, "x0", begin, end)
    return draws_dataset(run.model, run.grid, *drawn, states, keep_path)


def draws_dataset(
    model: DiffusionModel, grid: TimeGrid, z: np.ndarray, starts: np.ndarray, states: np.ndarray | None, keep_path: str
) -> xr.Dataset:
    """Parameters, initial states and paths by name, from vectors (chain, draw, ...) of what series share, augmented
    initial states (chain, draw, series, ...) and the states that are kept (chain, draw, kept, component)."""
    x0, varying = np.split(starts, [model.state_dim], axis=-1)
    several = len(grid.first) > 1
    coordinates: dict[str, Any] = {
        "chain": np.arange(z.shape[0]),
        "draw": np.arange(z.shape[1]),
        "component": component_labels(model),
    }
    if several or model.varying.names:
        coordinates["series"] = list(grid.series)
    found = _by_name(model.parameters, z, ["chain", "draw"])
    found |= _by_name(model.varying, varying, ["chain", "draw", "series"])
    variables: dict[str, Any] = {name: found[name] for name in model.priors}
    if several:
        variables["initial_state"] = (["chain", "draw", "series", "component"], x0)
    else:
        variables["initial_state"] = (["chain", "draw", "component"], x0[:, :, 0])
    time_dim = "node" if several else "time"
    if states is not None:
        variables["state"] = (["chain", "draw", time_dim, "component"], states)
        coordinates["time"] = (time_dim, state_times(grid, keep_path))
        if several:
            coordinates["node_series"] = (
                time_dim,
                np.repeat(_names_of_series(grid), kept_states(grid, keep_path).sum(axis=1)),
            )
    return xr.Dataset(variables, coordinates)


def component_labels(model: DiffusionModel) -> list[Any]:
    """What the results call the components of the state."""
    return [*(model.states or range(model.state_dim))]


def _by_name(parameters: Parameters, values: np.ndarray, dims: list[str]) -> dict[str, Any]:
    """Dimensions and draws of each parameter, from all of them along the last axis."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in parameters.shapes.values()]
    parts = np.split(values, np.cumsum(sizes)[:-1], axis=-1) if sizes else []
    return {
        name: ([*dims, *dimensions(name, len(shape))], part.reshape(*values.shape[:-1], *shape))
        for (name, shape), part in zip(parameters.shapes.items(), parts, strict=True)
    }


def _states(run: Run, kept: np.ndarray, begin: int, end: int) -> np.ndarray:
    """The states (chain, draw, time, component) that are kept, without more than one copy of them at a time."""
    if run.settings["keep_path"] == "nodes":
        return _stacked(run, "nodes", begin, end)
    steps = np.nonzero(kept)[1]
    last = steps == kept.shape[1] - 1
    states = np.empty((len(run.chains), end - begin, steps.size, run.model.state_dim))
    for chain, out in zip(run.chains, states, strict=True):
        out[:, last] = chain.rows("nodes", begin, end)
        out[:, ~last] = chain.rows("path", begin, end)[:, :, 1:][:, kept[:, :-1]]
    return states


def kept_states(grid: TimeGrid, keep_path: str) -> np.ndarray:
    """After which (interval, step) states are kept: the last is the node; in an interval of length zero no other is."""
    kept = np.repeat(grid.delta[:, None] > 0.0, grid.steps, axis=1) & (keep_path == "all")
    kept[:, -1] = True
    return kept


def state_times(grid: TimeGrid, keep_path: str) -> np.ndarray | None:
    """Times of the states that are kept, or None if none are."""
    if keep_path == "none":
        return None
    times = grid.starts[:, None] + grid.delta[:, None] * np.arange(1, grid.steps + 1)
    times[:, -1] = grid.ends
    return times[kept_states(grid, keep_path)]


def _names_of_series(grid: TimeGrid) -> np.ndarray:
    """The name of the series that each interval belongs to, or its number."""
    return np.array(grid.series)[grid.series_of_intervals]


def _statistics(run: Run, begin: int, end: int) -> xr.Dataset:
    values = _stacked(run, "statistics", begin, end)
    variables: dict[str, Any] = {}
    for i, name in enumerate(STATISTICS):
        column = values[..., i]
        if name == "diverging":
            column = column > 0
        elif name in _WHOLE:
            column = column.astype(np.int64)
        variables[name] = (["chain", "draw"], column)
    coordinates: dict[str, Any] = {"chain": np.arange(values.shape[0]), "draw": np.arange(values.shape[1])}
    if run.settings["sampler"] == "GuidedProposals":
        _add_statistics_of_moves(run.model, values[..., len(STATISTICS) :], variables, coordinates)
    dataset = xr.Dataset(variables, coordinates)
    dataset["status"].attrs["meaning"] = [f"{code}: {text}" for code, text in MEANING.items()]
    return dataset


def _add_statistics_of_moves(
    model: DiffusionModel, values: np.ndarray, variables: dict[str, Any], coordinates: dict[str, Any]
) -> None:
    """Acceptance of the path and rho; acceptance and width of every coordinate of parameters and initial states."""
    variables["path_acceptance"], variables["rho"] = ((["chain", "draw"], values[..., i]) for i in (0, 1))
    acceptance, width = np.split(values[..., 2:], 2, axis=-1)
    names = names_of_normals(model)
    for kind, labels, columns in zip(
        ("parameter", "initial"), names, (slice(len(names[0])), slice(len(names[0]), None)), strict=True
    ):
        if labels:
            dims = ["chain", "draw", f"{kind}_normal"]
            variables[f"{kind}_acceptance"] = (dims, acceptance[..., columns])
            variables[f"{kind}_width"] = (dims, width[..., columns])
            coordinates[f"{kind}_normal"] = labels


def observed_dataset(model: DiffusionModel, grid: TimeGrid) -> xr.Dataset:
    """The data, at the times at which anything was observed."""
    several = len(grid.first) > 1
    rows = grid.mask.any(axis=1)
    values = np.where(grid.mask, grid.values, np.nan)[rows]
    dim = "node" if several else "time"
    coordinates: dict[str, Any] = {
        "time": (dim, np.asarray(grid.ends)[rows]),
        "observation": list(model.observed or grid.components),
    }
    if several:
        coordinates["node_series"] = (dim, _names_of_series(grid)[rows])
    variables: dict[str, Any] = {"y": ([dim, "observation"], values, {"shows": model.components_shown()})}
    if grid.censored.any():
        variables["censored"] = ([dim, "observation"], grid.censored[rows].astype(np.int64))
        variables["upper"] = ([dim, "observation"], np.where(grid.censored == BETWEEN, grid.upper, np.nan)[rows])
    return xr.Dataset(variables, coordinates)


def constant_dataset(grid: TimeGrid) -> xr.Dataset:
    """The grid and what happens on it: intervals, times of the data, events, inputs that series have of their own."""
    variables: dict[str, Any] = {
        "interval_start": ("interval", np.asarray(grid.starts)),
        "interval_end": ("interval", np.asarray(grid.ends)),
        "fine_step": ("interval", np.asarray(grid.delta)),
        "ends_at_data": ("interval", grid.rows.astype(np.int64)),
        "first_interval": ("series", np.asarray(grid.first)),
    }
    coordinates: dict[str, Any] = {"series": list(grid.series)}
    if grid.events:
        variables["event_amount"] = (["event", "interval"], np.stack([*grid.events.values()]))
        coordinates["event"] = list(grid.events)
    inputs = [{name: each.written() for name, each in own.items()} for own in grid.inputs]
    return xr.Dataset(variables, coordinates, {"inputs": json.dumps(inputs)} if any(inputs) else None)


def _plain_factors(run: Run) -> list[str]:
    """The observed components whose likelihood has no root."""
    names = [name if isinstance(name, str) else f"y[{name}]" for name in run.model.observed or run.grid.components]
    return [name for name, plain in zip(names, run.model.plain_factors(), strict=True) if plain]


def _attributes(run: Run) -> dict[str, Any]:
    versions = {f"{name}_version": metadata.version(name) for name in ("pathfold", "jax", "numba", "numpy")}
    shift = {"half_step_shift": run.half_step_shift.tolist()} if run.half_step_shift.size else {}
    return {
        "inference_library": "pathfold",
        "created_at": datetime.now(UTC).isoformat(),
        "machine": platform.machine(),
        **versions,
        "model": json.dumps(model_text(run.model)),
        "priors": priors_text(run.model),
        **({"plain_factors": plain} if (plain := _plain_factors(run)) else {}),
        **run.settings,
        **run.seconds,
        **shift,
        **({"iterations": run.iterations} if run.iterations else {}),
        "chain_seconds": [chain.seconds for chain in run.chains],
        "main_seconds": [chain.main_seconds for chain in run.chains],
        "start_attempts": [chain.start_attempts for chain in run.chains],
        "integration_times": [chain.integration_time for chain in run.chains],
    }
