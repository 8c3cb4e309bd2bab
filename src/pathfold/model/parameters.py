"""The named parameters z and their map z = g_z(u) from standard normals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from jax import Array

from pathfold.errors import ModelError, told
from pathfold.model.arrays import real_array
from pathfold.model.functions import listed, struct
from pathfold.model.names import check_dimensions, check_name
from pathfold.model.priors import NormalMap, fixed, normal_map, product

type Compilable = Callable[..., bool]
"""compilable(function, *example structs): whether the layers above can compile the function."""


@dataclass(frozen=True)
class Parameters:
    """Named parameters, each with its prior as a map of normals, or fixed.

    u is split over the parameters in the order of `names`; z as a vector is their values, flattened, in that order.
    """

    priors: dict[str, Any]
    maps: dict[str, NormalMap]

    @classmethod
    def build(cls, priors: Mapping[str, Any], *, compilable: Compilable | None = None) -> "Parameters":
        """From the user's name -> distribution (or number, for a fixed parameter)."""
        if not isinstance(priors, Mapping):
            raise ModelError(f"parameters must be a dict of name -> distribution, not {told(priors)}")
        for name in priors:
            check_name("parameter", name, ModelError)
        maps = {name: _map(name, prior) for name, prior in priors.items()}
        check_dimensions("parameter", {name: len(m.shape) for name, m in maps.items()}, ModelError)
        for name, current in maps.items():
            if compilable is not None and not compilable(current.push, struct(current.size)):
                maps[name] = _map(name, priors[name], quantiles=False)
        return cls(dict(priors), maps)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.maps)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: m.shape for name, m in self.maps.items()}

    @cached_property
    def _joint(self) -> NormalMap:
        return product(list(self.maps.values()))

    @property
    def size(self) -> int:
        """U, the number of standard normals."""
        return self._joint.size

    @property
    def z_size(self) -> int:
        """The number of scalars in z, fixed parameters included."""
        return self._joint.shape[0]

    def push(self, u: Array) -> Array:
        """z as a vector, from u."""
        return self._joint.push(u)

    @property
    def excess(self) -> Callable[[Array], Array] | None:
        """The non-Gaussian term of the potential of u, or None."""
        return self._joint.excess

    def structs(self) -> dict[str, jax.ShapeDtypeStruct]:
        return {name: struct(*shape) for name, shape in self.shapes.items()}

    def unflatten(self, z: Any) -> dict[str, Any]:
        """z as a dict, from the vector."""
        values, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + prod(shape)
            values[name] = z[start:stop].reshape(shape) if shape else z[start]
            start = stop
        return values

    def flatten(self, values: Mapping[str, Any]) -> np.ndarray:
        """z as a vector, from a dict of concrete values; fixed parameters may be left out."""
        if not isinstance(values, Mapping):
            raise ModelError(f"parameters must be a dict of name -> value, not {told(values)}")
        if unknown := [name for name in values if name not in self.maps]:
            raise ModelError(f"unknown parameter {listed(unknown)}; the model has {listed(self.names)}")
        complete = {name: prior for name, prior in self.priors.items() if self.maps[name].size == 0} | dict(values)
        if missing := [name for name in self.names if name not in complete]:
            raise ModelError(f"no value was given for parameter {listed(missing)}")
        parts = []
        for name, shape in self.shapes.items():
            value = complete[name].v if isinstance(complete[name], dist.Delta) else complete[name]
            value = real_array(f"the values of parameter {name!r}", value, error=ModelError)
            if value.shape != shape:
                raise ModelError(f"parameter {name!r} was given with shape {value.shape}, expected {shape}")
            if not np.all(np.isfinite(value)):
                raise ModelError(f"parameter {name!r} was given as {told(value)}; give finite numbers")
            parts.append(value.ravel())
        return np.concatenate([np.zeros(0), *parts])


def _map(name: str, prior: Any, **options: bool) -> NormalMap:
    if isinstance(prior, dist.Distribution):
        try:
            return normal_map(prior, **options)
        except ModelError as error:
            raise ModelError(f"the prior of parameter {name!r} cannot be used: {error}") from error
    if isinstance(prior, int | float | complex | np.ndarray | np.number | jax.Array) and not isinstance(prior, bool):
        value = real_array(f"the values that parameter {name!r} is fixed to", prior, error=ModelError)
        if not np.all(np.isfinite(value)):
            raise ModelError(f"parameter {name!r} is fixed to {told(prior)}; give finite real numbers")
        if value.size == 0:
            raise ModelError(f"parameter {name!r} has shape {value.shape} and no entry; leave it out")
        return fixed(value)
    raise ModelError(
        f"the prior of parameter {name!r} is {told(prior)}; give a numpyro distribution such as dist.Normal(0.0, 1.0), "
        "or a number to fix the parameter"
    )
