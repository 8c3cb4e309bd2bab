"""Models whose kernels have loops, against dense linear algebra and automatic differentiation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pathfold.data import Observations, TimeGrid
from pathfold.engine.model_functions import LARGEST_MATRIX, check_size
from pathfold.engine.records import Sizes
from pathfold.errors import ModelError
from pathfold.example_models import lorenz96
from pathfold.model import DiffusionModel
from tests.engine.driving import Driven
from tests.engine.models import draw_case, with_data_from
from tests.engine.test_oracle import all_errors, bounds, exceeded, moved
from tests.engine.test_step import TOLERANCES, step_errors
from tests.thorough import thorough


def assert_no_errors(model: DiffusionModel, grid: TimeGrid) -> None:
    d = Driven(model, grid)
    rng = np.random.default_rng(2)
    q, p = 0.7 * rng.normal(size=d.dense.dim), rng.normal(size=d.dense.dim)
    kappa, omega = d.dense.conditions(q)
    allowed = bounds(kappa, omega, d.dense.mixed_condition(q, moved(q)))
    assert not exceeded(all_errors(d, q, p), allowed)


def grid(states: int, times: int) -> TimeGrid:
    values = np.random.default_rng(1).normal(size=(times, (states + 1) // 2))
    values[1, 0] = np.nan
    return TimeGrid.build([Observations(0.1 * np.arange(1, times + 1), values)], steps_per_interval=2)


@pytest.mark.parametrize(("states", "times"), thorough([(8, 3), (12, 5)]))
def test_lorenz_96(states, times):
    assert_no_errors(lorenz96.noisy(states), grid(states, times))


@pytest.mark.parametrize("states", thorough([5, 12, 40]))  # of five no kernel has a loop yet, as in `test_step.py`
def test_steps_of_lorenz_96(states):
    """The constraint holds, momenta stay cotangent, and the way back leads back, with both splittings."""
    model, rng = lorenz96.noisy(states), np.random.default_rng(3)
    q, p = 0.3 * rng.normal(size=(2, Driven.dimension(model, grid(states, 3))))
    d = Driven(model, with_data_from(model, grid(states, 3), q))
    p = d.dense.project(q, p)
    for splitting in ("gaussian", "stormer-verlet"):
        d.use_splitting(splitting)
        errors = step_errors(d, q, p, 0.1)
        assert all(errors[key] < tolerance for key, tolerance in TOLERANCES.items()), errors


@pytest.mark.slow
def test_a_model_without_zeros():
    """Every function couples all states: nothing is sparse, the noise depends on the state."""
    case = replace(draw_case(1), X=9, B=7, Y=5, W=5, scheme="euler", S=2, lengths=(3, 2), repeated_noise=False)
    assert_no_errors(case.model(), case.grid())


def test_too_large_models_are_refused():
    sizes = Sizes(X=40, M=40, V=40, U=50, Z=50, Y=20, W=20, V0=40, IN=0, F=0, C=0)
    check_size(sizes)
    with pytest.raises(ModelError, match="the 200 states with 200 noises per step"):
        check_size(replace(sizes, X=200, V=200))
    with pytest.raises(ModelError, match=f"the 400 parameters make .* above {LARGEST_MATRIX:,}"):
        check_size(replace(sizes, U=400, Z=400))
