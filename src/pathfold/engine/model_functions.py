"""The functions of a model as the engine needs them: of flat arrays, and with their Jacobians."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from pathfold.data import Seen
from pathfold.engine.records import Sizes
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel, GaussianNoise, Likelihood
from pathfold.program.matrices import lower_mirrored
from pathfold.program.programs import Applied, Program

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
    filtering: bool = False

    def parameters(self, u):
        return self.model.parameters.push(u)

    def parameter_excess(self, u):
        excess = self.model.parameters.excess
        return 0.0 if excess is None else excess(u)

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

    def rows_of_kind(self, z, x, w, t, seen, kind):
        """Return rows like these, but normals of some kinds (Y,) for what has heavy tails (method.md, section 19)."""
        return jnp.where(seen.mask > 0.0, self._of_kind(z, x, w, t, seen, kind).row, 0.0)

    def log_share(self, z, x, w, t, seen, kind):
        """Return the log of the share that these normals have of the mixtures."""
        return seen.of_observed(self._of_kind(z, x, w, t, seen, kind).log_share)

    def _of_kind(self, z, x, w, t, seen, kind):
        return self.model.of_kind(self.model.parameters.unflatten(z), x, w, t, seen, kind)

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

    def step(self, z, x, v, delta, t):
        """x' = f(z, x, v; delta, t)."""
        return self.model.step(self.model.parameters.unflatten(z), x, v, delta, t)

    def misfit(self, z, x, t, seen):
        """Return -log p(y | x, z) of what is seen: of Gaussian noise 1/2 |r|^2 + log|scale|, else by its root.

        Factors of p that depend on y alone are left out.
        """
        (x, named), total = self.model.in_series(self.model.parameters.unflatten(z), x, t), 0.0
        for columns, part in self.model.observation.parts:
            of_part = seen.part(columns)
            if isinstance(part, GaussianNoise):
                total += _gaussian_misfit(part, named, x, t, of_part)
            elif isinstance(part, Likelihood):
                split = part.split(x, named, t, of_part)
                total += of_part.of_observed(0.5 * split.root**2 + split.remainder)
        return total

    def programs(self, n: Sizes, censored: int) -> Programs:
        """Return all these functions as programs."""
        z, x, noise = (n.Z,), (n.X,), (self.model.observation_noise_dim,)
        seen = ((), (n.IN,), (n.Y,), (n.Y,), (censored,), (censored,))

        def rows(z, x, w, t, inputs, y, mask, kinds, upper, coldness):
            return self.rows(z, x, w, self.node_clock(t, inputs), Seen(y, mask, kinds, upper), coldness)

        def excess(z, x, w, t, inputs, y, mask, kinds, upper, coldness):
            return self.node_excess(z, x, w, self.node_clock(t, inputs), Seen(y, mask, kinds, upper), coldness)

        def loss(z, x, t, inputs, *seen):
            return self.loss(z, x, self.node_clock(t, inputs), Seen(*seen))

        def misfit(z, x, t, inputs, *seen):
            return self.misfit(z, x, self.node_clock(t, inputs), Seen(*seen))

        def of_kind(function):
            def run(z, x, w, t, inputs, y, mask, kinds, upper, kind):
                return function(z, x, w, self.node_clock(t, inputs), Seen(y, mask, kinds, upper), kind)

            return Program(run, (z, x, noise, *seen, (n.Y,))) if self.filtering else None

        return Programs(
            of=self,
            parameters=Program(self.parameters, ((n.U,),)),
            parameter_excess=Program(_real(self.parameter_excess), ((n.U,),)),
            start=Program(self.start, (z, (n.V0,), (n.C,))),
            start_excess=Program(_real(self.start_excess), (z, (n.V0,), (n.C,))),
            step=step_program(self, n.Z, n.X, n.V, n.F),
            rows=Program(rows, (z, x, noise, *seen, ())),
            node_excess=Program(_real(excess), (z, x, noise, *seen, ())),
            loss=Program(loss, (z, x, *seen)),
            misfit=Program(_real(misfit), (z, x, *seen)),
            rows_of_kind=of_kind(self.rows_of_kind),
            log_share=of_kind(self.log_share),
        )


def step_program(f: ModelFunctions, Z: int, X: int, V: int, F: int) -> Program:
    """Return the step as a program of (z, x, v, delta, t, forcing)."""

    def step(z, x, v, delta, t, forcing):
        return f.step(z, x, v, delta, f.clock(t, forcing))

    return Program(step, ((Z,), (X,), (V,), (), (), (F,)))


