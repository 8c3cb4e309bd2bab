"""Series in segments: the numbers of the oracle and of whole series, wherever they are cut, whoever does which."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import assume, example, given, seed, settings

from pathfold.data import Observations, TimeGrid
from pathfold.engine import Engine, GuidedEngine, LaplaceEngine, UnconstrainedEngine, plans
from pathfold.engine import engine as engine_module
from pathfold.engine import table as at
from pathfold.engine.helpers import helped
from pathfold.engine.native.tuning import Tuning
from pathfold.engine.slots import arrange_segments
from pathfold.engine.status import CONVERGED
from pathfold.example_models import fitzhugh_nagumo, ornstein_uhlenbeck
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless
from pathfold.sampling.starts import Point, find_starts
from pathfold.schemes import EulerMaruyama
from tests.dense import Dense
from tests.engine.driving import Driven
from tests.engine.models import Case, cases, draw_case, with_data_from
from tests.engine.test_oracle import GROWTH, TOLERANCE, all_errors, bounds, exceeded, moved
from tests.plain import compiled_native
from tests.thorough import sparing, thorough

LONG = Case(
    seed=5,
    X=2,
    B=2,
    Y=1,
    W=1,
    S=2,
    priors=("normal", "gamma"),
    starts=("normal",),
    lengths=(23,),
    lanes=4,
    path_scale=0.5,
)
# The series of two intervals stays whole, and is alone in its group.
SEVERAL = replace(LONG, lengths=(23, 2, 17), missing=True, regular=False, lanes=8)
CASES = {
    "noisy": LONG,
    "several, with gaps": SEVERAL,
    "exact": replace(LONG, W=0, S=3, starts=("normal", "gamma"), scheme="custom"),
    "varying": replace(LONG, varying=("normal given",), lengths=(24, 19), covariates=True),
    "from a likelihood": replace(LONG, noise="student", inputs=True, lengths=(17,)),  # the input ends at 9
    "large": replace(LONG, X=7, B=6, Y=3, W=3, lengths=(17,)),
}
LONGEST = 3
MOST_BY_JOINS = 1e6  # of a reference that knows nothing of what segments before have learned: 4e8 in `LEARNED`
LEARNED = draw_case(69560, scaled=True)  # path noise 1e-5, exact observations, two effects


def driven(case: Case, **options) -> tuple[Driven, np.ndarray, np.ndarray]:
    model, grid, rng = case.model(), case.grid(), np.random.default_rng(2)
    q, p = 0.3 * rng.normal(size=(2, Driven.dimension(model, grid)))
    return Driven(model, with_data_from(model, grid, q), lanes=case.lanes, **options), q, p


@pytest.mark.parametrize("name", sparing(CASES, "noisy", "large", "from a likelihood"))
def test_the_numbers_are_those_of_the_oracle(name):
    d, q, p = driven(CASES[name], longest=LONGEST)
    assert d.engine.slots.cuts is not None
    assert (d.engine.slots.before >= 0).sum() > 2
    found = all_errors(d, q, p)
    assert max(found.values()) < TOLERANCE, found


def integrated() -> DiffusionModel:
    """The position is seen exactly, and noise reaches it by the velocity, a step later."""
    return DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], -z["theta"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={"theta": dist.LogNormal(0.0, 1.0), "sigma": dist.LogNormal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=Noiseless(lambda x, z: x[:1]),
        scheme=EulerMaruyama(),
    )


EXAMPLES = {"fitzhugh_nagumo": (fitzhugh_nagumo.noiseless, 0.2, 4), "euler": (integrated, 0.5, 1)}


@pytest.mark.parametrize(("name", "length"), thorough(product(EXAMPLES, range(12, 24)), *product(EXAMPLES, (17, 18))))
def test_segments_may_begin_at_any_node_where_noise_reaches_what_is_seen_through_other_states(
    monkeypatch, name, length
):
    """Exact observations of a component without noise of its own: from one interval to the next it has no variance.

    So without a reference the filter of a segment has none to begin with, where no step gives it any.

    Of 17 intervals segments have 4 and 5, of 18 they have 2 and 3.
    """
    make, spacing, steps = EXAMPLES[name]
    model = make()
    grid = TimeGrid.build(Observations(spacing * np.arange(1, length + 1), np.zeros(length)), steps_per_interval=steps)
    q, p = 0.3 * np.random.default_rng(2).normal(size=(2, Driven.dimension(model, grid)))
    d = Driven(model, with_data_from(model, grid, q), lanes=4, longest=LONGEST)
    dense = d.dense
    found, allowed = all_errors(d, q, p), bounds(*dense.conditions(q), dense.mixed_condition(q, moved(q)))
    assert not exceeded(found, allowed), found
    if name == "euler":
        leave_out("reference", d, monkeypatch)
        with np.errstate(all="ignore"), pytest.raises(AssertionError):
            all_errors(d, q, p)


@pytest.mark.slow
@settings(max_examples=60)
@seed(3)
@given(cases(scaled=True))
@example(LEARNED)
def test_many_random_models_in_segments(case):
    """Errors are those of whole series, times what joins amplify; these are longer than where `bounds` was found."""
    case = replace(case, lengths=tuple(n + 16 for n in case.lengths), lanes=4)
    dense = Dense(case.model(), case.grid())
    rng = np.random.default_rng(case.seed + 2)
    q, p = 0.7 * rng.normal(size=dense.dim), rng.normal(size=dense.dim)
    with np.errstate(over="ignore"):
        assume(GROWTH * dense.amplification(q) < TOLERANCE)
    kappa, omega = dense.conditions(q)
    assume(GROWTH * kappa * omega**2 < 1.0)
    longest = dense.model.augmented_dim + 1
    whole, cut = (Driven(dense.model, dense.grid, dense=dense, lanes=case.lanes, longest=n) for n in (0, longest))
    allowed = bounds(kappa, omega, dense.mixed_condition(q, moved(q)), dense.start_condition(q))
    growth = max(10.0, join_condition(cut, q))
    assert growth < MOST_BY_JOINS
    in_whole = all_errors(whole, q, p)
    assert not exceeded(all_errors(cut, q, p), {name: max(growth * in_whole[name], allowed[name]) for name in allowed})


def join_condition(d: Driven, q: np.ndarray) -> float:
    """The largest ratio of eigenvalues of I + D Om, by which a join goes from the reference of a segment to P.

    The kernel keeps Om J, and J = (I + D Om)^{-1} = I - D Om J.
    """
    if d.engine.slots.cuts is None:
        return 1.0
    segment = d.engine.records["segment"]
    by_lane, _ = d.engine._by_lane(d.engine.record("point", d.point(q), "segment"), segment)
    P, P_ref, Om = (
        np.moveaxis(by_lane[:, :, segment.columns(name)], 2, 3).reshape(-1, *segment.fields[name])
        for name in ("P_in", "P_ref", "Om")
    )
    J = np.eye(P.shape[1]) - (P - P_ref) @ Om
    sizes = np.abs(np.linalg.eigvals(J[np.isfinite(J).all(axis=(1, 2))]))
    return float(np.max(sizes.max(axis=1) / sizes.min(axis=1)))


def leave_out(kernel: str, d: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bind the engine's plans without a kernel."""
    for plan in plans.PLANS:
        kept = [stage._replace(kernels=tuple(k for k in stage.kernels if k != kernel)) for stage in plan.stages]
        monkeypatch.setattr(plan, "stages", tuple(kept))
    d.engine.layout = d.engine.program.bind(d.engine.table)


