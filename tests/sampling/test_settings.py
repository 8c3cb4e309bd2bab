"""Settings of pf.sample and of samplers: what is refused, before anything is compiled, and in which words."""

from __future__ import annotations

import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.model.memory import CONTAINERS, available_memory, machine_memory
from pathfold.results.posterior import to_datatree
from pathfold.sampling import Run, Settings
from pathfold.sampling.draws import Draws
from pathfold.sampling.execution import shape_of_draws
from pathfold.sampling.selection import Selection
from tests.sampling.small_run import small_run

DATA = pf.Observations([1.0, 2.0, 3.0], [0.1, 0.2, 0.3])


@cache
def model() -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -z["k"].sum() * x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={"k": dist.LogNormal(jnp.zeros(2), 1.0)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )


@pytest.fixture(autouse=True)
def _compile_nothing(monkeypatch, request):
    """What is refused must be refused before."""

    def compiled(*_, **__):
        raise AssertionError("a sampler was compiled")

    if "runs" not in request.fixturenames:
        monkeypatch.setattr("pathfold.sampling.execution.compile_sampler", compiled)


@pytest.fixture
def runs():
    """For tests that do compile."""


class Text(os.PathLike):
    def __fspath__(self):
        return b"bytes"  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"chains": 0}, "chains must be a whole number of at least 1, not 0"),
        ({"draws": 2.5}, "draws must be a whole number"),
        ({"draws": "10"}, "draws must be a whole number of at least 1, not '10'"),
        ({"draws": [10]}, "draws must be a whole number"),
        ({"draws": 10**30}, "draws must be a whole number of at most"),
        ({"warmup": -1}, "warmup must be a whole number of at least 0"),
        ({"warmup": 2.5}, "warmup must be a whole number"),
        ({"start": "results.nc"}, "start must be what pf.sample returned, not 'results.nc'"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"seed": 2**64}, "seed must be a whole number of at most"),
        ({"threads": 0}, "threads must be a whole number of at least 1"),
        ({"steps_per_interval": 2.0}, "steps_per_interval must be a whole number"),
        ({"steps_per_interval": None, "max_step": 0.0}, "max_step must be a positive number, not 0.0"),
        ({"steps_per_interval": None, "max_step": np.nan}, "max_step must be a positive number"),
        ({"steps_per_interval": None, "max_step": True}, "max_step must be a positive number"),
        ({"steps_per_interval": None, "max_step": 1j}, "max_step must be a positive number"),
        ({"max_step": 0.1}, "give exactly one of steps_per_interval and max_step"),
        ({"keep_path": "some"}, "keep_path must be 'nodes', 'all' or 'none', not 'some'"),
        ({"keep_path": ["all"]}, "keep_path must be"),
        ({"keep_path": False}, "keep_path must be"),
        ({"keep_warmup": np.zeros(2)}, r"keep_warmup must be True or False, not array\(\[0., 0.\]\)"),
        ({"keep_warmup": "no"}, "keep_warmup must be True or False"),
        ({"progress": np.array([])}, "progress must be True or False"),
        ({"progress": None}, "progress must be True or False"),
        ({"executor": "x"}, "executor must be a concurrent.futures.Executor, .*, not 'x'"),
        ({"executor": ThreadPoolExecutor}, "executor must be a concurrent.futures.Executor"),
        ({"sampler": pf.ReplicaExchange}, r"made with parentheses: write sampler=pf.ReplicaExchange\(\)$"),
        ({"sampler": "dynamic"}, "sampler must be"),
        ({"checkpoint": 1}, "checkpoint must be the name of a folder, not 1"),
        ({"checkpoint": ""}, "checkpoint must be the name of a folder, not ''"),
        ({"checkpoint": b"folder"}, "checkpoint must be the name of a folder"),
        ({"checkpoint": Text()}, "checkpoint must be the name of a folder"),
        ({"checkpoint": Path(__file__)}, "checkpoint=.* cannot be used: it is a file"),
        ({"checkpoint": Path(__file__) / "below"}, "checkpoint=.* cannot be used: it is a file, or lies below one"),
        ({"checkpoint": "/proc/none"}, "checkpoint='/proc/none' cannot be used: .*; give a folder that can be written"),
    ],
)
def test_bad_settings_are_named(settings, sentence):
    with pytest.raises(pf.SettingsError, match=sentence):
        pf.sample(model(), DATA, **{"steps_per_interval": 2, "progress": False} | settings)


