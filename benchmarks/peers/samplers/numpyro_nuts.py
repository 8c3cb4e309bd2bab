"""NumPyro's NUTS with its defaults, chains vectorised, which on one core is its fastest way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import jax
import numpy as np
from numpyro.infer import NUTS

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws, needs_a_density

PACKAGES = ("numpyro", "jax")
WARMUP = 500
SETTINGS = {"warmup": WARMUP, "target_accept_prob": 0.8, "max_tree_depth": 10, "mass matrix": "diagonal, adapted"}

refuses = needs_a_density


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    kernel = NUTS(potential_fn=lambda q: -problem.log_density(q))
    starts = jax.numpy.asarray(problem.starts(chains, seed))
    return transitions(kernel, chains, seed, starts, lambda q: problem.values(q[: problem.sizes[0]]))


def transitions(kernel: NUTS, chains: int, seed: int, starts: Any, values: Callable[[Any], Any]) -> Iterator[Draws]:
    """One transition after another of all chains; `values` gives the parameters of a position."""
    state = kernel.init(jax.random.split(jax.random.PRNGKey(seed), chains), WARMUP, starts)
    step, read = jax.jit(lambda state: kernel.sample(state, (), {})), jax.jit(jax.vmap(values))
    for i in count():
        state = step(state)
        yield Draws(
            np.asarray(read(state.z))[:, None], i < WARMUP, int(state.diverging.sum()), float(state.num_steps.sum())
        )
