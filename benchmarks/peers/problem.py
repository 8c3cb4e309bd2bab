"""What every peer is given: a posterior, as functions in JAX.

All of them are made of the model's own functions on the time grid that pathfold uses (docs/method.md, section 1), so
that all peers draw from the same posterior: same priors, data, scheme and fine steps. Randomness is a vector of
standard normals, q = [u; v0; v] where observations have a density, and q = [u; v0; w; v] on the manifold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import pathfold as pf
from experiments.setting import FULL, Setting, problem
from pathfold.data import Seen, TimeGrid
from pathfold.example_models import EXAMPLES, lotka_volterra

TRIES = 100  # prior draws that a starting point is the best of


@dataclass(frozen=True, eq=False)
class Problem:
    """A model with data and S = `steps` fine steps an interval; call its functions with `jax.enable_x64(True)`."""

    model: pf.DiffusionModel
    data: pf.Observations
    steps: int

    @cached_property
    def grid(self) -> TimeGrid:
        return TimeGrid.build(self.data, steps_per_interval=self.steps)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.model.parameters.names)

    @property
    def exact(self) -> bool:
        """Whether something is observed without noise, so that observations have no density."""
        return not self.model.observation.has_density

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Of u, v0, w and v."""
        m, n = self.model, len(self.grid.starts)
        return m.parameters.size, m.start_dim, n * m.observation_noise_dim, n * self.steps * m.noise_dim

    def split(self, q) -> tuple[Any, Any, Any, Any]:
        """u, v0, w (N, W) and v (N, S, V); w is empty where q has none."""
        U, V0, W, V = self.sizes
        if len(q) == U + V0 + V:
            W = 0
        u, v0, w, v = jnp.split(q, np.cumsum((U, V0, W)))
        n = len(self.grid.starts)
        return u, v0, w.reshape(n, -1), v.reshape(n, self.steps, self.model.noise_dim)

    def named(self, u) -> dict[str, Any]:
        """Parameters by name."""
        return self.model.parameters.unflatten(self.values(u))

    def values(self, u):
        """Parameters as one vector."""
        return self.model.parameters.push(u)

    @cached_property
    def seen(self) -> Seen:
        nothing = np.zeros((len(self.grid.starts), 0))
        return Seen(self.grid.values, self.grid.mask.astype(float), nothing, nothing)

    def start(self, z, v0):
        return self.model.start(z, v0)

    def advance(self, z, x, v, n):
        """The state at node n from the one before and normals (S, V)."""
        delta, times = (jnp.asarray(each)[n] for each in (self.grid.delta, self.model.clocks(self.grid)[0]))
        return self._fine_steps(z, x, v, jnp.full(self.steps, delta), times)[0]

    def path(self, z, v0, v):
        """The states at the nodes (N, X), by one sequence of steps: JAX is slower with sequences of sequences."""
        count, S = len(self.grid.starts), self.steps
        delta, times = np.repeat(self.grid.delta, S), np.ravel(self.model.clocks(self.grid)[0])
        _, states = self._fine_steps(z, self.start(z, v0), v.reshape(count * S, -1), delta, times)
        return states[S - 1 :: S]

    def _fine_steps(self, z, x, v, delta, times):
        """The last state, and all of them, after fine steps from x."""

        def fine(x, given):
            x = self.model.step(z, x, *given)
            return x, x

        return jax.lax.scan(fine, x, (v, delta, times))

    def log_likelihood(self, z, x, n):
        """log p(y_n | x, z)."""
        seen = jax.tree.map(lambda each: jnp.asarray(each)[n], self.seen)
        return seen.of_observed(self.model.observation.log_density(x, z, jnp.asarray(self.grid.ends)[n], seen))

    def observed(self, z, x, n) -> dist.Distribution:
        """The distribution of y_n given the state, with independent components."""
        observation, t = self.model.observation, jnp.asarray(self.grid.ends)[n]
        if isinstance(observation, pf.GaussianNoise):
            return dist.Normal(observation.state_function(x, z, t), jnp.diag(observation.scale_matrix(z, t))).to_event(
                1
            )
        assert isinstance(observation, pf.Likelihood)
        return observation.f(x, z).to_event(1)

    def prior_excess(self, u, v0):
        """What the potential has besides the squares of normals, where a prior is no map of them."""
        excess = self.model.parameters.excess
        return self.model.start_excess(self.named(u), v0) + (0.0 if excess is None else excess(u))

    def log_density(self, q):
        """Of q = [u; v0; v], to a constant."""
        u, v0, _, v = self.split(q)
        z, nodes = self.named(u), jnp.arange(len(self.grid.starts))
        each = jax.vmap(lambda x, n: self.log_likelihood(z, x, n))(self.path(z, v0, v), nodes)
        return jnp.sum(each) - 0.5 * q @ q - self.prior_excess(u, v0)

    def constraint(self, q):
        """c(q) of q = [u; v0; w; v], one entry for each observed number."""
        return self._misfits(q)[0][np.flatnonzero(self.grid.mask)]

    def excess(self, q):
        """What the potential has besides 1/2 |q|^2 and the log-determinant, on the manifold."""
        u, v0, _, _ = self.split(q)
        return self._misfits(q)[1] + self.prior_excess(u, v0)

    def _misfits(self, q):
        u, v0, w, v = self.split(q)
        z = self.named(u)
        given = (self.path(z, v0, v), w, jnp.asarray(self.grid.ends), jax.tree.map(jnp.asarray, self.seen))
        rows = jax.vmap(lambda *node: self.model.misfit(z, *node))(*given)
        excess = jax.vmap(lambda *node: jnp.asarray(self.model.node_excess(z, *node), float))(*given)
        return rows.ravel(), jnp.sum(excess)

    def starts(self, chains: int, seed: int) -> np.ndarray:
        """For each chain the most probable of some prior draws (chains, Q), without w."""
        U, V0, _, V = self.sizes
        tries = np.random.default_rng(seed).standard_normal((chains, TRIES, U + V0 + V))
        found = np.array(jax.jit(lambda q: jax.lax.map(jax.vmap(self.log_density), q))(tries))
        found[~np.isfinite(found)] = -np.inf
        return tries[np.arange(chains), found.argmax(axis=1)]


