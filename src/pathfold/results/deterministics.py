"""Functions of parameters and path, recorded with every draw."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from pathfold.errors import ModelError, told
from pathfold.model import DiffusionModel
from pathfold.model.functions import apart, result_shape, struct, traced, try_twice
from pathfold.model.identity import computation, digest
from pathfold.model.names import check_dimensions, check_name, dimensions
from pathfold.results.drawn import in_blocks
from pathfold.sampling.selection import Selection

type Deterministics = Mapping[str, Callable[..., Any]]
"""By name, functions of z, (z, path) or (z, path, times), with path (time, component) the states that are kept."""

EXPECTED = "z, (z, path) or (z, path, times)"


def check_deterministics(
    deterministics: Any, model: DiffusionModel, series: int, times: np.ndarray | None, keep: Selection
) -> dict[str, Callable[..., Any]]:
    """Functions of (z, path, times), tried on shapes and at a point; `times` are those of the states kept, if any.

    What varies has a row for each of the `series` there, and there is no more than what is to be kept.
    """
    if not isinstance(deterministics, Mapping):
        raise ModelError(f"deterministics must be a dict of name -> function of {EXPECTED}, not {told(deterministics)}")
    functions, dims = {}, {name: len(one.shape) for name, one in model.structs().items()}
    examples = _examples(model, series, times, keep)
    for name, function in deterministics.items():
        check_name("the deterministic", name, ModelError)
        if name in model.priors:
            raise ModelError(f"the deterministic {name!r} needs another name: a parameter has this one")
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
        dims[name] = _checked_dims(f"the deterministic {name!r}", functions[name], examples)
    check_dimensions("the deterministic or parameter", dims, ModelError)
    return functions


def _examples(model: DiffusionModel, series: int, times: np.ndarray | None, keep: Selection) -> tuple[Any, Any, Any]:
    """Shapes of (z, path, times), as the functions take them."""
    varying = {name: struct(series, *shape) for name, shape in model.varying.shapes.items()}
    z = {name: varying.get(name, one) for name, one in model.structs().items() if name in keep.parameters}
    rows = 0 if times is None else len(times)
    return z, struct(rows, model.state_dim), struct(rows)


def keys_of(
    functions: dict[str, Callable[..., Any]],
    model: DiffusionModel,
    series: int,
    times: np.ndarray | None,
    keep: Selection,
) -> dict[str, str]:
    """A hash of what each of the functions computes, so that runs with others are told apart."""
    examples = _examples(model, series, times, keep)
    return {name: digest(computation(function, *examples)) for name, function in functions.items()}


def _checked_dims(name: str, function: Callable[..., Any], examples: tuple[Any, ...]) -> int:
    """The number of dimensions of what the function returns."""
    z, path, times = examples
    with jax.enable_x64(True):
        shape = result_shape(name, function, examples)
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
    """The draws with the functions of each, some draws at a time; `names` are the parameters'."""
    for name, function in functions.items():
        compiled = jax.jit(jax.vmap(function, (0, 0, None)))
        try:
            with jax.enable_x64(True):
                parts = [_of_draws(compiled, block, names) for block in in_blocks(posterior, "state")]
                values = np.concatenate(parts, axis=1)
        except Exception as error:  # whatever it is (memory, a callback): the draws are made and must not be lost
            warnings.warn(
                f"the deterministic {name!r} was left out of the results: over all draws it raised "
                f"{type(error).__name__}: {told(str(error))}; compute it from the draws",
                stacklevel=5,
            )
            continue
        posterior[name] = (["chain", "draw", *dimensions(name, values.ndim - 2)], values)
    return posterior


def _of_draws(function: Callable[..., Any], posterior: xr.Dataset, names: tuple[str, ...]) -> np.ndarray:
    """A function of many draws for all of these, (chain, draw, ...)."""
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])

    def flat(name: str) -> np.ndarray:
        values = posterior[name].values
        return values.reshape(-1, *values.shape[2:])

    z, there = {name: flat(name) for name in names if name in posterior}, "state" in posterior
    path = flat("state") if there else np.zeros((shape[0] * shape[1], 0, posterior.sizes.get("component", 0)))
    values = np.asarray(function(z, path, posterior["time"].values if there else np.zeros(0)))
    return values.reshape(*shape, *values.shape[1:])
