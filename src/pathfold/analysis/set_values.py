"""The parameters that predictions are made with: those of the draws, or what the user sets in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pathfold.analysis.chosen import Chosen
from pathfold.errors import ModelError
from pathfold.model import ConditionalMap, DiffusionModel
from pathfold.model.parameters import check_values, read_value


def known_values(
    chosen: Chosen, model: DiffusionModel, changes: Any, numbers: Sequence[int] | None
) -> dict[str, np.ndarray]:
    """Return the draws' parameters by name, for these series or a new one, with changes where they are set.

    What is fixed or follows from others is left out.
    """
    check_values(changes, model.maps)
    values = {}
    for name, m in (model.parameters.maps | model.varying.maps).items():
        varies = name in model.varying.maps
        if name in changes:
            values[name] = _set_value(chosen, name, changes[name], m, varies, numbers)
        elif m.size and not varies:
            values[name] = chosen[name]
        elif m.size and numbers is not None:
            values[name] = chosen[name][:, numbers]
    return values


def _set_value(
    chosen: Chosen, name: str, given: Any, m: ConditionalMap, varies: bool, numbers: Sequence[int] | None
) -> np.ndarray:
    """Return the user's value of a parameter for every draw, (D, ...), or (D, K, ...) of what varies."""
    given = _by_chain_and_draw(chosen, name, given) if isinstance(given, xr.DataArray) else given
    value = chosen.flat(read_value(name, given, m, (chosen.shape[0], chosen.tree.posterior["draw"].size)))
    series = 1 if numbers is None else len(numbers)
    return np.repeat(value[:, None], series, axis=1) if varies else value


def _by_chain_and_draw(chosen: Chosen, name: str, given: xr.DataArray) -> xr.DataArray:
    """Sort values like the chains and draws of the posterior, where they have such dimensions."""
    for dim in ("chain", "draw"):
        if dim in given.dims and dim in given.coords:
            there, wanted = given[dim].values.tolist(), chosen.tree.posterior[dim].values.tolist()
            if sorted(there) != sorted(wanted):
                raise ModelError(f"parameter {name!r} was set for other {dim}s than those of the posterior")
            given = given.isel({dim: [there.index(label) for label in wanted]}) if there != wanted else given
    return given.transpose("chain", "draw", ..., missing_dims="ignore")


def told_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was set in a form that a file can hold; a word stands for values that differ between draws."""
    return {name: np.asarray(v).tolist() if np.size(v) <= 100 else "by draw" for name, v in changes.items()}
