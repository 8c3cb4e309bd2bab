"""The functions of a model as the engine needs them: of flat arrays, and with their Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp

from pathfold.engine.records import Sizes
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel, GaussianNoise
from pathfold.program.matrices import lower_mirrored

LARGEST_HESSIAN = 4000  # entries of second derivatives that are written out
LARGEST_MATRIX = 30_000  # entries: at 120 states compiling takes minutes and a gigabyte


def check_size(n: Sizes) -> None:
    """Refuse what would take absurd time and memory to compile, before it does."""
    matrices = {
        f"the {n.X} states with {n.V} noises a step and {n.Z} parameters": n.X * (n.X + n.V + n.Z),
        f"the {n.Z} parameters": n.Z * n.U,
        f"the {n.Y} observed values a time": n.Y * (n.X + n.Y + n.Z + n.W),
    }
    for what, entries in matrices.items():
        if entries > LARGEST_MATRIX:
            raise ModelError(
                f"the model is too large: {what} make a matrix of derivatives with {entries:,} entries, and above "
                f"{LARGEST_MATRIX:,} it cannot be compiled in reasonable time and memory; use fewer of them (a coarser "
                "grid in space, a lower truncation, parameters shared between states)."
            )


@dataclass(frozen=True)
class ModelFunctions:
    """f, h, g_z, g_x0 of linear-time section 1, with z as a flat vector.

    The constraint rows of a node are its observations and, when the engine may condition on states (the paper's
    section 5.1), the state itself. Where the state is conditioned on, the observations see the given state and the next
    interval starts from it, so that the blocks on either side have nothing but the parameters in common.
    """

    model: DiffusionModel
    conditioned: bool = False

    def parameters(self, u):
        return self.model.parameters.push(u)

    def parameter_excess(self, u):
        excess = self.model.parameters.excess
        return 0.0 if excess is None else excess(u)

    def start(self, z, v0):
        return self.model.start(self.model.parameters.unflatten(z), v0)

    def start_excess(self, z, v0):
        return self.model.start_excess(self.model.parameters.unflatten(z), v0)

    def clock(self, t, inputs, slopes=None):
        """What the model's functions take for the time t; at nodes inputs have no slopes, nothing asks for them."""
        return self.model.clock(t, inputs, jnp.zeros_like(inputs) if slopes is None else slopes)

    def observe(self, z, x, w, t):
        return self.model.observe(self.model.parameters.unflatten(z), x, w, t)

    def mean_and_scale(self, z, x, t):
        """Of additive Gaussian noise, the scale as a matrix."""
        observation = self.model.observation
        assert isinstance(observation, GaussianNoise)
        state, named = self.model.in_series(self.model.parameters.unflatten(z), x)
        mean = observation.state_function(state, named, t)
        return mean, observation.scale_matrix(self.model.observation_dim, named, t)

    def noise_excess(self, z, x, w):
        return self.model.noise_excess(self.model.parameters.unflatten(z), x, w)

    def seen_state(self, x, y, mask):
        """The state that the observations and the next interval see: the given one where it is conditioned on."""
        return x + mask[-1] * (y[self.model.observation_dim :] - x) if self.conditioned else x

    def free(self, mask):
        """0 where the state is conditioned on, else 1."""
        return 1.0 - mask[-1] if self.conditioned else 1.0

    def rows(self, z, x, w, t, y, mask):
        """The constraint rows y_n(q) - y of a node, zero where masked."""
        predicted = self.observe(z, self.seen_state(x, y, mask), w, t)
        if self.conditioned:
            predicted = jnp.concatenate([predicted, x])
        return mask * (predicted - y)

    def row_jacobians(self, z, x, w, t, y, mask):
        """Derivatives of the rows with respect to z, x, w."""
        return jax.jacfwd(self.rows, argnums=(0, 1, 2))(z, x, w, t, y, mask)

    def of_arrays(self, n: Sizes, observation_noise: bool) -> list[tuple[Callable, tuple[tuple[int, ...], ...]]]:
        """All functions that kernels are made of, as functions of arrays of the given shapes."""
        z, x, t = (n.Z,), (n.X,), (n.IN,)

        def step(z, x, v, delta, t, inputs, slopes):
            return self.step(z, x, v, delta, self.clock(t, inputs, slopes))

        def rows(z, x, w, t, inputs, y, mask):
            return self.rows(z, x, w, self.clock(t, inputs), y, mask)

        def mean_and_scale(z, x, t, inputs):
            return self.mean_and_scale(z, x, self.clock(t, inputs))

        observed: list[tuple[Callable, tuple[tuple[int, ...], ...]]] = [(mean_and_scale, (z, x, (), t))]
        if observation_noise:
            observed = [(rows, (z, x, (n.W,), (), t, (n.Y,), (n.Y,))), (_real(self.noise_excess), (z, x, (n.W,)))]
        return [
            (self.parameters, ((n.U,),)),
            (_real(self.parameter_excess), ((n.U,),)),
            (self.start, (z, (n.V0,))),
            (_real(self.start_excess), (z, (n.V0,))),
            (step, (z, x, (n.V,), (), (), t, t)),
            *observed,
        ]

    # JAX keeps the traces of jitted functions: the kernels that share these trace them once.

    @cached_property
    def step(self):
        """x' = f(z, x, v; delta, t)."""
        return jax.jit(lambda z, x, v, delta, t: self.model.step(self.model.parameters.unflatten(z), x, v, delta, t))

    @cached_property
    def step_jacobians(self):
        """x', and E = df/dz, F = df/dx, Sv = df/dv."""
        jacobians = jax.jacfwd(self.step, argnums=(0, 1, 2))
        return jax.jit(lambda z, x, v, delta, t: (self.step(z, x, v, delta, t), *jacobians(z, x, v, delta, t)))

    def curvature(self, z, x, v, delta, t):
        """The gradient by (z, x, v) of <weight, [E, F, Sv]>, as terms to be added up: a function of the weights.

        Second derivatives being symmetric, each row of weights multiplies the Hessian of one component of f. A small
        model's Hessians are written out; those of a large one are mostly zeros, which would take long to find: there
        it is one gradient.
        """

        def step(zxv):
            z_, x_, v_ = jnp.split(zxv, (z.size, z.size + x.size))
            return self.step(z_, x_, v_, delta, t)

        zxv = jnp.concatenate([z, x, v])
        if x.size * zxv.size**2 > LARGEST_HESSIAN:
            return lambda weight: [jax.grad(lambda q: jnp.sum(weight * jax.jacfwd(step)(q)))(zxv)]
        hessian = jax.jacfwd(jax.jacfwd(step))(zxv)
        return lambda weight: (lower_mirrored(hessian[k]) @ weight[k] for k in range(x.size))


def _real(function: Callable) -> Callable:
    return lambda *args: jnp.asarray(function(*args), dtype=float)