@pytest.mark.parametrize("sampler", [pf.StaticHMC, pf.DynamicHMC, pf.UnconstrainedHMC, pf.GuidedProposals])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"splitting": ""}, "splitting must be 'gaussian' or 'stormer-verlet', not ''"),
        (
            {"solver": {"max_iterations": 9}},
            r"solver must be pf.Solver\(\), with other tolerances or limits, not {'max",
        ),
        ({"observations_per_block": 1}, "observations_per_block must be a whole number of at least 2"),
        ({"initial_states": 3}, "initial_states must be 'descent', 'interpolation', 'adam' or 'adam-states', not 3"),
    ],
)
def test_bad_settings_of_samplers_are_named_where_they_have_a_meaning(sampler, settings, sentence):
    (name,) = settings
    if name in {each.name for each in fields(sampler)}:
        with pytest.raises(pf.SettingsError, match=sentence):
            sampler(**settings)
    else:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            sampler(**settings)


@pytest.mark.parametrize(
    ("sampler", "recorded"),
    [
        (None, {"constraint_tolerance": 1e-9, "integration_time": "adapted"}),
        (pf.UnconstrainedHMC(), {"splitting": "stormer-verlet", "initial_states": "descent", "metric": "adapted"}),
        (pf.GuidedProposals(initial_states="adam-states"), {"initial_states": "adam-states", "reference": "path"}),
        (
            pf.DynamicHMC(splitting="stormer-verlet", solver=pf.Solver(1e-6), observations_per_block=3),
            {"splitting": "stormer-verlet", "observations_per_block": 3, "constraint_tolerance": 1e-6},
        ),
        (pf.DynamicHMC(metric={"a": 2.0}), {"observations_per_block": 0, "metric": '{"a": 2.0}'}),
    ],
)
def test_results_record_what_samplers_are_set_to(sampler, recorded):
    found = settings(sampler=sampler).recorded
    assert {name: found[name] for name in recorded} == recorded
    assert "solver" not in found


@pytest.mark.parametrize("odd", [None, 3, "model", pf.DiffusionModel, DATA])
def test_what_is_no_model_is_named(odd):
    for attempt in (
        lambda: pf.sample(odd, DATA, steps_per_interval=2),
        lambda: pf.simulate(odd, {}, [1.0], steps_per_interval=2),
    ):
        with pytest.raises(pf.ModelError, match=r"model must be a pf.DiffusionModel\(...\), not "):
            attempt()


def test_an_executor_that_is_closed_or_besides_threads_is_refused():
    with ThreadPoolExecutor(1) as pool, pytest.raises(pf.SettingsError, match="threads or an executor, not both"):
        pf.sample(model(), DATA, steps_per_interval=2, executor=pool, threads=2)
    with pytest.raises(pf.SettingsError, match=r"executor cannot be used: .*; give one that is open"):
        pf.sample(model(), DATA, steps_per_interval=2, executor=pool)


@pytest.mark.parametrize("sampler", [pf.StaticHMC, pf.DynamicHMC, pf.UnconstrainedHMC])
@pytest.mark.parametrize("target", [0.0, 1.0, -0.5, np.nan, "0.8", None, [0.8], True])
def test_target_acceptance_lies_between_0_and_1(sampler, target):
    with pytest.raises(pf.SettingsError, match="target_acceptance must be a number between 0 and 1, not "):
        sampler(target_acceptance=target)


@pytest.mark.parametrize("time", [0.0, -1.0, np.inf, np.nan, "1", (1.0,), True])
def test_integration_time_is_positive(time):
    with pytest.raises(pf.SettingsError, match="integration_time must be a positive number, not "):
        pf.StaticHMC(integration_time=time)


