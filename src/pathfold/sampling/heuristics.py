"""The paper's heuristics for a start (its appendix on chain initialisation): first guesses that `find_start` projects.

Two of them begin with states that meet the observations without observation noise, x~_n with h(z, x~_n, 0) = y_n: the
path of a prior draw, moved at each node by itself.

    interpolation   straight lines between these states; every step is solved for its noise, w = 0
    adam-states     the noise that leads from each of these states to the next, by Adam, w = 0
    adam            a high density of (u, v_0, v) under additive Gaussian observation noise, by Adam; w from the misfits

A guess depends on the model, the data, the seed and the number of the chain alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from pathfold.engine import Engine
from pathfold.engine.functions import ModelFunctions
from pathfold.errors import InitialisationError
from pathfold.model import GaussianNoise, TimeGrid, clocks
from pathfold.sampling.initialise import Guess, name_worst

Heuristic = Literal["interpolation", "adam", "adam-states"]

ATTEMPTS = 10  # prior draws that a heuristic begins with
STEP_SIZE, DECAYS, STABILITY = 0.1, (0.8, 0.999), 1e-8  # of Adam (paper, summary of algorithmic parameters)
DENSITY_ITERATIONS, STATES_ITERATIONS = 5000, 1000
MISFIT = 1.0  # Adam on the density ends with a mean square of the observation noise below this
GAP = 1e-6  # Adam towards states ends with a mean square of the gaps, relative to the states, below this
NODE_ITERATIONS = 50
FRACTIONS = 0.5 ** np.arange(10)  # of an iteration for the state of a node; the best is taken
TOLERANCE = 1e-6  # relative, of states and steps: the projection that follows does the rest


def guess_starts(engine: Engine, choice: Heuristic, seed: int, chains: Iterable[int]) -> dict[int, Guess]:
    """A guess for each of the chains; an InitialisationError when there is none."""
    with jax.enable_x64(True):
        attempt = _HEURISTICS[choice](_Paths(engine.functions, engine.grid))
        return {chain: _guess(engine, choice, attempt, seed, chain) for chain in chains}


def _guess(engine: Engine, choice: Heuristic, attempt: _Attempt, seed: int, chain: int) -> Guess:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain, 0)))
    for _ in range(ATTEMPTS):
        found = attempt(rng)
        if isinstance(found, _Position):
            point = engine.block("point")
            engine.set_vector(point, found.u, found.v0, found.w, found.v)
            engine.set("point", point, "node", "x_node", found.nodes)
            return Guess(point[: engine.block_sizes["vector"]].copy(), engine.record("point", point, "node").copy())
    residuals = name_worst(found.residuals, engine.grid.ends, engine.grid.first)
    raise InitialisationError(
        f"initial_states={choice!r} found no start for chain {chain} in {ATTEMPTS} prior draws. In the last one "
        f"{found.stage} {residuals}. {found.mend}, or leave initial_states at 'projection'"
    )


class _Position(NamedTuple):
    """Shapes (U), (K, V0), (N, W), (N, S, V), (N, X), for K series and N intervals."""

    u: Any
    v0: Any
    w: Any
    v: Any
    nodes: Any


@dataclass(frozen=True)
class _Failure:
    """What did not succeed, by how much at each node, and what to try."""

    stage: str
    residuals: np.ndarray
    mend: str


type _Attempt = Callable[[np.random.Generator], _Position | _Failure]


class _Paths:
    """Paths of the discretised model on the grid, from standard normals."""

    def __init__(self, f: ModelFunctions, grid: TimeGrid) -> None:
        self.f, self.grid = f, grid
        self.shape = (len(grid.starts), grid.steps)
        self.begins = np.isin(np.arange(len(grid.starts)), grid.first)
        self.series = np.cumsum(self.begins) - 1
        self.times, ends = clocks(f.model.inputs, grid)
        self.observed = (ends, grid.values, grid.mask.astype(float))
        self.no_noise = np.zeros((len(grid.starts), f.model.observation_noise_dim))
        self.consistent = jax.jit(self._consistent)

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u, v_0 and v from the prior."""
        m = self.f.model
        shapes = (m.parameters.size, (len(self.grid.first), m.initial_state.size), (*self.shape, m.noise_dim))
        u, v0, v = (rng.standard_normal(shape) for shape in shapes)
        return u, v0, v

    def initial_states(self, z, v0):
        """x_0 of the series that each interval belongs to, (N, X)."""
        return jax.vmap(self.f.start, (None, 0))(z, v0)[self.series]

    def beginnings(self, z, v0, nodes):
        """The state each interval begins with, when these are the states at the nodes."""
        return jnp.where(self.begins[:, None], self.initial_states(z, v0), jnp.roll(nodes, 1, axis=0))

    def interval(self, z, x, v, delta, times):
        """The state after the steps of one interval."""
        return jax.lax.scan(lambda x, vt: (self.f.step(z, x, vt[0], delta, vt[1]), None), x, (v, times))[0]

    def nodes(self, z, v0, v):
        """The states at the nodes (paper: g_x)."""

        def advance(x, inputs):
            begins, x0, v, delta, times = inputs
            x = self.interval(z, jnp.where(begins, x0, x), v, delta, times)
            return x, x

        x0 = self.initial_states(z, v0)
        return jax.lax.scan(advance, x0[0], (self.begins, x0, v, self.grid.delta, self.times))[1]

    def _consistent(self, u, v0, v):
        """The states at the nodes, moved to meet the observations, and what is left of the misfit at each.

        Where the path leaves the finite numbers its initial states take its place. Then

            x <- x - c H^+ (h(z, x, 0) - y), H = dh/dx,

        for linear h the paper's projection, otherwise its Gauss-Newton iteration, with c the best of 1, 1/2, 1/4, ...
        """
        z = self.f.parameters(u)
        path = self.nodes(z, v0, v)
        path = jnp.where(jnp.all(jnp.isfinite(path)), path, self.initial_states(z, v0))

        def node(x, w, *observed):
            def misfit(x):
                return self.f.rows(z, x, w, *observed)

            def size(x):
                return jnp.max(jnp.abs(misfit(x)))

            def improve(_, x):
                tries = x - FRACTIONS[:, None] * (jnp.linalg.pinv(jax.jacfwd(misfit)(x)) @ misfit(x))
                sizes = jax.vmap(size)(tries)
                return tries[jnp.argmin(jnp.where(jnp.isnan(sizes), jnp.inf, sizes))]

            x = jax.lax.fori_loop(0, NODE_ITERATIONS, improve, x)
            return x, size(x)

        return jax.vmap(node)(path, self.no_noise, *self.observed)

    def draw_consistent(self, rng: np.random.Generator):
        """A prior draw (u, v_0, v) with states that meet the observations, or why there are none."""
        q = self.draw(rng)
        nodes, misfits = jax.tree.map(np.asarray, self.consistent(*q))
        if not np.all(misfits <= TOLERANCE * (1.0 + np.abs(self.grid.values).max(axis=1))):
            stage = "no states were found that meet the observations without noise: they miss them by"
            return _Failure(stage, misfits, "Check that the observation function can take the values observed")
        return *q, nodes


