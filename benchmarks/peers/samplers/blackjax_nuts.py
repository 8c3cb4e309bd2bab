"""BlackJAX's NUTS after its window adaptation, chains vectorised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import blackjax
import jax
import numpy as np
from blackjax.adaptation.base import get_filter_adapt_info_fn

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws, needs_a_density

PACKAGES = ("blackjax", "jax")
WARMUP = 500
SETTINGS = {"warmup": WARMUP, "target_acceptance_rate": 0.8, "mass matrix": "diagonal, adapted"}

refuses = needs_a_density


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    adaptation = blackjax.window_adaptation(
        blackjax.nuts, problem.log_density, adaptation_info_fn=get_filter_adapt_info_fn()
    )
    kernel = blackjax.nuts.build_kernel()

    def warm_up(key, q):
        (state, parameters), _ = adaptation.run(key, q, WARMUP)
        return state, (parameters["step_size"], parameters["inverse_mass_matrix"])

    def step(key, state, tuned):
        return kernel(key, state, problem.log_density, *tuned)

    return transitions(problem, chains, seed, warm_up, step)


def transitions(
    problem: Problem, chains: int, seed: int, warm_up: Callable[..., Any], step: Callable[..., Any]
) -> Iterator[Draws]:
    """One transition after another of all chains; `warm_up` gives a state and what was tuned."""
    key = jax.random.key(seed)
    starts = problem.starts(chains, seed)
    warmed = jax.jit(jax.vmap(warm_up))(jax.random.split(key, chains), starts)
    state, tuned = jax.block_until_ready(warmed)  # or its time would count as that of the first draw

    @jax.jit
    def one(i, state):
        keys = jax.random.split(jax.random.fold_in(key, i), chains)
        state, info = jax.vmap(step)(keys, state, tuned)
        values = jax.vmap(problem.values)(state.position[:, : problem.sizes[0]])
        return state, (values, info.is_divergent.sum(), info.num_integration_steps.sum())

    yield Draws(np.empty((chains, 0, len(problem.names))), warmup=True)
    i = 0
    while True:
        i += 1
        state, (values, diverging, steps) = one(i, state)
        yield Draws(np.asarray(values)[:, None], False, int(diverging), float(steps))
