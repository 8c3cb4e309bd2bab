"""Starting points: modes of the posterior for every example model, and a clear end when there is none."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, seed, settings

import pathfold as pf
from pathfold import example_models
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.native.nodes import guess_nodes
from pathfold.engine.native.thresholds import GUESSES
from pathfold.engine.native.trajectory import CURRENT
from pathfold.example_models import (
    cox_ingersoll_ross,
    fitzhugh_nagumo,
    integrated_ornstein_uhlenbeck,
    ornstein_uhlenbeck,
    sir,
)
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.starts import Candidate, Point, Starts, best_parts, find_starts, weighted, worth_beginning_with
from tests.dense import Dense
from tests.engine.driving import Driven, relative
from tests.engine.models import Case, cases, with_data_from
from tests.once import once
from tests.thorough import thorough

SIMULATED = {
    "cox_ingersoll_ross": cox_ingersoll_ross,
    "fitzhugh_nagumo": fitzhugh_nagumo,
    "integrated_ornstein_uhlenbeck": integrated_ornstein_uhlenbeck,
    "ornstein_uhlenbeck": ornstein_uhlenbeck,
}
EXAMPLES = [f"{name}-{kind}" for name in SIMULATED for kind in ("noiseless", "noisy")] + ["sir-noisy"]


@once
def example(name: str) -> tuple[pf.DiffusionModel, pf.Observations]:
    """A model of the examples with a little data."""
    module, kind = name.split("-")
    if module == "sir":
        return sir.noisy(), sir.data()
    model = getattr(SIMULATED[module], kind)()
    data = pf.simulate(model, SIMULATED[module].TRUTH, 0.3 * np.arange(1, 9), steps_per_interval=100, seed=3)
    return model, data


def engine_of(model: pf.DiffusionModel, data: Any, steps: int) -> Engine:
    engine = Engine(model, TimeGrid.build(data, steps_per_interval=steps))
    set_scales(engine)
    return engine


def search(engine: Engine, seed: int = 0, *, chains: int = 2, threads: int = 1) -> Starts:
    with np.errstate(all="ignore"):  # compiled code does not warn either; what is not finite is noticed
        return find_starts(engine, range(chains), seed=seed, threads=threads, relaxation=relative_spread(engine))


def position(engine: Engine, point: Point) -> np.ndarray:
    return np.concatenate([part.ravel() for part in engine.get_vector(point.position)])


def lowest_along(dense: Dense, q: np.ndarray, d: np.ndarray) -> float:
    """The lowest potential that a step along the tangent, and back onto the manifold by Newton's method, leads to."""
    lowest = np.inf
    for fraction in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
        moved = q + fraction * d
        for _ in range(20):
            constraint = dense.constraint(moved)
            if not 1e-8 <= np.abs(constraint).max() < 1e3:
                break  # there, or too far for Newton's method
            moved = moved - np.linalg.lstsq(dense.jacobian(moved), constraint)[0]
        if np.abs(dense.constraint(moved)).max() < 1e-8:
            potential = float(0.5 * moved @ moved) + dense.excess(moved) + 0.5 * dense.log_det_gram(moved)
            lowest = min(lowest, potential)
    return lowest


QUICK = ("integrated_ornstein_uhlenbeck-noiseless", "ornstein_uhlenbeck-noisy")


@pytest.mark.parametrize("name", thorough(EXAMPLES, *QUICK))
def test_examples_start_at_a_mode_on_the_manifold(name):
    model, data = example(name)
    engine, dense, potentials = engine_of(model, data, 5), Dense(model, TimeGrid.build(data, steps_per_interval=5)), []
    for number in range(3):
        starts = search(engine, number)
        candidate = min(starts.candidates, key=lambda each: each.potential)
        q = position(engine, candidate.point)
        assert np.abs(dense.constraint(q)).max() < 1e-8 * max(1.0, np.abs(data.values).max())
        potential = 0.5 * q @ q + dense.excess(q) + 0.5 * dense.log_det_gram(q)
        assert candidate.potential == pytest.approx(potential, abs=1e-6)
        if number == 0:  # which takes long; where the others are as low, they are at a mode too
            d = dense.project(q, -q - dense.h1_gradient(q, verlet=False))
            assert potential - lowest_along(dense, q, d) < 0.5
        potentials.append(potential)
    assert np.ptp(potentials) < 1.0, "all seeds find the same mode"


