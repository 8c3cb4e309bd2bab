"""Paths of the discretised model, and states that meet the observations, for all heuristics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data import Seen, TimeGrid
from pathfold.engine.model_functions import ModelFunctions

NODE_ITERATIONS = 50
FRACTIONS = 0.5 ** np.arange(10)  # of an iteration for the state of a node; the best is taken
TOLERANCE = 1e-6  # relative, of states and steps: the projection that follows does the rest


class Position(NamedTuple):
    """A position, of shapes (U), (K, V0), (N, W), (N, S, V), (N, X), for K series and N intervals."""

    u: Any
    v0: Any
    w: Any
    v: Any
    nodes: Any


@dataclass(frozen=True)
class Failure:
    """A failed heuristic: the stage that failed, the residual at each node, and a remedy."""

    stage: str
    residuals: np.ndarray
    remedy: str


type Attempt = Callable[[np.random.Generator], Position | Failure]


class Paths:
    """Paths of the discretised model on the grid, from standard normals."""

    def __init__(self, f: ModelFunctions, grid: TimeGrid) -> None:
        self.f, self.grid = f, grid
        self.shape = (len(grid.starts), grid.steps)
        self.begins = np.isin(np.arange(len(grid.starts)), grid.first)
        self.series = np.cumsum(self.begins) - 1
        self.covariates = np.array([*f.model.covariates_of(grid).values()]).T.reshape(len(grid.first), -1)
        self.times, ends = f.model.clocks(grid)
        bounds = (grid.censored, grid.upper) if grid.censored.any() else 2 * (np.zeros((len(grid.starts), 0)),)
        self.observed = (ends, Seen(grid.values, grid.mask.astype(float), *bounds))
        self.no_noise = np.zeros((len(grid.starts), f.model.observation_noise_dim))
        self.consistent = jax.jit(self._consistent)

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw u, v_0 and v from the prior."""
        m = self.f.model
        shapes = (m.parameters.size, (len(self.grid.first), m.start_dim), (*self.shape, m.noise_dim))
        u, v0, v = (rng.standard_normal(shape) for shape in shapes)
        return u, v0, v

    def initial_states(self, z, v0):
        """Return x_0 of the series that each interval belongs to, (N, X)."""
        return jax.vmap(self.f.start, (None, 0, 0))(z, v0, self.covariates)[self.series]

    def start_excess(self, z, v0):
        """Return the non-Gaussian term of the potential of v_0 for each series."""
        return jax.vmap(self.f.start_excess, (None, 0, 0))(z, v0, self.covariates)

    def beginnings(self, z, v0, nodes):
        """Return the state that each interval begins with, given the states at the nodes."""
        return jnp.where(self.begins[:, None], self.initial_states(z, v0), jnp.roll(nodes, 1, axis=0))

    def interval(self, z, x, v, delta, times):
        """Return the state after the steps of one interval."""
        return jax.lax.scan(lambda x, vt: (self.f.step(z, x, vt[0], delta, vt[1]), None), x, (v, times))[0]

    def nodes(self, z, v0, v):
        """Return the states at the nodes (paper: g_x)."""

        def advance(x, inputs):
            begins, x0, v, delta, times = inputs
            x = self.interval(z, jnp.where(begins, x0, x), v, delta, times)
            return x, x

        x0 = self.initial_states(z, v0)
        return jax.lax.scan(advance, x0[0], (self.begins, x0, v, self.grid.delta, self.times))[1]

    def _consistent(self, u, v0, v):
        """Move the states at the nodes to meet the observations; return them, and the misfit that is left at each.

        Where the path leaves the finite numbers its initial states take its place. Then

            x <- x - c H^+ (h(z, x, 0) - y), H = dh/dx,

        for linear h the paper's projection, otherwise its Gauss-Newton iteration, with c the best of 1, 1/2, 1/4, ...
        What varies between series stays what it was drawn to be.
        """
        z = self.f.parameters(u)
        path = self.nodes(z, v0, v)
        path = jnp.where(jnp.all(jnp.isfinite(path)), path, self.initial_states(z, v0))

        def node(augmented, w, t, seen):
            x, varying = jnp.split(augmented, [self.f.model.state_dim])

            def misfit(x):
                return self.f.rows(z, jnp.concatenate([x, varying]), w, t, seen)

            def size(x):
                return jnp.max(jnp.abs(misfit(x)))

            def improve(_, x):
                tries = x - FRACTIONS[:, None] * (jnp.linalg.pinv(jax.jacfwd(misfit)(x)) @ misfit(x))
                sizes = jax.vmap(size)(tries)
                return tries[jnp.argmin(jnp.where(jnp.isnan(sizes), jnp.inf, sizes))]

            x = jax.lax.fori_loop(0, NODE_ITERATIONS, improve, x)
            return jnp.concatenate([x, varying]), size(x)

        return jax.vmap(node)(path, self.no_noise, *self.observed)

    def draw_consistent(self, rng: np.random.Generator):
        """Return a prior draw (u, v_0, v) with states that meet the observations, or the Failure to find them."""
        q = self.draw(rng)
        nodes, misfits = jax.tree.map(np.asarray, self.consistent(*q))
        if not np.all(misfits <= TOLERANCE * (1.0 + np.abs(self.grid.values).max(axis=1))):
            stage = "no states were found that meet the observations without noise: they miss them by"
            return Failure(stage, misfits, "Check that the observation function can take the values observed")
        return *q, nodes
