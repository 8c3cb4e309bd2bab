"""What counts as the same model: nothing is traced or compiled twice, and what is gone is freed."""

from __future__ import annotations

import copy
import gc
import pickle
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine, UnconstrainedEngine, compile, model_cache
from pathfold.errors import PathfoldError
from pathfold.program.arrays import Fill, Product
from pathfold.program.programs import Program


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    """Neither files nor what other tests compiled."""
    monkeypatch.setattr(model_cache, "find", lambda key, machine: None)
    monkeypatch.setattr(model_cache, "keep", lambda key, machine, entry: None)


@pytest.fixture
def unbuilt(monkeypatch):
    """Programs without code, for what is asked of their keys alone."""
    monkeypatch.setattr(
        compile.CompiledModel, "_build", lambda self: model_cache.Entry({}, {"carried": 0, "sums": "{}"})
    )


def model(rate: float = 0.731, name: str = "sigma", **changes) -> pf.DiffusionModel:
    settings = {
        "drift": lambda x, z: -rate * x,
        "diffusion": lambda x, z: jnp.array([[z[name]]]),
        "parameters": {name: dist.LogNormal(0.0, 1.0)},
        "initial_state": dist.Normal(jnp.zeros(1), 1.0),
        "observation": pf.GaussianNoise(lambda x, z: x, 0.25),
    }
    return pf.DiffusionModel(**(settings | changes))


def grid(count: int = 5, spacing: float = 0.5, steps: int = 3, series: int = 1, missing: bool = False) -> TimeGrid:
    values = np.linspace(0.0, 1.0, count)
    values[0] = np.nan if missing else 0.3
    one = pf.Observations(spacing * np.arange(1, count + 1), values)
    return TimeGrid.build([one] * series, steps_per_interval=steps)


@cache
def built() -> Engine:
    return Engine(model(rate=0.6161), grid())


def test_the_same_model_with_other_data_is_not_compiled_again(builds):
    one = model(rate=0.4242)
    program = Engine(one, grid()).program
    for other in (grid(6), grid(101), grid(5, 0.25), grid(5, 0.5, 7)):
        assert Engine(one, other).program is program
    assert Engine(one, grid(), splitting="stormer-verlet").program is program
    assert builds == ["built"]


def test_what_changes_the_kernels_is_a_variant_of_its_own(unbuilt, builds):
    one = model(rate=0.4141)
    irregular = TimeGrid.build(pf.Observations([0.1, 0.5, 0.6], np.zeros(3)), steps_per_interval=2)
    keys = {Engine(one, g).program.key for g in (grid(), irregular, grid(missing=True), grid(4, series=3))}
    keys |= {Engine(one, grid(), conditioned=True).program.key, UnconstrainedEngine(one, grid()).program.key}
    assert Engine(one, grid(5, series=7)).program.key in keys, "a panel has the kernels of another"
    assert len(keys) == len(builds) == 6


def test_an_equal_model_is_found_by_its_key(builds):
    first = model(rate=0.4343)
    program = Engine(first, grid()).program
    assert Engine(model(rate=0.4343), grid(7)).program is program
    assert Engine(model(rate=0.4343, name="another_name"), grid()).program is program, "names are not in the code"
    assert builds == ["built"]


@jax.custom_jvp
def doubled(x):
    return 2.0 * x


@doubled.defjvp
def _doubled_jvp(primals, tangents):
    return doubled(*primals), 3.0 * tangents[0]  # on purpose not the derivative


