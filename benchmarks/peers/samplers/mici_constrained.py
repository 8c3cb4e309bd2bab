"""Mici's constrained HMC on the manifold that pathfold uses, with its dense system and derivatives by JAX.

The system has the prior's Gaussian flow (`GaussianDenseConstrainedEuclideanMetricSystem`), as pathfold by default; the
sampler is the dynamic one that Mici recommends, its step size adapted as Mici does by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import mici
import numpy as np

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws

PACKAGES = ("mici", "jax")
WARMUP, PIECE = 100, 5  # iterations of a piece of the run
SETTINGS = {
    "warmup": WARMUP,
    "system": "GaussianDenseConstrainedEuclideanMetricSystem",
    "sampler": "DynamicMultinomialHMC",
}
TOLERANCE, MOST = 1e-9, 200  # of the search for a starting point


def refuses(problem: Problem) -> str | None:
    return None


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    system = mici.systems.GaussianDenseConstrainedEuclideanMetricSystem(
        neg_log_dens=problem.excess, constr=problem.constraint, backend="jax"
    )
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(system)
    rng = np.random.default_rng(seed)
    sampler = mici.samplers.DynamicMultinomialHMC(system, integrator, rng)
    values = jax.jit(problem.values)

    def trace(state: Any) -> dict[str, Any]:
        return {"values": np.asarray(values(state.pos[: problem.sizes[0]]))}

    states: Any = [start(problem, rng) for _ in range(chains)]
    adapters = [mici.adapters.DualAveragingStepSizeAdapter()]
    warmup = WARMUP
    while True:
        states, traces, statistics = sampler.sample_chains(
            warmup, PIECE, states, adapters=adapters if warmup else [], trace_funcs=[trace], display_progress=False
        )
        steps, diverging = (sum(np.sum(each) for each in statistics[name]) for name in ("n_step", "diverging"))
        yield Draws(np.stack(traces["values"]), warmup > 0, int(diverging), float(steps))
        warmup = 0


def start(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """A prior draw moved onto the manifold by Gauss-Newton steps of least norm, shortened where they do not help."""

    @jax.jit
    def step(q):
        J = jax.jacrev(problem.constraint)(q)
        return -J.T @ jnp.linalg.solve(J @ J.T, problem.constraint(q))

    size = jax.jit(lambda q: jnp.max(jnp.abs(problem.constraint(q))))
    for _ in range(MOST):
        q = rng.standard_normal(sum(problem.sizes))
        for _ in range(MOST):
            misfit = float(size(q))
            if misfit < TOLERANCE:
                return q
            change, length = np.asarray(step(q)), 1.0
            while length > 1e-3 and not float(size(q + length * change)) < misfit:
                length /= 2
            if length <= 1e-3 or not np.isfinite(misfit):
                break
            q = q + length * change
    raise RuntimeError("no point that meets the data was found")