JOINS = ("factors", "weights", "filters", "smoothers", "pulls", "cross_factors", "cross_filters", "cross_smoothers")


@pytest.mark.parametrize("kernel", [*(f"join_{name}" for name in JOINS), "hand_states", "survey"])
def test_what_is_not_handed_on_is_missed(monkeypatch, kernel):
    """A kernel that is left out, one at a time."""
    d, q, p = driven(CASES["exact"], longest=LONGEST)
    leave_out(kernel, d, monkeypatch)
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        assert max(all_errors(d, q, p).values()) < TOLERANCE


@pytest.mark.parametrize("name", ["several, with gaps", "varying"])
def test_a_step_is_that_of_whole_series(name):
    """Also in the iterations that it takes."""
    found = []
    for longest in (0, LONGEST):
        d, q, p = driven(CASES[name], plain=False, longest=longest)
        status, target, momentum = d.step(d.point(q), d.dense.project(q, p), 0.05)
        assert status == CONVERGED
        found.append((d.flat(target), momentum, d.counts.copy()))
    for whole, cut in zip(*found, strict=True):
        np.testing.assert_allclose(cut, whole, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["several, with gaps", "exact"])
def test_a_step_is_the_same_with_any_number_of_threads(name):
    d, q, p = driven(CASES[name], plain=False, longest=LONGEST)
    assert d.engine.parts > 1
    found = set()
    for count in (0, 1, 2, 5):
        with helped(d.engine.layout, count):
            status, target, momentum = d.step(d.point(q), d.dense.project(q, p), 0.1)
        assert status == CONVERGED
        found.add((d.flat(target).tobytes(), d.flat(d.engine.gradient(target)).tobytes(), momentum.tobytes()))
    assert len(found) == 1


