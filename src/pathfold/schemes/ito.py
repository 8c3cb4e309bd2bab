"""The two operators of Ito calculus, by forward differentiation.

For dx = a(x, z, t) dt + sum_j b_j(x, z, t) dW_j and a smooth function f(x, z, t) of any output shape,

    df = L0 f dt + sum_j Lj f dW_j,
    L0 f = df/dt + a . grad f + 1/2 sum_j d^2 f [b_j, b_j],
    Lj f = b_j . grad f.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Literal

type StateFunction = Callable[..., Array]
"""A function of (x, z, t); t is a number, or the clock of a model with inputs."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Clock:
    """The time, with the values of the inputs at that time and their slopes, and the covariates, by name."""

    t: Any
    inputs: dict[str, Any]
    slopes: dict[str, Any]
    covariates: dict[str, Any] = field(default_factory=dict)


def time_arguments(t: Any) -> tuple[Any, ...]:
    """Return the arguments that the user's functions take for the time: t, or t and the inputs."""
    return (t.t, t.inputs) if isinstance(t, Clock) else (t,)


def _passing(t: Any) -> Any:
    """Return the derivative of the time, or of a clock, with respect to the time."""
    if isinstance(t, Clock):
        nothing = jax.tree.map(jnp.zeros_like, (t.slopes, t.covariates))
        return Clock(jnp.ones_like(t.t), t.slopes, *nothing)
    return jnp.ones_like(t)


@dataclass(frozen=True)
class SDE:
    """dx = drift(x, z, t) dt + diffusion(x, z, t) dW with drift (X,), diffusion (X, B) and z a dict of arrays."""

    drift: StateFunction
    diffusion: StateFunction


def time_slope(f: StateFunction, x: Any, z: Any, t: Any) -> Any:
    """Return df/dt at a fixed state; an input changes at its slope."""
    t = jax.tree.map(lambda part: jnp.asarray(part, float), t)
    return jax.jvp(lambda t: f(x, z, t), (t,), (_passing(t),))[1]


def depends(f: Callable[..., Any], x: Any) -> bool:
    """Tell whether a function of x alone is computed from x."""
    jaxpr = jax.make_jaxpr(f)(x).jaxpr
    reached = set(jaxpr.invars)
    for equation in jaxpr.eqns:
        if any(not isinstance(atom, Literal) and atom in reached for atom in equation.invars):
            reached.update(equation.outvars)
    return any(not isinstance(atom, Literal) and atom in reached for atom in jaxpr.outvars)


def time_operator(sde: SDE, f: StateFunction) -> StateFunction:
    """Return L0 f = df/dt + a . grad f + 1/2 sum_j d^2 f [b_j, b_j] as a function of (x, z, t)."""

    def operator(x, z, t):
        t = jax.tree.map(lambda part: jnp.asarray(part, x.dtype), t)
        a, b = sde.drift(x, z, t), sde.diffusion(x, z, t)
        _, result = jax.jvp(lambda x, t: f(x, z, t), (x, t), (a, _passing(t)))
        for j in range(b.shape[1]):
            result = result + 0.5 * _second_derivative(lambda x: f(x, z, t), x, b[:, j])
        return result

    return operator


def noise_operator(sde: SDE, j: int, f: StateFunction) -> StateFunction:
    """Return Lj f = b_j . grad f as a function of (x, z, t)."""

    def operator(x, z, t):
        return jax.jvp(lambda x: f(x, z, t), (x,), (sde.diffusion(x, z, t)[:, j],))[1]

    return operator


def _second_derivative(f: Callable[[Array], Array], x: Array, b: Array) -> Array:
    """Return d^2 f(x) [b, b], with the direction b held fixed."""
    return jax.jvp(lambda x: jax.jvp(f, (x,), (b,))[1], (x,), (b,))[1]
