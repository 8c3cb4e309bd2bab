"""Particle marginal Metropolis-Hastings with `particles`: its adaptive random walk, and a bootstrap filter.

The transition of the state-space model is an interval of fine steps, compiled by JAX for all particles at once. The
number of particles is chosen as the literature and the package's manual advise, so that the log-likelihood has about
unit variance where the chains are after a pilot run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from particles import distributions, mcmc, state_space_models
from particles.smc_samplers import rec_to_dict

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws, needs_a_density

PACKAGES = ("particles", "jax")
PILOT, WARMUP, LONGEST = 150, 300, 200_000  # iterations
PARTICLES = (128, 4096)  # least, which the pilot run uses, and most
REPEATS, VARIANCE = 20, 1.5  # evaluations of the log-likelihood, and the variance they are to have
SETTINGS = {"pilot": PILOT, "warmup": WARMUP, "particles": "for a variance of 1.5", "filter": "bootstrap"}

refuses = needs_a_density


class Law(distributions.ProbDist):
    """Of all particles at once, by functions of the model."""

    def __init__(self, dim: int, rvs: Any = None, logpdf: Any = None) -> None:
        self.dim, self.rvs, self.logpdf = dim, rvs, logpdf


class Walk(mcmc.PMMH):
    def compute_post(self) -> None:
        """As in the package, which leaves an array of one where NumPy now wants a number."""
        self.prop.lpost[0] = self.prior.logpdf(self.prop.theta)[0]
        filtered = self.alg_instance(rec_to_dict(self.prop.theta[0]))
        filtered.run()
        self.prop.lpost[0] += filtered.logLt


def state_space_model(problem: Problem, rng: np.random.Generator) -> type[state_space_models.StateSpaceModel]:
    """A class whose parameters are u_0, u_1, ...; its state at time t is that at the node t of the grid."""
    m, U = problem.model, problem.sizes[0]
    values = jax.jit(problem.values)
    unflatten = m.parameters.unflatten
    start = jax.jit(jax.vmap(lambda z, v0: problem.start(unflatten(z), v0), (None, 0)))
    advance = jax.jit(jax.vmap(lambda z, x, v, n: problem.advance(unflatten(z), x, v, n), (None, 0, 0, None)))
    likely = jax.jit(jax.vmap(lambda z, x, n: problem.log_likelihood(unflatten(z), x, n), (None, 0, None)))

    class Discretised(state_space_models.StateSpaceModel):
        def __init__(self, **u: float) -> None:
            super().__init__(**u)
            self.z = values(np.array([u[f"u{i}"] for i in range(U)])) if u else None

        def _move(self, n: int, x: Any, size: int) -> np.ndarray:
            return np.asarray(advance(self.z, x, rng.standard_normal((size, problem.steps, m.noise_dim)), n))

        def _first(self, size: int) -> np.ndarray:
            return self._move(0, start(self.z, rng.standard_normal((size, m.start_dim))), size)

        def PX0(self) -> Law:
            return Law(m.state_dim, rvs=self._first)

        def PX(self, t: int, xp: Any) -> Law:
            return Law(m.state_dim, rvs=partial(self._move, t, xp))

        def PY(self, t: int, xp: Any, x: Any) -> Law:
            found = np.array(likely(self.z, x, t))
            return Law(m.observation_dim, logpdf=lambda y: np.where(np.isnan(found), -np.inf, found))

    return Discretised


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    np.random.seed(seed)  # noqa: NPY002, what the package itself draws from
    U = problem.sizes[0]
    prior = distributions.StructDist(OrderedDict((f"u{i}", distributions.Normal()) for i in range(U)))
    common = {
        "ssm_cls": state_space_model(problem, np.random.default_rng(seed)),
        "prior": prior,
        "data": list(problem.grid.values),
    }
    starts = problem.starts(chains, seed)[:, :U]
    read = jax.jit(jax.vmap(problem.values))
    empty = np.empty((chains, 0, len(problem.names)))

    pilots = [Walk(**common, niter=PILOT, Nx=PARTICLES[0], theta0=as_theta(prior, u)) for u in starts]
    for i in range(PILOT):
        advance(pilots, i)
        yield Draws(empty, warmup=True)
    last = np.concatenate([pilot.arr[PILOT // 2 :] for pilot in pilots])
    covariance = np.cov(last.T) + 1e-6 * np.eye(U)
    size = enough_particles(pilots[0], as_theta(prior, last.mean(axis=0)))

    walks = [
        Walk(**common, niter=LONGEST, Nx=size, theta0=as_theta(prior, pilot.arr[-1]), rw_cov=covariance)
        for pilot in pilots
    ]
    for i in range(LONGEST):
        advance(walks, i)
        yield Draws(np.asarray(read(np.stack([walk.arr[i] for walk in walks])))[:, None], warmup=i < WARMUP)


def advance(walks: list[Walk], i: int) -> None:
    for walk in walks:
        walk.step(i) if i else walk.step0()


def as_theta(prior: Any, u: np.ndarray) -> np.ndarray:
    """One point as the package has it, a structured array of length 1."""
    theta = prior.rvs(size=1)
    for name, value in zip(theta.dtype.names, u, strict=True):
        theta[name] = value
    return theta


def enough_particles(pmmh: Walk, theta: np.ndarray) -> int:
    """The power of two with which the log-likelihood at theta has the variance, which falls as its inverse."""
    pmmh.Nx, least, most = 256, *PARTICLES
    found = []
    for _ in range(REPEATS):
        one = pmmh.alg_instance(rec_to_dict(theta[0]))
        one.run()
        found.append(one.logLt)
    variance = float(np.var(found)) if np.all(np.isfinite(found)) else np.inf
    return int(2 ** np.ceil(np.log2(np.clip(256 * variance / VARIANCE, least, most))))
