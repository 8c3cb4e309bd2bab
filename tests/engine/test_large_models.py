"""Models whose kernels have loops, against dense linear algebra and automatic differentiation."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from pathfold.engine.functions import LARGEST_MATRIX, check_size
from pathfold.engine.records import Sizes
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel, GaussianNoise, Observations, TimeGrid
from pathfold.schemes import EulerMaruyama
from tests.engine.driving import Driven
from tests.engine.models import draw_case
from tests.engine.test_oracle import all_errors, bounds, exceeded, moved


def lorenz_96(states: int) -> DiffusionModel:
    """Half of the states observed, additive noise."""

    def drift(x, z):
        return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + z["F"]

    return DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(states),
        parameters={"F": dist.Normal(8.0, 2.0), "sigma": dist.LogNormal(-1.0, 0.5)},
        initial_state=np.linspace(-1.0, 1.0, states),
        observation=GaussianNoise(lambda x, z: x[::2], 0.5),
        scheme=EulerMaruyama(),
    )


def assert_no_errors(model: DiffusionModel, grid: TimeGrid) -> None:
    d = Driven(model, grid)
    rng = np.random.default_rng(2)
    q, p = 0.7 * rng.normal(size=d.dense.dim), rng.normal(size=d.dense.dim)
    kappa, omega = d.dense.conditions(q)
    allowed = bounds(kappa, omega, d.dense.mixed_condition(q, moved(q)))
    assert not exceeded(all_errors(d, q, p), allowed)


@pytest.mark.parametrize(("states", "times"), [(8, 3), pytest.param(12, 5, marks=pytest.mark.slow)])
def test_lorenz_96(states, times):
    values = np.random.default_rng(1).normal(size=(times, states // 2))
    values[1, 0] = np.nan
    grid = TimeGrid.build([Observations(0.1 * np.arange(1, times + 1), values)], steps_per_interval=2)
    assert_no_errors(lorenz_96(states), grid)


@pytest.mark.slow
def test_a_model_without_zeros():
    """Every function couples all states: nothing is sparse, the noise depends on the state."""
    case = replace(draw_case(1), X=9, B=7, Y=5, W=5, scheme="euler", S=2, lengths=(3, 2), repeated_noise=False)
    assert_no_errors(case.model(), case.grid())


def test_too_large_models_are_refused():
    sizes = Sizes(X=40, V=40, U=50, Z=50, Y=20, W=20, V0=40, IN=0)
    check_size(sizes)
    with pytest.raises(ModelError, match="the 200 states with 200 noises a step"):
        check_size(replace(sizes, X=200, V=200))
    with pytest.raises(ModelError, match=f"the 400 parameters make .* above {LARGEST_MATRIX:,}"):
        check_size(replace(sizes, U=400, Z=400))
