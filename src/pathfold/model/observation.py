"""Observations of the state: a constraint on the state and on W standard normals w (paper, section 2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from pathfold.data.seen import Seen
from pathfold.distributions.roots import Split
from pathfold.distributions.scale_mixture import Kind
from pathfold.errors import DataError, ModelError, told
from pathfold.model.conditional import ConditionalMap
from pathfold.model.functions import (
    Compilable,
    OfTime,
    Struct,
    as_float64,
    result_shape,
    struct,
    try_twice,
    with_time,
)
from pathfold.model.kept import Kept

type Points = tuple[Any, list[dict[str, Any]], Any]
"""States (P, X), parameters of each, and the times of the values."""

MOST_NORMALS = 10**6  # that an observation may use: a larger number is surely a mistake


def no_density(observation: Any) -> ModelError:
    return ModelError(
        f"pf.{type(observation).__name__} has no density of what is observed given the state; write it as "
        "pf.Likelihood(f) or pf.GaussianNoise(mean, scale)"
    )


@dataclass(frozen=True)
class Observation(ABC):
    """An observation of the state at each observation time: W standard normals w and a constraint on x and w.

    The constraint is misfit(x, z, w, t, seen) = 0, with Y rows; `excess` has the further terms of the potential. `dim`
    is Y, known once the observation belongs to a model.
    """

    dim = 0

    def _of_size(self, dim: int) -> Self:
        """Return a copy with this Y."""
        sized = copy(self)
        object.__setattr__(sized, "dim", dim)
        return sized

    @abstractmethod
    def given(self, x: Struct, z: dict[str, Any], t: Any, *, compilable: Compilable | None = None) -> Self:
        """Return this observation for a model whose states, parameters and times have these structs."""

    @abstractmethod
    def of(self, state: Callable[..., Any]) -> Self:
        """Return the same observation of another state, y, with x = state(y, z)."""

    @property
    @abstractmethod
    def noise_dim(self) -> int:
        """W, the number of standard normals of one observation."""

    @abstractmethod
    def misfit(self, x: Array, z: dict[str, Any], w: Array, t: Any, seen: Seen) -> Array:
        """Return the rows of the constraint (Y,), which are zero if x and w give what was seen."""

    def excess(self, x: Array, z: dict[str, Any], w: Array, t: Any, seen: Seen) -> Array | float:
        """Return the terms of the potential at one node besides 1/2 w.w."""
        return 0.0

    @abstractmethod
    def chance(self, z: dict[str, Any], rng: np.random.Generator, count: int) -> Any:
        """Draw the random numbers that `drawn` takes, for `count` observations, each with its own of z (count, ...)."""

    @abstractmethod
    def drawn(self, x: Array, z: dict[str, Any], chance: Any, t: Any) -> Array:
        """Return a random observation (Y,) of one state."""

    @property
    def parts(self) -> list[tuple[slice, Observation]]:
        """The observations that this one consists of, with their columns."""
        return [(slice(0, self.dim), self)]

    def exact(self, draws: Sequence[tuple[dict[str, Any], Any]]) -> np.ndarray:
        """Mark those of the Y values that are observed without noise, judged at concrete (z, t)."""
        return np.zeros(self.dim, dtype=bool)

    @property
    def unit_rows(self) -> np.ndarray:
        """A mask of the Y rows whose noise has unit scale, whatever the unit of the data."""
        return np.zeros(self.dim, dtype=bool)

    def factors(self, x: Any, z: dict[str, Any], t: Any) -> np.ndarray:
        """Mark those of the Y values whose likelihood enters as a plain factor, given structs of x, z, t."""
        return np.zeros(self.dim, dtype=bool)

    @property
    def has_density(self) -> bool:
        """True if the values have a density given the state, which the sampler without constraints needs."""
        return False

    def split(self, x: Array, z: dict[str, Any], t: Any, seen: Seen) -> Split:
        """Return the roots and remainders (Y,) of the likelihood; for missing values they mean nothing."""
        raise no_density(self)

    def heavy_tails(self, x: Any, z: dict[str, Any], t: Any) -> np.ndarray:
        """Mark those of the Y values whose law is guided to as a mixture of normals, given structs of x, z, t."""
        return np.zeros(self.dim, dtype=bool)

    def normal_laws(self, x: Any, z: dict[str, Any], t: Any) -> np.ndarray:
        """Mark those of the Y values whose law is normal, or a function of one that is, if rows are linear."""
        return np.ones(self.dim, dtype=bool)

    def of_kind(self, x: Array, z: dict[str, Any], w: Array, t: Any, seen: Seen, kind: Array) -> Kind:
        """Return rows (Y,) as of `misfit`, but normals of some kinds (Y,) for heavy tails, and log shares of these."""
        return Kind(self.misfit(x, z, w, t, seen), jnp.zeros(self.dim))

    def log_density(self, x: Array, z: dict[str, Any], t: Any, seen: Seen) -> Array:
        """Return log p of each value (Y,) given the state, all constants included.

        It is NaN where a value is missing. Values with a joint density have one number together, at the first of them,
        and NaN at the others.
        """
        raise no_density(self)

    def log_ranks(self, x: Array, z: dict[str, Any], uniform: Array, t: Any, seen: Seen) -> Array:
        """Return the logs of u and 1 - u (2, Y), with u uniform a priori given the state; NaN where it is not known.

        u is P(y' < y) + uniform P(y' = y), with y' another value of the same distribution.
        """
        return jnp.full((2, self.dim), jnp.nan)

    def check(self, z: dict[str, Any], t: Any, draws: Sequence[tuple[dict[str, Any], Any]]) -> None:
        """Raise ModelError for faults that shapes do not show, given structs of z, t and concrete draws."""

    def check_values(self, data: Seen, at: Callable[[], Points], kept: Kept, when: Callable[[int], str]) -> None:
        """Raise DataError for values (T, Y) that are impossible; `at()` gives states, parameters and times to try, and
        `when(row)` the time or date of a row in words.

        Compiled functions stay in `kept`, for the next series of a panel.
        """
        if np.any(data.censored):
            raise DataError(
                f"censored values need a likelihood with a cdf, such as pf.GaussianNoise or pf.Likelihood, not "
                f"pf.{type(self).__name__}"
            )


class StateFunction(Observation):
    """An observation y = observe(x, z, w, t): a function of the state and standard normals."""

    @property
    @abstractmethod
    def user_function(self) -> Callable[..., Any]:
        """The user's function as one of (x, z, t), or of (x, z, w, t) if it takes the noise."""

    @property
    def state_function(self) -> Callable[..., Array]:
        """The user's function with results in double precision."""
        return as_float64(self.user_function)

    def middle(self, x, z, t):
        """Return the observed values (Y,) without noise."""
        return self.state_function(x, z, t)

    def given(self, x, z, t, *, compilable=None):
        return self._of_size(self._checked_dim((x, z, t)))

    def _checked_dim(self, examples: tuple[Any, ...]) -> int:
        """Check the user's function and return Y."""
        shape = result_shape("the observation function", self.user_function, examples)
        if len(shape) != 1 or shape[0] == 0:
            raise ModelError(
                f"the observation function returned shape {shape}, expected (Y,): write one component as x[:1], "
                "several as jnp.array([...])"
            )
        try_twice("the observation function", self.user_function, examples)
        return shape[0]

    @abstractmethod
    def observe(self, x: Array, z: dict[str, Array], w: Array, t: Any) -> Array:
        """Return the observation y (Y,) of the state with noise w."""

    def misfit(self, x, z, w, t, seen):
        return self.observe(x, z, w, t) - seen.value

    def chance(self, z, rng, count):
        return rng.standard_normal((count, self.noise_dim))

    def drawn(self, x, z, chance, t):
        return self.observe(x, z, chance, t)


