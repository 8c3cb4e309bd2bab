"""The initial state x_0 = g_x0(z, v_0) as a map of standard normals, given the parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.core import Tracer

from pathfold.errors import ModelError
from pathfold.model.functions import struct, traced
from pathfold.model.parameters import Compilable
from pathfold.model.priors import NormalMap, fixed, normal_map, product


@dataclass(frozen=True)
class InitialState:
    """x_0 from V0 standard normals.

    The user gives a distribution, a fixed array, a list of one scalar distribution or number for each component, or a
    function of z giving any of these. Batch and event dimensions of a distribution together are the state.
    """

    given: Any
    state_dim: int
    size: int
    gaussian: bool
    quantiles: bool = True

    @classmethod
    def build(
        cls, given: Any, z: dict[str, jax.ShapeDtypeStruct], *, compilable: Compilable | None = None
    ) -> "InitialState":
        state = cls._probe(given, z, True)
        if compilable is not None and not compilable(state.push, z, struct(state.size)):
            state = cls._probe(given, z, False)
        return state

    @classmethod
    def _probe(cls, given: Any, z: dict[str, jax.ShapeDtypeStruct], quantiles: bool) -> "InitialState":
        found: list[NormalMap] = []

        def look(z):
            found.append(_map(given, z, quantiles))

        traced("initial_state", look, (z,))
        (m,) = found
        if len(m.shape) > 1 or 0 in m.shape:
            raise ModelError(f"initial_state has shape {m.shape}, expected one dimension, (X,)")
        return cls(given, m.shape[0] if m.shape else 1, m.size, m.excess is None, quantiles)

    def _map(self, z: dict[str, Any]) -> NormalMap:
        return _map(self.given, z, self.quantiles)

    def push(self, z: dict[str, Any], v0: Array) -> Array:
        """x_0, of shape (X,)."""
        return self._map(z).push(v0).reshape(self.state_dim)

    @property
    def excess(self) -> Callable[[dict[str, Any], Array], Array] | None:
        """The non-Gaussian term of the potential, a function of (z, v_0), or None."""
        return None if self.gaussian else self._excess

    def _excess(self, z: dict[str, Any], v0: Array) -> Array:
        excess = self._map(z).excess
        assert excess is not None
        return excess(v0)


def _map(given: Any, z: dict[str, Any], quantiles: bool) -> NormalMap:
    if callable(given) and not isinstance(given, dist.Distribution):
        return _map_of_value(given(z), quantiles=quantiles, standardise=False)
    return _map_of_value(given, quantiles=quantiles, standardise=True)


def _map_of_value(given: Any, **options: bool) -> NormalMap:
    if isinstance(given, dist.Distribution):
        try:
            return normal_map(given, **options)
        except ModelError as error:
            raise ModelError(f"initial_state cannot be used: {error}") from error
    if isinstance(given, Tracer):
        return fixed(given)
    if isinstance(given, list | tuple) and any(isinstance(part, dist.Distribution | Tracer) for part in given):
        maps = [_map_of_value(part, **options) for part in given]
        if any(m.shape for m in maps):
            raise ModelError("initial_state is a list with a part that is not scalar; give one part a component")
        return product(maps)
    try:
        value = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"initial_state gave {given!r}; give a numpyro distribution, a function of z giving one, or an array"
        ) from error
    if not np.all(np.isfinite(value)):
        raise ModelError(f"initial_state is not finite: {given!r}")
    return fixed(value)
