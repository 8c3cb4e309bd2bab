"""The particle filter against filtering on a grid and against Kalman's, and what it cannot do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import pathfold as pf
from pathfold.analysis.ahead import Estimates
from pathfold.analysis.particle_filter import ParticleFilter
from pathfold.data import TimeGrid
from pathfold.engine import GuidedEngine, plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED
from tests.flat import flat
from tests.once import once
from tests.plain import compiled_native, plain_native
from tests.sampling.linear_gaussian import Exact, integrated_ornstein_uhlenbeck
from tests.thorough import thorough

STEPS, DELTA = 3, 0.2
TRUTH = {"theta": 1.5, "sigma": 0.75}
TIMES = STEPS * DELTA * np.arange(1, 8)
OBSERVATIONS: dict[str, tuple[Any, list[float]]] = {
    "noisy": (pf.GaussianNoise(lambda x, z: x, 0.25), [1.0, 0.8, np.nan, -0.7, -1.2, -0.9, 0.2]),
    "exact": (pf.Noiseless(lambda x, z: x), [1.0, 0.8, np.nan, -0.7, -1.2, -0.9, 0.2]),
    "counts": (pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(2.0 * x[0]))), [6.0, 4.0, np.nan, 0.0, 1.0, 0.0, 2.0]),
}


def double_well(observation: Any, **settings: Any) -> pf.DiffusionModel:
    given: dict[str, Any] = {
        "drift": lambda x, z: z["theta"] * x * (1.0 - x**2),
        "diffusion": lambda x, z: z["sigma"] * jnp.eye(1),
        "parameters": {"theta": dist.LogNormal(0.0, 1.0), "sigma": dist.LogNormal(0.0, 1.0)},
        "initial_state": dist.Normal(jnp.ones(1), 0.5),
        "observation": observation,
    }
    return pf.DiffusionModel(**given | settings)


@cache
def of_kind(kind: str) -> tuple[pf.DiffusionModel, TimeGrid]:
    observation, values = OBSERVATIONS[kind]
    return double_well(observation), TimeGrid.build(pf.Observations(TIMES, values), steps_per_interval=STEPS)


def by_grid(kind: str, values: list[float], theta: float = TRUTH["theta"]) -> np.ndarray:
    """log p(y_n | y_1, ..., y_{n-1}) of the values that are there, with densities on a grid of states."""
    x = np.linspace(-4.0, 4.0, 801)
    sd = np.sqrt(DELTA) * TRUTH["sigma"]

    def after(state):
        return state + DELTA * theta * state * (1.0 - state**2)

    kernel = stats.norm.pdf(x[:, None], after(x), sd) * (x[1] - x[0])
    density, at, found = stats.norm.pdf(x, 1.0, 0.5), None, []
    for y in values:
        for step in range(STEPS):
            last = density
            density = kernel @ density if at is None else stats.norm.pdf(x, after(at), sd)
            at = None
            if kind == "exact" and step == STEPS - 1 and not np.isnan(y):
                found.append(np.log(np.sum(stats.norm.pdf(y, after(x), sd) * last) * (x[1] - x[0])))
                at = y
        if np.isnan(y) or kind == "exact":
            continue
        likelihood = stats.norm.pdf(y, x, 0.25) if kind == "noisy" else stats.poisson.pmf(y, np.exp(2.0 * x))
        total = np.sum(density * likelihood) * (x[1] - x[0])
        found.append(np.log(total))
        density = density * likelihood / total
    return np.array(found)


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_densities_one_step_ahead_against_a_grid(kind):
    """Each within four standard errors, and the likelihood, from few particles, without bias; 7 comparisons a kind."""
    (model, grid), expected = of_kind(kind), by_grid(kind, OBSERVATIONS[kind][1])
    z = flat(model, TRUTH)
    many = ParticleFilter(model, grid, 1000)(np.tile(z, (30, 1)), seed=1)
    error = many.std(axis=0, ddof=1) / np.sqrt(30)
    assert many.shape == (30, 6)
    assert np.all(error < 0.03)
    # Where the state is observed exactly nothing is left to chance at the start of an interval, but for the first.
    assert np.all(np.abs(many.mean(axis=0) - expected) < 4.0 * error + 1e-12)
    few = ParticleFilter(model, grid, 20)(np.tile(z, (2000, 1)), seed=2)
    ratio = np.exp(few.sum(axis=1) - expected.sum())
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(2000)
    assert ratio.std() < 2.0


LONG, COARSE = 1.5, 8  # steps that explode: of all paths a quarter does before the next observation
HOPS = [1.0, 0.8, 1.1, -0.9, -1.2, -0.7]


@cache
def exploding() -> tuple[pf.DiffusionModel, TimeGrid]:
    model = double_well(OBSERVATIONS["noisy"][0], scheme=pf.StrongOrder1p5())
    data = pf.Observations(LONG * np.arange(1, 7), HOPS)
    return model, TimeGrid.build(data, steps_per_interval=COARSE)


def exploding_by_grid(theta: float, sigma: float) -> float:
    """log p(y) of the same: the scheme is affine in its noise, so that steps are normal. What leaves is lost."""
    x, delta = np.linspace(-6.0, 6.0, 1201), LONG / COARSE
    drift, slope, bend = theta * x * (1.0 - x**2), theta * (1.0 - 3.0 * x**2), -6.0 * theta * x
    mean = x + delta * drift + 0.5 * delta**2 * (drift * slope + 0.5 * sigma**2 * bend)
    sd = sigma * np.sqrt(delta + slope * delta**2 + slope**2 * delta**3 / 3.0)
    steps = np.linalg.matrix_power(stats.norm.pdf(x[:, None], mean, sd) * (x[1] - x[0]), COARSE)
    density, total = stats.norm.pdf(x, 1.0, 0.5), 0.0
    for y in HOPS:
        density = (steps @ density) * stats.norm.pdf(y, x, 0.25)
        total += np.log(density.sum() * (x[1] - x[0]))
        density /= density.sum() * (x[1] - x[0])
    return total


def test_paths_that_explode_are_lost_alone():
    """The likelihood without bias, within four standard errors, and never zero: some particles always survive."""
    theta, sigma = 3.5, TRUTH["sigma"]
    model, grid = exploding()
    z = flat(model, {"theta": theta, "sigma": sigma})
    found = ParticleFilter(model, grid, 200)(np.tile(z, (400, 1)), seed=1).sum(axis=1)
    ratio = np.exp(found - exploding_by_grid(theta, sigma))
    assert np.isfinite(found).all()
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(400)
    assert ratio.std() < 1.0


@pytest.mark.parametrize("state", 10.0 ** np.array([0, 1, 2, 4, 8, 16, 26, 40]))
def test_a_particle_far_from_the_data_has_a_small_weight(state):
    """The weight of the step to an observation is log N(y; m, L L^T + R) for every noise, if that is affine; rounding
    may make it smaller, where it does not count, and never larger."""
    model, grid = exploding()
    e = GuidedEngine(model, grid)
    point = e.block("point")
    theta, sigma, delta = 3.5, TRUTH["sigma"], LONG / COARSE
    e.set("point", point, "theta", "z", flat(model, {"theta": theta, "sigma": sigma}))
    e.set("point", point, "piece", "x_begin", np.full((len(e.first), 1), state))
    e.set("point", point, "v", "v", np.random.default_rng(1).normal(size=(e.intervals, 2)))
    weight = compiled_native.guided_paths.follow_node(e.machine(), plans.GUIDED_NODE, point, e.pieces[0])
    drift, slope, bend = theta * state * (1.0 - state**2), theta * (1.0 - 3.0 * state**2), -6.0 * theta * state
    mean = state + delta * drift + 0.5 * delta**2 * (drift * slope + 0.5 * sigma**2 * bend)
    variance = sigma**2 * (delta + slope * delta**2 + slope**2 * delta**3 / 3.0) + 0.25**2
    expected = -0.5 * ((HOPS[0] - mean) / np.sqrt(variance)) ** 2 - 0.5 * np.log(variance)
    assert weight <= expected + 1e-6 * abs(expected)
    assert state > 1e4 or weight == pytest.approx(expected, rel=1e-6)


WAYS = {"weight": (np.nan, 0.0), "infinite weight": (np.inf, 0.0), "state": (0.0, np.nan), "both": (np.nan, np.inf)}


@pytest.mark.parametrize("way", WAYS)
def test_a_particle_that_is_killed_changes_nothing_but_its_weight(way, monkeypatch):
    """As if its weight had been zero and its state another number: the same estimates, the same particles."""
    expected, states, killed = _with_killed(-np.inf, 0.0, monkeypatch)
    found, others, _ = _with_killed(*WAYS[way], monkeypatch)
    assert 10 < killed.sum() < 60
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(others, states)


NOTHING = np.zeros((0, 0, 0)), np.zeros((0, 0))  # is to be told of the states before each observation


def _with_killed(to_weight: float, to_state: float, monkeypatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates, the states of those that are alive at the end, and who was killed: a quarter at every observation,
    by numbers that are added to their weights and states."""
    (model, grid), native, count = of_kind("noisy"), plain_native().particles, 20
    e = ParticleFilter(model, grid, count).engine
    killed = np.random.default_rng(5).random((len(e.nodes), count)) < 0.25
    point, calls, move = (
        e.block("point"),
        iter(killed.ravel()),
        compiled_native.particles.move,
    )
    states, spare, log_weights = np.zeros((count, 1)), np.zeros((count, 1)), np.zeros(count)
    kinds = np.zeros((count, 0)), np.zeros((0, 5)), np.zeros(count, dtype=np.int64)
    particles = native.Particles(states, log_weights, *kinds, spare)

    def deadly_move(m, point, rng, piece):
        log_weight = move(m, point, rng, piece)
        if next(calls):
            log_weight += to_weight
            end = native.of_series(e.layout, at.POINT_PIECE, at.PIECE_X_END, piece + 1)
            point[end] += to_state
        return log_weight

    monkeypatch.setattr(native, "move", deadly_move)
    e.set("point", point, "theta", "z", flat(model, TRUTH))
    ahead, rng = np.zeros(len(e.nodes)), np.random.default_rng(6)
    blocks = e.machine(), point, rng, e.pieces, e.starts, np.zeros((len(e.nodes), 0), dtype=np.int64)
    with np.errstate(invalid="ignore"):  # inf - inf
        assert native.filter_particles(*blocks, particles, native.Filtered(ahead, *NOTHING)) == CONVERGED
    return ahead, states[log_weights > -np.inf], killed


