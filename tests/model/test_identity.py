"""Two models are the same if they compute the same, whatever their source."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.model.identity import digest, identity

ROOT = Path(__file__).parents[2]
PARTS: dict[str, Any] = {
    "drift": lambda x, z, t, inputs: inputs["u"] - z["k"] * x,
    "diffusion": lambda x, z: z["s"] * jnp.eye(2),
    "parameters": {"k": dist.LogNormal(0.0, 0.5), "s": dist.Gamma(2.0, 3.0)},
    "initial_state": dist.Normal(jnp.zeros(2), 1.0),
    "observation": pf.GaussianNoise(lambda x, z: x, 0.1),
    "inputs": {"u": pf.Input([0.0, 10.0], [1.0, 2.0])},
    "events": {"dose": lambda x, z, amount: x + amount},
    "states": ("a", "b"),
}


def model(**changes: Any) -> pf.DiffusionModel:
    return pf.DiffusionModel(**PARTS | changes)


def scaled(constant: Any):
    return lambda x, z: constant * x


CHANGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a closure": ({"drift": scaled(-1.0)}, {"drift"}),
    "a constant of the diffusion": ({"diffusion": lambda x, z: 2.0 * z["s"] * jnp.eye(2)}, {"diffusion"}),
    "a prior": ({"parameters": PARTS["parameters"] | {"k": dist.LogNormal(0.0, 0.6)}}, {"prior of 'k'"}),
    "a prior without quantiles": ({"parameters": PARTS["parameters"] | {"s": dist.Gamma(2.0, 3.1)}}, {"prior of 's'"}),
    "a prior that is fixed": ({"parameters": PARTS["parameters"] | {"k": 1.0}}, {"prior of 'k'"}),
    "the initial state": ({"initial_state": dist.Normal(jnp.zeros(2), 1.1)}, {"initial_state"}),
    "the noise": ({"observation": pf.GaussianNoise(lambda x, z: x, 0.11)}, {"observation"}),
    "values of an input": ({"inputs": {"u": pf.Input([0.0, 10.0], [1.0, 2.5])}}, {"input 'u'"}),
    "an event": ({"events": {"dose": lambda x, z, amount: x + 2.0 * amount}}, {"event 'dose'"}),
    "accumulators": ({"accumulators": "a"}, {"accumulators"}),
    "the scheme": ({"scheme": pf.Milstein()}, {"scheme"}),
    "names": ({"states": ("b", "a")}, {"names of the states"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_is_named(change):
    changes, names = CHANGES[change]
    one, other = identity(model()), identity(model(**changes))
    assert one.keys() == other.keys()
    assert {name for name in one if one[name] != other[name]} == names


def test_closures_are_told_apart_by_their_values():
    keys = [identity(model(drift=scaled(c)))["drift"] for c in (1.0, 9.0, np.array([1.0, 9.0]), np.array([9.0, 1.0]))]
    assert len({*keys}) == 4
    assert keys[0] == identity(model(drift=lambda y, z: 1.0 * y))["drift"], "the same computation in other words"


def test_the_last_digits_do_not_count():
    assert identity(model(drift=scaled(0.3)))["drift"] == identity(model(drift=scaled(0.1 + 0.2)))["drift"]
    assert identity(model(drift=scaled(0.3)))["drift"] != identity(model(drift=scaled(0.3 + 1e-7)))["drift"]


def test_a_likelihood_is_known_by_its_arguments():
    def counts(rate: float, plain: bool) -> str:
        seen = pf.Likelihood(lambda x, z: dist.Poisson(rate * jnp.exp(x[0])), plain=plain)
        return identity(model(observation=seen))["observation"]

    for plain in (False, True):
        assert counts(1.0, plain) == counts(1.0, plain)
        assert counts(1.0, plain) != counts(2.0, plain)


def test_other_processes_find_the_same():
    code = "from tests.model.test_identity import *; print(digest(identity(model())))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == digest(identity(model()))


LIMIT = 1.0


def test_python_functions_are_known_by_code_defaults_closures_and_globals(monkeypatch):
    def made(closed: Any, default: float):
        return lambda data, more=default: (data, closed, more, LIMIT)

    first = digest(made(1.0, 2.0))
    assert first == digest(made(1.0, 2.0))
    others = [made(1.5, 2.0), made(1.0, 2.5), partial(made(1.0, 2.0), more=3.0), lambda data: data, None]
    assert len({first, *map(digest, others)}) == 1 + len(others)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 2.0)
    assert digest(made(1.0, 2.0)) != first
