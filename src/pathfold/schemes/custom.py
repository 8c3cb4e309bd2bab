"""A scheme whose step is a function of the user's own."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from jax import Array

from pathfold.errors import ModelError, told
from pathfold.schemes.ito import time_arguments
from pathfold.schemes.scheme import Scheme

MOST_NORMALS = 10**6  # that a step may use: a larger number is surely a mistake


@dataclass(frozen=True, init=False)
class CustomScheme(Scheme):
    """A step of one's own: x' = step(x, z, v, delta, t) with v of noise_dim standard normals.

    The step does not use the drift and diffusion of the model: it alone defines the law of the states.

    Parameters
    ----------
    step
        A function of (x, z, v, delta, t) or (x, z, v, delta, t, inputs) that returns the state (X,) at t + delta.
    noise_dim
        How many standard normals a step uses.
    """

    step_function: Callable[..., Array]
    noise_size: int

    def __init__(self, step: Callable[..., Array], noise_dim: int):
        if not callable(step) or isinstance(step, type):
            raise ModelError(f"CustomScheme's step must be a function of (x, z, v, delta, t), not {told(step)}")
        if isinstance(noise_dim, bool) or not isinstance(noise_dim, int) or not 1 <= noise_dim <= MOST_NORMALS:
            raise ModelError(f"CustomScheme's noise_dim must be a positive integer, not {told(noise_dim)}")
        object.__setattr__(self, "step_function", step)
        object.__setattr__(self, "noise_size", noise_dim)

    def noise_dim(self, wiener_dim, state_dim):
        return self.noise_size

    def step(self, sde, z, x, v, delta, t):
        time = time_arguments(t)
        if len(inspect.signature(self.step_function).parameters) < 6:
            time = time[:1]
        return self.step_function(x, z, v, delta, *time)
