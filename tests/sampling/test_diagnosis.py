"""What an error says of a search for starts that cannot succeed."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.sampling.diagnosis import why_no_start
from tests.analysis import rich
from tests.once import once

TIMES = np.arange(1.0, 9.0)


@once
def model(**changes: Any) -> pf.DiffusionModel:
    parts: dict[str, Any] = {
        "drift": lambda x, z: -z["k"] * x,
        "diffusion": lambda x, z: jnp.eye(2),
        "parameters": {"k": dist.LogNormal(0.0, 0.3)},
        "initial_state": dist.Normal(jnp.array([1.0, 2.0]), 1.0),
        "observation": pf.Noiseless(lambda x, z: x),
        "states": ("slow", "fast"),
    }
    return pf.DiffusionModel(**parts | changes)


def said(m: pf.DiffusionModel, steps: int = 4, data: Any = None) -> str:
    data = pf.Observations(TIMES, np.zeros((8, m.observation_dim))) if data is None else data
    return why_no_start(m, TimeGrid.build(data, steps_per_interval=steps), seed=1)


def test_a_model_that_can_be_followed_has_nothing_to_be_said_of():
    assert said(model()) == ""
    assert said(model(diffusion=lambda x, z: 1e-6 * jnp.eye(2))) == ""
    assert said(model(observation=pf.GaussianNoise(lambda x, z: jnp.concatenate([x, x]), 0.1))) == ""


def test_panels_events_inputs_and_what_varies_are_followed():
    assert said(rich.model(), data=rich.panel()) == ""


def test_steps_that_are_too_long_are_told_with_those_that_are_not():
    """The fast state pulls back at a rate of 1000, and steps of 0.25 multiply its distance by 249 each."""
    stiff = model(
        drift=lambda x, z: jnp.array([-z["k"] * x[0], -1000.0 * (x[1] - x[0])]),
        observation=pf.GaussianNoise(lambda x, z: x[:1], 0.1),
    )
    data = pf.Observations(20.0 * TIMES, np.zeros(8))
    found = said(stiff, steps=80, data=data)
    for part in ("paths explode: 8 of 8", "in 'fast' after t = ", "At t = 0", "a rate of 1e+03", "steps of 0.25"):
        assert part in found, found
    assert "use scheme=pf.ExactLinearDrift(), whose long steps are stable too, or take 20000 or more" in found
    assert "steps_per_interval, or max_step = 0.001," in found
    assert said(stiff, steps=20000, data=pf.Observations(20.0 * TIMES[:1], [0.0])) == ""


def test_a_stiff_model_that_is_not_linear_is_led_to_implicit_steps_which_hold():
    def relaxing(scheme: Any = None) -> pf.DiffusionModel:
        return model(
            drift=lambda x, z: jnp.array([-z["k"] * x[0], -1000.0 * (x[1] - jnp.sin(x[0])) - x[1] ** 3]),
            observation=pf.GaussianNoise(lambda x, z: x[:1], 0.1),
            scheme=scheme,
        )

    data = pf.Observations(20.0 * TIMES, np.zeros(8))
    assert "use scheme=pf.LinearlyImplicit()," in said(relaxing(), steps=80, data=data)
    assert said(relaxing(pf.LinearlyImplicit()), steps=80, data=data) == ""


def test_a_drift_that_has_no_bound_is_not_laid_to_the_steps():
    found = said(
        model(drift=lambda x, z: 1.0 + 0.5 * jnp.abs(x)),
        data=pf.Observations(4000.0 * TIMES, np.zeros((8, 2))),
        steps=1000,
    )
    assert "paths explode" in found
    assert "which shorter steps do not mend" in found


def test_a_drift_that_is_not_a_number_is_no_explosion():
    found = said(model(drift=lambda x, z: -z["k"] * jnp.sqrt(x - 0.5), initial_state=[1.0, 0.6]))
    assert found.startswith("drift or diffusion is not a number where paths come")
    assert "end so, one of them at t = " in found


REDUNDANT: dict[str, tuple[dict[str, Any], str]] = {
    "the same twice": (
        {"observation": pf.Noiseless(lambda x, z: jnp.array([x[0], x[1], x[0]])), "observed": ("a", "b", "c")},
        "'a' at t = 1 and 'c' at t = 1 are redundant",
    ),
    "a sum": (
        {"observation": pf.Noiseless(lambda x, z: jnp.array([x[0], x[1], x[0] + 2.0 * x[1]]))},
        "y[0] at t = 1 and y[1] at t = 1 and y[2] at t = 1 are redundant",
    ),
    "no noise between": (
        {"diffusion": lambda x, z: jnp.array([[0.0], [1.0]]), "drift": lambda x, z: -x},
        "y[0] at t = 1 and y[0] at t = 2 are redundant",
    ),
}


@pytest.mark.parametrize("case", REDUNDANT)
def test_rows_that_are_redundant_are_named(case):
    changes, words = REDUNDANT[case]
    assert said(model(**changes)).startswith(words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (REDUNDANT["the same twice"][0], "^'a' at t = 1 and 'c' at t = 1 are redundant.*no start was found"),
        ({"drift": lambda x, z: -z["k"] * x**3, "initial_state": [20.0, 1.0]}, "^paths explode.*no start was"),
    ],
    ids=["redundant", "explosion"],
)
def test_the_error_begins_with_the_cause(changes, words):
    m = model(**changes)
    values = np.sin(TIMES)[:, None] * np.ones(m.observation_dim)
    with pytest.raises(pf.InitialisationError, match=words):
        pf.sample(m, pf.Observations(TIMES, values), steps_per_interval=2, chains=1, progress=False, threads=1)