def test_numbers_of_numpy_become_plain_ones():
    sampler = pf.StaticHMC(np.float32(1.5), np.array(0.75))  # pyright: ignore[reportArgumentType]
    assert (type(sampler.integration_time), type(sampler.target_acceptance)) == (float, float)
    assert (sampler.integration_time, sampler.target_acceptance) == (1.5, 0.75)


def settings(**changes: Any) -> Settings:
    given: dict[str, Any] = {"chains": 2, "warmup": 100, "draws": 300, "seed": 0, "keep": Selection.of(model())}
    return Settings.checked(**given | changes)


def test_draws_that_do_not_fit_are_refused(monkeypatch):
    times = np.arange(1.0, 101.0)
    data = pf.Observations(times, np.sin(times))
    monkeypatch.setattr("pathfold.model.memory.machine_memory", lambda: 4 * 2**30)
    for keep_path, remedy in (
        ("all", "keep_path='nodes' or 'none', fewer draws"),
        ("nodes", "take keep_path='none', fewer draws"),
    ):
        sentence = rf"the draws would take [\d.]+ GiB of memory, and this machine has 4.0 GiB: .*{remedy}"
        with pytest.raises(pf.SettingsError, match=sentence):
            pf.sample(model(), data, steps_per_interval=25, draws=10**6, keep_path=keep_path)  # pyright: ignore[reportArgumentType]
    with pytest.raises(pf.SettingsError, match=r"this machine has 4\.0 GiB: take fewer draws"):
        pf.sample(model(), data, steps_per_interval=25, draws=10**15, keep_path="none")
    with pytest.raises(pf.SettingsError, match="the noise of the path would take"):
        pf.simulate(model(), {"k": [1.0, 1.0]}, data.times, steps_per_interval=10**7)


def test_a_machine_that_does_not_tell_its_memory_refuses_nothing(monkeypatch):
    def unknown(name):
        raise ValueError("unrecognized configuration name")

    assert (machine_memory() or 2**30) > 2**28
    monkeypatch.setattr(os, "sysconf", unknown)
    monkeypatch.setattr("pathfold.model.memory.CONTAINERS", ())
    assert machine_memory() is None
    assert available_memory() is None


