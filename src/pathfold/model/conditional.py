"""Random arrays given the parameters, as maps of standard normals: priors, the initial state, the observation noise."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.core import Tracer

from pathfold.data.real_arrays import real_array
from pathfold.distributions.priors import NormalMap, fixed, normal_map, product
from pathfold.errors import ModelError, told
from pathfold.model.functions import Compilable, apart, struct, traced, try_twice


@dataclass(frozen=True)
class ConditionalMap:
    """A map from `size` standard normals v to an array of `shape`, given z; `name` names it in errors.

    The user gives a distribution, a fixed array, a list of one scalar distribution or number for each component, or a
    function of z giving any of these. Batch and event dimensions of a distribution together are the shape.
    """

    name: str
    given: Any
    shape: tuple[int, ...]
    size: int
    gaussian: bool
    quantiles: bool = True
    then: Callable[..., Array] | None = None  # a function of the vector and z, applied last
    constant: NormalMap | None = None  # the map if it does not depend on z: its constants are computed once
    support: Any = None  # numpyro's constraint on the values, if there is one that does not depend on z
    asks: frozenset[str] = frozenset()  # the parameters of the model that it depends on

    @property
    def told_shape(self) -> str:
        """What to give values of, in a sentence."""
        return f"{self.shape}"

    @classmethod
    def build(
        cls, name: str, given: Any, z: dict[str, jax.ShapeDtypeStruct], *, compilable: Compilable | None = None
    ) -> "ConditionalMap":
        """Build the map to a vector; a scalar is a vector of length 1."""
        built = cls.of_any_shape(name, given, z, compilable=compilable)
        if len(built.shape) > 1 or 0 in built.shape:
            raise ModelError(f"{name} has shape {built.shape}, expected one dimension")
        return replace(built, shape=built.shape or (1,))

    @classmethod
    def of_any_shape(
        cls, name: str, given: Any, z: dict[str, jax.ShapeDtypeStruct], *, compilable: Compilable | None = None
    ) -> "ConditionalMap":
        if isinstance(given, type):
            raise ModelError(f"{name} is the class {given.__name__}; give an instance, such as dist.Normal(0.0, 1.0)")
        given = apart(given) if is_function(given) else given
        built = cls._probe(name, given, z, True)
        if is_function(given):
            try_twice(name, built.push, (z, struct(built.size)))
        if compilable is not None and not compilable(built.push, z, struct(built.size)):
            built = cls._probe(name, given, z, False)
        return built

    @classmethod
    def _probe(cls, name: str, given: Any, z: dict[str, jax.ShapeDtypeStruct], quantiles: bool) -> "ConditionalMap":
        probed: list[tuple[NormalMap, Any]] = []
        constant = None

        def look(z):
            value = given(z)
            probed.append((_map_of_value(name, value, quantiles=quantiles, standardise=False), _support(value)))

        if is_function(given):
            traced(name, look, (z,))
        else:
            constant = _map_of_value(name, given, quantiles=quantiles, standardise=True)
            probed.append((constant, _support(given)))
        ((m, support),) = probed
        return cls(name, given, m.shape, m.size, m.excess is None, quantiles, constant=constant, support=support)

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return self.shape[0]

    def _map(self, z: dict[str, Any]) -> NormalMap:
        if self.constant is not None:
            return self.constant
        return _map_of_value(self.name, self.given(z), quantiles=self.quantiles, standardise=False)

    def push(self, z: dict[str, Any], v: Array) -> Array:
        """Return the array that v is mapped to."""
        value = self._map(z).push(v).reshape(self.shape)
        return value if self.then is None else self.then(value, z)

    def restricted_to(self, compilable: Compilable, z: dict[str, jax.ShapeDtypeStruct]) -> "ConditionalMap":
        """Return this map, without quantile functions if they cannot be compiled."""
        return replace(ConditionalMap.build(self.name, self.given, z, compilable=compilable), then=self.then)

    def draw(self, z: dict[str, Any], rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw v (count, size) whose images follow the distribution, each row with its own parameters, (count, ...).

        They are standard normals, unless there is an excess.
        """
        if self.gaussian:
            return rng.standard_normal((count, self.size))
        keys = jax.random.split(jax.random.key(rng.integers(2**31)), count)
        return np.asarray(jax.vmap(lambda z, key: self._map(z).draw(key))(z, keys))

    @property
    def excess(self) -> Callable[[dict[str, Any], Array], Array] | None:
        """The non-Gaussian term of the potential, a function of (z, v), or None."""
        return None if self.gaussian else self._excess

    def _excess(self, z: dict[str, Any], v: Array) -> Array:
        excess = self._map(z).excess
        assert excess is not None
        return excess(v)


