"""dynestyx: NUTS on parameters and the path itself, its `LatentPathBuilder`.

A fine step of the schemes used here is Gaussian given the state, affine in its normals, and the path is the states
after every fine step; times are numbers of fine steps. What dynestyx does with the path is its own: it scores all
transitions at once, where a non-centred density has to go along the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynestyx as dsx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS, init_to_sample

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws, needs_a_density
from benchmarks.peers.samplers.numpyro_nuts import SETTINGS as NUTS_SETTINGS
from benchmarks.peers.samplers.numpyro_nuts import transitions

PACKAGES = ("dynestyx", "numpyro", "jax")
SETTINGS = NUTS_SETTINGS | {"path": "LatentPathBuilder"}

refuses = needs_a_density


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    kernel = NUTS(model(problem), init_strategy=init_to_sample)
    return transitions(kernel, chains, seed, None, lambda sites: problem.values(sites["u"]))


def model(problem: Problem) -> Callable[[], None]:
    S, grid, m = problem.steps, problem.grid, problem.model
    first = int(grid.delta[0] == 0.0)  # an observation of the initial state itself
    begins = jnp.asarray(m.clocks(grid)[0]).ravel()
    steps = np.arange(first * S + 1, len(grid.starts) * S + 1)
    seen = np.full((len(steps), m.observation_dim), np.nan)
    seen[S - 1 :: S] = grid.values[first:]
    times, values = jnp.asarray(steps, float), jnp.asarray(seen)

    def dynamics(z: dict[str, Any], x0: Any) -> dsx.DynamicalModel:
        def evolve(x: Any, u: Any, t_now: Any, t_next: Any) -> dist.Distribution:
            k = jnp.maximum(jnp.asarray(t_now).astype(int), first * S)  # dynestyx also tries time zero

            def step(v):
                return m.step(z, x, v, jnp.asarray(grid.delta)[k // S], begins[k])

            none = jnp.zeros(m.noise_dim)
            factor = jax.jacfwd(step)(none)
            return dist.MultivariateNormal(step(none), covariance_matrix=factor @ factor.T)

        return dsx.DynamicalModel(
            initial_condition=evolve(x0, None, times[0] - 1, times[0]),
            state_evolution=evolve,
            observation_model=lambda x, u, t: problem.observed(z, x, (jnp.asarray(t).astype(int) - 1) // S),
        )

    U, V0, _, _ = problem.sizes
    z = problem.named(jnp.zeros(U))
    missing = dsx.prepare_missing_observation_metadata(
        dynamics(z, problem.start(z, jnp.zeros(V0))), obs_times=times, obs_values=values
    )

    def parameters_and_path() -> None:
        z = problem.named(numpyro.sample("u", dist.Normal().expand([U]).to_event(1)))
        v0 = numpyro.sample("v0", dist.Normal().expand([V0]).to_event(1)) if V0 else jnp.zeros(0)
        x0 = problem.start(z, v0)
        if first:
            numpyro.factor("first", problem.log_likelihood(z, x0, 0))
        with dsx.LatentPathBuilder():
            dsx.sample("path", dynamics(z, x0), obs_times=times, obs_values=values, missing_obs_metadata=missing)

    return parameters_and_path
