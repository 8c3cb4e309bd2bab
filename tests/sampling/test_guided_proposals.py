"""Guided proposals through pf.sample: against exact answers and other samplers; what they record, how they resume."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine, GuidedEngine
from pathfold.example_models import fitzhugh_nagumo
from pathfold.paper.guided_sampler import GuidedChain, guided_start
from pathfold.sampling import execution
from pathfold.sampling.chain import ChainTask
from tests.analysis.test_particle_filter import OBSERVATIONS, STEPS, TIMES, TRUTH, by_grid, double_well
from tests.sampling.comparing import array_stats, mean_scores, path_draws, threshold
from tests.sampling.small_run import CHAINS, DRAWS, WARMUP, assert_same_draws, model_and_data, small_run

FALSE_ALARMS = 1e-3  # for everything in this file together, slow tests included
TESTS = 5  # that compare draws


@cache
def guided_run() -> xr.DataTree:
    return small_run("guided")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(not converged|few effective draws)")
def test_a_double_well_against_a_grid():
    """log theta and its square, with the likelihood of theta from densities on a grid of states.

    Long steps over a barrier, where a Gaussian guide is too sure of itself: a million iterations are some hundred
    effective draws.
    """
    observation, values = OBSERVATIONS["noisy"]
    model = double_well(observation, parameters={"theta": dist.LogNormal(0.0, 1.0), "sigma": TRUTH["sigma"]})
    logs = np.linspace(-4.5, 3.0, 51)
    log_posterior = np.array([by_grid("noisy", values, math.exp(log)).sum() for log in logs]) - 0.5 * logs**2
    weight = np.exp(log_posterior - log_posterior.max())
    assert max(weight[0], weight[-1]) < 1e-3, "what lies beyond the grid does not count"
    weight /= weight.sum()
    tree = pf.sample(
        model,
        pf.Observations(TIMES, values),
        steps_per_interval=STEPS,
        draws=5000,
        seed=5,
        sampler=pf.GuidedProposals(thin=200),
        keep_path="none",
        progress=False,
    )
    found = np.log(tree.posterior["theta"].values)
    scores = mean_scores(np.stack([found, found**2]), np.array([weight @ logs, weight @ logs**2]))
    print(scores, array_stats.ess(found))
    assert np.abs(scores).max() < threshold(2, FALSE_ALARMS / TESTS), scores


def compare(a: xr.DataTree, b: xr.DataTree, names: list[str]) -> None:
    """Means and deviations of parameters, initial state and states at the nodes, of both samplers."""
    each = [np.concatenate([np.stack([t.posterior[name].values for name in names]), path_draws(t)]) for t in (a, b)]
    scores = []
    for kind, of in (("mean", np.mean), ("sd", np.std)):
        errors = [np.array([float(array_stats.mcse(x, method=kind)) for x in draws]) for draws in each]
        moments = [np.array([of(x) for x in draws]) for draws in each]
        scores.append((moments[0] - moments[1]) / np.hypot(*errors))
    print({name: np.round([z[i] for z in scores], 2).tolist() for i, name in enumerate(names)})
    print("largest of states", np.abs(np.array(scores)[:, len(names) :]).max())
    assert np.abs(scores).max() < threshold(np.size(scores), FALSE_ALARMS / TESTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variance", "scheme", "steps"),
    [(1e-4, pf.StrongOrder1p5(), 10), (1e-2, pf.StrongOrder1p5(), 10), (1e-2, pf.EulerMaruyama(), 25)],
)
def test_fitzhugh_nagumo_against_constrained_chains(variance, scheme, steps):
    """Two states of which noise moves one and one is seen; the law of the initial state is far from Gaussian.

    With longer Euler steps it has a second mode, from where the first step leaps over, that only random walks find.
    """
    scale = math.sqrt(variance)
    exact = fitzhugh_nagumo.data(fitzhugh_nagumo.noiseless(), 20)
    noise = np.random.default_rng(3).standard_normal(exact.values.shape)
    model = fitzhugh_nagumo.noisy(scale, scheme)
    data = pf.Observations(exact.times, exact.values + scale * noise)
    ours = pf.sample(model, data, steps_per_interval=steps, draws=5000, seed=4, progress=False)
    sampler = pf.GuidedProposals(thin=20)
    guided = pf.sample(model, data, steps_per_interval=steps, draws=2000, seed=4, sampler=sampler, progress=False)
    compare(guided, ours, ["sigma", "epsilon", "gamma", "beta"])


def test_noise_and_statistics_of_a_run():
    """The noise that is held is the model's own: it makes the path that was drawn."""
    tree = guided_run()
    held, drawn = tree.noise.isel(draw=-1), tree.posterior.isel(draw=-1)
    x, delta = drawn["initial_state"].values[:, 0], np.repeat(tree.constant_data["fine_step"].values, 4)
    for n, v in enumerate(np.moveaxis(held["path_noise"].values.reshape(CHAINS, -1), 1, 0)):
        x = x - delta[n] * 0.8 * (x - 0.4) + np.sqrt(delta[n]) * drawn["sigma"].values * v
        np.testing.assert_allclose(x, drawn["state"].values[:, n, 0], rtol=1e-9, atol=1e-9)
    stats = tree.sample_stats
    assert dict(stats["parameter_width"].sizes) == {"chain": CHAINS, "draw": DRAWS, "parameter_normal": 2}
    assert stats["parameter_normal"].values.tolist() == ["sigma", "tau"]
    assert stats["initial_normal"].values.tolist() == ["initial_state"]
    assert np.all(stats["n_steps"].values == 3 * 4), "of three iterations, each a path, two parameters and a start"
    np.testing.assert_allclose(stats["path_acceptance"].values, 1.0)
    for name in ("parameter_width", "initial_width", "rho"):
        values = stats[name].values
        assert np.all(values == values[:, :1]), "nothing is adapted after warm-up"
    assert np.ptp(tree.warmup_sample_stats["parameter_width"].values[0, :, 0]) > 0.0
    assert {"sampler", "thin", "reference"} <= set(tree.attrs)