def _interpolation(paths: _Paths) -> _Attempt:
    f, grid, model = paths.f, paths.grid, paths.f.model

    def step(z, x, x_next, delta, t):
        """v with x_next = m(z, x) + S(z, x) v; how far f(z, x, v) is from that line, and from x_next."""
        noise = np.zeros(model.noise_dim)
        m, S = f.step(z, x, noise, delta, t), jax.jacfwd(f.step, argnums=2)(z, x, noise, delta, t)
        v = jnp.linalg.pinv(S) @ (x_next - m)
        reached = f.step(z, x, v, delta, t)
        scale = 1.0 + jnp.max(jnp.abs(x_next))
        return v, jnp.max(jnp.abs(m + S @ v - reached)) / scale, jnp.max(jnp.abs(x_next - reached)) / scale

    @jax.jit
    def solve(u, v0, nodes):
        z = f.parameters(u)
        start = paths.beginnings(z, v0, nodes)
        fractions = np.linspace(0.0, 1.0, grid.steps + 1)[:, None]
        path = start[:, None] + fractions * (nodes - start)[:, None]
        steps = jax.vmap(jax.vmap(step, (None, 0, 0, None, 0)), (None, 0, 0, 0, 0))
        return steps(z, path[:, :-1], path[:, 1:], grid.delta, paths.times)

    def attempt(rng):
        drawn = paths.draw_consistent(rng)
        if isinstance(drawn, _Failure):
            return drawn
        u, v0, _, nodes = drawn
        v, bent, missed = jax.tree.map(np.asarray, solve(u, v0, nodes))
        if not np.all(np.isfinite(missed)):
            mend = "Take more steps_per_interval or narrower priors"
            return _Failure("steps of the straight path are not finite: they miss it by", missed.max(axis=1), mend)
        if np.max(missed) > TOLERANCE:
            fault = "is not linear" if np.max(bent) > TOLERANCE else "has a lower rank"
            raise InitialisationError(
                "initial_states='interpolation' needs a step that is linear in its noise, with df/dv of full row rank; "
                f"that of pf.{type(model.scheme).__name__} with {model.wiener_dim} column(s) of diffusion for "
                f"{model.state_dim} state(s) {fault}: use 'adam-states' or 'projection'"
            )
        return _Position(u, v0, paths.no_noise, v, nodes)

    return attempt


