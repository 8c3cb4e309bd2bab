"""dynestyx: its bootstrap particle filter and its adaptive Metropolis sampler.

The transition is an interval of fine steps; times are numbers of nodes. Its sampler evaluates the log-likelihood of the
current point again at every iteration, with the random numbers of the proposal's: that is what dynestyx does, and not
the pseudo-marginal algorithm, which keeps it; the draws are exact only in the limit of many particles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import dynestyx as dsx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from dynestyx.inference.configs.filter import PFConfig
from dynestyx.inference.configs.mcmc import AdaptiveMetropolisConfig
from dynestyx.inference.integrations.blackjax.adaptive_metropolis import adaptive_metropolis, resolve_proposal_scale
from numpyro import handlers
from numpyro.infer.util import log_density

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws, needs_a_density

PACKAGES = ("dynestyx", "blackjax", "cuthbert", "jax")
WARMUP, PARTICLES = 500, 256
SETTINGS = {"warmup": WARMUP, "particles": PARTICLES, "sampler": "AdaptiveMetropolis", "filter": "PFConfig"}

refuses = needs_a_density


class Node(dist.Distribution):
    """The state at node n given the one before, or at node 0: drawn and never scored."""

    support = dist.constraints.real_vector
    pytree_data_fields = ("z", "x", "n")
    pytree_aux_fields = ("problem",)

    def __init__(self, problem: Problem, z: dict[str, Any], x: Any, n: Any) -> None:
        self.problem, self.z, self.x, self.n = problem, z, x, n
        super().__init__(batch_shape=(), event_shape=(problem.model.state_dim,))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        drawn = jax.vmap(self._draw)(jax.random.split(key, int(np.prod(sample_shape))))
        return drawn.reshape(*sample_shape, *self.event_shape)

    def _draw(self, key: Any) -> Any:
        begin, move = jax.random.split(key)
        p, x = self.problem, self.x
        if x is None:
            x = p.start(self.z, jax.random.normal(begin, (p.sizes[1],)))
        return p.advance(self.z, x, jax.random.normal(move, (p.steps, p.model.noise_dim)), self.n)


def model(problem: Problem) -> Callable[[], None]:
    grid = problem.grid
    nodes = jnp.arange(len(grid.starts), dtype=float)

    def filtered() -> None:
        z = problem.named(numpyro.sample("u", dist.Normal().expand([problem.sizes[0]]).to_event(1)))
        dynamics = dsx.DynamicalModel(
            initial_condition=Node(problem, z, None, 0),
            state_evolution=lambda x, u, t_now, t_next: Node(problem, z, x, jnp.asarray(t_next).astype(int)),
            observation_model=lambda x, u, t: problem.observed(z, x, jnp.asarray(t).astype(int)),
        )
        with dsx.Filter(PFConfig(n_particles=PARTICLES)):
            dsx.sample("path", dynamics, obs_times=nodes, obs_values=jnp.asarray(grid.values))

    return filtered


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    U, filtered = problem.sizes[0], model(problem)
    settings = AdaptiveMetropolisConfig(num_samples=WARMUP, num_warmup=WARMUP, num_chains=chains)

    def algorithm(density_key: Any) -> Any:
        def density(u: Any) -> Any:
            found = log_density(handlers.seed(filtered, density_key), (), {}, {"u": u})[0]
            return jnp.where(jnp.isnan(found), -jnp.inf, found)

        return adaptive_metropolis(
            density,
            resolve_proposal_scale(jnp.asarray(settings.initial_proposal_scale), U),
            target_acceptance_rate=settings.target_acceptance_rate,
            adaptation_rate=settings.adaptation_rate,
            max_adaptation=settings.max_adaptation,
            num_warmup=WARMUP,
        )

    key = jax.random.key(seed)
    state = jax.vmap(algorithm(key).init)(jnp.asarray(problem.starts(chains, seed)[:, :U]))

    def step(key: Any, state: Any) -> Any:
        one, other = jax.random.split(key)
        return algorithm(other).step(one, state)[0]

    @jax.jit
    def transition(i: Any, state: Any) -> Any:
        state = jax.vmap(step)(jax.random.split(jax.random.fold_in(key, i), chains), state)
        return state, jax.vmap(problem.values)(state.position)

    for i in count():
        state, values = transition(i, state)
        yield Draws(np.asarray(values)[:, None], i < WARMUP)