def test_a_lost_particle_is_never_drawn_again():
    """Not even the last one, where rounding leaves a place at the end."""

    class Last:
        def random(self):
            return 1.0 - 2.0**-53

    states, log_weights = np.array([[1.0], [2.0], [3.0], [np.nan]]), np.array([*np.log([0.25, 0.25, 0.5]), -np.inf])
    plain_native().particles.resample(Last(), states, np.zeros((4, 1)), log_weights)
    assert np.isfinite(states).all()


def test_exact_observations_of_a_smooth_component():
    """The position of an integrated Ornstein-Uhlenbeck process, which noise reaches through its velocity."""
    process = replace(integrated_ornstein_uhlenbeck(), start_mean=np.zeros(2), start_scale=np.array([1.0, 0.75]))
    data = pf.Observations([0.5, 1.1, 1.5, 2.2], [0.2, 0.5, 0.6, 0.6])
    expected = Exact(process, data, 4).conditional({k: np.full(1, v) for k, v in process.values.items()})[0][0]
    model = process.model(known=False)
    score = ParticleFilter(model, TimeGrid.build(data, steps_per_interval=4), 200)
    found = score(np.tile(flat(model, process.values), (400, 1)), seed=3).sum(axis=1)
    ratio = np.exp(found - expected + 0.5 * np.log(2 * np.pi) * 4)
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(400)
    assert ratio.std() < 0.5