CHANGES = {
    "constant of a closure": {"rate": 0.732},
    "prior": {"parameters": {"sigma": dist.LogNormal(0.0, 1.1)}},
    "initial state": {"initial_state": dist.Normal(jnp.zeros(1), 2.0)},
    "noise": {"observation": pf.GaussianNoise(lambda x, z: x, 0.5)},
    "scheme": {"scheme": pf.StrongOrder1p5()},
    "drift": {"drift": lambda x, z: -0.731 * x**2},
    "derivative": {"drift": lambda x, z: -0.731 * jax.lax.stop_gradient(x)},
    "derivative by a rule": {"drift": lambda x, z: -0.731 * 0.5 * doubled(x)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_another(change, unbuilt):
    keys = {Engine(m, grid()).program.key for m in (model(), model(**CHANGES[change]))}
    assert len(keys) == 2


def test_the_key_depends_on_sources_and_versions_and_what_is_kept_on_the_machine(monkeypatch, unbuilt):
    one = compile.compile_model(model(), variant())
    sought = []
    monkeypatch.setattr(model_cache, "find", lambda key, machine: sought.append(key))
    keys = []
    for name, value in (("_sources", "edited"), ("_versions", ("pathfold 99",)), ("machine_name", "abacus"), ("x", "")):
        with monkeypatch.context() as patch:
            patch.setattr(compile, name, lambda value=value: value, raising=False)
            keys.append(one._key())
            compile.kept_or_made(keys[-1], one._build)
    assert len(set(keys)) == 3
    assert keys[2] == keys[3], "a run can be taken up on another machine"
    assert len(set(sought)) == 4


def variant() -> compile.Variant:
    return compile.Variant(compile.CONSTRAINED_METHOD, regular=True, complete=True, censored=False, conditioned=False)


def test_machine_code_of_a_model_that_is_gone_is_freed(monkeypatch):
    closed = []
    loaded = compile.Loaded

    def watched(objects):
        code = loaded(objects)
        weakref.finalize(code, closed.append, "freed")
        return code

    monkeypatch.setattr(compile, "Loaded", watched)
    one = model(rate=0.5151)
    engine = Engine(one, grid())
    program = weakref.ref(engine.program)
    del engine
    gc.collect()
    assert program() is not None, "it lives with the model"
    del one
    gc.collect()
    assert program() is None
    assert closed == ["freed"]


def test_a_copy_of_a_model_begins_with_nothing_kept():
    one = model(rate=0.5252)
    Engine(one, grid())
    twin = copy.copy(one)
    assert len(one.kept) == 1
    assert len(twin.kept) == 0
    assert Engine(twin, grid()).program is Engine(one, grid()).program


def test_a_program_sent_to_another_process_is_loaded_there():
    engine = built()
    sent = pickle.dumps(engine.program)
    assert pickle.loads(sent) is engine.program, "in the same process it is the same"
    compile._programs.pop(engine.program.key)
    arrived = pickle.loads(sent)
    assert arrived is not engine.program
    assert not np.array_equal(arrived.bind(engine.table), engine.layout)


def test_machine_code_is_not_run_on_another_processor():
    program = built().program
    foreign = compile.Program("key", "another processor", program.objects, program.facts)
    with pytest.raises(PathfoldError, match="compiled for another processor, but this machine is"):
        foreign.bind(np.zeros(1000, dtype=np.int64))


def test_another_processor_makes_its_code_of_the_assembly(monkeypatch):
    engine = built()
    kept = {}
    monkeypatch.setattr(model_cache, "keep", lambda key, machine, entry: kept.update(entry.objects))
    program = engine.program.for_any_machine([*engine.assembly()])
    foreign = pickle.loads(
        pickle.dumps(compile.Program("key", "another processor", {}, program.facts, program.assembly))
    )
    assert np.array_equal(foreign.bind(engine.table) == 0, engine.layout == 0)
    assert kept == engine.program.objects, "which it keeps"


def test_threads_that_load_a_program_at_once_load_it_once(monkeypatch):
    """Two loads would leave one thread with addresses of code that is gone."""
    engine, loads, loaded = built(), [], compile.Loaded

    def slow(objects):
        loads.append("loaded")
        time.sleep(0.1)
        return loaded(objects)

    monkeypatch.setattr(compile, "Loaded", slow)
    program = compile.Program("key", engine.program.machine, engine.program.objects, engine.program.facts)
    with ThreadPoolExecutor(3) as pool:
        bound = list(pool.map(lambda _: program.bind(engine.table), range(3)))
    assert loads == ["loaded"]
    assert len({layout.tobytes() for layout in bound}) == 1


def test_of_many_that_need_code_at_once_one_makes_it(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path / "new"))
    made = []

    def make() -> model_cache.Entry:
        made.append("made")
        time.sleep(0.3)
        return model_cache.Entry({"gram": b"code"}, {"carried": 1})

    with ThreadPoolExecutor(4) as pool:
        entries = list(pool.map(lambda _: compile.kept_or_made("key", make), range(4)))
    assert made == ["made"]
    assert {entry.objects["gram"] for entry in entries} == {b"code"}
    assert not list((tmp_path / "new").glob("*.lock"))


def test_a_build_that_is_interrupted_leaves_nothing_behind(monkeypatch):
    """Ctrl-C while LLVM works: the next call builds the model."""
    one, assemble = model(rate=0.8181), compile.assemble

    def interrupted(code):
        if "factorise" in code.name.split():
            raise KeyboardInterrupt
        return assemble(code)

    with monkeypatch.context() as patch:
        patch.setattr(compile, "assemble", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Engine(one, grid())
    assert len(one.kept) == 0
    assert Engine(one, grid()).program.objects


def test_variants_differ_by_all_their_fields():
    changes = ({}, {"regular": False}, {"lanes": 4}, {"censored": True})
    assert len({replace(variant(), **change) for change in changes}) == 4


def test_large_products_are_told_apart(monkeypatch):
    """They are loops over arrays, whose entries are the same nodes in whatever order they are multiplied."""

    def product(transposed: bool):
        def function(x):
            matrix = jnp.outer(x, x**2)
            return ((matrix.T if transposed else matrix) @ jnp.outer(x, x))[0]

        return function

    def text(transposed: bool) -> str:
        return Program(product(transposed), [(15,)]).text

    keys = [text(transposed) for transposed in (False, True, True)]
    assert keys[0] != keys[1]
    assert keys[1] == keys[2]
    monkeypatch.setattr(Product, "__repr__", lambda self: "product")
    monkeypatch.setattr(Fill, "__repr__", lambda self: "fill")
    assert text(False) == text(True), "by the loops alone"
