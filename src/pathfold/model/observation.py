"""How the state is observed: y = h(x, z, w), with w a map of W standard normals (paper, section 2)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from pathfold.errors import ModelError, told
from pathfold.model.arrays import real_array
from pathfold.model.conditional import ConditionalMap
from pathfold.model.functions import OfTime, as_float64, listed, result_shape, try_twice, with_time
from pathfold.model.parameters import Compilable

MOST_NORMALS = 10**6  # of one observation: more is a mistake


@dataclass(frozen=True)
class Observation(ABC):
    """An observation y = observe(x, z, w, t) at each observation time, with w of W standard normals."""

    def given(self, z: dict[str, Any], *, compilable: Compilable | None = None) -> Self:
        """This observation for a model with these parameters, told by their structs."""
        return self

    @abstractmethod
    def of(self, state: Callable[..., Any]) -> Self:
        """The same observation of another state, y, with x = state(y, z)."""

    @property
    @abstractmethod
    def user_function(self) -> Callable[..., Any]:
        """What the user wrote, as a function of (x, z, t), or of (x, z, w, t) when it takes the noise."""

    @property
    def state_function(self) -> Callable[..., Array]:
        """The same in double precision."""
        return as_float64(self.user_function)

    def input_noise_dim(self) -> int | None:
        """The size of the noise that the state function takes, if it does."""
        return None

    @property
    def noise_excess(self) -> Callable[[dict[str, Any], Array], Array] | None:
        """The non-Gaussian term of the potential of w at one node, a function of (z, w), or None."""
        return None

    def draw_noise(self, z: dict[str, Any], rng: np.random.Generator, count: int, size: int) -> np.ndarray:
        """Random w (count, size)."""
        return rng.standard_normal((count, size))

    @abstractmethod
    def noise_dim(self, observation_dim: int) -> int:
        """W, when the state function returns Y values."""

    def exact(self, observation_dim: int, draws: Sequence[tuple[dict[str, Any], Any]]) -> np.ndarray:
        """Which of the Y values are observed without noise, told from concrete (z, t)."""
        return np.zeros(observation_dim, dtype=bool)

    @abstractmethod
    def observe(self, x: Array, z: dict[str, Array], w: Array, t: Array) -> Array:
        """y, of shape (Y,)."""

    def check(
        self, observation_dim: int, z: dict[str, Any], t: Any, draws: Sequence[tuple[dict[str, Any], Any]]
    ) -> None:
        """Raise ModelError for what is wrong beyond the state function, given Y, structs of z, t and concrete draws."""


@dataclass(frozen=True)
class Noiseless(Observation):
    """y = h(x, z) or h(x, z, t), exactly."""

    h: Callable[..., Any]

    def of(self, state):
        h = self.user_function
        return replace(self, h=OfTime(lambda x, z, t: h(state(x, z), z, t)))

    @property
    def user_function(self):
        return with_time("the observation function", self.h, ("x", "z"))

    def noise_dim(self, observation_dim):
        return 0

    def exact(self, observation_dim, draws):
        return np.ones(observation_dim, dtype=bool)

    def observe(self, x, z, w, t):
        return self.state_function(x, z, t)


@dataclass(frozen=True)
class GaussianNoise(Observation):
    """y = mean(x, z) + scale w with w ~ N(0, I_Y).

    `mean` may also take t. `scale` is a positive number, an array (Y,), a matrix (Y, Y) (then scale @ w), the name of a
    parameter, or a function of z or (z, t) giving one of these. Zeros in an array mark components that are observed
    exactly.
    """

    mean: Callable[..., Any]
    scale: Any

    def of(self, state):
        mean = self.user_function
        return replace(self, mean=OfTime(lambda x, z, t: mean(state(x, z), z, t)))

    @property
    def user_function(self):
        return with_time("the observation mean", self.mean, ("x", "z"))

    def noise_dim(self, observation_dim):
        return observation_dim

    def observe(self, x, z, w, t):
        scale = self._scale(z, t)
        noise = scale @ w if scale.ndim == 2 else scale * w
        return self.state_function(x, z, t) + noise

    def scale_matrix(self, observation_dim, z, t):
        """The scale as a matrix (Y, Y)."""
        scale = self._scale(z, t)
        return scale if scale.ndim == 2 else scale * jnp.eye(observation_dim)

    def exact(self, observation_dim, draws):
        scales = [np.asarray(self._scale(*draw)) for draw in draws]
        if scales[0].ndim == 2:
            return np.zeros(observation_dim, dtype=bool)
        return np.all([np.broadcast_to(scale == 0.0, observation_dim) for scale in scales], axis=0)

    def _scale(self, z, t):
        if isinstance(self.scale, str):
            return z[self.scale]
        if callable(self.scale):
            return as_float64(with_time("the observation scale", self.scale, ("z",)))(z, t)
        return jnp.asarray(self.scale, jnp.float64)

    def check(self, observation_dim, z, t, draws):
        if isinstance(self.scale, str) and self.scale not in z:
            raise ModelError(f"the observation scale names parameter {self.scale!r}; the model has {listed(z)}")
        if isinstance(self.scale, str) or callable(self.scale):
            function = self._scale
            if callable(self.scale):
                function = with_time("the observation scale", self.scale, ("z",))
            shape = result_shape("the observation scale", function, (z, t))
            try_twice("the observation scale", function, (z, t))
            values = [np.asarray(self._scale(*draw)) for draw in draws]
            remedy = "give it a positive prior, or take jnp.exp(...)"
        else:
            try:
                values = [real_array("the observation scale", self.scale, error=ModelError)]
            except ModelError as error:
                raise ModelError(
                    f"the observation scale is {told(self.scale)}; give a positive number, an array, a parameter's "
                    "name or a function of z"
                ) from error
            shape, remedy = values[0].shape, "give a positive number, or use pf.Noiseless(h)"
        if shape not in ((), (observation_dim,), (observation_dim, observation_dim)):
            raise ModelError(
                f"the observation scale has shape {shape}, expected (), ({observation_dim},) or "
                f"({observation_dim}, {observation_dim})"
            )
        for value in values:
            if not np.all(np.isfinite(value)):
                raise ModelError(f"the observation scale is not finite ({told(value)}); {remedy}")
            if len(shape) < 2 and not (np.all(value >= 0) and np.any(value > 0)):
                raise ModelError(f"the observation scale is not positive ({value}); {remedy}")
            if len(shape) == 2 and not np.linalg.matrix_rank(value) == observation_dim:
                raise ModelError("the observation scale is a singular matrix; give one of full rank")


@dataclass(frozen=True)
class NoisyObservation(Observation):
    """y = h(x, z, w) or h(x, z, w, t) with a random vector w, drawn anew for every time.

    `noise` is the distribution of w, a list of scalar ones, a function of z giving either, or a whole number: so many
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

    def given(self, z, *, compilable=None):
        normals = isinstance(self.noise, int | np.integer)
        noise = dist.Normal(np.zeros(self.noise), 1.0) if normals else self.noise
        built = ConditionalMap.build("the observation noise", noise, z, compilable=compilable)
        if built.size == 0:
            raise ModelError(f"the observation noise, {told(self.noise)}, is not random; use pf.Noiseless(h)")
        return replace(self, _map=built)

    def of(self, state):
        h = self.user_function
        return replace(self, h=OfTime(lambda x, z, w, t: h(state(x, z), z, w, t)))

    @property
    def map(self) -> ConditionalMap:
        """Of the noise; there is one once the observation belongs to a model."""
        assert self._map is not None
        return self._map

    @property
    def user_function(self):
        return with_time("the observation function", self.h, ("x", "z", "w"))

    def input_noise_dim(self):
        return self.map.dim

    def noise_dim(self, observation_dim):
        return self.map.size

    @property
    def noise_excess(self):
        return self.map.excess

    def draw_noise(self, z, rng, count, size):
        return self.map.draw(z, rng, count)

    def observe(self, x, z, w, t):
        return self.state_function(x, z, self.map.push(z, w), t)
