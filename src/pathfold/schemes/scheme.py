"""The interface of a discretisation: one step x' = f_delta(z, x, v) driven by standard normals v (paper, section 2)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.errors import ModelError
from pathfold.schemes.ito import SDE

type Point = tuple[Any, dict[str, Any], Any]
"""A concrete (x, z, t)."""
type Halves = Callable[..., tuple[Any, Any]]
"""The noise of two half steps, as a function of (sde, z, x, v, fresh, delta, t) of one step."""


@dataclass(frozen=True)
class Scheme(ABC):
    """A forward operator x' = step(sde, z, x, v, delta, t), with v ~ N(0, I) of size noise_dim(B, X).

    `weak_order` is the order at which the laws of the states converge, and so posteriors: steps of half the length make
    the error 2^-order times as large. It is None where it is not known. An `explicit` step overshoots, by more each
    time, where the drift pulls back faster than the step is short. A `linear` step is, given the parameters, linear in
    the state and in the noise, where the diffusion does not depend on the state.
    """

    weak_order: ClassVar[float | None] = None
    explicit: ClassVar[bool] = True
    linear: ClassVar[bool] = False

    @abstractmethod
    def noise_dim(self, wiener_dim: int, state_dim: int) -> int:
        """Return V, the number of standard normals of a step when the Wiener process has B components, the state X."""

    @abstractmethod
    def step(self, sde: SDE, z: dict[str, Array], x: Array, v: Array, delta: Any, t: Any) -> Array:
        """Return x(t + delta) from x(t) = x."""

    def loading(self, sde: SDE, z: dict[str, Array], x: Array, t: Any) -> Array:
        """Return (X, L), by which the first L of the normals enter a short step, over the root of its length."""
        return sde.diffusion(x, z, t)

    def halve(
        self, v: np.ndarray, fresh: np.ndarray, at_steps: Callable[[Halves], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the noise of two half steps along the Wiener path of a step with noise v (..., V), None if not known.

        `fresh` are standard normals of the same shape, for what v does not determine. If v is standard normal, so are
        the halves. Where they depend on the model, `at_steps` applies a function of one step to all of them.
        """
        return None

    def part(
        self, sde: SDE, z: dict[str, Array], x: Array, v: Array, fresh: Array, delta: Any, t: Any, share: Any
    ) -> Array:
        """Return the noise of a step from x over the first `share` of the length of a step with noise v (V,).

        If v and `fresh` are standard normals, so is it. The two steps follow one path of the process that drives them.
        """
        raise ModelError(
            f"{type(self).__name__} does not say how the path goes on within a fine step: ask for times at which fine "
            "steps end, or take a scheme of pathfold's"
        )

    def check(self, sde: SDE, points: Sequence[Point]) -> None:
        """Raise ModelError if the SDE, evaluated at these points, is not one that the scheme is made for."""


def halve_increments(v: np.ndarray, fresh: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Halve noise that is the Wiener increment, dW = sqrt(delta) v, by a Brownian bridge."""
    return (v + fresh) / 2**0.5, (v - fresh) / 2**0.5


class ByIncrements(Scheme):
    """A scheme of which the noise of a step is the Wiener increment, dW = sqrt(delta) v."""

    def noise_dim(self, wiener_dim, state_dim):
        return wiener_dim

    def halve(self, v, fresh, at_steps):
        return halve_increments(v, fresh)

    def part(self, sde, z, x, v, fresh, delta, t, share):
        """By a Brownian bridge: W(s delta) = s W(delta) + sqrt(s (1 - s) delta) e."""
        return jnp.sqrt(share) * v + jnp.sqrt(1.0 - share) * fresh


def require_zero(residual: Callable[[Any, Any, Any], tuple[Array, Array]], points: Sequence[Point], fault: str) -> None:
    """Raise ModelError(fault) unless `residual` vanishes at the points.

    `residual(x, z, t)` gives (what must be zero, terms that set its scale). Points where either is not finite are left
    out; if none remains, nothing was checked, which is an error too.
    """
    evaluate, seen = jax.jit(residual), False
    for x, z, t in points:
        excess, scale = (np.asarray(value) for value in evaluate(x, z, t))
        if not (np.all(np.isfinite(excess)) and np.all(np.isfinite(scale))):
            continue
        seen = True
        if np.max(np.abs(excess), initial=0.0) > 1e-9 * np.max(np.abs(scale), initial=0.0):
            raise ModelError(fault)
    if not seen:
        raise ModelError(
            "the scheme could not be checked, since drift or diffusion, or a derivative of theirs, is not finite at "
            "any prior draw; give priors and an initial_state at which the model is defined, or use pf.EulerMaruyama()"
        )