@dataclass(frozen=True)
class Noiseless(StateFunction):
    """The observation y = h(x, z), exactly.

    Parameters
    ----------
    h
        A function of (x, z), (x, z, t) or (x, z, t, inputs) that returns an array (Y,): one component is `x[:1]`.
    """

    h: Callable[..., Any]

    def of(self, state):
        h = self.user_function
        return replace(self, h=OfTime(lambda x, z, t: h(state(x, z), z, t)))

    @property
    def user_function(self):
        return with_time("the observation function", self.h, ("x", "z"))

    @property
    def noise_dim(self):
        return 0

    def exact(self, draws):
        return np.ones(self.dim, dtype=bool)

    def observe(self, x, z, w, t):
        return self.state_function(x, z, t)


@dataclass(frozen=True)
class NoisyObservation(StateFunction):
    """The observation y = h(x, z, w), with a random vector w that is drawn anew for every time.

    Parameters
    ----------
    h
        A function of (x, z, w), (x, z, w, t) or (x, z, w, t, inputs) that returns an array (Y,).
    noise
        The distribution of w, a list of scalar ones, a function of z that returns either, or a whole number: that many
        standard normals.
    """

    h: Callable[..., Any]
    noise: Any
    _map: ConditionalMap | None = None

    def __post_init__(self) -> None:
        n = self.noise
        normals = isinstance(n, int | np.integer) and not isinstance(n, bool) and 0 < n <= MOST_NORMALS
        listed = isinstance(n, dist.Distribution | list | tuple)
        if isinstance(n, type) or not (normals or listed or callable(n)):
            raise ModelError(
                f"NoisyObservation's noise is {told(n)}; give a distribution of w, a list of scalar ones, a function "
                "of z, or a positive integer, the number of standard normals"
            )

    def given(self, x, z, t, *, compilable=None):
        normals = isinstance(self.noise, int | np.integer)
        noise = dist.Normal(np.zeros(self.noise), 1.0) if normals else self.noise
        built = ConditionalMap.build("the observation noise", noise, z, compilable=compilable)
        if built.size == 0:
            raise ModelError(f"the observation noise, {told(self.noise)}, is not random; use pf.Noiseless(h)")
        return replace(self, _map=built)._of_size(self._checked_dim((x, z, struct(built.dim), t)))

    def of(self, state):
        h = self.user_function
        return replace(self, h=OfTime(lambda x, z, w, t: h(state(x, z), z, w, t)))

    @property
    def map(self) -> ConditionalMap:
        """The map of the noise, known once the observation belongs to a model."""
        assert self._map is not None
        return self._map

    @property
    def user_function(self):
        return with_time("the observation function", self.h, ("x", "z", "w"))

    @property
    def noise_dim(self):
        return self.map.size

    def excess(self, x, z, w, t, seen):
        excess = self.map.excess
        return 0.0 if excess is None else excess(z, w)

    def chance(self, z, rng, count):
        return self.map.draw(z, rng, count)

    def observe(self, x, z, w, t):
        return self.state_function(x, z, self.map.push(z, w), t)
