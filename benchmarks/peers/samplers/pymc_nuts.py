"""PyMC's own NUTS, on the log density as an operation that JAX computes (`pytensor.wrap_jax`).

Chains take turns, a transition each, where `pm.sample` on one core would finish one before it begins the next: so that
what the budget allows is spread over all chains. Metric, step sizes and tuning are those of its default.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import jax
import numpy as np
import pymc as pm
from pymc.step_methods.hmc.quadpotential import QuadPotentialDiagAdapt
from pytensor import wrap_jax

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws, needs_a_density

PACKAGES = ("pymc", "pytensor", "jax")
WARMUP = 500
SETTINGS = {"tune": WARMUP, "target_accept": 0.8, "init": "adapt_diag at prior draws"}

refuses = needs_a_density


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    starts = problem.starts(chains, seed)
    size = starts.shape[1]
    with pm.Model() as model:
        q = pm.Flat("q", shape=size)
        pm.Potential("log_density", wrap_jax(problem.log_density)(q))
    density = model.logp_dlogp_function(ravel_inputs=True)
    density.trust_input = True
    rngs = np.random.default_rng(seed).spawn(chains)
    points = [{"q": each} for each in starts]
    with model:
        steps = [
            pm.NUTS(
                potential=QuadPotentialDiagAdapt(size, starts.mean(axis=0), np.ones(size), 10, rng=rng),
                logp_dlogp_func=density,
                initial_point=point,
            )
            for rng, point in zip(rngs, points, strict=True)
        ]
    for step, rng in zip(steps, rngs, strict=True):
        step.setup_chain(rng, WARMUP, WARMUP)
    read = jax.jit(jax.vmap(problem.values))
    for i in count():
        if i == WARMUP:
            for step in steps:
                step.stop_tuning()
        points, statistics = zip(*(step.step(point) for step, point in zip(steps, points, strict=True)), strict=True)
        told = [each[0] for each in statistics]
        values = np.asarray(read(np.stack([point["q"][: problem.sizes[0]] for point in points])))
        diverging, made = (sum(each[name] for each in told) for name in ("diverging", "tree_size"))
        yield Draws(values[:, None], i < WARMUP, int(diverging), float(made))