def test_memory_is_limited_by_a_container_and_what_is_taken_counts(monkeypatch, tmp_path):
    """Files that the system only repeats in memory make room for others."""
    for name, text in (("max", "3000000"), ("current", "2500000"), ("stat", "anon 1\ninactive_file 700000\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    monkeypatch.setattr("pathfold.model.memory.CONTAINERS", ((tmp_path, *CONTAINERS[0][1:]),))
    assert machine_memory() == 3_000_000
    assert available_memory() == 1_200_000
    (tmp_path / "memory.max").write_text("max")
    assert (machine_memory() or 2**30) > 2**28, "that is the machine's own"


@pytest.mark.parametrize("keep_path", ["nodes", "all", "none"])
def test_the_estimate_is_what_the_draws_take_and_warm_up_keeps_no_states(keep_path):
    grid = TimeGrid.build(DATA, steps_per_interval=5)
    without, kept = (
        shape_of_draws(model(), grid, settings(keep_path=keep_path, keep_warmup=keep)) for keep in (False, True)
    )
    draws = Draws.empty(without)
    arrays = (draws.z, draws.x0, draws.statistics, draws.nodes, draws.path)
    assert without.nbytes == sum(array.nbytes for array in arrays)
    states = {"none": 0, "nodes": 3, "all": 3 + 15}[keep_path]
    assert kept.nbytes - without.nbytes == 8 * 100 * states
    assert len(draws.z) == len(draws.statistics) == 400
    assert draws.rows("nodes", 0, 100).size == 0


@pytest.mark.parametrize("keep_path", ["nodes", "all"])
def test_the_results_are_one_copy_of_the_draws(keep_path):
    """At most: the results, what the chains have, and the temporary copy of one chain of eight."""
    times = np.arange(1.0, 301.0)
    grid = TimeGrid.build(pf.Observations(times, np.zeros(300)), steps_per_interval=20)
    given = settings(chains=8, keep_path=keep_path)
    draws = Draws.empty(shape_of_draws(model(), grid, given))
    draws.made = 400
    run: Any = Run(model(), grid, {**given.recorded}, [draws] * 8, {})
    to_datatree(run, keep_warmup=False, deterministics={})  # once before: JAX compiles, the model's source is read
    tracemalloc.start()
    try:
        tree = to_datatree(run, keep_warmup=False, deterministics={})
        size = tree.nbytes
        assert tracemalloc.get_traced_memory()[1] < 1.35 * size
    finally:
        tracemalloc.stop()


def test_states_of_a_whole_path_are_in_their_places():
    """Node states and those between, of an irregular grid that begins with an observation at the initial time."""
    grid = TimeGrid.build(pf.Observations([0.0, 1.0, 2.0], np.zeros(3)), steps_per_interval=3)
    given = settings(chains=1, warmup=0, draws=2, keep_path="all")
    draws = Draws.empty(shape_of_draws(model(), grid, given))
    draws.made = 2
    draws.path[0, :, :, 0] = [[9.0, 9.0, 9.0], [0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]  # states that steps begin from
    draws.nodes[0, :, 0] = [0.0, 3.0, 6.0]
    run = Run(model(), grid, {**given.recorded}, [draws], {})
    states = to_datatree(run, keep_warmup=False, deterministics={}).posterior["state"]
    assert states.values[0, 0, :, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("deterministics", "words"),
    [
        ({"a/b": lambda z: z["k"]}, ("the deterministic 'a/b'", "another name", "without '/'")),
        ({"": lambda z: z["k"]}, ("the deterministic ''", "another name")),
        ({3: lambda z: z["k"]}, ("the deterministic names must be strings",)),
        ({"k_dim_0": lambda z: z["k"][0]}, ("'k_dim_0' needs another name", "'k'")),
        ({"a": lambda z: z["k"], "a_dim_0": lambda z: z["k"][0]}, ("'a_dim_0' needs another name", "'a'")),
        ({"a": lambda z, path: path[3, 0]}, ("the deterministic 'a' indexes out of range",)),
        ({"a": lambda z, path: jnp.cumsum(path[:, 0])[10_000]}, ("the deterministic 'a' indexes out of range",)),
        ({"a": lambda z: z["k"][2]}, ("the deterministic 'a' indexes out of range",)),
        ({"a": lambda z: z["k"] * np.random.default_rng().normal()}, ("the deterministic 'a' gives another value",)),
        ([lambda z: z["k"]], ("deterministics must be a dict",)),
        ({"a": lambda *, z: z["k"]}, ("the deterministic 'a' takes arguments",)),
    ],
)
def test_deterministics_that_would_fail_later_are_refused_before(deterministics, words):
    with pytest.raises(pf.ModelError) as caught:
        pf.sample(model(), DATA, steps_per_interval=2, deterministics=deterministics)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.usefixtures("runs")
def test_a_deterministic_that_fails_over_all_draws_does_not_take_them_along():
    calls = []

    def fails_later(x):
        calls.append(1)
        if len(calls) > 2:
            raise MemoryError("too much")
        return np.asarray(x)

    def callback(z):
        shape = jax.ShapeDtypeStruct((), np.float64)
        return jax.pure_callback(fails_later, shape, z["sigma"], vmap_method="sequential")

    with pytest.warns(UserWarning, match="the deterministic 'a' was left out of the results") as caught:
        tree = small_run(deterministics={"a": callback, "b": lambda z: 2.0 * z["sigma"]}, draws=5)
    assert {w.filename for w in caught} == {small_run.__code__.co_filename}
    assert "a" not in tree.posterior
    np.testing.assert_array_equal(tree.posterior["b"], 2.0 * tree.posterior["sigma"])


@pytest.mark.usefixtures("runs")
def test_a_terminal_that_is_gone_does_not_end_a_run(monkeypatch):
    class Gone:
        def isatty(self):
            return False

        def write(self, *_):
            raise BrokenPipeError

        flush = write

    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", Gone())
        tree = small_run(progress=True, draws=5, chains=1)
    assert tree.posterior.sizes["draw"] == 5
