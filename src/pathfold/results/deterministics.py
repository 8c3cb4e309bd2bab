"""Functions of parameters and path, recorded with every draw."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from pathfold.data.names import check_dimensions, check_name, dimensions
from pathfold.errors import ModelError, told
from pathfold.model import DiffusionModel
from pathfold.model.functions import apart, result_shape, struct, traced, try_twice
from pathfold.model.identity import computation, digest
from pathfold.model.memory import GIB, available_memory, check_memory
from pathfold.sampling.draws import spared
from pathfold.sampling.selection import Selection

EXPECTED = "z, (z, path) or (z, path, times)"
PIECE = 2**26  # bytes of the largest array that is made at a time, of as many draws as that has room for
SHARE = 0.9  # of the memory that is left
TRIED = 4  # values that are in memory when a function is tried


def check_deterministics(
    deterministics: Any, model: DiffusionModel, series: int, times: np.ndarray | None, keep: Selection, draws: int
) -> dict[str, Callable[..., Any]]:
    """Check functions of (z, path, times) on shapes and at a point; `times` are those of the states kept, if any.

    What varies has a row for each of the `series` there, and there is no more than what is to be kept. Values of all
    `draws` must fit into memory.
    """
    if not isinstance(deterministics, Mapping):
        raise ModelError(f"deterministics must be a dict of name -> function of {EXPECTED}, not {told(deterministics)}")
    functions, dims = {}, {name: len(m.shape) for name, m in model.maps.items()}
    examples = _examples(model, series, times, keep)
    for name, function in deterministics.items():
        check_name("the deterministic", name, ModelError)
        if name in model.priors or name in model.covariates:
            other = "parameter" if name in model.priors else "covariate"
            raise ModelError(f"the deterministic {name!r} needs another name: a {other} has this one")
        count = _arguments(name, function)
        if count > 1 and times is None:
            raise ModelError(
                f"the deterministic {name!r} is a function of the path, but keep_path='none'; keep 'nodes' or 'all'"
            )
        if count > 1 and len(keep.components) < model.state_dim:
            raise ModelError(
                f"the deterministic {name!r} is a function of the path, but keep leaves out components of it; keep all"
            )
        functions[name] = _of_three(function, count)
        dims[name] = _checked_dims(f"the deterministic {name!r}", functions[name], examples, draws)
    check_dimensions("the deterministic or parameter", dims, ModelError)
    return functions


def _examples(model: DiffusionModel, series: int, times: np.ndarray | None, keep: Selection) -> tuple[Any, Any, Any]:
    """Return the shapes of (z, path, times), as the functions take them."""
    varying = {name: struct(series, *shape) for name, shape in model.varying.shapes.items()}
    every = model.parameters.structs() | varying
    z = {name: every[name] for name in model.priors if name in keep.parameters}
    rows = 0 if times is None else len(times)
    return z, struct(rows, model.state_dim), struct(rows)


def keys_of(
    functions: dict[str, Callable[..., Any]],
    model: DiffusionModel,
    series: int,
    times: np.ndarray | None,
    keep: Selection,
) -> dict[str, str]:
    """Return a hash of what each of the functions computes, so that runs with others are told apart."""
    examples = _examples(model, series, times, keep)
    return {name: digest(computation(function, *examples)) for name, function in functions.items()}


def _checked_dims(name: str, function: Callable[..., Any], examples: tuple[Any, ...], draws: int) -> int:
    """Return the number of dimensions of what the function returns."""
    z, path, times = examples
    with jax.enable_x64(True):
        shape = result_shape(name, function, examples)
        size = 8 * math.prod(shape) * max(draws, TRIED)
        check_memory(f"{name}, of all draws,", size, "less of it, or fewer draws")
        many = jax.tree.map(lambda example: struct(2, *example.shape), (z, path))
        traced(f"{name}, of all draws at once,", jax.vmap(function, (0, 0, None)), (*many, times))
        try_twice(name, function, examples)
    return len(shape)


def _arguments(name: str, function: Any) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"the deterministic {name!r} must be a function of {EXPECTED}, not {told(function)}"
        ) from error
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if not 1 <= len(required) <= 3 or any(p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY) for p in required):
        raise ModelError(
            f"the deterministic {name!r} takes arguments {inspect.signature(function)}, expected {EXPECTED}"
        )
    return len(required)


def _of_three(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    function = apart(function)
    return lambda *arguments: function(*arguments[:count])


def with_deterministics(
    posterior: xr.Dataset, functions: dict[str, Callable[..., Any]], names: tuple[str, ...]
) -> xr.Dataset:
    """Add the functions to every draw; `names` are the parameters'. What cannot be computed is left out."""
    for name, function in functions.items():
        failure = f"the deterministic {name!r} was left out of the results (compute it from the draws)"
        added = spared(failure, partial(_added, posterior, name, function, names))
        posterior = posterior if added is None else added
    return posterior


def _added(posterior: xr.Dataset, name: str, function: Callable[..., Any], names: tuple[str, ...]) -> xr.Dataset:
    """Add one function to every draw, some draws of a chain at a time."""
    with jax.enable_x64(True):
        values = _of_all(posterior, function, names)
    return posterior.assign({name: (["chain", "draw", *dimensions(name, values.ndim - 2)], values)})


def _of_all(posterior: xr.Dataset, function: Callable[..., Any], names: tuple[str, ...]) -> np.ndarray:
    """Compute the function of every draw, (chain, draw, ...).

    XLA ends the process where it has not the memory; a MemoryError says so before.
    """
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    times = posterior["time"].values if "state" in posterior else np.zeros(0)
    z = {name: struct(*posterior[name].shape[2:]) for name in names if name in posterior}
    path = struct(len(times), posterior.sizes.get("component", 0))
    result, row = jax.eval_shape(function, z, path, times), _largest(jax.make_jaxpr(function)(z, path, times).jaxpr)
    count = max(1, min(draws, PIECE // max(1, row)))
    some = jax.tree.map(lambda one: struct(count, *one.shape), (z, path))
    compiled = jax.jit(jax.vmap(function, (0, 0, None)))
    needed: Any = compiled.lower(*some, times).compile().memory_analysis()
    besides = needed.output_size_in_bytes + needed.temp_size_in_bytes if needed else 0
    _check_room(chains * draws * result.size * result.dtype.itemsize + besides)
    values = np.empty((chains, draws, *result.shape), result.dtype)
    for chain in range(chains):
        for begin in range(0, draws, count):
            part = posterior.isel(chain=chain, draw=slice(begin, begin + count))
            of_part = {name: part[name].values for name in z}
            states = part["state"].values if "state" in part else np.zeros((part.sizes["draw"], *path.shape))
            values[chain, begin : begin + count] = compiled(of_part, states, times)
    return values


def _largest(jaxpr: Any) -> int:
    """Return the bytes of the largest array that a traced function makes, if no operations are fused."""
    sizes = [output.aval.size * output.aval.dtype.itemsize for eqn in jaxpr.eqns for output in eqn.outvars]
    params = [value for eqn in jaxpr.eqns for value in jax.tree.leaves([*eqn.params.values()])]
    inner = [getattr(value, "jaxpr", value) for value in params if hasattr(value, "eqns")]
    return max([0, *sizes, *map(_largest, inner)])


def _check_room(size: int) -> None:
    there = available_memory()
    if there is not None and size > SHARE * there:
        raise MemoryError(f"it would take {size / GIB:.1f} GiB of memory, of which {there / GIB:.1f} GiB are left")