def _adam(paths: _Paths) -> _Attempt:
    f, grid = paths.f, paths.grid
    if not isinstance(f.model.observation, GaussianNoise):
        raise InitialisationError(
            "initial_states='adam' is for additive Gaussian observation noise, pf.GaussianNoise; this model has "
            f"pf.{type(f.model.observation).__name__}: use 'adam-states' or 'projection'"
        )
    _, unravel = ravel_pytree(paths.draw(np.random.default_rng()))

    def noise(z, x, w, *observed):
        """The smallest w with mean + L w = y where observed, and log of the size of the observed rows of L."""
        mask = observed[-1]
        misfit, L = f.rows(z, x, w, *observed), jax.jacfwd(f.rows, argnums=2)(z, x, w, *observed)
        covariance = L @ L.T + jnp.diag(1.0 - mask)
        return -L.T @ jnp.linalg.solve(covariance, misfit), 0.5 * jnp.linalg.slogdet(covariance)[1]

    def objective(q):
        """Minus the log of the Lebesgue density of q = (u, v_0, v) given the observations."""
        u, v0, v = unravel(q)
        z = f.parameters(u)
        nodes = paths.nodes(z, v0, v)
        w, log_scales = jax.vmap(noise, (None, 0, 0, 0, 0, 0))(z, nodes, paths.no_noise, *paths.observed)
        prior = 0.5 * q @ q + f.parameter_excess(u) + jnp.sum(jax.vmap(f.start_excess, (None, 0))(z, v0))
        return prior + 0.5 * jnp.sum(w**2) + jnp.sum(log_scales), (jnp.sum(w**2) / grid.mask.sum(), (w, nodes))

    update = _adam_update(objective)

    def attempt(rng):
        q, criterion, (w, nodes) = _minimise(update, ravel_pytree(paths.draw(rng))[0], MISFIT, DENSITY_ITERATIONS)
        if not criterion < MISFIT:
            stage = f"Adam came to a mean square of {criterion:.2g} of the observation noise; largest are"
            mend = "Take a wider prior for the scale of the noise, or more steps_per_interval"
            return _Failure(stage, np.abs(w).max(axis=1), mend)
        u, v0, v = unravel(q)
        return _Position(u, v0, w, v, nodes)

    return attempt


def _adam_states(paths: _Paths) -> _Attempt:
    f, grid = paths.f, paths.grid
    _, unravel = ravel_pytree(paths.draw(np.random.default_rng()))

    def objective(q, nodes):
        """Mean square of the gaps between the ends of the intervals and the states there, relative to these.

        Every interval begins at the state before it, not where the path comes to as in the paper: the projection that
        follows takes gaps as well as misfits, and without a long path Adam needs a fraction of the iterations.
        """
        u, v0, v = unravel(q)
        z = f.parameters(u)
        intervals = jax.vmap(paths.interval, (None, 0, 0, 0, 0))
        gaps = intervals(z, paths.beginnings(z, v0, nodes), v, grid.delta, paths.times) - nodes
        scale = jnp.sqrt(jnp.mean(nodes**2, axis=0))
        criterion = jnp.mean((gaps / jnp.where(scale > 0.0, scale, 1.0)) ** 2)
        return criterion, (criterion, gaps)

    update = _adam_update(objective)

    def attempt(rng):
        drawn = paths.draw_consistent(rng)
        if isinstance(drawn, _Failure):
            return drawn
        *q, nodes = drawn
        q, criterion, gaps = _minimise(update, ravel_pytree(tuple(q))[0], GAP, STATES_ITERATIONS, nodes)
        if not criterion < GAP:
            stage = f"Adam came to a mean square of {criterion:.2g} of the gaps in the path; largest are"
            mend = "Take more steps_per_interval, another seed, or priors under which the noise can reach the data"
            return _Failure(stage, np.abs(gaps).max(axis=1), mend)
        u, v0, v = unravel(q)
        return _Position(u, v0, paths.no_noise, v, nodes)

    return attempt


_HEURISTICS: dict[Heuristic, Callable[[_Paths], _Attempt]] = {
    "interpolation": _interpolation,
    "adam": _adam,
    "adam-states": _adam_states,
}


def _adam_update(objective: Callable[..., Any]) -> Callable[..., Any]:
    """One iteration of Adam (Kingma and Ba 2015, algorithm 1), and what the objective says besides its value."""
    (decay1, decay2), slope = DECAYS, jax.grad(objective, has_aux=True)

    @jax.jit
    def update(i, q, m1, m2, *args):
        g, besides = slope(q, *args)
        m1, m2 = decay1 * m1 + (1 - decay1) * g, decay2 * m2 + (1 - decay2) * g**2
        change = STEP_SIZE * (m1 / (1 - decay1**i)) / (jnp.sqrt(m2 / (1 - decay2**i)) + STABILITY)
        return besides, q - change, m1, m2

    return update


def _minimise(update: Callable[..., Any], q, enough: float, iterations: int, *args) -> tuple[Any, float, Any]:
    """Iterate until the criterion is below what is enough, or not finite; the last q, its criterion and the rest."""
    q_next, m1, m2 = q, jnp.zeros_like(q), jnp.zeros_like(q)
    for i in range(1, iterations + 1):
        q = q_next
        (criterion, rest), q_next, m1, m2 = update(i, q, m1, m2, *args)
        if not criterion >= enough:
            break
    return q, float(criterion), jax.tree.map(np.asarray, rest)
