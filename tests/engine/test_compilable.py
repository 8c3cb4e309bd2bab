"""Models that cannot be compiled as they are: another map for a prior, or an error that names the user's function."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.compile import CompiledModel
from pathfold.program.unsupported import UnsupportedPrimitive

GRID = TimeGrid.build(pf.Observations(np.array([1.0, 2.0]), np.array([0.1, 0.2])), steps_per_interval=2)


def model(drift=lambda x, z: -x, prior: dist.Distribution | None = None) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.array([[z["sigma"]]]),
        parameters={"sigma": prior or dist.LogNormal(0.0, 1.0)},
        initial_state=np.array([0.0]),
        observation=pf.Noiseless(lambda x, z: x),
    )


def test_a_function_that_cannot_be_compiled_is_named():
    with pytest.raises(pf.ModelError, match=r"drift cannot be compiled.*sort"):
        Engine(model(drift=lambda x, z: -jnp.sort(x)), GRID)


def test_a_quantile_function_that_cannot_be_compiled_gives_way_to_the_density(monkeypatch):
    """The uniform prior's quantile map, were it not compilable: a bijection, with the density kept."""
    as_it_is = model(prior=dist.Uniform(0.5, 2.0))
    assert as_it_is.parameters.excess is None
    calls, find_or_build = [], CompiledModel._find_or_build

    def once_refused(self):
        calls.append(self)
        if len(calls) == 1:
            raise UnsupportedPrimitive("erfc")
        return find_or_build(self)

    monkeypatch.setattr("pathfold.engine.compile.is_compilable", lambda function, *shapes: shapes[0] != {})
    monkeypatch.setattr(CompiledModel, "_find_or_build", once_refused)
    engine = Engine(as_it_is, GRID)
    assert len(calls) == 2
    assert engine.model.parameters.excess is not None


def test_a_mistake_of_the_engine_is_not_taken_for_one_of_the_model(monkeypatch):
    """It would be compiled again, with other maps."""
    built = []

    def mistaken(self):
        built.append(self)
        raise TypeError("a kernel has no such field")

    monkeypatch.setattr(CompiledModel, "_build", mistaken)
    with pytest.raises(TypeError, match="no such field"):
        Engine(model(drift=lambda x, z: -0.123 * x), GRID)
    assert len(built) == 1
