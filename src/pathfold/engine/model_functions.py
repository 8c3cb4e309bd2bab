"""The functions of a model as the engine needs them: of flat arrays, and with their Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp

from pathfold.engine.records import Sizes
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel, Seen
from pathfold.program.matrices import lower_mirrored

LARGEST_HESSIAN = 4000  # entries of second derivatives that are written out
LARGEST_MATRIX = 30_000  # entries: at 120 states compiling takes minutes and a gigabyte


def check_size(n: Sizes) -> None:
    """Raise ModelError if the model would take absurd time and memory to compile."""
    matrices = {
        f"the {n.X} states with {n.V} noises per step and {n.Z} parameters": n.X * (n.X + n.V + n.Z),
        f"the {n.Z} parameters": n.Z * n.U,
        f"the {n.Y} observed values per time": n.Y * (n.X + n.Y + n.Z + n.W),
    }
    for what, entries in matrices.items():
        if entries > LARGEST_MATRIX:
            raise ModelError(
                f"the model is too large: {what} make a matrix of derivatives with {entries:,} entries, and above "
                f"{LARGEST_MATRIX:,} it cannot be compiled in reasonable time and memory; use fewer of them (a coarser "
                "grid in space, a lower truncation, parameters shared between states, fewer groups of series)."
            )


@dataclass(frozen=True)
class ModelFunctions:
    """The functions f, h, g_z, g_x0 of method.md, section 1, with z as a flat vector.

    The constraint rows of a node are its observations and, when the engine may condition on states (the paper's
    section 5.1), the state itself. Where the state is conditioned on, the observations see the given state and the next
    interval starts from it, so that the blocks on either side have nothing but the parameters in common.

    Of a tempered model the rows are the roots of likelihoods times a coldness, and noise (method.md, section 22).
    """

    model: DiffusionModel
    conditioned: bool = False
    tempered: bool = False

    def parameters(self, u):
        return self.model.parameters.push(u)

    def parameter_excess(self, u):
        excess = self.model.parameters.excess
        return 0.0 if excess is None else excess(u)

    def in_coordinates(self, centre, factor):
        """Return z and the excess as functions of what is sampled: q with u = m + L q if there is a metric, else u.

        The excess then has what distinguishes the prior of q from standard normals (method.md, section 7).
        """
        if not factor.size:
            return self.parameters, self.parameter_excess

        def excess(q):
            u = centre + factor @ q
            return self.parameter_excess(u) + 0.5 * (u @ u - q @ q)

        return lambda q: self.parameters(centre + factor @ q), excess

    def start(self, z, v0, covariates):
        return self.model.start(self._of_series(z, covariates), v0)

    def start_excess(self, z, v0, covariates):
        return self.model.start_excess(self._of_series(z, covariates), v0)

    def _of_series(self, z, covariates):
        """Return what z is to a series with these covariates (C,), by name."""
        by_name = {name: covariates[i] for i, name in enumerate(self.model.covariates)}
        return self.model.of_series(self.model.parameters.unflatten(z), by_name)

    def clock(self, t, forcing):
        """Return what the model's functions take as the time t of a step."""
        return self.model.clock(t, forcing)

    def node_clock(self, t, inputs):
        """Return what the model's functions take as the time t of a node."""
        return self.model.node_clock(t, inputs)

    def along(self, x, x_start):
        """Return a state within an interval, with what varies between series as the interval began with it.

        It is the same number; taken from there, whatever depends on it alone is computed once an interval.
        """
        return jnp.concatenate([x[: self.model.state_dim], x_start[self.model.state_dim :]])

    def seen_state(self, x, y, mask):
        """Return the state that observations and the next interval see: the given one where it is conditioned on."""
        return x + mask[-1] * (y[self.model.observation_dim :] - x) if self.conditioned else x

    def free(self, mask):
        """Return 0 where the state is conditioned on, else 1."""
        return 1.0 - mask[-1] if self.conditioned else 1.0

    def rows(self, z, x, w, t, seen, coldness=1.0):
        """Return the constraint rows of a node, zero where masked."""
        if self.tempered:
            misfit = coldness * self._split(z, x, t, seen).root + w
        else:
            misfit = self.model.misfit(*self._observed(z, x, w, t, seen))
        if self.conditioned:
            misfit = jnp.concatenate([misfit, x - seen.value[self.model.observation_dim :]])
        return jnp.where(seen.mask > 0.0, misfit, 0.0)  # what nobody looks at may be no number

    def node_excess(self, z, x, w, t, seen, coldness=1.0):
        """Return the part of the potential at a node besides 1/2 w.w."""
        if self.tempered:
            return coldness**2 * seen.of_observed(self._split(z, x, t, seen).remainder)
        return self.model.node_excess(*self._observed(z, x, w, t, seen))

    def loss(self, z, x, t, seen):
        """Return -log p(y) of what is seen at a node, up to a constant, as an array of one; of none if not tempered."""
        if not self.tempered:
            return jnp.zeros(0)
        split = self._split(z, x, t, seen)
        return seen.of_observed(0.5 * split.root**2 + split.remainder)[None]

    def _split(self, z, x, t, seen):
        return self.model.split(self.model.parameters.unflatten(z), x, t, seen)

    def _observed(self, z, x, w, t, seen):
        """Return a node as the observations see it: parameters by name, the state that counts, and their rows alone."""
        state = self.seen_state(x, seen.value, seen.mask)
        return self.model.parameters.unflatten(z), state, w, t, seen.part(slice(0, self.model.observation_dim))

    def row_jacobians(self, z, x, w, t, seen, coldness=1.0):
        """Return the derivatives of the rows with respect to z, x, w."""
        return jax.jacfwd(self.rows, argnums=(0, 1, 2))(z, x, w, t, seen, coldness)

    def of_arrays(self, n: Sizes, censored: int) -> list[tuple[Callable, tuple[tuple[int, ...], ...]]]:
        """Return all functions that kernels are made of, as functions of arrays, with the shapes of these."""
        z, x = (n.Z,), (n.X,)
        seen = ((), (n.IN,), (n.Y,), (n.Y,), (censored,), (censored,))

        def step(z, x, v, delta, t, forcing):
            return self.step(z, x, v, delta, self.clock(t, forcing))

        def rows(z, x, w, t, inputs, *seen):
            return self.rows(z, x, w, self.node_clock(t, inputs), Seen(*seen))

        def excess(z, x, w, t, inputs, *seen):
            return self.node_excess(z, x, w, self.node_clock(t, inputs), Seen(*seen))

        noise = self.model.observation_noise_dim
        return [
            (self.parameters, ((n.U,),)),
            (_real(self.parameter_excess), ((n.U,),)),
            (self.start, (z, (n.V0,), (n.C,))),
            (_real(self.start_excess), (z, (n.V0,), (n.C,))),
            (step, (z, x, (n.V,), (), (), (n.F,))),
            (rows, (z, x, (noise,), *seen)),
            (_real(excess), (z, x, (noise,), *seen)),
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
        """Return [E, F, Sv] and a function of weights: the gradient by (z, x, v) of <weight, [E, F, Sv]>, as terms.

        Weights are those of the states that move.

        Second derivatives being symmetric, each row of weights multiplies the Hessian of one component of f. A small
        model's Hessians are written out; those of a large one are mostly zeros, which would take long to find: there
        it is one gradient.
        """

        def jacobian(zxv):
            z_, x_, v_ = jnp.split(zxv, (z.size, z.size + x.size))
            found = jnp.concatenate(self.step_jacobians(z_, x_, v_, delta, t)[1:], axis=1)
            return found, found

        moving = self.model.state_dim
        zxv = jnp.concatenate([z, x, v])
        bent = zxv.size**2 - self.model.scheme.linear * (x.size + v.size) ** 2
        if x.size * bent > LARGEST_HESSIAN:
            gradient = jax.grad(lambda q, weight: jnp.sum(weight * jacobian(q)[0][:moving]))
            return jacobian(zxv)[0], lambda weight: [gradient(zxv, weight)]
        hessian, found = jax.jacfwd(jacobian, has_aux=True)(zxv)
        return found, lambda weight: (lower_mirrored(hessian[k]) @ weight[k] for k in range(moving))

    def step_curvature(self, z, x, v, delta, t, mu):
        """Return the Hessian of mu.f by (x, v)."""

        def step(xv):
            return self.step(z, xv[: x.size], xv[x.size :], delta, t)

        xv = jnp.concatenate([x, v])
        if x.size * xv.size**2 > LARGEST_HESSIAN:
            return lower_mirrored(jax.jacfwd(jax.grad(lambda q: mu @ step(q)))(xv))
        hessian = jax.jacfwd(jax.jacfwd(step))(xv)
        return sum(mu[k] * lower_mirrored(hessian[k]) for k in range(x.size))


def _real(function: Callable) -> Callable:
    return lambda *args: jnp.asarray(function(*args), dtype=float)
