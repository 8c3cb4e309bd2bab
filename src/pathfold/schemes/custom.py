"""A step function of the user's own."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from jax import Array

from pathfold.errors import ModelError
from pathfold.schemes.ito import time_arguments
from pathfold.schemes.scheme import Scheme


@dataclass(frozen=True, init=False)
class CustomScheme(Scheme):
    """x' = step(x, z, v, delta, t), or step(x, z, v, delta, t, inputs), with v ~ N(0, I) of size noise_dim.

    The drift and diffusion of the model are not used by the step; its law is whatever the user wrote.
    """

    step_function: Callable[..., Array]
    noise_size: int

    def __init__(self, step: Callable[..., Array], noise_dim: int):
        if not callable(step):
            raise ModelError(f"CustomScheme's step must be a function of (x, z, v, delta, t), not {step!r}")
        if isinstance(noise_dim, bool) or not isinstance(noise_dim, int) or noise_dim < 1:
            raise ModelError(f"CustomScheme's noise_dim must be a positive integer, not {noise_dim!r}")
        object.__setattr__(self, "step_function", step)
        object.__setattr__(self, "noise_size", noise_dim)

    def noise_dim(self, wiener_dim):
        return self.noise_size

    def step(self, sde, z, x, v, delta, t):
        time = time_arguments(t)
        if len(inspect.signature(self.step_function).parameters) < 6:
            time = time[:1]
        return self.step_function(x, z, v, delta, *time)
