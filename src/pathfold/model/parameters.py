"""The named parameters z and their map z = g_z(u) from standard normals; those that vary between series."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from pathfold.data.covariates import Covariate
from pathfold.data.names import check_dimensions, check_name
from pathfold.data.real_arrays import real_array
from pathfold.errors import ModelError, told
from pathfold.model.conditional import ConditionalMap, GroupMap, is_function
from pathfold.model.functions import Compilable, listed, struct, told_support, traced


@dataclass(frozen=True)
class Varying:
    """A parameter of which every series of a panel, or every group of series, has its own value: a random effect.

    Parameters
    ----------
    prior
        A numpyro distribution, or a function of z that returns one; it may use parameters that the series share,
        others that vary between them, and covariates of the series.
    by
        The name of a covariate with levels: series of the same level share one value. The prior then may use what all
        series share, and what varies by the same covariate.
    """

    prior: Any
    by: str | None = None


@dataclass(frozen=True)
class Parameters:
    """Named parameters, each fixed or with its prior as a map of normals given other parameters.

    u is split over the parameters in the order of `names`; z as a vector is their values, flattened, in that order.
    They are computed in the order of `sequence`, each after those that its prior uses. If these are the parameters that
    vary, methods take the shared ones as `given`.
    """

    maps: dict[str, ConditionalMap]
    sequence: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.maps)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: m.shape for name, m in self.maps.items()}

    @property
    def size(self) -> int:
        """U, the number of standard normals."""
        return sum(m.size for m in self.maps.values())

    @property
    def z_size(self) -> int:
        """The number of scalars in z, fixed parameters included."""
        return sum(prod(shape) for shape in self.shapes.values())

    @cached_property
    def _parts(self) -> dict[str, slice]:
        """The slice of u that has the normals of each parameter, by name."""
        stops = np.cumsum([m.size for m in self.maps.values()], dtype=int).tolist()
        return {name: slice(stop - m.size, stop) for (name, m), stop in zip(self.maps.items(), stops, strict=True)}

    def _values(self, u: Array, given: Mapping[str, Any] | None) -> dict[str, Any]:
        values = dict(given or {})
        for name in self.sequence:
            values[name] = self.maps[name].push(values, u[self._parts[name]])
        return values

    def push(self, u: Array, given: Mapping[str, Any] | None = None) -> Array:
        """Return z as a vector, from u."""
        values = self._values(u, given)
        return jnp.concatenate([jnp.zeros(0), *(jnp.ravel(values[name]) for name in self.names)])

    @property
    def excess(self) -> Callable[..., Array] | None:
        """The non-Gaussian term of the potential of u, as a function of u and the given parameters, or None."""
        return self.excess_of(self.names)

    def excess_of(self, names: Sequence[str]) -> Callable[..., Array] | None:
        """The same of some of the parameters."""
        known = all(self.maps[name].gaussian for name in names)
        return None if known else lambda u, given=None: self._excess(names, u, given)

    def _excess(self, names: Sequence[str], u: Array, given: Mapping[str, Any] | None = None) -> Array:
        values = self._values(u, given)
        parts = [(self.maps[name].excess, self._parts[name]) for name in names]
        return jnp.sum(jnp.stack([excess(values, u[part]) for excess, part in parts if excess is not None]))

    @cached_property
    def latent(self) -> tuple[str, ...]:
        """Those whose prior is a law with parameters or one of groups, so that it belongs to the likelihood."""
        depending = set[str]()  # on normals
        found = list[str]()
        for name in self.sequence:
            m = self.maps[name]
            if m.size and (isinstance(m, GroupMap) or m.asks & depending):
                found.append(name)
            if m.size or m.asks & depending:
                depending.add(name)
        return tuple(found)

    @cached_property
    def latent_normals(self) -> np.ndarray:
        """Which of the normals u belong to latent parameters, (U,)."""
        return np.array([name in self.latent for name, m in self.maps.items() for _ in range(m.size)], dtype=bool)

    def structs(self) -> dict[str, jax.ShapeDtypeStruct]:
        return {name: struct(*shape) for name, shape in self.shapes.items()}

    def unflatten(self, z: Any) -> dict[str, Any]:
        """Return z as a dict, from the vector."""
        values, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + prod(shape)
            values[name] = z[start:stop].reshape(shape) if shape else z[start]
            start = stop
        return values


def check_values(values: Any, maps: Mapping[str, ConditionalMap]) -> None:
    """Raise ModelError unless these are values by name of known parameters, within the support of their priors."""
    if not isinstance(values, Mapping):
        raise ModelError(f"parameters must be a dict of name -> value, not {told(values)}")
    if unknown := [name for name in values if name not in maps]:
        raise ModelError(f"unknown parameter {listed(unknown)}; the model has {listed(maps)}")
    for name, given in values.items():
        _check_support(name, given, maps[name])


def read_value(name: str, given: Any, m: ConditionalMap, rows: tuple[int, ...] = ()) -> np.ndarray:
    """Return the user's value of a parameter for all rows, (*rows, ...): one for all of them, or one for each."""
    value = real_array(f"the values of parameter {name!r}", given, error=ModelError).astype(np.float64)
    every = (*rows, *m.shape)
    if value.shape not in (m.shape, every):
        each = f", or {every} with a row for each draw" if rows else ""
        raise ModelError(f"parameter {name!r} was given with shape {value.shape}, expected {m.told_shape}{each}")
    if not np.all(np.isfinite(value)):
        raise ModelError(f"parameter {name!r} was given as {told(value)}; give finite numbers")
    return np.broadcast_to(value, every)