def test_a_run_that_ended_anywhere_is_taken_up(monkeypatch, tmp_path):
    """In warm-up, with paths in the sum for the next reference; and later."""
    monkeypatch.setattr(execution, "ChainTask", partial(ChainTask, checkpoint_seconds=0.0))
    run = GuidedChain._run
    for most in (2, 10):
        calls = []

        def failing(self, *given, calls=calls, most=most):
            calls.append(1)
            if len(calls) > most:
                raise RuntimeError("out of power")
            return run(self, *given)

        monkeypatch.setattr(GuidedChain, "_run", failing)
        with pytest.raises(RuntimeError, match="out of power"):
            small_run("guided", checkpoint=tmp_path, threads=1)
    monkeypatch.setattr(GuidedChain, "_run", run)
    made = int(np.load(tmp_path / "chain_0.npz")["made"])
    assert WARMUP < made < WARMUP + DRAWS
    assert_same_draws(guided_run(), small_run("guided", checkpoint=tmp_path))


def test_other_samplers_begin_where_it_ended():
    """With a warm-up of their own, since a random walk has no step size that they could take over."""
    tree = small_run("static", start=guided_run(), warmup=None, draws=20)
    assert tree.attrs["warmup"] == 250
    tree = small_run("guided", start=tree, warmup=None, draws=20)
    assert tree.attrs["warmup"] == 500


def test_after_the_last_observation_the_path_is_free():
    """Its noise, as the states there show it, is standard normal."""
    model, data = model_and_data()
    data = pf.Observations([*data.times, data.times[-1] + 0.5], [*data.values[:, 0], np.nan], initial_time=0.3)
    settings: dict[str, Any] = {"chains": 2, "warmup": 100, "seed": 3, "keep_path": "all", "progress": False}
    tree = pf.sample(model, data, steps_per_interval=4, sampler=pf.GuidedProposals(), **settings)
    x, sigma, delta = tree.posterior["state"].values[:, :, -5:, 0], tree.posterior["sigma"].values, 0.5 / 4
    moved = np.diff(x, axis=-1) + delta * 0.8 * (x[..., :-1] - 0.4)
    noise = np.moveaxis(moved, -1, 0) / (np.sqrt(delta) * sigma)
    scores = mean_scores(np.concatenate([noise, noise**2]), np.repeat([0.0, 1.0], 4))
    assert np.abs(scores).max() < threshold(8, FALSE_ALARMS / TESTS), scores


def test_endpoints_are_what_is_seen():
    model, data = model_and_data()
    grid = TimeGrid.build(data, steps_per_interval=4)
    engine, guided = Engine(model, grid), GuidedEngine(model, grid)
    point, reference = engine.block("point"), guided.block("point")
    guess = guided_start(engine, guided, point, "endpoint")
    guided.record("point", reference, "node")[:] = guess.nodes
    seen = ~np.isnan(data.values[:, 0])
    following = np.searchsorted(np.flatnonzero(seen), np.arange(len(seen)))
    expected = np.repeat(data.values[seen, 0][following], 4)
    for field in ("x_start", "x_node"):
        np.testing.assert_array_equal(guided.get("point", reference, "node", field)[:, 0], expected)