def test_searches_that_do_not_agree_are_weighted_by_the_curvature_of_their_paths():
    """Where paths are Gaussian that is the mass they have, up to where descents end; of outcomes it is another."""
    rng = np.random.default_rng(0)
    for name in ("nile", "learning"):
        example = example_models.EXAMPLES[name]
        engine = engine_of(example.model(), example.data(), example.steps_per_interval)
        candidates = search(engine).candidates
        right = [replace(each, potential=float(rng.normal())) for each in candidates]
        found = np.array([each.potential for each in weighted(engine, right)])
        mass = np.array([each.potential for each in candidates])
        assert np.ptp(found - mass) < (0.1 if name == "nile" else 2.0)
    u = candidates[0].point.position.copy()
    u[: engine.sizes.U] += [0.0, 0.0, 3.0]  # far more noise of the path than is likely, which explains every outcome
    astray = replace(candidates[0], point=Point(u, candidates[0].point.nodes), potential=min(mass) - 20.0)
    assert worth_beginning_with([*candidates, astray]) == [len(candidates)]
    assert len(candidates) not in worth_beginning_with(weighted(engine, [*candidates, astray]))


@settings(max_examples=1)
@given(cases())
def test_random_models_start(case):
    assert_start(case)


@pytest.mark.slow
@settings(max_examples=100)
@seed(3)
@given(cases())
def test_many_random_models_start(case):
    assert_start(case)


def assert_start(case: Case) -> None:
    """Data that a draw from the prior generates have a start, which meets them."""
    model, grid = case.model(), case.grid()
    if case.W < case.Y:  # else noise alone meets all data
        grid = with_data_from(model, grid, np.random.default_rng(case.seed).normal(size=Dense(model, grid).dim))
    engine, dense = Engine(model, grid, lanes=case.lanes), Dense(model, grid)
    set_scales(engine)
    starts = search(engine)
    q = position(engine, starts.candidates[starts.of_chains[0]].point)
    assert np.abs(dense.constraint(q)).max(initial=0.0) < 1e-7 * max(1.0, np.abs(grid.values).max())


def relaxed(dense: Dense, driven: Driven, q: np.ndarray, rho: float) -> tuple[float, np.ndarray]:
    """l_rho and the step of Gauss and Newton, densely; the gradient of the determinant by differences."""
    scale = driven.engine.get("problem", driven.engine.problem, "grid", "row_scale")[:, : dense.mask.shape[1]]
    R = rho * np.diag(scale[dense.mask.astype(bool)] ** 2)

    def h1(q: np.ndarray) -> float:
        J = dense.jacobian(q)
        return dense.excess(q) + 0.5 * float(np.linalg.slogdet(J @ J.T + R)[1])

    J, c, h = dense.jacobian(q), dense.constraint(q), 1e-5
    value = float(0.5 * q @ q + h1(q) + 0.5 * c @ np.linalg.solve(R, c))
    slope = np.array([(h1(q + h * e) - h1(q - h * e)) / (2.0 * h) for e in np.eye(q.size)])
    gradient = q + slope + J.T @ np.linalg.solve(R, c)
    return value, -np.linalg.solve(np.eye(q.size) + J.T @ np.linalg.solve(R, J), gradient)


CASE = Case(
    5, X=2, B=2, Y=2, W=1, S=2, priors=("normal", "gamma"), starts=("gamma",), lengths=(2, 3), varying=("normal given",)
)


def test_the_potential_with_relaxed_rows_and_its_step_are_those_of_dense_algebra():
    """A planted fault: without the gradient of the determinant the step is another one."""
    driven, rho = Driven(CASE.model(), CASE.grid(), lanes=CASE.lanes), 0.3
    engine, dense, descent = driven.engine, driven.dense, driven.native.descent
    q = 0.5 * np.random.default_rng(1).normal(size=dense.dim)
    point, scratch = engine.block("point"), engine.block("scratch")
    driven.write(point, q)
    driven.native.nodes.follow(driven.machine(scratch), point, 0)
    driven.native.constrained_step.linearise(driven.machine(scratch), point)
    descent.relax(driven.machine(scratch), rho, False)
    shares, d = np.zeros(engine.series), engine.block("vector")
    value, misfits = descent.weigh(driven.machine(scratch), point, shares)
    descent.direct(driven.machine(scratch), point, d)
    expected, step = relaxed(dense, driven, q, rho)
    assert value == pytest.approx(expected, rel=1e-9)
    assert misfits > 0.0
    assert relative(driven.flat(d), step) < 1e-7
    assert relative(driven.flat(d + engine.gradient(point)), step) > 1e-7


def test_noise_of_observations_makes_up_for_any_path():
    """Where every row has noise, any finite path is a point of the manifold."""
    driven = Driven(CASE.model(), CASE.grid(), lanes=CASE.lanes)
    whole = Driven(*_with_noise(), lanes=2)
    for d, met in ((driven, False), (whole, True)):
        point, scratch = d.engine.block("point"), d.engine.block("scratch")
        d.write(point, 0.5 * np.random.default_rng(1).normal(size=d.dense.dim))
        d.native.nodes.follow(d.machine(scratch), point, 0)
        d.native.constrained_step.linearise(d.machine(scratch), point)
        d.native.descent.absorb(d.machine(scratch), point)
        assert (np.abs(d.dense.constraint(d.flat(point))).max() < 1e-9) == met