FRICTION, SPEED, NEAR = 0.5, 1.0, 0.03  # of a velocity that is not seen; errors are much smaller than the steps
MOVES = np.cumsum(np.random.default_rng(2).exponential(1.0, 16) + 0.05)
LAWS: dict[str, tuple[Any, Any]] = {  # of errors, and of the variances of the normals that they are mixtures of
    "t3": (lambda mean: dist.StudentT(3.0, mean, NEAR), stats.invgamma(1.5, scale=1.5)),
    "Cauchy": (lambda mean: dist.Cauchy(mean, NEAR), stats.invgamma(0.5, scale=0.5)),
    "Laplace": (lambda mean: dist.Laplace(mean, NEAR), stats.expon(scale=2.0)),
}


@once
def moving(law: str, axes: int = 1) -> pf.DiffusionModel:
    """Positions and velocities, of which the former are seen."""
    error = LAWS[law][0] if law in LAWS else lambda mean: dist.Normal(mean, NEAR)
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.concatenate([x[axes:], -FRICTION * x[axes:]]),
        diffusion=lambda x, z: jnp.concatenate([jnp.zeros((axes, axes)), z["speed"] * jnp.eye(axes)]),
        parameters={"speed": dist.LogNormal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.zeros(2 * axes), jnp.repeat(jnp.array([5.0, 1.0]), axes)),
        observation=pf.Likelihood(lambda x, z: error(x[:axes])),
    )


