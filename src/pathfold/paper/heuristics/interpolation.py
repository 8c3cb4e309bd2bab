"""Straight lines between states that meet the observations; every step is solved for its noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.errors import InitialisationError
from pathfold.paper.heuristics.prior_paths import TOLERANCE, Attempt, Failure, Paths, Position


def interpolation(paths: Paths) -> Attempt:
    f, grid, model = paths.f, paths.grid, paths.f.model

    def step(z, x, x_next, delta, t):
        """Solve x_next = m(z, x) + S(z, x) v; return v, how far f(z, x, v) is from that line, and from x_next."""
        noise = np.zeros(model.noise_dim)
        m, S = f.step(z, x, noise, delta, t), jax.jacfwd(f.step, argnums=2)(z, x, noise, delta, t)
        v = jnp.linalg.pinv(S) @ (x_next - m)
        reached = f.step(z, x, v, delta, t)
        scale = 1.0 + jnp.max(jnp.abs(x_next))
        return v, jnp.max(jnp.abs(m + S @ v - reached)) / scale, jnp.max(jnp.abs(x_next - reached)) / scale

    @jax.jit
    def solve(u, v0, nodes):
        z = f.parameters(u)
        start = paths.beginnings(z, v0, nodes)
        fractions = np.linspace(0.0, 1.0, grid.steps + 1)[:, None]
        path = start[:, None] + fractions * (nodes - start)[:, None]
        steps = jax.vmap(jax.vmap(step, (None, 0, 0, None, 0)), (None, 0, 0, 0, 0))
        return steps(z, path[:, :-1], path[:, 1:], grid.delta, paths.times)

    def attempt(rng):
        drawn = paths.draw_consistent(rng)
        if isinstance(drawn, Failure):
            return drawn
        u, v0, _, nodes = drawn
        v, bent, missed = jax.tree.map(np.asarray, solve(u, v0, nodes))
        if not np.all(np.isfinite(missed)):
            remedy = "Take more steps_per_interval or narrower priors"
            return Failure("steps of the straight path are not finite: they miss it by", missed.max(axis=1), remedy)
        if np.max(missed) > TOLERANCE:
            fault = "is not linear" if np.max(bent) > TOLERANCE else "has a lower rank"
            raise InitialisationError(
                "initial_states='interpolation' needs a step that is linear in its noise, with df/dv of full row rank; "
                f"that of pf.{type(model.scheme).__name__} with {model.wiener_dim} column(s) of diffusion for "
                f"{model.state_dim} state(s) {fault}: use 'adam-states' or 'descent'"
            )
        return Position(u, v0, paths.no_noise, v, nodes)

    return attempt