def _with_noise() -> tuple[pf.DiffusionModel, TimeGrid]:
    model, data = example("ornstein_uhlenbeck-noisy")
    return model, TimeGrid.build(data, steps_per_interval=3)


def test_a_path_that_is_not_finite_is_calmed():
    """An explicit step of a cubic drift explodes with much noise; with less of it the path is finite."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -(x**3),
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    panel = [pf.Observations(np.arange(1.0, 9.0), np.zeros(8)) for _ in range(2)]
    d = Driven(model, TimeGrid.build(panel, steps_per_interval=1), lanes=2)
    q = np.full(d.dense.dim, 0.1)
    u, v0, w, v = d.engine.get_vector(d.vector(q))
    v[:8] = 8.0  # of the first series
    points, scratch = np.zeros((2, d.engine.block_sizes["point"])), d.engine.block("scratch")
    point = points[CURRENT]
    d.engine.set_vector(point, u, v0, w, v)
    with np.errstate(all="ignore"):
        misfits = d.native.descent.calm(d.machine(scratch), points, np.zeros(2))
    assert np.isfinite(misfits)
    calmed = d.engine.get_vector(point)[3]
    assert np.abs(calmed[:8]).max() < 8.0
    assert np.array_equal(calmed[8:], v[8:]), "the other series keeps its noise"


def test_starts_do_not_depend_on_the_number_of_threads():
    engine = engine_of(*example("ornstein_uhlenbeck-noisy"), 3)
    one, three, other = search(engine, 1), search(engine, 1, threads=3), search(engine, 2)
    positions = [[candidate.point.position for candidate in starts.candidates] for starts in (one, three, other)]
    assert np.array_equal(positions[0], positions[1])
    assert not np.array_equal(positions[0][-1], positions[2][-1])


def test_chains_begin_with_the_modes_that_matter():
    point = Point(np.zeros(1), np.zeros(1))
    candidates = [Candidate("path", point, potential, np.zeros(1)) for potential in (3.0, 1.5, 7.0, 1.0)]
    assert worth_beginning_with(candidates) == [1, 3, 0]


def test_the_best_of_every_series_is_put_together():
    """Each of two candidates has one series led astray: together they have none."""
    model, data = example("ornstein_uhlenbeck-noisy")
    engine = engine_of(model, [data, data], 3)
    rng = np.random.default_rng(0)
    candidates = []
    for shares in ([1.0, 50.0], [60.0, 2.0]):
        block = engine.block("point")
        engine.set_vector(block, *(rng.normal(size=part.shape) for part in engine.get_vector(block)))
        engine.set("point", block, "node", "x_node", rng.normal(size=(engine.intervals, engine.sizes.X)))
        candidates.append(Candidate("path", Point.of(engine, block), sum(shares), np.array(shares)))
    joined = best_parts(engine, candidates)
    assert joined is not None
    parts = [engine.get_vector(each.position) for each in (joined, *(candidate.point for candidate in candidates))]
    half = engine.intervals // 2
    for of_joined, of_first, of_second in zip(*parts, strict=True):
        if len(of_joined) == engine.intervals:
            assert np.array_equal(of_joined, np.concatenate([of_first[:half], of_second[half:]]))
    assert np.array_equal(parts[0][0], parts[1][0]), "the parameters are those of the best"
    assert best_parts(engine, [candidates[0], candidates[0]]) is None


def test_results_say_where_chains_began():
    model, data = example("ornstein_uhlenbeck-noisy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws have not converged
        tree = pf.sample(model, data, steps_per_interval=3, chains=3, warmup=20, draws=10, seed=1, progress=False)
    starts = tree.starts
    assert set(starts.data_vars) == {*model.priors, "log_mass", "way", "began_with"}
    assert starts["log_mass"].max() == 0.0
    assert np.all(starts["log_mass"].isel(candidate=starts["began_with"]) > -5.0)
    assert np.all(starts["theta"] > 0.0)


@pytest.mark.parametrize("initial_state", [0.5, -0.3])  # of a negative one there is no logarithm
def test_nodes_are_guessed_near_the_data_from_states_known_or_not(initial_state):
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.ones(1),
        diffusion=lambda x, z: jnp.array([[0.01]]),
        parameters={},
        initial_state=[initial_state],
        observation=pf.Noiseless(lambda x, z: jnp.log(x)),
    )
    values = np.log([0.4, 0.9, 1.7, 2.2, 4.0])
    engine = Engine(model, TimeGrid.build(pf.Observations(np.arange(1.0, 6.0), values[:, None]), steps_per_interval=2))
    point = engine.block("point")
    with np.errstate(all="ignore"):  # compiled code does not warn either
        guess_nodes(engine.machine(), point, GUESSES)
    assert np.abs(np.log(engine.get("point", point, "node", "x_node")[:, 0]) - values).max() < 1e-6


@pytest.mark.filterwarnings("ignore:.*few effective draws")
def test_chains_do_not_start_beyond_a_barrier():
    """An explicit step from far out leaps over the barrier of a double well: a chain that starts there stays there."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["theta"] * x * (1.0 - x**2),
        diffusion=lambda x, z: 0.87 * jnp.ones((1, 1)),
        parameters={"theta": dist.LogNormal(1.0, 0.7)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
    )
    times = 0.2 * np.arange(1, 21)
    data = pf.simulate(model, {"theta": 4.0}, times, initial_state=[1.0], steps_per_interval=200, seed=5)
    tree = pf.sample(model, data, steps_per_interval=10, chains=16, warmup=100, draws=80, seed=77, progress=False)
    assert tree.posterior["initial_state"].values.mean(axis=1).min() > 0.0
    steps = tree.sample_stats["step_size"].values.mean(axis=1)
    assert steps.max() < 4.0 * steps.min(), steps


