"""Starting points: on the manifold for every example model, and a clear end when there is none."""

from __future__ import annotations

import itertools
import time
import warnings

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.engine import Engine
from pathfold.engine.native.start_search import guess_nodes
from pathfold.engine.native.thresholds import GUESSES
from pathfold.engine.native.trajectory import STATIC_POINTS
from pathfold.example_models import (
    cox_ingersoll_ross,
    fitzhugh_nagumo,
    integrated_ornstein_uhlenbeck,
    ornstein_uhlenbeck,
    sir,
)
from pathfold.model import TimeGrid
from pathfold.sampling import initialise
from pathfold.sampling.initialise import ATTEMPTS, CANDIDATES, Candidate, Start, best, find_start
from tests.dense import Dense
from tests.thorough import sparing

SIMULATED = {
    "cox_ingersoll_ross": cox_ingersoll_ross,
    "fitzhugh_nagumo": fitzhugh_nagumo,
    "integrated_ornstein_uhlenbeck": integrated_ornstein_uhlenbeck,
    "ornstein_uhlenbeck": ornstein_uhlenbeck,
}
EXAMPLES = [f"{name}-{kind}" for name in SIMULATED for kind in ("noiseless", "noisy")] + ["sir-noisy"]


def example(name: str) -> tuple[pf.DiffusionModel, pf.Observations]:
    """A model of the examples with a little data."""
    module, kind = name.split("-")
    if module == "sir":
        return sir.noisy(), sir.data()
    model = getattr(SIMULATED[module], kind)()
    data = pf.simulate(model, SIMULATED[module].TRUTH, 0.3 * np.arange(1, 9), steps_per_interval=100, seed=3)
    return model, data


class Search:
    """The search for starts of one chain."""

    def __init__(self, model: pf.DiffusionModel, data: pf.Observations | list[pf.Observations], steps: int) -> None:
        self.grid = TimeGrid.build(data, steps_per_interval=steps)
        self.engine = Engine(model, self.grid)
        self.dense = Dense(model, self.grid)
        self.points = np.zeros((STATIC_POINTS, self.engine.block_sizes["point"]))
        self.spread = float(np.var(self.grid.values[self.grid.mask]))

    def __call__(self, seed: int) -> tuple[int, np.ndarray]:
        """The number of attempts, and the position found."""
        engine = self.engine
        with np.errstate(all="ignore"):  # compiled code does not warn either; what is not finite is noticed
            made = find_start(
                engine.layout,
                engine.problem,
                self.points,
                engine.block("vector")[None],
                engine.block("scratch"),
                np.random.default_rng(seed),
                Start(relaxation=self.spread),
            )
        return made, np.concatenate([part.ravel() for part in engine.get_vector(self.points[0])])


LONG = ("fitzhugh_nagumo-noisy", "integrated_ornstein_uhlenbeck-noisy", "sir-noisy")


@pytest.mark.parametrize("name", sparing(EXAMPLES, *LONG))
def test_examples_start_on_the_manifold(name):
    model, data = example(name)
    search = Search(model, data, 5)
    attempts = []
    for seed in range(12):  # from one seed to another of SIR the number goes from 4 to 15
        made, q = search(seed)
        scale = max(1.0, np.abs(data.values).max())
        assert np.abs(search.dense.constraint(q)).max() < 1e-8 * scale
        attempts.append(made)
    assert np.mean(attempts) <= CANDIDATES + 4.0, attempts


@pytest.mark.parametrize("initial_state", [0.5, -0.3])  # of a negative one there is no logarithm
def test_nodes_are_guessed_near_the_data_from_states_known_or_not(initial_state):
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.ones(1),
        diffusion=lambda x, z: jnp.array([[0.01]]),
        parameters={},
        initial_state=[initial_state],
        observation=pf.Noiseless(lambda x, z: jnp.log(x)),
    )
    values = np.log([0.4, 0.9, 1.7, 2.2, 4.0])
    engine = Engine(model, TimeGrid.build(pf.Observations(np.arange(1.0, 6.0), values[:, None]), steps_per_interval=2))
    point = engine.block("point")
    with np.errstate(all="ignore"):  # compiled code does not warn either
        guess_nodes(engine.layout, engine.problem, point, GUESSES, engine.block("scratch"))
    assert np.abs(np.log(engine.get("point", point, "node", "x_node")[:, 0]) - values).max() < 1e-6


def test_starts_differ_between_chains_and_follow_the_seed():
    model, data = example("ornstein_uhlenbeck-noisy")
    search = Search(model, data, 3)
    starts = [search(seed)[1] for seed in (0, 1, 0)]
    assert np.array_equal(starts[0], starts[2])
    assert np.abs(starts[0] - starts[1]).max() > 0.1