TRACKS = pf.simulate(moving("t3", 2), {"speed": SPEED}, MOVES, steps_per_interval=STEPS, seed=3).values


def mixture_of_kalman_filters(law: str, y: np.ndarray, count: int = 20_000, seed: int = 11) -> float:
    """log p(y) of one axis. Given the variances of the errors all is normal; half of these are drawn more widely."""
    rng, before, own = np.random.default_rng(seed), 0.0, LAWS[law][1]
    wide = stats.loguniform(1e-4, 1e8)
    mean, covariance, total = np.zeros((count, 2)), np.tile(np.diag([25.0, 1.0]), (count, 1, 1)), 0.0
    for time, value in zip(MOVES, y, strict=False):
        h = (time - before) / STEPS
        step, before = np.array([[1.0, h], [0.0, 1.0 - FRICTION * h]]), time
        for _ in range(STEPS):
            mean, covariance = mean @ step.T, step @ covariance @ step.T + np.diag([0.0, SPEED**2 * h])
        if np.isnan(value):
            continue
        drawn = np.where(rng.random(count) < 0.5, own.rvs(count, random_state=rng), wide.rvs(count, random_state=rng))
        variance = covariance[:, 0, 0] + NEAR**2 * drawn
        log_weights = stats.norm.logpdf(value, mean[:, 0], np.sqrt(variance))
        log_weights += own.logpdf(drawn) - np.log(0.5 * own.pdf(drawn) + 0.5 * wide.pdf(drawn))
        gain = covariance[:, :, 0] / variance[:, None]
        mean = mean + gain * (value - mean[:, :1])
        covariance = covariance - gain[:, :, None] * covariance[:, None, 0]
        weights = np.exp(log_weights - log_weights.max())
        total += np.log(weights.mean()) + log_weights.max()
        drawn = np.searchsorted(np.cumsum(weights) / weights.sum(), (np.arange(count) + rng.random()) / count)
        mean, covariance = mean[drawn.clip(max=count - 1)], covariance[drawn.clip(max=count - 1)]
    return float(total)


@pytest.mark.parametrize("law", thorough(LAWS, "t3", "Laplace"))
def test_errors_with_heavy_tails(law):
    """The likelihood without bias, also with a missing and a stray value. With guides of one normal a sum by 200
    particles over 30 values was 30 too low on average where errors are Laplace's, 26 and 9 where they are Student's and
    Cauchy's."""
    model = moving(law)
    data = pf.simulate(model, {"speed": SPEED}, MOVES, steps_per_interval=STEPS, seed=4)
    data.values[7] += 0.0 if law == "Laplace" else 100.0 * NEAR
    data.values[12] = np.nan
    expected = mixture_of_kalman_filters(law, data.values[:, 0])
    found = ParticleFilter(model, TimeGrid.build(data, steps_per_interval=STEPS), 1000)(np.full((30, 1), SPEED), seed=5)
    ratio = np.exp(found.sum(axis=1) - expected)
    assert found.sum(axis=1).std() < 2.0
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(30) + 0.15, "0.15 is what the other filter may be off"