def unreachable() -> pf.DiffusionModel:
    """y = tanh(x), which is never 2."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["theta"] * x,
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={"theta": dist.LogNormal(0.0, 0.5)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Noiseless(lambda x, z: jnp.tanh(x)),
    )


def test_impossible_data_end_soon_in_an_error_that_says_what_is_wrong():
    data = pf.Observations(0.25 * np.arange(1, 11), np.tanh(np.linspace(-1.0, 1.0, 10)))
    data.values[4] = 2.0
    begin = time.monotonic()
    with pytest.raises(pf.InitialisationError) as caught:
        pf.sample(unreachable(), data, steps_per_interval=4, chains=2, progress=False)
    assert time.monotonic() - begin < 60.0, "compilation included"
    message = str(caught.value)
    assert "no start was found in 32 searches" in message
    assert "missed observations or path by" in message
    assert "1.25" in message, "the time of the observation that cannot be met"
    for mend in ("model can produce the data", "steps_per_interval", "priors"):
        assert mend in message
    nearest = caught.value.nearest
    assert nearest is not None
    assert nearest["times"][np.argmax(nearest["residuals"])] == 1.25
    assert nearest["parameters"]["theta"] > 0.0


def test_an_error_tells_priors_that_are_far_from_the_data_apart():
    """With sigma of about 1e-6 and an exact path, only parameters far out could explain data of size one."""
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.tanh(z["a"]) * jnp.ones(1),
        diffusion=lambda x, z: 1e-9 * jnp.ones((1, 1)),
        parameters={"a": dist.Normal(0.0, 0.01)},
        initial_state=[0.0],
        observation=pf.Noiseless(lambda x, z: x),
    )
    data = pf.Observations([1.0, 2.0], [[3.0], [5.0]])
    with pytest.raises(pf.InitialisationError, match=r"had moved parameters, in prior standard deviations: a to"):
        pf.sample(model, data, steps_per_interval=2, chains=1, progress=False, sampler=pf.StaticHMC(integrate=False))


def test_angles_seen_as_sine_and_cosine_start_on_one_branch():
    """An oscillator that turns three times: no chain starts with leaps from turn to turn, which take a noise of 5."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["omega"] * jnp.ones(1),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "omega": dist.Normal(1.0, 0.5),
            "sigma": dist.LogNormal(-1.0, 0.5),
            "tau": dist.LogNormal(-1.5, 0.5),
        },
        initial_state=dist.Normal(jnp.zeros(1), 1.5),
        observation=pf.GaussianNoise(lambda x, z: jnp.concatenate([jnp.sin(x), jnp.cos(x)]), "tau"),
    )
    truth = {"omega": 1.3, "sigma": 0.3, "tau": 0.2}
    data = pf.simulate(model, truth, 0.5 * np.arange(1, 31), initial_state=[0.5], steps_per_interval=50, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws have not converged
        tree = pf.sample(model, data, steps_per_interval=2, chains=6, warmup=100, draws=50, seed=4, progress=False)
    turned = tree.posterior["state"].values[:, :, -1, 0] - tree.posterior["initial_state"].values[:, :, 0]
    assert np.all(np.abs(turned - np.median(turned)) < np.pi), "all chains count the same turns"
    assert np.all(tree.posterior["sigma"].mean("draw") < 1.0)
