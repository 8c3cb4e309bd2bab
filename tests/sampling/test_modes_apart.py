"""Replica exchange in place of the default sampler: where starts are in several modes, there alone, always alike."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.engine import Engine
from pathfold.example_models import EXAMPLES, kuramoto
from pathfold.model import TimeGrid
from pathfold.sampling import modes_apart, whole_turns
from pathfold.sampling.alone import ChainEnded, chain_alone
from pathfold.sampling.chain_task import ChainTask
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.starts import Memory, find_starts, modes_of
from tests.sampling.test_replicas import STEPS, TIMES, Target, process, target, well

SHORT: dict[str, Any] = {"steps_per_interval": STEPS, "chains": 2, "warmup": 40, "draws": 20, "progress": False}


def run(model: pf.DiffusionModel, data: Any, **options: Any) -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that are too short
        return pf.sample(model, data, **SHORT | options)


def same(one: xr.DataTree, other: xr.DataTree) -> bool:
    return one.posterior.identical(other.posterior)


def engine_of(model: pf.DiffusionModel, data: Any, steps: int) -> Engine:
    engine = Engine(model, TimeGrid.build(data, steps_per_interval=steps))
    set_scales(engine)
    return engine


def modes_found(engine: Engine, seed: int) -> int:
    with np.errstate(all="ignore"):
        starts = find_starts(engine, [0], seed=seed, threads=1, relaxation=relative_spread(engine), thorough=True)
    return len(modes_of(engine, [*starts.candidates, *starts.besides]))


@pytest.mark.parametrize("kind", ["square", "counts"])
def test_both_modes_are_found_with_every_seed(kind):
    """Four searches miss one of them every second time; a share of half or less is missed by twelve in 1 of 4,000."""
    known: Target = target(kind)
    engine = engine_of(known.model(), known.data, STEPS)
    assert [modes_found(engine, seed) for seed in range(8)] == 8 * [2]


def test_one_mode_is_found_where_there_is_one():
    for kind in ("sign", "positive"):  # chains move between the two signs, over a low saddle
        assert [
            modes_found(engine_of(target(kind).model(), target(kind).data, STEPS), seed) for seed in range(4)
        ] == 4 * [1]


def test_the_rise_between_two_points_is_that_of_the_potential_on_the_line():
    """Of the square of a parameter, whose modes are on either side of zero, with a prior that is wide beside them."""
    observation = pf.GaussianNoise(lambda x, z: z["m"] ** 2 + 0.0 * x, 0.3)
    engine = engine_of(
        process(observation, m=dist.Normal(0.0, 10.0)), pf.Observations(TIMES, 4.0 + 0.0 * TIMES, 0.0), STEPS
    )
    with np.errstate(all="ignore"):
        found = find_starts(engine, [0], seed=0, threads=1, relaxation=relative_spread(engine), thorough=True)
    one, other = modes_of(engine, [*found.candidates, *found.besides])
    assert one.point.position[0] == pytest.approx(-other.point.position[0], abs=0.01)
    # At the middle the parameter is zero, and each of the data is missed by 4, that is by 4 / 0.3 standard deviations;
    # the determinant loses what the slope of the square had.
    misfit, slope = 0.5 * len(TIMES) * (4.0 / 0.3) ** 2, 2 * 2.0 * 10.0 / 0.3
    expected = misfit - 0.5 * np.log(1.0 + len(TIMES) * slope**2)
    assert Memory(engine).rise_between(one.point, other.point) == pytest.approx(expected, rel=1e-3)


def test_default_runs_with_several_modes_are_runs_of_replica_exchange(capfd):
    known = target("square")
    chosen = run(known.model(), known.data, progress=True)
    assert chosen.attrs["sampler"] == "ReplicaExchange"
    assert "several modes that matter" in chosen.attrs["sampler_chosen"]
    assert "pathfold: sampler was not given, and the searches for starts found several modes" in capfd.readouterr().err
    given = run(known.model(), known.data, sampler=pf.ReplicaExchange())
    assert "sampler_chosen" not in given.attrs
    assert same(chosen, given)
    with ThreadPoolExecutor(1) as pool:
        assert same(chosen, run(known.model(), known.data, executor=pool))


def test_what_is_asked_for_is_what_runs():
    known = target("square")
    static = run(known.model(), known.data, sampler=pf.StaticHMC())
    assert static.attrs["sampler"] == "StaticHMC"
    assert run(known.model(), known.data, start=static).attrs["sampler"] == "StaticHMC"
    exchanged = run(known.model(), known.data)
    again = run(known.model(), known.data, start=exchanged)
    assert again.attrs["sampler"] == "ReplicaExchange", "a run that goes on from replica exchange is one"
    assert "sampler_chosen" not in again.attrs
    assert run(known.model(), known.data, start=exchanged, sampler=pf.StaticHMC()).attrs["sampler"] == "StaticHMC"


@pytest.fixture
def task_of(monkeypatch):
    """The first task of a run, of which nothing is made."""
    tasks = []

    def stop(made, *_):
        tasks.append(made[0])
        raise KeyboardInterrupt

    def of(model: pf.DiffusionModel, data: Any, **options: Any) -> ChainTask:
        with pytest.raises(KeyboardInterrupt):
            pf.sample(model, data, **{"steps_per_interval": STEPS, "progress": False} | options)
        return tasks[-1]

    monkeypatch.setattr("pathfold.sampling.execution.execute", stop)
    return of


def test_its_warmup_is_longer_unless_that_is_given(task_of):
    known = target("square")
    assert task_of(known.model(), known.data).warmup == 400
    assert task_of(known.model(), known.data, warmup=30).warmup == 30
    assert task_of(target("positive").model(), target("positive").data).warmup == 250


@pytest.mark.parametrize("name", ["sir", "ornstein_uhlenbeck", "hare_lynx"])
def test_runs_with_one_mode_are_those_of_static_trajectories(name):
    """Also where the mode is bent, so that the potential rises between its ends, as that of an epidemic is."""
    example = EXAMPLES[name]
    runs = [
        run(example.model(), example.data(), seed=1, steps_per_interval=example.steps_per_interval, sampler=sampler)
        for sampler in (None, pf.StaticHMC())
    ]
    assert runs[0].attrs["sampler"] == "StaticHMC"
    assert same(*runs)


@pytest.mark.parametrize(("apart", "sampler"), [(modes_apart.APART, pf.StaticHMC), (0.0, pf.ReplicaExchange)])
def test_the_pilots_decide_where_a_mode_is_bent(task_of, monkeypatch, apart, sampler):
    """By the line between its ends alone, the epidemic would be taken to have several modes."""
    example = EXAMPLES["sir"]
    monkeypatch.setattr(modes_apart, "APART", apart)
    task = task_of(example.model(), example.data(), seed=1, steps_per_interval=example.steps_per_interval)
    assert isinstance(task.sampler, sampler)


def test_exact_data_and_many_data_are_left_to_static_trajectories():
    model, _ = well(1)
    exact = pf.DiffusionModel(
        drift=lambda x, z: 2.0 * (x - x**3),
        diffusion=lambda x, z: z["sigma"] * jnp.ones((1, 1)),
        parameters={"sigma": dist.LogNormal(np.log(0.5), 0.1)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Noiseless(lambda x, z: x**2),
    )
    for made, count, expected in ((model, 100, True), (model, 101, False), (exact, 10, False)):
        data = pf.simulate(made, {"sigma": 0.5}, 0.5 * np.arange(1, count + 1), steps_per_interval=10)
        assert modes_apart.bearable(engine_of(made, data, 3)) == expected


def test_a_checkpoint_goes_on_with_the_sampler_it_has(tmp_path, monkeypatch):
    known = target("square")
    whole = run(known.model(), known.data, draws=40)
    first = run(known.model(), known.data, checkpoint=tmp_path)
    assert first.attrs["sampler"] == pf.open_checkpoint(tmp_path).attrs["sampler"] == "ReplicaExchange"
    assert "sampler_chosen" in pf.open_checkpoint(tmp_path).attrs
    monkeypatch.setattr("pathfold.sampling.execution.stay_apart", None)  # nothing is sought or decided again
    assert same(run(known.model(), known.data, checkpoint=tmp_path, draws=40), whole)
    assert same(run(known.model(), known.data, checkpoint=tmp_path, draws=40, sampler=pf.ReplicaExchange()), whole)
    with pytest.raises(pf.SettingsError, match=r"not the same: .*sampler"):
        run(known.model(), known.data, checkpoint=tmp_path, sampler=pf.StaticHMC())


def test_jobs_of_single_chains_choose_alike(tmp_path):
    known = target("square")
    for chain in (1, 0):
        with pytest.raises(ChainEnded), chain_alone(chain):
            run(known.model(), known.data, checkpoint=tmp_path)
    assert same(run(known.model(), known.data, checkpoint=tmp_path), run(known.model(), known.data))


def oscillators(observe: Any, count: int = 2) -> tuple[pf.DiffusionModel, pf.Observations]:
    """Oscillators that are coupled, seen every two seconds: half a turn a second more is a turn more between data."""
    model = pf.DiffusionModel(
        drift=kuramoto.drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(count),
        parameters={
            "omega": dist.Normal(jnp.full(count, 2.0), 2.0),
            "K": dist.LogNormal(-0.5, 0.5),
            "sigma": dist.LogNormal(-1.5, 0.5),
        },
        initial_state=dist.Normal(jnp.zeros(count), 1.0),
        observation=pf.GaussianNoise(observe, 0.3),
    )
    truth = {"omega": 1.8 + 0.8 * np.arange(count), "K": 0.6, "sigma": 0.2}
    return model, pf.simulate(model, truth, 2.0 * np.arange(1, 7), steps_per_interval=20, seed=1)


def as_angles(x, z):
    return jnp.concatenate([jnp.cos(x), jnp.sin(x)])


def test_modes_that_are_a_turn_apart_are_found_with_every_seed():
    model, data = oscillators(as_angles)
    engine = engine_of(model, data, 20)
    for seed in range(8):
        with np.errstate(all="ignore"):
            found = find_starts(engine, [0], seed=seed, threads=1, relaxation=relative_spread(engine), thorough=True)
        modes = modes_of(engine, [*found.candidates, *found.besides])
        faster = np.array([2.0 * mode.point.position[:2] for mode in modes])  # than two radians a second
        assert faster[0] == pytest.approx([-0.32, 0.61], abs=0.05)
        for turns in (-1, 1):
            assert np.abs(faster - faster[0] - np.pi * turns).max(axis=1).min() < 0.1, "both of them"


def test_turns_of_angles_make_the_default_a_run_of_replica_exchange(task_of):
    model, data = oscillators(as_angles)
    assert isinstance(task_of(model, data, steps_per_interval=20).sampler, pf.ReplicaExchange)


PERIODIC = {
    "angle": (as_angles, [2.0 * np.pi, 2.0 * np.pi]),
    "phase": (lambda x, z: x, [0.0, 0.0]),
    "one of them": (lambda x, z: jnp.array([jnp.cos(x[0]), jnp.sin(x[0]), x[1]]), [2.0 * np.pi, 0.0]),
    "axis": (lambda x, z: jnp.cos(2.0 * x), [np.pi, np.pi]),
    "unseen": (lambda x, z: jnp.sin(x[:1]), [2.0 * np.pi, 0.0]),
    "share of a turn": (lambda x, z: jnp.sin(2.0 * np.pi * x), [1.0, 1.0]),
    "wave": (lambda x, z: jnp.cos(x) + 0.1 * x, [0.0, 0.0]),
}


@pytest.mark.parametrize("kind", PERIODIC)
def test_the_periods_by_which_nobody_sees_a_state_move(kind):
    observe, expected = PERIODIC[kind]
    model, data = oscillators(observe)
    engine = engine_of(model, data, 3)
    point = engine.block("point")
    engine.set("point", point, "node", "x_node", np.random.default_rng(1).normal(size=(6, 2)))
    assert whole_turns.periods_of(engine, point) == pytest.approx(np.array(expected))
    turned = whole_turns.nodes_turned(engine, engine.block("vector"), engine.record("point", point, "node"))
    assert len(turned) == (0, 4, 12)[int(np.count_nonzero(expected))]


def test_turns_are_whole_where_data_are():
    """Also after a pause; not at the nodes that it is cut at."""
    times = np.array([1.0, 2.0, 3.0, 6.0, 7.0])
    grid = TimeGrid.build(pf.Observations(times, np.zeros((5, 4)), initial_time=0.0), max_step=0.5)
    turns = whole_turns.turns_by_observation(grid)
    assert turns[grid.rows].tolist() == [1.0, 2.0, 3.0, 6.0, 7.0]
    assert np.all(np.diff(turns) > 0.0)
