"""Estimates of log p(y_n | y_1, ..., y_{n-1}, z) by guided particles: the host's side of the filter."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.analysis.ahead import Ahead, Estimates
from pathfold.analysis.predictive_scores import POOLED, Placed, normal_scores, placed
from pathfold.data import Seen, TimeGrid
from pathfold.distributions.scale_mixture import PRECISIONS
from pathfold.engine import FilterEngine, GuidedEngine
from pathfold.engine.native.particles import Filtered, Particles, filter_particles
from pathfold.engine.status import CONVERGED, NOT_AFFINE
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel, NoisyObservation
from pathfold.model.ensemble import Ensemble
from pathfold.model.memory import check_memory
from pathfold.model.observation import no_density
from pathfold.sampling.spread import spread
from pathfold.schemes import StrongOrder1p5

REPEATED = 5  # draws for which the filter runs twice more, to see how far the estimates are from each other
NO_STATES = np.zeros((0, 0, 0)), np.zeros((0, 0))
LOST = 10.0  # what counts as the variance where all particles are lost


class ParticleFilter(Ahead[GuidedEngine]):
    """A particle filter for a model and its data, with some number of particles."""

    method, told = "particles", "the particle filter"
    lost = "all particles of a draw were lost on the way to the observation"

    def __init__(self, model: DiffusionModel, grid: TimeGrid, particles: int) -> None:
        _check_observation(model, grid)
        heavy = np.flatnonzero(model.heavy_tails())
        engine = (FilterEngine if heavy.size else GuidedEngine)(model, grid)
        super().__init__(engine, grid)
        self.particles, self.remedy = particles, f"give more than {particles} particles"
        self.if_few = f"give more draws, or more than {particles} particles"
        self.heavy = np.where(self.known[:, heavy], heavy, -1)

    def residuals(self, z: np.ndarray, seed: int, *, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        known, model = self.known, self.model
        each = 8 * self.particles * len(known) * (2 * model.augmented_dim + 6 * model.observation_dim)
        check_memory("the residuals", each * min(threads, len(z)), "fewer particles or threads")
        every = 1 + len(z) * self.particles * len(known) // POOLED
        by_draw = spread(lambda draw: self._placed(z[draw], seed, draw, every), len(z), threads)
        by_column, expected = zip(*by_draw, strict=True)
        scores = np.full((len(z), *known.shape), np.nan)
        for j, draws in enumerate(zip(*by_column, strict=True)):
            scores[:, known[:, j], j] = normal_scores(draws)
        return scores, np.stack(expected)

    def _placed(self, z: np.ndarray, seed: int, draw: int, every: int) -> tuple[list[Placed], np.ndarray]:
        """Return where values of each column lie among those expected by a draw, and their means (observation, Y)."""
        rng = np.random.default_rng([seed, draw])
        states, weights = self.expected(z, seed, draw)
        self.refuse_lost(weights.sum(axis=1) == 0.0)
        values = self.grid.values[self.rows]
        drawn = np.moveaxis(self._observed(z, states.swapaxes(0, 1), rng), 0, 2)
        expected = np.einsum("np,nyp->ny", weights, np.where(weights[:, None] > 0.0, drawn, 0.0))
        uniform, columns = rng.random(values.shape), []
        for j, some in enumerate(self.known.T):
            columns.append(placed(values[some, j], drawn[some, j], weights[some], uniform[some, j], every=every))
        return columns, np.where(self.known, expected, np.nan)

    def _observed(self, z: np.ndarray, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw observations (particle, row, Y) of states (particle, row, X), which are followed by what varies."""
        model, grid, rows = self.model, self.grid, self.rows
        particles, count = states.shape[:2]
        shared = {name: np.asarray(value) for name, value in model.parameters.unflatten(z).items()}
        repeated = {name: np.broadcast_to(value, (particles, *value.shape)) for name, value in shared.items()}
        covariates = {name: each[grid.series_of_intervals[rows]] for name, each in model.covariates_of(grid).items()}
        ensemble = Ensemble(model, particles, count, repeated, model.own_of(states), covariates)
        return ensemble.observe(states[:, :, : model.state_dim], model.clocks_at(grid, rows), np.arange(count), rng)

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
        nodes = len(self.rows)
        states = np.zeros((nodes, self.particles, self.engine.sizes.X))
        weights, ahead = np.zeros((nodes, self.particles)), np.zeros(nodes)
        self._filter(z, seed, draw, ahead, (states, weights))
        weights[~(np.isfinite(weights) & np.isfinite(states).all(axis=2))] = 0.0
        total = weights.sum(axis=1, keepdims=True)
        return states, np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)

    def _densities(self, z: np.ndarray, seed: int | list[int], draw: int) -> np.ndarray:
        ahead = np.full(len(self.rows), -np.inf)
        self._filter(z, seed, draw, ahead)
        return ahead

    def _last(self, z: np.ndarray, seed: int, draw: int) -> tuple[float, np.ndarray]:
        ahead = np.zeros(len(self.rows))
        left, states, log_weights = self._filter(z, seed, draw, ahead)
        if not left:
            return -np.inf, states[0]
        return float(ahead.sum()), states[self.chosen(log_weights, np.random.default_rng([seed, draw]))]

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
