"""How the state is observed: y = h(x, z, w) with w ~ N(0, I_W) (paper, section 2)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.errors import ModelError
from pathfold.model.functions import as_float64, listed, result_shape, with_time


@dataclass(frozen=True)
class Observation(ABC):
    """An observation y = observe(x, z, w, t) at each observation time, with noise w ~ N(0, I_W)."""

    @property
    @abstractmethod
    def user_function(self) -> Callable[..., Any]:
        """What the user wrote, as a function of (x, z, t), or of (x, z, w, t) when it takes the noise."""

    @property
    def state_function(self) -> Callable[..., Array]:
        """The same in double precision."""
        return as_float64(self.user_function)

    def input_noise_dim(self) -> int | None:
        """The size of w where the state function takes it."""
        return None

    @abstractmethod
    def noise_dim(self, observation_dim: int) -> int:
        """W, when the state function returns Y values."""

    def exact(self, observation_dim: int) -> np.ndarray:
        """Which of the Y values are observed without noise."""
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

    @property
    def user_function(self):
        return with_time("the observation function", self.h, ("x", "z"))

    def noise_dim(self, observation_dim):
        return 0

    def exact(self, observation_dim):
        return np.ones(observation_dim, dtype=bool)

    def observe(self, x, z, w, t):
        return self.state_function(x, z, t)


@dataclass(frozen=True)
class GaussianNoise(Observation):
    """y = mean(x, z) + scale w with w ~ N(0, I_Y).

    `mean` may also take t. `scale` is a positive number, an array (Y,), a matrix (Y, Y) (then scale @ w), the name of a
    parameter, or a function of z or (z, t) giving one of these.
    """

    mean: Callable[..., Any]
    scale: Any

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
            values = [np.asarray(self._scale(*draw)) for draw in draws]
            mend = "give it a positive prior, or take jnp.exp(...)"
        else:
            try:
                values = [np.asarray(self.scale, np.float64)]
            except (TypeError, ValueError) as error:
                raise ModelError(
                    f"the observation scale is {self.scale!r}; give a positive number, an array, a parameter's name or "
                    "a function of z"
                ) from error
            shape, mend = values[0].shape, "give a positive number, or use pf.Noiseless(h)"
        if shape not in ((), (observation_dim,), (observation_dim, observation_dim)):
            raise ModelError(
                f"the observation scale has shape {shape}, expected (), ({observation_dim},) or "
                f"({observation_dim}, {observation_dim})"
            )
        for value in values:
            if len(shape) < 2 and not np.all(value > 0):
                raise ModelError(f"the observation scale is not positive ({value}); {mend}")
            if len(shape) == 2 and not np.linalg.matrix_rank(value) == observation_dim:
                raise ModelError("the observation scale is a singular matrix; give one of full rank")


@dataclass(frozen=True, init=False)
class NoisyObservation(Observation):
    """y = h(x, z, w) or h(x, z, w, t) with w ~ N(0, I) of size noise_dim."""

    h: Callable[..., Any]
    noise_size: int

    def __init__(self, h: Callable[..., Any], noise_dim: int):
        if isinstance(noise_dim, bool) or not isinstance(noise_dim, int) or noise_dim < 1:
            raise ModelError(f"NoisyObservation's noise_dim must be a positive integer, not {noise_dim!r}")
        object.__setattr__(self, "h", h)
        object.__setattr__(self, "noise_size", noise_dim)

    @property
    def user_function(self):
        return with_time("the observation function", self.h, ("x", "z", "w"))

    def input_noise_dim(self):
        return self.noise_size

    def noise_dim(self, observation_dim):
        return self.noise_size

    def observe(self, x, z, w, t):
        return self.state_function(x, z, w, t)
