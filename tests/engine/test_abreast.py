"""Series abreast: panels of series of any number and length have the numbers of the oracle, and of one at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pathfold.data import Observations, TimeGrid
from pathfold.engine import LaplaceEngine, UnconstrainedEngine
from pathfold.engine import table as at
from pathfold.engine.slots import arrange, choose_abreast
from pathfold.engine.status import CONVERGED
from tests.engine.driving import Driven
from tests.engine.models import Case, with_data_from
from tests.engine.test_laplace import pass_errors
from tests.engine.test_lebesgue import model as lebesgue_model
from tests.plain import compiled_native
from tests.thorough import thorough

# Seven series of 1 to 5 intervals: in groups of four some lanes end early, and one has no series.
RAGGED = Case(
    seed=5,
    X=2,
    B=2,
    Y=1,
    W=1,
    S=2,
    priors=("normal", "gamma"),
    starts=("normal",),
    lengths=(3, 1, 5, 2, 2, 4, 1),
    lanes=4,
)
CASES = {
    "noisy, with gaps": replace(RAGGED, missing=True, regular=False, lanes=8),
    "exact": replace(RAGGED, B=1, W=0, S=3, starts=("normal", "gamma"), from_start=True, scheme="custom"),
    "varying": replace(RAGGED, varying=("gamma given", "normal given"), inputs=True, missing=True),
    "from a likelihood": replace(RAGGED, noise="student", lengths=(2, 2, 2, 2, 3)),
    "together": replace(
        RAGGED,
        varying=("gamma given", "normal given"),
        inputs=True,
        missing=True,
        regular=False,
        noise="student",
        lanes=8,
    ),
    "large": replace(RAGGED, X=7, B=6, Y=3, W=3, varying=("normal given",), lengths=(2, 1, 3, 1, 1)),
}


def driven(case: Case, **options) -> tuple[Driven, np.ndarray, np.ndarray, np.ndarray]:
    model, grid, rng = case.model(), case.grid(), np.random.default_rng(2)
    q, p, other = 0.3 * rng.normal(size=(3, Driven.dimension(model, grid)))
    return Driven(model, with_data_from(model, grid, q), lanes=case.lanes, **options), q, p, other


@pytest.mark.parametrize("name", thorough(CASES, "exact", "together"))
def test_ragged_panels_have_the_numbers_of_the_oracle(name):
    d, q, p, other = driven(CASES[name])
    assert d.engine.abreast == 4
    assert d.log_det_error(q) < 1e-10
    assert d.gradient_error(q, verlet=True) < 1e-9
    assert d.potential_error(q) < 1e-10
    assert max(d.projector_errors(q, p)) < 1e-9
    assert max(d.newton_errors(q, q + 0.1 * other).values()) < 1e-9


@pytest.mark.parametrize("fault", ["ended", "missing"])
def test_a_lane_that_is_not_masked_is_seen(fault):
    """A series that has ended takes part all the same, or a lane that has none."""
    d, q, _, other = driven(CASES["together"])
    active = slice(d.engine.layout[at.ACTIVE], d.engine.layout[at.ACTIVE] + d.engine.slots.rows[-1])
    counts = d.engine.layout[active]
    counts[:] = np.where(counts == 3, 4, counts) if fault == "missing" else np.where(counts < 3, 3, counts)
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        assert max(d.newton_errors(q, q + 0.1 * other).values()) < 1e-6


@pytest.mark.parametrize("name", ["exact", "together"])
def test_a_step_is_that_of_one_series_at_a_time(name):
    """Also in the iterations that it takes: idle lanes keep no solve from ending."""
    found = []
    for abreast in (1, 4):
        d, q, p, _ = driven(CASES[name], plain=False, abreast=abreast)
        status, target, momentum = d.step(d.point(q), d.dense.project(q, p), 0.05)
        assert status == CONVERGED
        found.append((d.flat(target), momentum, d.counts.copy()))
    for one, group in zip(*found, strict=True):
        np.testing.assert_allclose(group, one, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("curved", thorough([False, True], True))
def test_the_pass_of_the_laplace_approximation(curved):
    case = replace(CASES["varying"], seed=3)
    errors, condition = pass_errors(case, curved=curved)
    assert LaplaceEngine(case.model(), case.grid(), lanes=4).abreast == 4
    assert max(errors.values()) < 1e-14 * condition


def test_the_posterior_without_constraints():
    values = np.random.default_rng(4).normal(size=(5, 2))
    lengths = 2, 1, 5, 3, 1
    grid = TimeGrid.build([Observations(0.3 * np.arange(1, n + 1), values[:n]) for n in lengths], steps_per_interval=2)
    found = []
    for abreast in (1, 4):
        engine = UnconstrainedEngine(lebesgue_model(0.3), grid, lanes=8, abreast=abreast)
        rng, point = np.random.default_rng(1), engine.block("point")
        engine.set_vector(point, *(0.4 * rng.normal(size=part.shape) for part in engine.get_vector(point)))
        dynamics, scratch = compiled_native.dynamics, engine.block("scratch")
        assert dynamics.prepare(engine.machine(scratch), point) == CONVERGED
        parts = engine.get_vector(engine.gradient(point))
        found.append([np.array(dynamics.potential(engine.layout, point)), *parts])
    for one, group in zip(*found, strict=True):
        np.testing.assert_allclose(group, one, rtol=1e-10, atol=1e-12)


def test_where_series_lie():
    slots = arrange(np.array([0, 2, 5]), 6, 2)
    np.testing.assert_array_equal(slots.of_series, [1, 0, 2])
    np.testing.assert_array_equal(slots.rows, [0, 3, 4])
    np.testing.assert_array_equal(slots.active, [2, 2, 1, 1])
    np.testing.assert_array_equal(slots.of_interval, [1, 3, 0, 2, 4, 6])
    assert slots.count == 8


@pytest.mark.parametrize(
    ("lengths", "steps", "abreast"),
    [([100], 5, 1), ([50, 50], 1, 4), ([50, 50], 25, 1), ([8] * 30, 3, 4), ([8] * 30, 100, 4), ([500, 1, 1, 1], 5, 1)],
)
def test_series_go_abreast_where_that_pays(lengths, steps, abreast):
    first = np.cumsum([0, *lengths])
    assert choose_abreast(first[:-1], first[-1], steps, None) == abreast