def test_heavy_tails_in_two_columns():
    """Each has kinds of its own: a stray value in one does not make the other useless."""
    y = TRACKS[:6] + np.array([100.0 * NEAR, 0.0]) * (np.arange(6) == 3)[:, None]
    expected = sum(mixture_of_kalman_filters("t3", column) for column in y.T)
    grid = TimeGrid.build(pf.Observations(MOVES[:6], y), steps_per_interval=STEPS)
    found = ParticleFilter(moving("t3", 2), grid, 1000)(np.full((30, 1), SPEED), seed=5).sum(axis=1)
    ratio = np.exp(found - expected)
    assert found.std() < 1.0
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(30) + 0.15


def test_the_number_of_particles_that_would_do():
    """The variance of sums over time, which falls as 1 / number: it is judged by ten runs, here ten times."""
    model = moving("normal")
    grid, z = TimeGrid.build(pf.Observations(MOVES, TRACKS[:, 0]), steps_per_interval=STEPS), np.full((200, 1), SPEED)
    few = ParticleFilter(model, grid, 20)
    exact = few(z, 0).sum(axis=1).var()
    assert exact > 1.0
    assert 0.5 < np.mean([few.judged(z, seed).variance for seed in range(10)]) / exact < 2.0
    assert ParticleFilter(model, grid, Estimates(20, exact).enough)(z, 1).sum(axis=1).var() < 2.0
    assert Estimates(300, 0.9).enough == 300
    assert Estimates(300, 4.1).enough == 1300
    assert str(Estimates(300, 8.0)).endswith("differ by about 4.0 from each other: take particles=2400")


def test_the_number_of_threads_changes_nothing():
    model, grid = of_kind("noisy")
    score = ParticleFilter(model, grid, 10)
    z = np.tile(flat(model, TRUTH), (5, 1))
    np.testing.assert_array_equal(score(z, 4, threads=1), score(z, 4, threads=3))
    assert len(np.unique(score(z, 4)[:, 0])) == 5


def test_a_draw_that_no_particle_survives_has_no_likelihood():
    model, grid = of_kind("noisy")
    score = ParticleFilter(model, grid, 10)
    z = flat(model, TRUTH | {"theta": 1e200})
    assert score(z[None], 0)[0].sum() == -np.inf


SMOOTH: dict[str, Any] = {
    "drift": lambda x, z: jnp.array([x[1], -x[0]]),
    "diffusion": lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
    "initial_state": dist.Normal(jnp.zeros(2), 1.0),
}


@pytest.mark.parametrize(
    ("observation", "settings", "times", "sentence"),
    [
        (pf.NoisyObservation(lambda x, z, w: x * jnp.exp(w), 1), {}, [1.0], "NoisyObservation has no density"),
        (pf.Noiseless(lambda x, z: x), {}, [0.0, 1.0], "observed exactly at the initial time"),
        (pf.Noiseless(lambda x, z: x[:1]), SMOOTH, [1.0], "does not move all .* use pf.StrongOrder1p5"),
        (
            pf.Noiseless(lambda x, z: x),
            {"diffusion": lambda x, z: (z["sigma"] * x)[:, None], "scheme": pf.Milstein()},
            [1.0],
            "not an affine function of the noise",
        ),
    ],
    ids=["no density", "initial time", "no noise", "not affine"],
)
def test_what_it_cannot_do_is_said(observation, settings, times, sentence):
    model = double_well(observation, **settings)
    grid = TimeGrid.build(pf.Observations(times, np.full(len(times), 0.75)), steps_per_interval=2)
    with pytest.raises(pf.ModelError, match=sentence):
        ParticleFilter(model, grid, 10)(flat(model, TRUTH)[None], seed=0)


def test_the_constant_of_a_value_that_single_precision_takes_for_one():
    """-log [y (1 - y)] and Stirling's constant is what root and remainder of a beta distribution leave out."""
    y = 1.0 - 1e-9
    share = pf.Likelihood(lambda x, z: dist.Beta(2.0 * jnp.exp(x[0]), 3.0))
    score = ParticleFilter(
        double_well(share), TimeGrid.build(pf.Observations([1.0], [y]), steps_per_interval=1), particles=10
    )
    expected = -np.log(y) - np.log(1.0 - y) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(score._constants, expected, rtol=1e-6)