@dataclass(frozen=True)
class GroupMap(ConditionalMap):
    """The map to a value for each of several groups, (groups, ...), by turns the same map `each` of normals of its own.

    Of the parameters `beside` it, which have a value for each group too, a group takes its own.
    """

    each: Any = None
    groups: int = 0
    beside: frozenset[str] = frozenset()

    @property
    def told_shape(self) -> str:
        return f"{self.shape}, a value for each of the groups that it varies by"

    @classmethod
    def of(cls, each: ConditionalMap, groups: int, beside: Iterable[str]) -> "GroupMap":
        shape, size = (groups, *each.shape), groups * each.size
        own = {"each": each, "groups": groups, "beside": frozenset(beside)}
        return cls(
            each.name,
            each.given,
            shape,
            size,
            each.gaussian,
            each.quantiles,
            support=each.support,
            asks=each.asks,
            **own,
        )

    def _of_each(self, function: Callable[..., Any], z: dict[str, Any], of_groups: Any) -> Any:
        """Apply a function of z and of something that each group has, to all groups."""
        axes = {name: 0 if name in self.beside else None for name in z}
        return jax.vmap(function, (axes, 0))(z, of_groups)

    def push(self, z: dict[str, Any], v: Array) -> Array:
        return self._of_each(self.each.push, z, v.reshape(self.groups, self.each.size))

    def draw(self, z: dict[str, Any], rng: np.random.Generator, count: int) -> np.ndarray:
        if self.gaussian:
            return rng.standard_normal((count, self.size))
        keys = jax.random.split(jax.random.key(rng.integers(2**31)), (count, self.groups))
        return np.asarray(jax.vmap(self._drawn)(z, keys))

    def _drawn(self, z: dict[str, Any], keys: Array) -> Array:
        return self._of_each(lambda z, key: self.each._map(z).draw(key), z, keys).reshape(-1)

    def _excess(self, z: dict[str, Any], v: Array) -> Array:
        return self._of_each(self.each._excess, z, v.reshape(self.groups, self.each.size)).sum()


def _support(given: Any) -> Any:
    """Return the constraint on a distribution's values, None if there is none or its bounds are traced."""
    if not isinstance(given, dist.Distribution):
        return None
    support: Any = given.support
    while hasattr(support, "base_constraint"):  # a constraint on each element by itself
        support = support.base_constraint
    return None if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(support)) else support


def is_function(given: Any) -> bool:
    return callable(given) and not isinstance(given, dist.Distribution)


def _map_of_value(name: str, given: Any, **options: bool) -> NormalMap:
    if isinstance(given, dist.Distribution):
        try:
            return normal_map(given, **options)
        except ModelError as error:
            raise ModelError(f"{name} cannot be used: {error}") from error
    if isinstance(given, Tracer):
        return fixed(given)
    if isinstance(given, list | tuple) and any(isinstance(part, dist.Distribution | Tracer) for part in given):
        maps = [_map_of_value(name, part, **options) for part in given]
        if any(m.shape for m in maps):
            raise ModelError(f"{name} is a list with a part that is not scalar; give one part per component")
        return product(maps)
    try:
        value = real_array(name, given, error=ModelError)
    except ModelError as error:
        raise ModelError(
            f"{name} gave {told(given)}; give a numpyro distribution, a function of z giving one, or an array"
        ) from error
    if not np.all(np.isfinite(value)):
        raise ModelError(f"{name} is not finite: {told(given)}")
    return fixed(value)
