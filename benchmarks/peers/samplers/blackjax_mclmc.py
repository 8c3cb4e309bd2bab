"""BlackJAX's adjusted microcanonical sampler, which its manual recommends for many dimensions, tuned as it says."""

from __future__ import annotations

from collections.abc import Iterator

import blackjax
import jax
from blackjax.mcmc.adjusted_mclmc_dynamic import make_random_trajectory_length_fn

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws, needs_a_density
from benchmarks.peers.samplers.blackjax_nuts import transitions

PACKAGES = ("blackjax", "jax")
TUNING = 5000  # of which the tuner uses a tenth in each of its two passes
SETTINGS = {"tuning": TUNING, "target": 0.9, "algorithm": "adjusted_mclmc_dynamic", "preconditioning": "diagonal"}

refuses = needs_a_density


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    kernel = blackjax.adjusted_mclmc_dynamic.build_kernel(
        integration_steps_fn=make_random_trajectory_length_fn(random_trajectory_length=True)
    )

    def warm_up(key, q):
        begin, tune = jax.random.split(key)
        state = blackjax.adjusted_mclmc_dynamic.init(q, problem.log_density, begin)
        state, parameters, _ = blackjax.adjusted_mclmc_find_L_and_step_size(
            mclmc_kernel=kernel,
            logdensity_fn=problem.log_density,
            num_steps=TUNING,
            state=state,
            rng_key=tune,
            target=SETTINGS["target"],
        )
        return state, parameters

    def step(key, state, tuned):
        return kernel(
            key,
            state,
            problem.log_density,
            tuned.step_size,
            inverse_mass_matrix=tuned.inverse_mass_matrix,
            integration_steps_params=(tuned.L / tuned.step_size,),
        )

    return transitions(problem, chains, seed, warm_up, step)