def _example(name: str) -> Problem:
    example = EXAMPLES[name]
    data = example.data()
    assert isinstance(data, pf.Observations)
    return Problem(example.model(), data, example.steps_per_interval)


def _fitzhugh_nagumo(variance: float | None) -> Problem:
    """The paper's setting with noise, section 7.2; without noise on the same grid."""
    setting = Setting(
        model="fitzhugh_nagumo",
        sampler="static",
        splitting="gaussian",
        S=FULL.noise_S,
        T=FULL.base[2],
        sigma_y=None if variance is None else math.sqrt(variance),
        chains=4,
        warmup=0,
        draws=0,
        seed=1,
    )
    return Problem(*problem(setting), FULL.noise_S)


def _lotka_volterra() -> Problem:
    """Prey alone, seen with noise, so that every peer can express it."""
    model = lotka_volterra.noisy()
    return Problem(model, lotka_volterra.data(model), EXAMPLES["lotka_volterra"].steps_per_interval)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "Ornstein-Uhlenbeck": lambda: _example("ornstein_uhlenbeck"),
    "redstart counts": lambda: _example("redstart"),
    "SIR, influenza": lambda: _example("sir"),
    "Lotka-Volterra": _lotka_volterra,
    "Lorenz 63": lambda: _example("lorenz63"),
    "FitzHugh-Nagumo, variance 1e-1": lambda: _fitzhugh_nagumo(1e-1),
    "FitzHugh-Nagumo, variance 1e-2": lambda: _fitzhugh_nagumo(1e-2),
    "FitzHugh-Nagumo, variance 1e-4": lambda: _fitzhugh_nagumo(1e-4),
    "FitzHugh-Nagumo, exact": lambda: _fitzhugh_nagumo(None),
}