def _check_support(name: str, given: Any, m: ConditionalMap) -> None:
    """Raise ModelError for numbers outside the prior's support; their shape may have axes before the parameter's own.

    An edge of the support is allowed: a scenario may have no noise, or a rate of zero.
    """
    value = real_array(f"the values of parameter {name!r}", given, error=ModelError).astype(np.float64)
    if m.support is None or value.shape[value.ndim - len(m.shape) :] != m.shape or not np.all(np.isfinite(value)):
        return
    with jax.enable_x64(True):
        inside = np.asarray(m.support(value))
    for edge in ("lower_bound", "upper_bound"):
        inside = inside | (value == getattr(m.support, edge, np.nan)) if inside.shape == value.shape else inside
    if not np.all(inside):
        raise ModelError(
            f"parameter {name!r} was given as {told(value[~inside] if inside.shape == value.shape else value)}, but "
            f"its prior has values that are {told_support(m.support)}; give such values, or the model another prior"
        )


def build_parameters(
    priors: Any, covariates: Mapping[str, Covariate] | None = None, *, compilable: Compilable | None = None
) -> tuple[Parameters, Parameters]:
    """Return the parameters that series share and those that each has of its own, from the user's name -> prior.

    What groups of series share is shared: a value for each level of the covariate that makes the groups.
    """
    if not isinstance(priors, Mapping):
        raise ModelError(f"parameters must be a dict of name -> distribution, not {told(priors)}")
    for name in priors:
        check_name("parameter", name, ModelError)
        if name in (covariates or {}):
            raise ModelError(f"{name!r} is the name of a parameter and of a covariate; give one of them another")
    building = _Building(dict(priors), dict(covariates or {}), compilable)
    for name in priors:
        building.add(name)
    maps = building.maps
    check_dimensions("parameter", {name: len(maps[name].shape) for name in priors}, ModelError)

    def those(varying: bool) -> Parameters:
        chosen = [name for name, prior in priors.items() if (_scope(prior) == OWN) == varying]
        return Parameters({name: maps[name] for name in chosen}, tuple(name for name in maps if name in chosen))

    return those(False), those(True)


SHARED, OWN = "shared", "own"  # the scope of a parameter, besides that of a group


def _scope(prior: Any) -> str | tuple[str, str]:
    """Return for what there is one value of a parameter: all series, each of them, or each level of a covariate."""
    if not isinstance(prior, Varying):
        return SHARED
    return OWN if prior.by is None else ("by", prior.by)


