"""Packing draws into an xarray.DataTree that ArviZ reads."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from pathfold.data import TimeGrid
from pathfold.data.censoring import BETWEEN
from pathfold.engine.native.trajectory import STATISTIC_TYPES
from pathfold.engine.status import MEANING
from pathfold.model import DiffusionModel, Parameters
from pathfold.model.identity import identity
from pathfold.model.model_text import model_text
from pathfold.results.deterministics import with_deterministics
from pathfold.results.diagnostics import where_left_out
from pathfold.results.log_prior import log_prior_dataset
from pathfold.results.noise_group import noise_dataset
from pathfold.results.overview import Results
from pathfold.results.prior import priors_text
from pathfold.results.reading import along_time, fine_times
from pathfold.results.variables import Variable, drawn_dataset
from pathfold.sampling import Run
from pathfold.sampling.draws import Draws, spared
from pathfold.sampling.half_steps import Shift
from pathfold.sampling.sampler import Statistic
from pathfold.sampling.selection import Selection, component_labels
from pathfold.sampling.starts import Starts


def to_datatree(run: Run, *, keep_warmup: bool, deterministics: dict[str, Callable[..., Any]]) -> xr.DataTree:
    """Make the groups posterior, sample_stats, observed_data, constant_data, noise, half_step_shift, starts, log_prior.

    What cannot be made besides the draws is left out, with a warning.
    """
    made = run.chains[0].made
    warmup, form = (
        min(run.settings["warmup"], made),
        Form.of(run.model, run.grid, run.settings, run.keep, run.statistics),
    )
    groups = {"/posterior": form.posterior(run.chains, warmup, made)}
    others: dict[str, Callable[[], xr.Dataset | None]] = {
        "sample_stats": lambda: form.statistics(run.chains, warmup, made),
        "observed_data": lambda: observed_dataset(run.model, run.grid),
        "constant_data": lambda: constant_dataset(run.grid),
    }
    if (noise := run.noise) is not None:
        others["noise"] = lambda: noise_dataset(run, noise)
    if (shift := run.half_step_shift) is not None:
        others["half_step_shift"] = lambda: shift_dataset(run, shift)
    if (starts := run.starts) is not None and starts.candidates:
        others["starts"] = lambda: starts_dataset(run, starts)
    others["log_prior"] = lambda: log_prior_dataset(run.model, groups["/posterior"])
    if keep_warmup:
        others["warmup_posterior"] = lambda: form.posterior(run.chains, 0, warmup)
        others["warmup_sample_stats"] = lambda: form.statistics(run.chains, 0, warmup)
    for name, make in others.items():
        if (group := spared(f"the group {name} was left out of the results", make)) is not None:
            groups[f"/{name}"] = group
    for name in [name for name in groups if name.endswith("posterior")]:
        groups[name] = with_deterministics(groups[name], deterministics, tuple(run.model.priors))
    tree = Results.from_dict(groups)
    tree.attrs = spared("the attributes were left out of the results", lambda: _attributes(run, form)) or {}
    return tree


def _attributes(run: Run, form: Form) -> dict[str, Any]:
    iterations = {"iterations": run.iterations} if run.iterations else {}
    phrases = where_left_out(form.parameters, run.chains, run.left_out, run.settings["warmup"])
    return attributes(run.model, run.grid, run.settings) | run.seconds | iterations | of_chains(run.chains, phrases)


@dataclass(frozen=True)
class Form:
    """The variables and coordinates that draws become, by group; `kept` masks the (interval, step) after which states
    are kept."""

    variables: dict[str, list[Variable]]
    coordinates: dict[str, dict[str, Any]]
    kept: np.ndarray

    @classmethod
    def of(
        cls,
        model: DiffusionModel,
        grid: TimeGrid,
        settings: dict[str, Any],
        keep: Selection | None,
        of_sampler: Sequence[Statistic],
    ) -> Form:
        keep, keep_path = keep or Selection.of(model), settings["keep_path"]
        statistics, coordinates = _statistics(of_sampler)
        return cls(
            {"posterior": _variables(model, grid, keep, keep_path), "sample_stats": statistics},
            {"posterior": _coordinates(model, grid, keep, keep_path), "sample_stats": coordinates},
            kept_states(grid, keep_path),
        )

    def posterior(self, chains: Sequence[Draws], begin: int, end: int) -> xr.Dataset:
        return self._group("posterior", chains, begin, end)

    def parameters(self, chains: Sequence[Draws], begin: int, end: int) -> xr.Dataset:
        """Return the draws of the parameters alone, without initial states and paths."""
        chosen = [var for var in self.variables["posterior"] if var.name not in ("initial_state", "state")]
        return drawn_dataset(chosen, {}, chains, begin, end, self.kept)

    def statistics(self, chains: Sequence[Draws], begin: int, end: int) -> xr.Dataset:
        dataset = self._group("sample_stats", chains, begin, end)
        if "rung" in dataset.dims:
            used = np.isfinite(dataset["power"].values).any(axis=(0, 1))
            dataset = dataset.isel(rung=slice(0, int(np.count_nonzero(used))))
        dataset["status"].attrs["meaning"] = [f"{code}: {text}" for code, text in MEANING.items()]
        return dataset

    def _group(self, name: str, chains: Sequence[Draws], begin: int, end: int) -> xr.Dataset:
        return drawn_dataset(self.variables[name], self.coordinates[name], chains, begin, end, self.kept)


def draws_dataset(
    model: DiffusionModel, grid: TimeGrid, z: np.ndarray, starts: np.ndarray, states: np.ndarray, keep_path: str
) -> xr.Dataset:
    """Return parameters, initial states and paths by name, from vectors (chain, draw, ...) of what series share,
    augmented initial states (chain, draw, series, ...) and the states that are kept (chain, draw, kept, component)."""
    keep, arrays = Selection.of(model), {"z": z, "x0": starts, "state": states}
    named = arrays, _variables(model, grid, keep, keep_path), _coordinates(model, grid, keep, keep_path)
    return _by_chain_and_draw(*named, range(z.shape[0]), np.arange(z.shape[1]))


def shift_dataset(run: Run, shift: Shift) -> xr.Dataset:
    """Return the shifts by name of those parameters, varying values and initial states that are kept."""
    keep = run.keep or Selection.of(run.model)
    columns, arrays = keep.columns(run.model), {"z": shift.z, "x0": shift.x0}
    arrays = {name: array[..., columns.get(name, slice(None))] for name, array in arrays.items()}
    named = arrays, _variables(run.model, run.grid, keep, "none"), _coordinates(run.model, run.grid, keep, "none")
    return _by_chain_and_draw(*named, [chain.chain for chain in run.chains], shift.draws)


def starts_dataset(run: Run, starts: Starts) -> xr.Dataset:
    """Return the candidates for a start: parameters, log mass below the best, way; and with which each chain began."""
    keep, U = run.keep or Selection.of(run.model), run.model.parameters.size
    with jax.enable_x64(True):
        push = run.model.parameters.push
        z = np.stack([np.asarray(push(jnp.asarray(c.point.position[:U]))) for c in starts.candidates])
    variables = _by_name(run.model, run.model.parameters, "z", 0, keep).values()
    columns = keep.columns(run.model).get("z", slice(None))
    potentials = np.array([candidate.potential for candidate in starts.candidates])
    began = [chain.chain for chain in run.chains if chain.chain in starts.of_chains]
    data: dict[str, Any] = {var.name: (("candidate", *var.dims), var.of(z[:, columns])) for var in variables}
    data["log_mass"] = ("candidate", potentials.min() - potentials)
    data["way"] = ("candidate", [candidate.way for candidate in starts.candidates])
    data["began_with"] = ("chain", [starts.of_chains[chain] for chain in began])
    names = _coordinates(run.model, run.grid, keep, "none")
    named = {name: names[name] for var in variables for name in var.dims if name in names}
    return xr.Dataset(data, {"candidate": np.arange(len(potentials)), "chain": began, **named})


def _by_chain_and_draw(
    arrays: dict[str, np.ndarray],
    variables: list[Variable],
    coordinates: dict[str, Any],
    chains: Sequence[int],
    draws: np.ndarray,
) -> xr.Dataset:
    data = {var.name: (("chain", "draw", *var.dims), var.of(arrays[var.array], leading=2)) for var in variables}
    return xr.Dataset(data, {"chain": chains, "draw": draws, **coordinates})


def _variables(model: DiffusionModel, grid: TimeGrid, keep: Selection, keep_path: str) -> list[Variable]:
    """Return the variables of the posterior, as parts of the arrays of what is kept."""
    several, count, series = len(grid.first) > 1, len(keep.components), len(grid.first)
    by_name = _by_name(model, model.parameters, "z", 0, keep)
    by_name |= _by_name(model, model.varying, "x0", count, keep, series)
    variables = [by_name[name] for name in keep.parameters]
    if count:
        dims, shape = (("series", "component"), (series, count)) if several else (("component",), (count,))
        variables.append(Variable("initial_state", "x0", 0, count, dims, shape))
    if count and keep_path != "none":
        rows = int(kept_states(grid, keep_path).sum())
        dims = ("node" if several else "time", "component")
        variables.append(Variable("state", "state", 0, count, dims, (rows, count)))
    return variables


def _by_name(
    model: DiffusionModel, parameters: Parameters, array: str, begin: int, keep: Selection, series: int | None = None
) -> dict[str, Variable]:
    """Return the variables that are kept, which follow each other in an array; of each series, if `series` is given."""
    variables = {}
    for name, shape in parameters.shapes.items():
        if name in keep.parameters:
            end, dims = begin + int(np.prod(shape, dtype=int)), tuple(model.dims(name))
            own = ((), ()) if series is None else (("series",), (series,))
            variables[name] = Variable(name, array, begin, end, (*own[0], *dims), (*own[1], *shape))
            begin = end
    return variables


def _coordinates(model: DiffusionModel, grid: TimeGrid, keep: Selection, keep_path: str) -> dict[str, Any]:
    several, coordinates = len(grid.first) > 1, {}
    if keep.components:
        coordinates["component"] = [component_labels(model)[i] for i in keep.components]
    if several or model.varying.names:
        coordinates["series"] = list(grid.series)
    kept = {by for name, by in model.groups.items() if name in keep.parameters}
    coordinates |= {by: levels for by, levels in group_labels(model).items() if by in kept}
    if keep.components and keep_path != "none":
        times = cast(np.ndarray, state_times(grid, keep_path))
        series = np.repeat(grid.series_of_intervals, kept_states(grid, keep_path).sum(axis=1))
        coordinates |= along_time(grid.series, grid.calendars, times, series, panel=several)[1]
    return coordinates


def group_labels(model: DiffusionModel) -> dict[str, list[Any]]:
    """Return the names of all groups by the covariate that makes them, of those that parameters vary by."""
    return {by: list(model.covariates[by].levels) for by in dict.fromkeys(model.groups.values())}


def kept_states(grid: TimeGrid, keep_path: str) -> np.ndarray:
    """Return a mask of the (interval, step) after which states are kept; only the last in an interval of length 0."""
    kept = np.repeat(grid.delta[:, None] > 0.0, grid.steps, axis=1) & (keep_path == "all")
    kept[:, -1] = True
    return kept


def state_times(grid: TimeGrid, keep_path: str) -> np.ndarray | None:
    """Return the times of the states that are kept, or None if none are."""
    if keep_path == "none":
        return None
    return fine_times(grid.starts, grid.ends, grid.delta, grid.steps)[kept_states(grid, keep_path)]


def _statistics(of_sampler: Sequence[Statistic]) -> tuple[list[Variable], dict[str, Any]]:
    """Return variables and coordinates of the statistics of all samplers, and of those that this one has besides."""
    variables: list[Variable] = []
    coordinates: dict[str, Any] = {}
    end = 0
    for each in [*(Statistic(name, dtype) for name, dtype in STATISTIC_TYPES.items()), *of_sampler]:
        begin, end = end, end + each.size
        dims, shape = ((each.dim,), (each.size,)) if each.dim else ((), ())
        variables.append(Variable(each.name, "statistics", begin, end, dims, shape, dtype=each.dtype))
        if each.dim:
            coordinates[each.dim] = [*each.labels]
    return variables, coordinates


def observed_dataset(model: DiffusionModel, grid: TimeGrid) -> xr.Dataset:
    """Return the data at the times at which anything was observed; `shows` are components of the model, or -1."""
    rows = grid.mask.any(axis=1)
    values, of_series = np.where(grid.mask, grid.values, np.nan)[rows], grid.series_of_intervals[rows]
    known = grid.series, grid.calendars, np.asarray(grid.ends)[rows], of_series
    dim, coordinates = along_time(*known, panel=len(grid.first) > 1)
    coordinates["observation"] = list(model.observed or grid.components)
    variables: dict[str, Any] = {"y": ([dim, "observation"], values, {"shows": model.components_shown().tolist()})}
    if grid.censored.any():
        variables["censored"] = ([dim, "observation"], grid.censored[rows].astype(np.int64))
        variables["upper"] = ([dim, "observation"], np.where(grid.censored == BETWEEN, grid.upper, np.nan)[rows])
    return xr.Dataset(variables, coordinates)


def constant_dataset(grid: TimeGrid) -> xr.Dataset:
    """Return the grid and what happens on it: intervals, times of the data, events, covariates, inputs, calendars."""
    variables: dict[str, Any] = {
        "interval_start": ("interval", np.asarray(grid.starts)),
        "interval_end": ("interval", np.asarray(grid.ends)),
        "fine_step": ("interval", np.asarray(grid.delta)),
        "ends_at_data": ("interval", grid.rows.astype(np.int64)),
        "first_interval": ("series", np.asarray(grid.first)),
    }
    variables |= {name: ("series", [own[name] for own in grid.covariates]) for name in grid.covariates[0]}
    coordinates: dict[str, Any] = {"series": list(grid.series)}
    if grid.events:
        variables["event_amount"] = (["event", "interval"], np.stack([*grid.events.values()]))
        coordinates["event"] = list(grid.events)
    written = {
        "inputs": [{name: value.written() for name, value in own.items()} for own in grid.inputs],
        "calendars": [calendar and calendar.written() for calendar in grid.calendars],
    }
    attrs = {name: json.dumps(by_series) for name, by_series in written.items() if any(by_series)}
    return xr.Dataset(variables, coordinates, attrs)


def _plain_factors(model: DiffusionModel, grid: TimeGrid) -> list[str]:
    """Return the observed components whose likelihood has no root."""
    names = [name if isinstance(name, str) else f"y[{name}]" for name in model.observed or grid.components]
    return [name for name, plain in zip(names, model.plain_factors(), strict=True) if plain]


def attributes(model: DiffusionModel, grid: TimeGrid, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that are known before a run: versions, the model as it was written and as it was traced,
    settings, and the labels of dimensions, in order."""
    versions = {f"{name}_version": metadata.version(name) for name in ("pathfold", "jax", "numpyro", "numba", "numpy")}
    labels = {
        "component": component_labels(model),
        "observation": [*(model.observed or grid.components)],
        "series": [*grid.series],
        **group_labels(model),
    }
    return {
        "inference_library": "pathfold",
        "machine": platform.machine(),
        **versions,
        "model": json.dumps(model_text(model)),
        "model_key": json.dumps(identity(model)),
        "labels": json.dumps(labels),
        "priors": priors_text(model),
        **({"plain_factors": plain} if (plain := _plain_factors(model, grid)) else {}),
        **settings,
    }


def of_chains(chains: Sequence[Draws], left_out: Sequence[str] = ()) -> dict[str, Any]:
    """Return the attributes of the chains, a phrase for each that was left out, and the time."""
    return {
        "created_at": datetime.now(UTC).isoformat(),
        "chain_numbers": [chain.chain for chain in chains],
        "chain_seconds": [chain.seconds for chain in chains],
        "main_seconds": [chain.main_seconds for chain in chains],
        "integration_times": [chain.integration_time for chain in chains],
        **({"left_out": [*left_out]} if left_out else {}),
    }
