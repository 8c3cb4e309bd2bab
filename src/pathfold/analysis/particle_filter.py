"""Estimates of log p(y_n | y_1, ..., y_{n-1}, z) by guided particles: the host's side of the filter."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data import Seen, TimeGrid
from pathfold.distributions.scale_mixture import PRECISIONS
from pathfold.engine import FilterEngine, GuidedEngine
from pathfold.engine.native.particles import Filtered, Particles, filter_particles
from pathfold.engine.status import CONVERGED, NOT_AFFINE
from pathfold.errors import ModelError, SettingsError
from pathfold.model import DiffusionModel, NoisyObservation
from pathfold.model.observation import no_density
from pathfold.model.row_constants import row_constants
from pathfold.sampling.progress import Counted
from pathfold.sampling.spread import spread
from pathfold.schemes import StrongOrder1p5

REPEATED = 5  # draws for which the filter runs twice more, to see how far the estimates are from each other
NO_STATES = np.zeros((0, 0, 0)), np.zeros((0, 0))
LOST = 10.0  # what counts as the variance where all particles are lost


@dataclass(frozen=True)
class Estimates:
    """How estimates of log p(y | z), the sums over time, vary with the particles alone."""

    particles: int
    variance: float

    @property
    def enough(self) -> int:
        """The number of particles with a variance of about one, to two digits; what there are if they have that."""
        if self.variance <= 1.0:
            return self.particles
        unit = 10 ** max(0, int(np.log10(self.particles * self.variance)) - 1)
        return unit * int(np.ceil(self.particles * self.variance / unit))

    def __str__(self) -> str:
        return (
            f"estimates of log p(y | z) by {self.particles} particles differ by about {np.sqrt(2 * self.variance):.1f} "
            f"from each other: take particles={self.enough}"
        )


class ParticleFilter:
    """A particle filter for a model and its data, with some number of particles."""

    def __init__(self, model: DiffusionModel, grid: TimeGrid, particles: int) -> None:
        _check_observation(model, grid)
        heavy = np.flatnonzero(model.heavy_tails())
        self.engine, self.particles = (FilterEngine if heavy.size else GuidedEngine)(model, grid), particles
        seen, nodes = self.engine.grid, self.engine.nodes
        known = seen.mask[nodes][:, heavy] & (seen.censored[nodes][:, heavy] == 0.0)
        self.heavy = np.where(known, heavy, -1)
        self.model = self.engine.model  # whose u is that of the compiled model

    @property
    def times(self) -> np.ndarray:
        """The times of the observations that are scored."""
        return self.engine.grid.ends[self.engine.nodes]

    @cached_property
    def _constants(self) -> np.ndarray:
        return row_constants(self.model, self.engine.grid, self.engine.nodes)

    def __call__(
        self,
        z: np.ndarray,
        seed: int | list[int],
        *,
        threads: int = 1,
        progress: Counted | None = None,
        deadline: float = np.inf,
    ) -> np.ndarray:
        """Return log densities (draw, observation) given parameters (draw, Z); -inf where all particles were lost.

        Each draw has a random stream of its own: what comes out does not depend on the number of threads. Draws that
        the `deadline`, a time of the monotonic clock, comes before are NaN.
        """
        ahead = np.full((len(z), len(self.engine.nodes)), np.nan)

        def run(draw: int) -> None:
            if time.monotonic() <= deadline:
                ahead[draw] = -np.inf
                self._filter(z[draw], seed, draw, ahead[draw])
                if progress is not None:
                    progress.advance()

        spread(run, len(z), threads)
        return ahead + self._constants

    def refuse_lost(self, lost: np.ndarray) -> None:
        """Raise SettingsError if all particles of a draw were lost on the way to any of the observations."""
        if lost.any():
            raise SettingsError(
                f"all particles of a draw were lost on the way to t = {self.times[np.argmax(lost)]:g}; give more than "
                f"{self.particles} particles"
            )

    def judged(self, z: np.ndarray, seed: int, *, threads: int = 1) -> Estimates:
        """Run twice for some of the parameters (draw, Z), with other particles than otherwise, and compare the sums."""
        some = np.repeat(np.linspace(0, len(z) - 1, REPEATED).astype(int), 2)
        first, second = self(z[some], [seed, 1], threads=threads).sum(axis=1).reshape(-1, 2).T
        with np.errstate(invalid="ignore"):
            halves = np.nan_to_num(0.5 * (first - second) ** 2, nan=LOST, posinf=LOST)
        return Estimates(self.particles, float(halves.mean()))

    def expected(self, z: np.ndarray, seed: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
        """Return states (observation, particle, X) that particles would have at each observation if it was unknown.

        And their weights (observation, particle), which sum to one; to nothing from where on all were lost. z (Z,) are
        the parameters of a draw, whose number gives it a random stream of its own.
        """
        nodes = len(self.engine.nodes)
        states = np.zeros((nodes, self.particles, self.engine.sizes.X))
        weights, ahead = np.zeros((nodes, self.particles)), np.zeros(nodes)
        self._filter(z, seed, draw, ahead, (states, weights))
        weights[~(np.isfinite(weights) & np.isfinite(states).all(axis=2))] = 0.0
        total = weights.sum(axis=1, keepdims=True)
        return states, np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)

    def final(self, z: np.ndarray, seed: int, *, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(y | z) (draw,), up to a constant, and one particle's state (draw, X) at the last observation.

        Parameters are (draw, Z). Of a draw all of whose particles were lost the density is -inf.
        """
        density, states = np.full(len(z), -np.inf), np.zeros((len(z), self.engine.sizes.X))

        def run(draw: int) -> None:
            ahead = np.zeros(len(self.engine.nodes))
            left, last, log_weights = self._filter(z[draw], seed, draw, ahead)
            if left:
                density[draw] = ahead.sum()
                states[draw] = last[self.chosen(log_weights, np.random.default_rng([seed, draw]))]

        spread(run, len(z), threads)
        return density, states

    @staticmethod
    def chosen(log_weights: np.ndarray, rng: np.random.Generator) -> int:
        """Choose a particle by its weight."""
        weights = np.exp(log_weights)
        return int(rng.choice(weights.size, p=weights / weights.sum()))

    def _filter(
        self,
        z: np.ndarray,
        seed: int | list[int],
        draw: int,
        ahead: np.ndarray,
        expected: tuple[np.ndarray, np.ndarray] = NO_STATES,
    ) -> tuple[bool, np.ndarray, np.ndarray]:
        """Fill the arrays; return whether particles are left, their last states and the logs of their weights."""
        e, count, columns = self.engine, self.particles, self.heavy.shape[1]
        rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(seed, spawn_key=(draw,))))
        point, states, log_weights = e.block("point"), np.zeros((count, e.sizes.X)), np.zeros(count)
        e.set("point", point, "theta", "z", z)
        particles = Particles(
            states,
            log_weights,
            kinds=np.zeros((count, columns)),
            chances=np.zeros((columns, len(PRECISIONS))),
            to_do=np.zeros(count, dtype=np.int64),
            spare=np.zeros_like(states),
        )
        blocks = (e.machine(), point, rng, e.pieces, e.starts, self.heavy)
        status = filter_particles(*blocks, particles, Filtered(ahead, *expected))
        if status == NOT_AFFINE:
            raise ModelError(
                "what is observed exactly is not an affine function of the noise of a fine step, which its density is "
                "computed by; use pf.EulerMaruyama(), or pf.StrongOrder1p5() with additive noise, observe a component "
                "of the state itself, or give the observation a small noise (pf.GaussianNoise)"
            )
        return status == CONVERGED, states, log_weights


