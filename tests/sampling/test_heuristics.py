"""The paper's heuristics for a start: guesses that lead onto the manifold, and clear errors where they do not apply."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.example_models import (
    cox_ingersoll_ross,
    fitzhugh_nagumo,
    integrated_ornstein_uhlenbeck,
    ornstein_uhlenbeck,
)
from pathfold.paper.heuristics import Heuristic, adam, guess_starts
from pathfold.sampling.starts import Point, find_starts
from tests.dense import Dense
from tests.thorough import thorough


def one_series(module: ModuleType, model: pf.DiffusionModel) -> list[pf.Observations]:
    return [pf.simulate(model, module.TRUTH, 0.3 * np.arange(1, 7), steps_per_interval=50, seed=3)]


def panel(module: ModuleType, model: pf.DiffusionModel) -> list[pf.Observations]:
    """Two series at irregular times, the first with a missing value."""
    first = pf.simulate(model, module.TRUTH, [0.2, 0.7, 1.1, 1.3], steps_per_interval=50, seed=4)
    first.values[1] = np.nan
    return [first, pf.simulate(model, module.TRUTH, [0.4, 0.9], steps_per_interval=50, seed=5)]


def engine_of(model: pf.DiffusionModel, data: list[pf.Observations], steps: int = 4) -> Engine:
    return Engine(model, TimeGrid.build(data, steps_per_interval=steps))


def flat(engine: Engine, block: np.ndarray) -> np.ndarray:
    """The position of a block in the order of the oracle."""
    return np.concatenate([part.ravel() for part in engine.get_vector(block)])


def project(engine: Engine, guess: Point) -> np.ndarray:
    """The position that a chain starts from."""
    with np.errstate(all="ignore"):  # compiled code does not warn either
        starts = find_starts(engine, [0], seed=0, threads=1, relaxation=1.0, guesses={0: guess})
    assert [candidate.way for candidate in starts.candidates] == ["guess"]
    return starts.point(0).position


type Case = tuple[Heuristic, ModuleType, Callable[[], pf.DiffusionModel]]

EXACT: dict[str, Case] = {
    "interpolation": ("interpolation", fitzhugh_nagumo, fitzhugh_nagumo.noiseless),
    "interpolation, noisy": ("interpolation", fitzhugh_nagumo, fitzhugh_nagumo.noisy),
    "adam": ("adam", ornstein_uhlenbeck, ornstein_uhlenbeck.noisy),
    "adam, hypoelliptic": ("adam", fitzhugh_nagumo, fitzhugh_nagumo.noisy),
}
NEAR: dict[str, Case] = {
    "adam-states": ("adam-states", integrated_ornstein_uhlenbeck, integrated_ornstein_uhlenbeck.noiseless),
    "adam-states, low rank": ("adam-states", fitzhugh_nagumo, lambda: fitzhugh_nagumo.noiseless(pf.EulerMaruyama())),
    "adam-states, curved": ("adam-states", cox_ingersoll_ross, cox_ingersoll_ross.noiseless),
}


@pytest.mark.parametrize("case", thorough([*EXACT, *NEAR], "adam"))
def test_guesses_lead_onto_the_manifold(case):
    choice, module, make = (EXACT | NEAR)[case]
    model = make()
    engine = engine_of(model, panel(module, model))
    dense = Dense(model, engine.grid)
    for guess in guess_starts(engine, choice, 0, range(2)).values():
        point = project(engine, guess)
        assert np.abs(dense.constraint(flat(engine, point))).max() < 1e-9
        moved = np.abs(point[: guess.position.size] - guess.position).max()
        if case in EXACT:
            assert np.abs(dense.constraint(flat(engine, guess.position))).max() < 1e-9
            assert moved < 1e-6
        else:
            assert 0.0 < moved < 0.5


def test_adam_ends_with_typical_observation_noise():
    """With a full matrix of scales and rows that are observed in part."""
    truth = {"theta": 0.7}
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["theta"] * x,
        diffusion=lambda x, z: jnp.diag(jnp.array([0.5, 0.8])),
        parameters={"theta": dist.LogNormal(0.0, 0.5)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, np.array([[0.3, 0.0], [0.2, 0.1]])),
    )
    data = pf.simulate(model, truth, 0.5 * np.arange(1, 6), steps_per_interval=20, seed=1)
    data.values[1, 0] = data.values[3, 1] = np.nan
    engine = engine_of(model, [data])
    guess = guess_starts(engine, "adam", 0, [0])[0]
    assert np.abs(Dense(model, engine.grid).constraint(flat(engine, guess.position))).max() < 1e-9
    _, _, w, _ = engine.get_vector(guess.position)
    assert np.sum(w**2) < engine.grid.mask.sum()


def test_guesses_follow_seed_and_chain_alone_and_can_be_sent():
    model = integrated_ornstein_uhlenbeck.noiseless()
    engine = engine_of(model, one_series(integrated_ornstein_uhlenbeck, model))
    all_of_them = guess_starts(engine, "adam-states", 3, range(3))
    alone = pickle.loads(pickle.dumps(guess_starts(engine, "adam-states", 3, [2])[2]))
    assert np.array_equal(alone.position, all_of_them[2].position)
    assert np.array_equal(alone.nodes, all_of_them[2].nodes)
    assert np.abs(alone.position - all_of_them[1].position).max() > 0.1
    assert np.abs(alone.position - guess_starts(engine, "adam-states", 4, [2])[2].position).max() > 0.1


@pytest.mark.parametrize(
    ("choice", "module", "make", "says"),
    [
        ("interpolation", *NEAR["adam-states, low rank"][1:], r"EulerMaruyama.*lower rank"),
        ("interpolation", *NEAR["adam-states, curved"][1:], r"Milstein.*is not linear"),
        ("adam", ornstein_uhlenbeck, ornstein_uhlenbeck.noiseless, r"pf\.GaussianNoise; this model has pf\.Noiseless"),
    ],
)
def test_unsuitable_models_are_refused_with_another_choice(choice, module, make, says):
    model = make()
    engine = engine_of(model, one_series(module, model))
    with pytest.raises(pf.InitialisationError, match=says + ".*'adam-states' or 'descent'"):
        guess_starts(engine, choice, 0, [0])


def test_what_did_not_succeed_is_named_with_times_and_residuals(monkeypatch):
    model = pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={"theta": dist.Normal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: jnp.tanh(x), 0.01),
    )
    engine = engine_of(model, [pf.Observations([0.5], [0.3]), pf.Observations([0.5, 1.25], [0.3, 2.0])])
    for choice in ("interpolation", "adam-states"):
        with pytest.raises(pf.InitialisationError, match=r"meet the observations .* by 1 at t = 1\.25 of series 1"):
            guess_starts(engine, choice, 0, [0])
    monkeypatch.setattr(adam, "ITERATIONS_OF_DENSITY", 20)
    with pytest.raises(pf.InitialisationError, match=r"Adam came to a mean square .* at t = 1\.25 of series 1"):
        guess_starts(engine, "adam", 0, [0])


@pytest.mark.parametrize("choice", thorough(["interpolation", "adam", "adam-states"], "adam"))
def test_runs_are_the_same_whatever_the_threads_and_resumed_or_not(choice, tmp_path):
    model, sampler = ornstein_uhlenbeck.noisy(), pf.DynamicHMC(initial_states=choice)
    settings = {"steps_per_interval": 3, "chains": 2, "warmup": 5, "draws": 5, "progress": False}

    def draws(**options):
        (data,) = one_series(ornstein_uhlenbeck, model)
        with warnings.catch_warnings(action="ignore"):  # five draws are few
            tree = pf.sample(model, data, sampler=sampler, **settings, **options)
        assert tree.attrs["initial_states"] == choice
        return tree.posterior["theta"].values

    expected = draws(threads=2)
    assert np.array_equal(draws(threads=1, checkpoint=tmp_path), expected)
    (tmp_path / "chain_1.npz").unlink()
    assert np.array_equal(draws(checkpoint=tmp_path), expected)


def test_unknown_choices_are_refused():
    with pytest.raises(pf.SettingsError, match="initial_states must be 'descent', 'interpolation'"):
        pf.DynamicHMC(initial_states="guess")  # pyright: ignore[reportArgumentType]
