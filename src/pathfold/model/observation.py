"""Observations of the state: a constraint on the state and on W standard normals w (paper, section 2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.linalg import solve_triangular

from pathfold.data.real_arrays import real_array
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
    listed,
    result_shape,
    struct,
    try_twice,
    with_time,
)
from pathfold.model.kept import Kept
from pathfold.program.trace import computed

type Points = tuple[Any, list[dict[str, Any]], Any]
"""States (P, X), parameters of each, and the times of the values."""

MOST_NORMALS = 10**6  # that an observation may use: a larger number is surely a mistake


def no_density(observation: Any) -> ModelError:
    return ModelError(
        f"pf.{type(observation).__name__} has no density of what is observed given the state; write it as "
        "pf.Likelihood(f) or pf.GaussianNoise(mean, scale)"
    )


def _of_first(mask: Array, value: Array) -> Array:
    """Return the value at the first component that was observed, NaN at the others."""
    first = (mask > 0.0) & (jnp.cumsum(mask) == 1.0)
    return jnp.where(first, value, jnp.nan)


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
class GaussianNoise(StateFunction):
    """The observation y = mean(x, z) + scale w, with w of Y standard normals.

    Parameters
    ----------
    mean
        A function of (x, z), (x, z, t) or (x, z, t, inputs) that returns an array (Y,).
    scale
        A positive number, an array (Y,), a matrix (Y, Y) (then scale @ w), the name of a parameter, or a function of z,
        (z, t) or (z, t, inputs) that returns one of these. Zeros in an array mark components that are observed exactly.
    """

    mean: Callable[..., Any]
    scale: Any

    def of(self, state):
        mean = self.user_function
        return replace(self, mean=OfTime(lambda x, z, t: mean(state(x, z), z, t)))

    @property
    def user_function(self):
        return with_time("the observation mean", self.mean, ("x", "z"))

    @property
    def noise_dim(self):
        return self.dim

    @property
    def has_density(self):
        return True

    def observe(self, x, z, w, t):
        scale = self._scale(z, t)
        noise = scale @ w if scale.ndim == 2 else scale * w
        return self.state_function(x, z, t) + noise

    def misfit(self, x, z, w, t, seen):
        rows = super().misfit(x, z, w, t, seen)
        if not seen.any_censored:
            return rows
        return jnp.where(seen.censored != 0.0, self.censored_root(x, z, t, seen) + w, rows)

    def censored_root(self, x, z, t, seen):
        """Return the root of the likelihood of censored values; for the others it means nothing."""
        scale = self._scale(z, t)
        noise = dist.Normal(self.state_function(x, z, t), jnp.where(scale > 0.0, scale, 1.0))
        nothing = jnp.zeros(self.dim)
        return seen.split(noise, Split(nothing, nothing)).root

    def split(self, x, z, t, seen):
        """Return what rows and their volume come to in units of the noise, so that w is the same as in `misfit`."""
        mean, scale = self.state_function(x, z, t), self._scale(z, t)
        if scale.ndim == 2:
            factor = jnp.linalg.cholesky(self._joint_covariance(scale, seen))
            misfit = seen.mask * (mean - seen.value)
            return Split(solve_triangular(factor, misfit, lower=True), jnp.log(jnp.diag(factor)))
        exact = Split((mean - seen.value) / scale, jnp.log(scale) + jnp.zeros(self.dim))
        return seen.split(dist.Normal(mean, scale), exact)

    def log_density(self, x, z, t, seen):
        mean, scale = self.state_function(x, z, t), self._scale(z, t)
        if scale.ndim == 2:
            return _of_first(seen.mask, self._joint_log_density(mean, scale, seen))
        log_densities = dist.Normal(mean, scale).log_prob(seen.value)
        if seen.any_censored:
            log_densities = jnp.where(
                seen.censored != 0.0, -0.5 * self.censored_root(x, z, t, seen) ** 2, log_densities
            )
        return jnp.where(seen.mask > 0.0, log_densities, jnp.nan)

    def log_ranks(self, x, z, uniform, t, seen):
        scale = self._scale(z, t)
        if scale.ndim == 2:
            return super().log_ranks(x, z, uniform, t, seen)
        ranks = seen.log_ranks(dist.Normal(self.state_function(x, z, t), jnp.where(scale > 0.0, scale, 1.0)), uniform)
        return jnp.where(scale > 0.0, ranks, jnp.nan)

    def _joint_log_density(self, mean, scale, seen):
        """Return the joint log density of the observed components; the others count as standard normals at zero."""
        mask, covariance = seen.mask, self._joint_covariance(scale, seen)
        joint = dist.MultivariateNormal(jnp.zeros(self.dim), covariance).log_prob(mask * (seen.value - mean))
        return joint - jnp.sum(1.0 - mask) * dist.Normal().log_prob(0.0)

    def _joint_covariance(self, scale, seen):
        """Return the covariance of the observed components; the others have unit variance, apart from these."""
        mask = seen.mask
        return mask[:, None] * mask * (scale @ scale.T) + jnp.diag(1.0 - mask)

    def scale_matrix(self, z, t):
        """Return the scale as a matrix (Y, Y)."""
        scale = self._scale(z, t)
        return scale if scale.ndim == 2 else scale * jnp.eye(self.dim)

    def exact(self, draws):
        scales = [computed(self._scale, *draw) for draw in draws]
        if scales[0].ndim == 2:
            return np.zeros(self.dim, dtype=bool)
        return np.all([np.broadcast_to(scale == 0.0, self.dim) for scale in scales], axis=0)

    def check_values(self, data, at, kept, when):
        if not np.any(data.censored):
            return
        _, z, t = at()
        scale = np.asarray(self._scale(z[0], jax.tree.map(lambda clock: clock[0], t)))
        if scale.ndim == 2:
            raise DataError("censored values need independent noise, but the observation scale is a matrix; give (Y,)")
        if np.any(np.broadcast_to(scale == 0.0, self.dim) & np.any(data.censored, axis=0)):
            raise DataError("a censored value is of a component that is observed without noise; give it a scale")

    def _scale(self, z, t):
        if isinstance(self.scale, str):
            return z[self.scale]
        if callable(self.scale):
            return as_float64(with_time("the observation scale", self.scale, ("z",)))(z, t)
        return jnp.asarray(self.scale, jnp.float64)

    def check(self, z, t, draws):
        if isinstance(self.scale, str) and self.scale not in z:
            raise ModelError(f"the observation scale names parameter {self.scale!r}; the model has {listed(z)}")
        computes = callable(self.scale) and not isinstance(self.scale, dist.Distribution)
        if isinstance(self.scale, str) or computes:
            function = self._scale
            if computes:
                function = with_time("the observation scale", self.scale, ("z",))
            shape = result_shape("the observation scale", function, (z, t))
            try_twice("the observation scale", function, (z, t))
            values = [computed(self._scale, *draw) for draw in draws]
            remedy = "give it a positive prior, or take jnp.exp(...)"
        else:
            try:
                values = [real_array("the observation scale", self.scale, error=ModelError)]
            except ModelError as error:
                raise ModelError(
                    f"the observation scale is {told(self.scale)}; give a positive number, an array, a function of z "
                    "or the name of a parameter, which has its prior in parameters"
                ) from error
            shape, remedy = values[0].shape, "give a positive number, or use pf.Noiseless(h)"
        if shape not in ((), (self.dim,), (self.dim, self.dim)):
            raise ModelError(
                f"the observation scale has shape {shape}, expected (), ({self.dim},) or ({self.dim}, {self.dim})"
            )
        for value in values:
            if not np.all(np.isfinite(value)):
                raise ModelError(f"the observation scale is not finite ({told(value)}); {remedy}")
            if len(shape) < 2 and not (np.all(value >= 0) and np.any(value > 0)):
                raise ModelError(f"the observation scale is not positive ({value}); {remedy}")
            if len(shape) == 2 and not np.linalg.matrix_rank(value) == self.dim:
                raise ModelError("the observation scale is a singular matrix; give one of full rank")


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