def _gaussian_misfit(noise: GaussianNoise, z, x, t, seen: Seen):
    mean, scale, mask = noise.state_function(x, z, t), noise.scale_matrix(z, t), seen.mask
    censored = 0.0
    if seen.any_censored:
        censored = seen.of_observed(0.5 * noise.censored_root(x, z, t, seen) ** 2)
        mask = mask * (seen.censored == 0.0)
    covariance = jnp.where(jnp.diag(mask == 0.0), 1.0, mask[:, None] * mask * (scale @ scale.T))
    factor = jnp.linalg.cholesky(covariance, symmetrize_input=False)
    away = solve_triangular(factor, mask * (seen.value - mean), lower=True)
    return 0.5 * (away @ away) + jnp.sum(jnp.log(jnp.diag(factor))) + censored


class Coordinates(NamedTuple):
    """What parameters are at the coordinates that are sampled (method.md, section 7)."""

    push: Applied
    factor: Any
    z: Any
    D: Any
    excess: Any
    excess_gradient: Any

    def contracted(self, weight):
        """Return the gradient by the coordinates of <weight, D>."""
        if not self.factor.size:
            return self.push.contracted((weight,), 0)[0]
        return self.factor.T @ self.push.contracted((weight @ self.factor.T,), 0)[0]


@dataclass(frozen=True)
class Programs:
    """The functions of a model as programs: what equations call with arrays of nodes."""

    of: ModelFunctions
    parameters: Program
    parameter_excess: Program
    start: Program
    start_excess: Program
    step: Program
    rows: Program
    node_excess: Program
    loss: Program
    misfit: Program
    rows_of_kind: Program | None  # of the particle filter alone
    log_share: Program | None

    def texts(self, *, density: bool) -> Iterator[str]:
        """Yield all that the programs are, for the key of a model; the misfit where a method needs the density."""
        for each in vars(self).values():
            if isinstance(each, Program) and (density or each is not self.misfit):
                yield each.text

    def in_coordinates(self, q, centre, factor) -> Coordinates:
        """Return what parameters are at what is sampled: q with u = m + L q if there is a metric, else u.

        The excess then has what distinguishes the prior of q from standard normals (method.md, section 7).
        """
        u = centre + factor @ q if factor.size else q
        push, excess = self.parameters(u), self.parameter_excess(u)
        D, value, gradient = push.jacobian(0), excess.value(), excess.jacobian(0)
        if factor.size:
            D, value, gradient = D @ factor, value + 0.5 * (u @ u - q @ q), factor.T @ (gradient + u) - q
        return Coordinates(push, factor, push.value(), D, value, gradient)

    def seen_state(self, x, y, mask):
        """Return the state that observations and the next interval see: the given one where it is conditioned on."""
        return self.of.seen_state(x, y, mask)

    def free(self, mask):
        """Return 0 where the state is conditioned on, else 1."""
        return self.of.free(mask)

    def along(self, x, x_start):
        """Return a state within an interval, with what varies between series as the interval began with it.

        It is the same number; taken from there, whatever depends on it alone is computed once an interval.
        """
        moving = self.of.model.state_dim
        return np.concatenate([x[:moving], x_start[moving:]])

    def step_at_rest(self, z, x, delta, t, forcing) -> tuple[Any, Any, Any]:
        """Return the step from x without noise, and its slopes by the state and by the noise."""
        at_rest = self.step(z, x, np.zeros(self.step.shapes[2]), delta, t, forcing)
        return at_rest.value(), at_rest.jacobian(1), at_rest.jacobian(2)


def curvature(step: Applied, weight: Any, moving: int) -> list[Any]:
    """Return the gradient by (z, x, v) of <weight, [E, F, Sv]>, as terms to be added up.

    Weights and Jacobians are those of the states that move. Second derivatives being symmetric, each row of weights
    multiplies the Hessian of one component of f. A small model's Hessians are written out; those of a large one are
    mostly zeros, which would take long to find: there it is one gradient.
    """
    z, x, v = (math.prod(shape) for shape in step.program.shapes[:3])
    if x * (z + x + v) ** 2 > LARGEST_HESSIAN:
        still = np.zeros((x - moving, z + x + v))
        weights = np.split(np.concatenate([weight, still]) if len(still) else weight, (z, z + x), axis=1)
        return [np.concatenate(step.contracted(weights, 0, 1, 2))]
    hessians = step.hessians(0, 1, 2)
    return [lower_mirrored(hessians[k]) @ weight[k] for k in range(moving)]


def contracted_hessian(of: Applied, weights: Any, *arguments: int) -> Any:
    """Return the Hessian of <weights, f> by these arguments, one after the other."""
    size = sum(math.prod(of.program.shapes[a]) for a in arguments)
    if weights.size * size**2 > LARGEST_HESSIAN:
        return lower_mirrored(of.contracted_hessian(weights, *arguments))
    hessians = of.hessians(*arguments)
    return sum((lower_mirrored(hessians[k]) * weights[k] for k in range(weights.size)), np.zeros((size, size)))


def _real(function: Callable) -> Callable:
    return lambda *args: jnp.asarray(function(*args), dtype=float)
