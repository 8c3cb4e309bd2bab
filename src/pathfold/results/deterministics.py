"""Functions of parameters and path, recorded with every draw."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from pathfold.errors import ModelError
from pathfold.model import DiffusionModel
from pathfold.model.functions import result_shape, struct
from pathfold.model.parameters import RESERVED

type Deterministics = Mapping[str, Callable[..., Any]]
"""By name, functions of z, (z, path) or (z, path, times), with path (time, component) the states that are kept."""


def check_deterministics(
    deterministics: Deterministics, model: DiffusionModel, times: np.ndarray | None
) -> dict[str, Callable[..., Any]]:
    """Functions of (z, path, times), each traced on shapes; `times` are those of the states kept, if any are."""
    functions = {}
    for name, function in deterministics.items():
        if not isinstance(name, str) or name in model.parameters.names or name in RESERVED:
            raise ModelError(
                f"the deterministic {name!r} needs another name: a string that is no parameter's and none of "
                f"{', '.join(RESERVED)}"
            )
        count = _arguments(name, function)
        if count > 1 and times is None:
            raise ModelError(
                f"the deterministic {name!r} is a function of the path, but keep_path='none'; keep 'nodes' or 'all'"
            )
        functions[name] = _of_three(function, count)
        rows = 0 if times is None else len(times)
        examples = (model.parameters.structs(), struct(rows, model.state_dim), struct(rows))
        with jax.enable_x64(True):
            result_shape(f"the deterministic {name!r}", functions[name], examples)
    return functions


def _arguments(name: str, function: Any) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        expected = "a function of z, (z, path) or (z, path, times)"
        raise ModelError(f"the deterministic {name!r} must be {expected}, not {function!r}") from error
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if not 1 <= len(required) <= 3 or any(p.kind is p.VAR_POSITIONAL for p in required):
        raise ModelError(
            f"the deterministic {name!r} takes arguments {inspect.signature(function)}, expected z, (z, path) or "
            "(z, path, times)"
        )
    return len(required)


def _of_three(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    return lambda *arguments: function(*arguments[:count])


def with_deterministics(
    posterior: xr.Dataset, functions: dict[str, Callable[..., Any]], names: tuple[str, ...]
) -> xr.Dataset:
    """The draws with the functions of each; `names` are the parameters'."""
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])

    def flat(name: str) -> np.ndarray:
        values = posterior[name].values
        return values.reshape(-1, *values.shape[2:])

    z = {name: flat(name) for name in names}
    path = flat("state") if "state" in posterior else np.zeros((shape[0] * shape[1], 0, posterior.sizes["component"]))
    times = posterior["time"].values if "state" in posterior else np.zeros(0)
    for name, function in functions.items():
        with jax.enable_x64(True):
            values = np.asarray(jax.jit(jax.vmap(function, (0, 0, None)))(z, path, times))
        dims = [f"{name}_dim_{i}" for i in range(values.ndim - 1)]
        posterior[name] = (["chain", "draw", *dims], values.reshape(*shape, *values.shape[1:]))
    return posterior