class _Building:
    """Builds the maps of the priors, each after those of the parameters that it uses."""

    def __init__(self, priors: dict[str, Any], covariates: dict[str, Covariate], compilable: Compilable | None) -> None:
        self.priors, self.covariates, self.compilable = priors, covariates, compilable
        self.maps: dict[str, ConditionalMap] = {}
        self.begun: list[str] = []  # priors being built: one that uses another of these closes a circle

    def add(self, name: str) -> None:
        if name in self.maps:
            return
        if name in self.begun:
            circle = [*self.begun[self.begun.index(name) :], name]
            raise ModelError(
                f"priors depend on each other in a circle: {' asks for '.join(map(repr, circle))}; give one of them a "
                "prior that does not"
            )
        self.begun.append(name)
        prior, what = self.priors[name], f"the prior of parameter {name!r}"
        varies = isinstance(prior, Varying)
        prior = prior.prior if varies else prior
        if is_function(prior) and not isinstance(prior, type):
            z = self._asked(name, what, prior)
            m = ConditionalMap.of_any_shape(what, _by_name(prior), z, compilable=self.compilable)
            m = replace(m, asks=frozenset(z) - {*self.covariates})
        else:
            _check_prior(name, prior)
            m = ConditionalMap.of_any_shape(what, prior, {}, compilable=self.compilable)
            if varies and m.size == 0:
                raise ModelError(
                    f"parameter {name!r} is pf.Varying, but {told(prior)} is the same for every series; give "
                    "pf.Varying a distribution"
                )
        if 0 in m.shape:
            raise ModelError(f"parameter {name!r} has shape {m.shape} and no entry; leave it out")
        self.begun.pop()
        self.maps[name] = m if _scope(self.priors[name]) in (SHARED, OWN) else self._of_groups(name, m)

    def _of_groups(self, name: str, m: ConditionalMap) -> GroupMap:
        """Return the map to the values of all levels of the covariate that makes the groups."""
        by = self.priors[name].by
        if not isinstance(by, str):
            raise ModelError(
                f"parameter {name!r} varies by {told(by)}; give by the name of one covariate, such as by='site', and "
                "for groups within groups a covariate whose levels are the pairs"
            )
        levels = self.covariates[by].levels if by in self.covariates else ()
        if not levels:
            raise ModelError(
                f"parameter {name!r} varies by {told(by)}, which is no covariate with levels; give the model "
                f"covariates={{{told(by)}: [...]}} with the names of all groups"
            )
        beside = [other for other, prior in self.priors.items() if _scope(prior) == ("by", by)]
        return GroupMap.of(m, len(levels), beside)

    def _asked(self, name: str, what: str, prior: Callable[..., Any]) -> dict[str, jax.ShapeDtypeStruct]:
        """Return the shapes of the parameters that a prior uses, having built these first."""
        asked: dict[str, jax.ShapeDtypeStruct] = {}

        def value(other: Any) -> Array:
            if other not in self.priors and other not in self.covariates:
                raise ModelError(
                    f"{what} asks for parameter {other!r}; the model has {listed([*self.priors, *self.covariates])}. "
                    "Give it a prior in parameters, or name it in covariates if it is one"
                )
            self._check_scope(name, what, other)
            if other in self.covariates:
                asked[other] = struct()
                return jnp.asarray(self.covariates[other].example(0))
            self.add(other)
            m = self.maps[other]
            asked[other] = struct(*(m.each.shape if isinstance(m, GroupMap) else m.shape))
            return jnp.zeros(asked[other].shape)

        def look() -> None:
            prior(_ByName(value, what))

        traced(what, look, ())
        return asked

    def _check_scope(self, name: str, what: str, other: str) -> None:
        """Raise ModelError if a prior asks for something that has several values where it is to have one."""
        own, theirs = _scope(self.priors[name]), OWN if other in self.covariates else _scope(self.priors[other])
        if theirs in (SHARED, own) or own == OWN:
            return
        if own == SHARED:
            raise ModelError(
                f"{what}, which all series share, asks for {other!r}, which varies between them; let it depend on "
                "parameters that are shared, or make it pf.Varying too"
            )
        if other == own[1]:
            raise ModelError(
                f"{what} asks for the covariate {other!r} itself, which makes its groups; let {name!r} be the same for "
                "all groups before the data, and use the covariate in a pf.Varying without by"
            )
        raise ModelError(
            f"{what}, which varies by {own[1]!r}, asks for {other!r}, which may differ between series of one group; "
            f"let {name!r} depend on what all series share, and combine the two in a pf.Varying without by"
        )


class _ByName(Mapping[str, Any]):
    """Parameters that can only be looked up by name, since it depends on the order of computing which there are."""

    def __init__(self, value: Callable[[Any], Any], what: str) -> None:
        self._value, self._what = value, what

    def __getitem__(self, name: str) -> Any:
        return self._value(name)

    def __iter__(self) -> Iterator[str]:
        raise ModelError(f"{self._what} goes through all of z; ask for parameters by name, z['name']")

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _by_name(prior: Callable[..., Any]) -> Callable[..., Any]:
    return lambda z: prior(_ByName(z.__getitem__, "a prior"))


def _check_prior(name: str, prior: Any) -> None:
    """Raise ModelError unless this is a distribution, or numbers that fix the parameter."""
    if isinstance(prior, dist.Distribution):
        return
    if isinstance(prior, int | float | complex | np.ndarray | np.number | jax.Array) and not isinstance(prior, bool):
        value = real_array(f"the values that parameter {name!r} is fixed to", prior, error=ModelError)
        if not np.all(np.isfinite(value)):
            raise ModelError(f"parameter {name!r} is fixed to {told(prior)}; give finite real numbers")
        return
    raise ModelError(
        f"the prior of parameter {name!r} is {told(prior)}; give a numpyro distribution such as dist.Normal(0.0, 1.0), "
        "a function of z giving one, or a number to fix the parameter"
    )