def _check_observation(model: DiffusionModel, grid: TimeGrid) -> None:
    """Raise ModelError if the density of what is observed cannot be computed."""
    for _, part in model.observation.parts:
        if isinstance(part, NoisyObservation):
            raise no_density(part)
    exact = grid.mask & model.exactly_observed
    if exact[grid.ends == grid.starts].any():
        raise ModelError(
            "the initial state is observed exactly at the initial time, where no step leads to it; give initial_state "
            "these values and leave the observation out, or give it a small noise (pf.GaussianNoise)"
        )
    if exact.any() and not _is_reached(model, grid):
        other = "" if isinstance(model.scheme, StrongOrder1p5) else " use pf.StrongOrder1p5(), or"
        raise ModelError(
            "the noise of a fine step does not move all that is observed exactly, so that its density given the state "
            f"before is not known;{other} give the observation a small noise (pf.GaussianNoise)"
        )


def _is_reached(model: DiffusionModel, grid: TimeGrid) -> bool:
    """Return whether the noise of one step moves the exact rows independently of each other, at a prior draw."""
    exact, delta = np.flatnonzero(model.exactly_observed), float(np.median(grid.delta[grid.delta > 0.0]))
    Y = model.observation_dim
    seen = Seen(np.full(Y, 0.5), np.ones(Y), np.zeros(0), np.zeros(0))
    with jax.enable_x64(True):
        x, z, t = model.points()[1]

        def rows(v):
            after = model.scheme.step(model.sde, dict(z), jnp.asarray(x), v, delta, t)
            return model.observation.misfit(after, z, jnp.zeros(model.observation_noise_dim), t, seen)[exact]

        slopes = np.asarray(jax.jacfwd(rows)(jnp.zeros(model.noise_dim)))
    return np.linalg.matrix_rank(slopes) == len(exact)