def test_the_descent_weighs_series_as_a_whole():
    found = []
    for longest in (0, LONGEST):
        d, q, _ = driven(CASES["several, with gaps"], plain=False, longest=longest)
        engine, shares = d.engine, np.zeros(3)
        for name in ("row_relaxation", "gap_relaxation"):
            engine.set("problem", engine.problem, "settings", name, 0.1)
        point, scratch = d.raw_point(q), engine.block("scratch")
        compiled_native.constrained_step.linearise(d.machine(scratch), point)
        found.append((*compiled_native.descent.weigh(d.machine(scratch), point, shares), *shares))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10)


def test_initial_states_belong_to_series_not_to_segments():
    d, _, _ = driven(CASES["varying"], longest=LONGEST)
    vector, engine = d.engine.block("vector"), d.engine
    compiled_native.vectors.draw_normals(engine.layout, vector, np.random.default_rng(1))
    v0 = engine.record("vector", vector, "v0")
    assert len(v0) == engine.sizes.V0 * engine.slots.places
    assert (v0 != 0.0).sum() == engine.sizes.V0 * engine.series
    assert engine.get("vector", vector, "v0", "v0").all()


def test_the_length_of_trajectories_is_chosen_by_each_component_of_initial_states():
    """Only the second component of the initial states jumps, in all series."""
    d, _, _ = driven(replace(CASES["varying"], starts=("normal", "normal")), longest=LONGEST)
    engine, places = d.engine, d.engine.block("vector")
    choice, U, V0 = compiled_native.integration_time, engine.sizes.U, engine.sizes.V0
    engine.set("vector", places, "v0", "v0", np.tile(np.arange(V0) == 1, (engine.series, 1)))
    size, jumping = engine.layout[at.VECTOR_W], places[: engine.layout[at.VECTOR_W]]
    tuning = Tuning.of(1, size)
    tuning.squares[:], tuning.jumps[0, 0] = 1.0, 0.5 * jumping
    of_one = Tuning(*(rows[0] for rows in tuning))
    shares = [choice.independence(engine.layout, of_one, 0, U + c) for c in range(V0)]
    np.testing.assert_allclose(shares, [0.0, 1.0 / 3.0, 0.0])


def test_where_segments_lie():
    """A series of 21 in eight segments, longer ones first, one of 2 as it is; parts begin with a chunk of two rows."""
    slots = arrange_segments(np.array([0, 21]), 23, 4, 3, 2)
    np.testing.assert_array_equal(slots.of_series, [0, 8])
    np.testing.assert_array_equal(slots.rows, [0, 4, 8, 10])
    np.testing.assert_array_equal(slots.active, [4, 4, 4, 0, 4, 4, 1, 0, 1, 1])
    np.testing.assert_array_equal(slots.cuts, [0, 1, 2, 3])
    np.testing.assert_array_equal(slots.of_interval[:6], [0, 4, 8, 1, 5, 9])
    np.testing.assert_array_equal(slots.of_interval[-2:], [32, 36])
    np.testing.assert_array_equal(slots.before, [-1, 8, 9, 10, 11, 24, 21, 22, -1, -1, -1, -1])


def grid_of(*lengths: int, steps: int = 25) -> TimeGrid:
    series = [Observations(0.2 * np.arange(1, n + 1), np.zeros(n)) for n in lengths]
    return TimeGrid.build(series, steps_per_interval=steps)


@pytest.mark.parametrize(
    ("lengths", "longest"), [([1500], 0), ([4000], 33), ([40_000], 156), ([2000, 5, 2000], 33), (40 * [100], 0)]
)
def test_long_series_are_cut(lengths, longest):
    assert Engine(ornstein_uhlenbeck.noisy(), grid_of(*lengths)).longest == longest


def test_only_paths_on_the_manifold_are_cut(monkeypatch):
    monkeypatch.setattr(engine_module, "SHORTEST", 2)
    monkeypatch.setattr(engine_module, "WORK", 1)
    model, grid = ornstein_uhlenbeck.noisy(), grid_of(200, steps=2)
    assert Engine(model, grid).longest > 0
    assert Engine(model, grid, conditioned=True).longest == 0
    monkeypatch.setattr(engine_module, "MOST_STATES", 0)
    assert Engine(model, grid).longest == 0
    for other in (GuidedEngine, LaplaceEngine, UnconstrainedEngine):
        assert other(model, grid).longest == 0


def amplifying() -> DiffusionModel:
    """Three coupled states, which grow by e^4 from one observation to the next."""
    return DiffusionModel(
        drift=lambda x, z: 4.0 * jnp.sin(x) * z["rate"] + 0.3 * (jnp.roll(x, 1) - x),
        diffusion=lambda x, z: 0.1 * jnp.eye(3),
        parameters={"rate": dist.LogNormal(0.0, 0.1)},
        initial_state=dist.Normal(jnp.zeros(3), 0.1),
        observation=GaussianNoise(lambda x, z: x, 0.1),
    )


