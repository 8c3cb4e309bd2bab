"""Covariates: what is known of a series as a whole, a number or which of several groups it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.data.names import check_name
from pathfold.data.real_arrays import is_frame, real_number
from pathfold.errors import DataError, ModelError, told

# Names that the results have beside those of the covariates.
RESERVED = ("interval", "interval_start", "interval_end", "fine_step", "ends_at_data", "first_interval", "event")
RESERVED += ("event_amount",)

type Label = str | float
"""The value of a covariate: a number, or the name of a group."""


@dataclass(frozen=True)
class Covariate:
    """A covariate of a model: a number, such as the `typical` one; or the place among `levels`, if there are any."""

    typical: float
    levels: tuple[Label, ...] = ()

    @classmethod
    def read(cls, name: str, given: Any) -> Covariate:
        """Take the user's typical number, or the names of all groups."""
        if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
            levels = tuple(read_label(f"a level of the covariate {name!r}", level, ModelError) for level in given)
            if not levels or len(set(levels)) < len(levels):
                raise ModelError(f"the covariate {name!r} has the levels {told(given)}; give each once, at least one")
            return cls(0.0, levels)
        what = f"the typical value of the covariate {name!r}"
        return cls(real_number(what, given, error=ModelError))

    def example(self, i: int) -> float:
        """Return a number at which the model is tried: the typical one, or the levels by turns."""
        return float(i % len(self.levels)) if self.levels else self.typical

    def number(self, name: str, value: Label) -> float:
        """Return the number that functions see, or raise DataError if it cannot be."""
        if self.levels:
            if value not in self.levels:
                known = told(list(self.levels))
                raise DataError(
                    f"the covariate {name!r} is {told(value)}, which is none of the model's levels, {known}; name all "
                    f"of them in the model: covariates={{{name!r}: [...]}}"
                )
            return float(self.levels.index(value))
        if isinstance(value, str):
            raise DataError(
                f"the covariate {name!r} is {told(value)}, and the model expects a number; give one, or name the "
                f"levels in the model: covariates={{{name!r}: [...]}}"
            )
        return value


def check_model_covariates(given: Any) -> dict[str, Covariate]:
    """Return the covariates of a model from the user's dict of name -> typical value, or levels."""
    if not isinstance(given, Mapping):
        raise ModelError(f"covariates must be a dict of name -> typical value, or list of levels, not {told(given)}")
    _check_names(given, ModelError)
    return {name: Covariate.read(name, value) for name, value in given.items()}


def read_covariates(given: Any) -> dict[str, Label]:
    """Return the covariates of a series by name, or raise DataError for what is no number and no name of a group.

    They may be a row of a table, a pandas Series.
    """
    given = given.to_dict() if is_frame(given) and given.ndim == 1 else given
    if not isinstance(given, Mapping | None):
        raise DataError(f"covariates must be a dict of name -> number, or name of a group, not {told(given)}")
    _check_names(given or {}, DataError)
    return {name: read_label(f"the covariate {name!r}", value, DataError) for name, value in (given or {}).items()}


def _check_names(given: Mapping[Any, Any], error: Any) -> None:
    for name in given:
        check_name("the covariate", name, error)
        if name in RESERVED:
            raise error(f"the covariate {name!r} needs another name: the results use {', '.join(RESERVED)} themselves")


def read_label(what: str, value: Any, error: Any) -> Label:
    """Return a number or the name of a group as it stands in files: a float, or a string that can be printed."""
    if isinstance(value, str):
        if not value.strip() or not value.isprintable():
            raise error(f"{what} is {told(value)}; give a number, or a name that can be printed")
        return value
    if isinstance(value, bool | np.bool_):
        return float(value)
    if np.ndim(value):
        raise error(
            f"{what} has several values, {told(value)}; a covariate is one number or name for a whole series, and what "
            "changes in time is an input: inputs={...: pf.Input(times, values)}"
        )
    return real_number(what, value, error=error)


def chosen(values: Array, level: Any) -> Array:
    """Return the entry of values (levels, ...) at the place of a level, which is a number and may be traced."""
    weights = jnp.where(jnp.arange(values.shape[0]) == level, 1.0, 0.0)
    return jnp.tensordot(weights, values, axes=1)


def check_all_have(panel: Mapping[Any, Mapping[str, Label]]) -> None:
    """Raise DataError if a series lacks a covariate that another one has; `panel` has the covariates by series."""
    names = dict.fromkeys(name for own in panel.values() for name in own)
    for series, own in panel.items():
        if missing := [name for name in names if name not in own]:
            raise DataError(
                f"series {told(series)} has no covariate {missing[0]!r}, which others of the panel have; give it to all"
            )
