"""Values that people give by mistake, at every argument: a right answer, or a sentence that names the argument.

Every argument of every call is given every such value in turn. What is accepted is listed (ACCEPTED), so that a value
that becomes one silently is noticed; all else must raise an error of pathfold whose message names the argument. Values
that nobody gives (modules, objects that raise when they are looked at) may end in Python's own TypeError.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr

import pathfold as pf
from tests.thorough import sparing


def raising(*_):
    raise RuntimeError("raised by the user's own function")


ODD: dict[str, Any] = {
    "None": None,
    "True": True,
    "zero": 0,
    "minus one": -1,
    "2.5": 2.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "empty text": "",
    "text": "text",
    "empty list": [],
    "ragged": [1.0, [2.0, 3.0]],
    "dict": {"a": 1},
    "set": {1.0},
    "raising": raising,
    "no arguments": lambda: 0.0,
    "class": pf.EulerMaruyama,
    "distribution class": dist.Normal,
    "discrete": dist.Poisson(2.0),
    "no draws": dist.Normal(jnp.zeros(0), 1.0),
    "empty array": np.array([]),
    "cube": np.zeros((2, 2, 2)),
    "masked": np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]),
    "dates": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[D]"),
    "pandas NA": pd.NA,
    "date": datetime.date(2020, 1, 1),
    "text array": np.array(["a", "b", "c"]),
    "object array": np.array([1.0, "b", None], dtype=object),
    "frame": pd.DataFrame({"a": ["x", "y", "z"]}),
    "empty frame": pd.DataFrame(),
    "Dataset": xr.Dataset({"a": ("time", [1.0, 2.0, 3.0])}),
    "DataArray": xr.DataArray(3.0),
    "decimal": decimal.Decimal("1.5"),
}


@cache
def model() -> pf.DiffusionModel:
    return changed({})


def changed(parts: dict[str, Any]) -> pf.DiffusionModel:
    """The model with some of its parts replaced."""
    given: dict[str, Any] = PARTS | parts
    return pf.DiffusionModel(**given)


PARTS: dict[str, Any] = {
    "drift": lambda x, z: -z["k"] * x,
    "diffusion": lambda x, z: jnp.eye(1),
    "parameters": {"k": dist.LogNormal(0.0, 1.0)},
    "initial_state": dist.Normal(jnp.zeros(1), 1.0),
    "observation": pf.GaussianNoise(lambda x, z: x, 0.1),
    "scheme": pf.EulerMaruyama(),
    "inputs": None,
}
SERIES: dict[str, Any] = {
    "times": [1.0, 2.0, 3.0],
    "values": [0.1, 0.2, 0.3],
    "initial_time": 0.0,
    "inputs": None,
    "unit": None,
}
DATA = pf.Observations(**SERIES)
SAMPLE = {name: each for name, each in inspect.signature(pf.sample).parameters.items() if each.kind != each.VAR_KEYWORD}
SIMULATE: dict[str, Any] = {
    "model": None,
    "parameters": {"k": 1.0},
    "times": [1.0, 2.0],
    "initial_state": [0.5],
    "initial_time": 0.0,
    "steps_per_interval": 2,
    "max_step": None,
    "seed": 0,
    "inputs": None,
}


class Accepted(Exception):
    """All checks were passed: what follows would be compiled."""


def sample(argument: str, value: Any) -> None:
    given = {"model": model(), "data": DATA, "steps_per_interval": 2, "progress": False, argument: value}
    if argument == "max_step":
        given["steps_per_interval"] = None
    try:
        pf.sample(**given)
    except Accepted:
        return


def simulate(argument: str, value: Any) -> None:
    given = SIMULATE | {"model": model(), argument: value}
    if argument == "max_step":
        given["steps_per_interval"] = None
    values = pf.simulate(**given).values
    assert np.isfinite(values).all()


def observations(argument: str, value: Any) -> None:
    data = pf.Observations(**SERIES | {argument: value})
    assert np.isfinite(data.times).all()
    assert not np.isinf(data.values).any()


def build(argument: str, value: Any) -> None:
    changed({argument: value})


def observed(argument: str, value: Any) -> None:
    kinds: dict[str, Callable[[], Any]] = {
        "h": lambda: pf.Noiseless(value),
        "mean": lambda: pf.GaussianNoise(value, 0.1),
        "scale": lambda: pf.GaussianNoise(lambda x, z: x, value),
        "h of noise": lambda: pf.NoisyObservation(value, 1),
        "noise": lambda: pf.NoisyObservation(lambda x, z, w: x + w, value),
    }
    changed({"observation": kinds[argument]()})


def prior(argument: str, value: Any) -> None:
    changed({"parameters": {"k": value}})


def custom(argument: str, value: Any) -> None:
    step, noise_dim = (value, 1) if argument == "step" else (lambda x, z, v, delta, t: x + v, value)
    changed({"scheme": pf.CustomScheme(step, noise_dim)})


CALLS: dict[str, tuple[Callable[[str, Any], Any], dict[str, tuple[str, ...]]]] = {
    "Observations": (
        observations,
        {
            "times": ("time",),
            "values": ("value",),
            "initial_time": ("initial_time",),
            "inputs": ("inputs",),
            "unit": ("unit",),
        },
    ),
    "Input": (
        lambda argument, value: pf.Input(**{"times": [0.0, 1.0, 2.0], "values": [0.0, 1.0, 2.0], argument: value}),
        {"times": ("input's times", "input has times"), "values": ("values",), "kind": ("kind",)},
    ),
    "StaticHMC": (
        lambda argument, value: pf.StaticHMC(**{argument: value}),
        {name: (name,) for name in ("integration_time", "target_acceptance", "solver")},
    ),
    "DynamicHMC": (
        lambda argument, value: pf.DynamicHMC(**{argument: value}),
        {
            name: (name,)
            for name in ("target_acceptance", "splitting", "solver", "observations_per_block", "initial_states")
        },
    ),
    "UnconstrainedHMC": (
        lambda argument, value: pf.UnconstrainedHMC(**{argument: value}),
        {name: (name,) for name in ("target_acceptance", "metric", "splitting", "initial_states")},
    ),
    "ReplicaExchange": (
        lambda argument, value: pf.ReplicaExchange(**{argument: value}),
        {name: (name,) for name in ("rungs", "integration_time", "target_acceptance", "solver")},
    ),
    "GuidedProposals": (
        lambda argument, value: pf.GuidedProposals(**{argument: value}),
        {name: (name,) for name in ("reference", "thin", "initial_states")},
    ),
    "DiffusionModel": (build, {name: (name, name.removesuffix("s")) for name in PARTS}),
    "observation": (
        observed,
        {
            "h": ("observation function",),
            "mean": ("observation mean", "observation function"),
            "scale": ("scale",),
            "h of noise": ("observation function",),
            "noise": ("noise", "observation function"),
        },
    ),
    "prior": (prior, {"distribution": ("parameter 'k'", "drift")}),
    "CustomScheme": (custom, {"step": ("step",), "noise_dim": ("noise_dim", "step")}),
    "transform": (
        lambda argument, value: model().transform(**{"forward": jnp.sinh, "inverse": jnp.arcsinh, argument: value}),  # pyright: ignore[reportArgumentType]
        {"forward": ("forward",), "inverse": ("inverse",)},
    ),
    "simulate": (simulate, {name: (name,) for name in SIMULATE} | {"parameters": ("parameter",), "times": ("time",)}),
    "sample": (sample, {name: (name,) for name in SAMPLE} | {"deterministics": ("deterministic",)}),
}

NUMBERS = {"zero", "minus one", "2.5"}
ACCEPTED: dict[tuple[str, str], set[str]] = {
    ("Observations", "values"): {"masked"},
    ("Observations", "initial_time"): {"zero", "minus one"},
    ("Input", "times"): {"dates"},
    ("StaticHMC", "integration_time"): {"2.5", "None"},
    ("ReplicaExchange", "integration_time"): {"2.5", "None"},
    ("ReplicaExchange", "rungs"): {"None"},
    ("DiffusionModel", "initial_state"): {*NUMBERS, "decimal", "DataArray"},
    ("observation", "scale"): {"2.5", "decimal", "DataArray"},
    ("prior", "distribution"): NUMBERS,
    ("simulate", "initial_time"): {"zero", "minus one"},
    ("simulate", "max_step"): {"2.5"},
    ("simulate", "seed"): {"zero"},
    ("sample", "max_step"): {"2.5"},
    ("sample", "progress"): {"True"},
    ("sample", "keep"): {"None", "zero"},
    ("sample", "keep_warmup"): {"True"},
    ("sample", "warmup"): {"None", "zero"},
    ("sample", "seed"): {"zero"},
    ("sample", "max_seconds"): {"None", "2.5"},
    ("sample", "checkpoint"): {"None", "text"},
    **{("Observations", name): {"None"} for name in ("inputs", "unit")},
    ("DiffusionModel", "scheme"): {"None"},
    ("DiffusionModel", "inputs"): {"None", "text", "empty list"},
    **{("simulate", name): {"None"} for name in ("initial_state", "inputs")},
    **{(name, "observations_per_block"): {"None"} for name in ("StaticHMC", "DynamicHMC")},
    **{("sample", name): {"None"} for name in ("sampler", "deterministics", "executor", "start", "threads")},
}

CASES = [(call, argument) for call, (_, arguments) in CALLS.items() for argument in arguments]


def test_there_are_enough_of_them():
    assert len(CASES) * len(ODD) > 500


@pytest.fixture
def _compile_nothing(monkeypatch):
    def accept(*_, **__):
        raise Accepted

    monkeypatch.setattr("pathfold.sampling.execution.compile_sampler", accept)


def outcome(call: str, argument: str, value: Any, words: tuple[str, ...]) -> str:
    """An empty text if the value is refused as it should be, "accepted", or what was wrong."""
    try:
        CALLS[call][0](argument, value)
    except pf.PathfoldError as error:
        message = str(error)
        if len(message.split()) < 5 or "\n" in message:
            return f"no sentence: {message!r}"
        return "" if any(word in message for word in words) else f"does not name {argument}: {message}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


@pytest.mark.usefixtures("_compile_nothing")
@pytest.mark.parametrize(("call", "argument"), CASES)
def test_odd_values_are_refused_in_a_sentence(tmp_path, monkeypatch, call, argument):
    monkeypatch.chdir(tmp_path)
    words, accepted, wrong = CALLS[call][1][argument], set(), {}
    for name, value in ODD.items():
        found = outcome(call, argument, value, words)
        if found == "accepted":
            accepted.add(name)
        elif found:
            wrong[name] = found
    assert not wrong
    assert accepted == ACCEPTED.get((call, argument), set())


@pytest.mark.parametrize("name", ["", " ", "/", "a/b", "a\nb", "chain", "state", 3])
def test_odd_names_are_refused(name):
    attempts: dict[str, Callable[[], Any]] = {
        "parameter": lambda: changed({"parameters": {"k": 1.0, name: 1.0}}),
        "input": lambda: changed({"inputs": {name: pf.Input([0.0], [1.0])}}),
        "deterministic": lambda: sample("deterministics", {name: lambda z: z["k"]}),
    }
    for what, attempt in attempts.items():
        with pytest.raises(pf.ModelError, match=what) as caught:
            attempt()
        assert "name" in str(caught.value)
        assert "\n" not in str(caught.value)


TINY: dict[str, Any] = {"steps_per_interval": 2, "chains": 1, "warmup": 3, "draws": 4, "progress": False}
UNUSUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one draw": ({}, {"draws": 1, "warmup": 0}),
    "numbers of numpy": ({}, {name: np.int64(TINY[name]) for name in ("chains", "warmup", "draws")}),
    "arrays without dimensions": ({}, {"draws": np.array(4), "keep_warmup": np.bool_(True)}),
    "the greatest seed": ({}, {"seed": 2**63 - 1}),
    "many threads": ({}, {"threads": 10**6}),
    "whole paths with warm-up": ({}, {"keep_path": "all", "keep_warmup": True}),
    "no paths": ({}, {"keep_path": "none"}),
    "a checkpoint in a folder with a strange name": ({}, {"checkpoint": Path("ca che κ☃ '\"")}),
    "a checkpoint by a relative name": ({}, {"checkpoint": "a/b/c"}),
    "progress": ({}, {"progress": True}),
    "an executor with one thread": ({}, {"executor": ThreadPoolExecutor(1), "chains": 2}),
    "a very short integration time": ({}, {"sampler": pf.StaticHMC(integration_time=1e-9)}),
    "a target that is hardly met": ({}, {"sampler": pf.DynamicHMC(0.9999)}),
    "a target that is always met": ({}, {"sampler": pf.DynamicHMC(1e-9)}),
    "an empty dict of deterministics": ({}, {"deterministics": {}}),
    "a deterministic without entries": ({}, {"deterministics": {"none": lambda z: z["k"] * jnp.zeros(0)}}),
    "a deterministic that is not finite": ({}, {"deterministics": {"nan": lambda z: jnp.log(-z["k"])}}),
    "names of other alphabets": ({}, {"deterministics": {"κ ☃": lambda z: z["k"]}}),
    "values far away": ({"values": [1e90, -1e90, 1e90]}, {}),
    "values that are tiny": ({"values": [1e-300, 1e-300, 1e-300]}, {}),
    "times far away": ({"times": 1e9 + np.arange(3.0), "initial_time": 1e9 - 1.0}, {}),
    "an initial time long ago": ({"initial_time": -1e6}, {}),
    "times as dates": ({"times": ODD["dates"], "initial_time": -1.0, "unit": "days"}, {}),
    "an observation that is masked": ({"values": ODD["masked"]}, {}),
}


# What these ask for is in the results, or in their attributes; to save and load all of them takes a second.
SAVED = ("one draw", "numbers of numpy", "the greatest seed", "whole paths with warm-up", "names of other alphabets")


@pytest.mark.parametrize("case", sparing(UNUSUAL, "a target that is hardly met"))
@pytest.mark.filterwarnings("ignore:.*(converged|effective draws|stood still|failed|diverged)")
def test_unusual_calls_end_in_draws_or_in_a_sentence(tmp_path, monkeypatch, case):
    """What comes out can be saved, has as many draws as were asked for, and is finite."""
    monkeypatch.chdir(tmp_path)
    series, options = UNUSUAL[case]
    settings = TINY | options
    tree = pf.sample(model(), pf.Observations(**SERIES | series), **settings)
    posterior = tree.posterior
    assert dict(posterior.sizes)["draw"] == settings["draws"]
    assert ("state" in posterior) == (settings.get("keep_path") != "none")
    assert ("warmup_posterior" in tree) == bool(settings.get("keep_warmup", False))
    assert all(np.isfinite(posterior[name]).all() for name in ("k", "initial_state"))
    assert set(settings.get("deterministics", {})) <= set(posterior)
    if case in SAVED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree.to_netcdf("draws.nc")
        with xr.open_datatree("draws.nc") as loaded:
            np.testing.assert_array_equal(loaded.posterior["k"], posterior["k"])
