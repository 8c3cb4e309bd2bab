"""Mici's constrained HMC on the manifold that pathfold uses, with its dense system and derivatives by JAX.

Derivatives are compiled here: those of Mici's own backend for JAX hand all that the reverse sweep keeps from JAX to
NumPy and back (for Ornstein-Uhlenbeck a step takes 55 ms with that, 33 ms with these). The system has the prior's
Gaussian flow (`GaussianDenseConstrainedEuclideanMetricSystem`), as pathfold by default; the sampler is the dynamic one
that Mici recommends, its step size adapted as Mici does by default.
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
WARMUP, PIECE = 50, 5  # iterations of a piece of the run
SETTINGS = {
    "warmup": WARMUP,
    "system": "GaussianDenseConstrainedEuclideanMetricSystem",
    "sampler": "DynamicMultinomialHMC",
}
TOLERANCE, MOST = 1e-9, 200  # of the search for a starting point


def refuses(problem: Problem) -> str | None:
    return None


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    system = mici.systems.GaussianDenseConstrainedEuclideanMetricSystem(**functions(problem))
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


def functions(problem: Problem) -> dict[str, Any]:
    """Density, constraint and their derivatives, as the system wants them: derivatives with the values below them."""
    jacobian = jax.jacrev(problem.constraint)
    density, constraint = jax.jit(problem.excess), jax.jit(problem.constraint)
    gradient = jax.jit(jax.value_and_grad(problem.excess))
    both = jax.jit(lambda q: (jacobian(q), problem.constraint(q)))
    product = jax.jit(jax.grad(lambda q, m: jnp.sum(m * jacobian(q))))

    def jacob_constr(q: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(each) for each in both(q))

    def mhp_constr(q: np.ndarray) -> tuple[Any, ...]:
        return lambda m: np.asarray(product(q, m)), *jacob_constr(q)

    return {
        "neg_log_dens": lambda q: float(density(q)),
        "grad_neg_log_dens": lambda q: tuple(np.asarray(each) for each in gradient(q)[::-1]),
        "constr": lambda q: np.asarray(constraint(q)),
        "jacob_constr": jacob_constr,
        "mhp_constr": mhp_constr,
    }


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