def constant() -> DiffusionModel:
    """A state that is drawn to another, which no noise reaches; both can be seen exactly."""
    return DiffusionModel(
        drift=lambda x, z: jnp.array([z["rate"] * (x[1] - x[0]), 0.0]),
        diffusion=lambda x, z: jnp.array([[0.3], [0.0]]),
        parameters={"rate": dist.LogNormal(0.0, 0.1)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=Noiseless(lambda x, z: x),
    )


@pytest.mark.parametrize("make", [amplifying, constant])
def test_where_a_reference_is_hard_to_find_numbers_are_those_of_whole_series(make):
    """Of the constant state one exact value is known, in the middle of the series."""
    model, rng, length = make(), np.random.default_rng(1), 40
    seen = np.zeros((length, model.state_dim))
    if make is constant:
        seen[:29, 1] = seen[30:, 1] = np.nan
    grid = TimeGrid.build(Observations(1.0 * np.arange(1, length + 1), seen), steps_per_interval=10)
    nodes, noise, found = 0.05 * rng.normal(size=seen.shape), rng.normal(size=10_000), []
    for longest in (0, 4):
        engine = Engine(model, grid, lanes=4, longest=longest)
        point, vector, scratch = (engine.block(kind) for kind in ("point", "vector", "scratch"))
        for block, scale in ((point, 0.3), (vector, 1.0)):
            engine.set_vector(
                block, *(scale * noise[: part.size].reshape(part.shape) for part in engine.get_vector(block))
            )
        engine.set("point", point, "node", "x_node", nodes)
        machine = engine.machine(scratch)
        assert compiled_native.constrained_step.linearise_and_factorise(machine, point) == CONVERGED
        compiled_native.constrained_step.project(machine, point, vector)
        projected = [part.ravel() for part in engine.get_vector(vector)]
        found.append(np.concatenate([*projected, [engine.get("point", point, "sums", "log_det")]]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-12)


def unstable() -> DiffusionModel:
    """A state that grows by e^3 from one observation to the next, in a potential with curvature."""
    return DiffusionModel(
        drift=lambda x, z: 3.0 * jnp.sin(x) * z["rate"],
        diffusion=lambda x, z: z["sigma"] * (1.0 + 0.3 * jnp.cos(x))[:, None],
        parameters={"rate": dist.LogNormal(0.0, 0.1), "sigma": dist.LogNormal(-1.0, 0.3)},
        initial_state=dist.Normal(0.0, 0.1),
        observation=GaussianNoise(lambda x, z: x, 0.1),
    )


def energy_error(engine: Engine, start: Point, t: float) -> float:
    """What a step of length t changes the energy by: the root mean square over momenta."""
    dynamics, found = compiled_native.dynamics, []
    blocks = [engine.block(kind) for kind in ("point", "point", "point", "vector", "scratch")]
    point, target, back, p, scratch = blocks
    machine = engine.machine(scratch)
    point[: p.size], engine.record("point", point, "node")[:] = start.position, start.nodes
    assert dynamics.prepare(machine, point) == CONVERGED
    for key in range(4):
        compiled_native.vectors.draw_normals(engine.layout, p, np.random.default_rng(key))
        compiled_native.constrained_step.project(machine, point, p)
        before = dynamics.hamiltonian(engine.layout, point, p)
        assert dynamics.step(machine, point, target, back, p, t, 0.5 * t, 0.5 * t) == CONVERGED
        found.append(dynamics.hamiltonian(engine.layout, target, p) - before)
    return float(np.sqrt(np.mean(np.square(found))))


@pytest.mark.parametrize("longest", [0, 5])
def test_gradients_of_unstable_series_are_right_however_long_they_are(longest):
    """A change grows by 1e78 along the series. Without rows of J in the gradient, no digit of it is right."""
    model, length = unstable(), 60
    data = Observations(1.0 * np.arange(1, length + 1), 0.3 * np.random.default_rng(4).normal(size=length))
    grid = TimeGrid.build(data, steps_per_interval=10)
    engine = Engine(model, grid, lanes=4, longest=longest)
    start = find_starts(engine, [0], seed=1, threads=1, relaxation=1.0).point(0)
    coarse, fine = energy_error(engine, start, 0.1), energy_error(engine, start, 0.05)
    assert 6.0 < coarse / fine < 10.0  # of third order
    engine.set("problem", engine.problem, "settings", "gap_relaxation", 1e-300)
    with pytest.raises(AssertionError):  # no step succeeds, so large is the gradient
        assert energy_error(engine, start, 0.05) < 100 * fine