@pytest.mark.parametrize(("stiff", "expected"), [(2, 2 + CANDIDATES), (100, ATTEMPTS // 2)])
def test_a_start_from_which_steps_must_be_tiny_is_drawn_again(monkeypatch, stiff, expected):
    """The first starts are said to be stiff: others are sought, and one of these taken when there is nothing better."""
    search = Search(*example("ornstein_uhlenbeck-noisy"), 3)
    steps, sought = itertools.chain([1e-3] * stiff, itertools.repeat(0.5)), initialise.try_start

    def said(*given):
        status, residual, _, potential = sought(*given)
        return status, residual, next(steps), potential

    monkeypatch.setattr(initialise, "try_start", said)
    made, q = search(0)
    assert made == expected
    assert np.abs(search.dense.constraint(q)).max() < 1e-8


def test_the_best_of_some_candidates_is_taken():
    """The most probable of those that allow long steps; stiff ones and far ones only when there are no others."""
    point = np.zeros(1)

    def candidate(step: float, potential: float, near: bool = True) -> Candidate:
        return Candidate(point, step, potential, near)

    probable, improbable, short = candidate(0.5, 3.0), candidate(0.9, 30.0), candidate(0.02, 1.0)
    assert best([improbable, probable, short]) is probable
    stiff, far = candidate(1e-3, -9.0), candidate(0.9, -9.0, near=False)
    assert best([stiff, far, improbable]) is improbable
    assert best([stiff, far]) is far


@pytest.mark.filterwarnings("ignore:.*few effective draws")
def test_chains_do_not_start_beyond_a_barrier():
    """An explicit step from far out leaps over the barrier of a double well: a chain that starts there stays there."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["theta"] * x * (1.0 - x**2),
        diffusion=lambda x, z: 0.87 * jnp.ones((1, 1)),
        parameters={"theta": dist.LogNormal(1.0, 0.7)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
    )
    times = 0.2 * np.arange(1, 21)
    data = pf.simulate(model, {"theta": 4.0}, times, initial_state=[1.0], steps_per_interval=200, seed=5)
    tree = pf.sample(model, data, steps_per_interval=10, chains=16, warmup=250, draws=400, seed=77, progress=False)
    assert tree.posterior["initial_state"].values.mean(axis=1).min() > 0.0
    steps = tree.sample_stats["step_size"].values.mean(axis=1)
    assert steps.max() < 4.0 * steps.min(), steps


def unreachable() -> pf.DiffusionModel:
    """y = tanh(x), which is never 2."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["theta"] * x,
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={"theta": dist.LogNormal(0.0, 0.5)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Noiseless(lambda x, z: jnp.tanh(x)),
    )


def test_impossible_data_end_soon_in_an_error_that_says_what_is_wrong():
    data = pf.Observations(0.25 * np.arange(1, 11), np.tanh(np.linspace(-1.0, 1.0, 10)))
    data.values[4] = 2.0
    begin = time.monotonic()
    with pytest.raises(pf.InitialisationError) as caught:
        pf.sample(unreachable(), data, steps_per_interval=4, chains=2, progress=False)
    assert time.monotonic() - begin < 60.0, "compilation included"
    message = str(caught.value)
    assert "30 projections of prior draws" in message  # the stage
    assert "residual" in message
    assert "1.25" in message, "the time of the observation that cannot be met"
    for mend in ("model can produce the data", "steps_per_interval", "priors"):
        assert mend in message


def test_angles_seen_as_sine_and_cosine_start_on_one_branch():
    """An oscillator that turns three times: no chain starts with leaps from turn to turn, which take a noise of 5."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["omega"] * jnp.ones(1),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "omega": dist.Normal(1.0, 0.5),
            "sigma": dist.LogNormal(-1.0, 0.5),
            "tau": dist.LogNormal(-1.5, 0.5),
        },
        initial_state=dist.Normal(jnp.zeros(1), 1.5),
        observation=pf.GaussianNoise(lambda x, z: jnp.concatenate([jnp.sin(x), jnp.cos(x)]), "tau"),
    )
    truth = {"omega": 1.3, "sigma": 0.3, "tau": 0.2}
    data = pf.simulate(model, truth, 0.5 * np.arange(1, 31), initial_state=[0.5], steps_per_interval=50, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws have not converged
        tree = pf.sample(model, data, steps_per_interval=2, chains=6, warmup=100, draws=50, seed=4, progress=False)
    turned = tree.posterior["state"].values[:, :, -1, 0] - tree.posterior["initial_state"].values[:, :, 0]
    assert np.all(np.abs(turned - np.median(turned)) < np.pi), "all chains count the same turns"
    assert np.all(tree.posterior["sigma"].mean("draw") < 1.0)
