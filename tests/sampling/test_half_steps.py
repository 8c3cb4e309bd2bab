"""The hint that the posterior depends on the time step, against posteriors that are known."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy.stats import norm

import pathfold as pf
from pathfold.data import Data
from pathfold.example_models import lorenz96
from pathfold.results.diagnostics import _time_step, troubles
from tests.once import once
from tests.sampling.linear_gaussian import Exact, ornstein_uhlenbeck

SEEN = "the posterior depends on the time step"


def shift_of(tree: xr.DataTree, name: str) -> np.ndarray:
    return tree.half_step_shift[name].mean(("chain", "draw")).values


def run(model: pf.DiffusionModel, data: Data, steps: int, **options) -> tuple[xr.DataTree, str]:
    """The draws, and what was warned of."""
    settings: dict[str, Any] = {"seed": 1, "progress": False} | options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = pf.sample(model, data, steps_per_interval=steps, **settings)
    return tree, " ".join(str(each.message) for each in caught)


@pytest.mark.parametrize("steps", [1, 16])
def test_the_shift_of_a_slope_is_that_of_its_exact_posterior(steps):
    """dx = a t dt + dW, seen exactly: the steps' sums of t take the place of its integral, a is a linear regression."""
    model = pf.DiffusionModel(
        drift=lambda x, z, t: jnp.array([z["a"] * t]),
        diffusion=lambda x, z: jnp.eye(1),
        parameters={"a": dist.Normal(0.0, 5.0)},
        initial_state=[0.0],
        observation=pf.Noiseless(lambda x, z: x),
    )
    times = np.arange(1.0, 21.0)
    data = pf.simulate(model, {"a": 1.0}, times, steps_per_interval=1000, seed=4)
    rise = np.diff(data.values[:, 0], prepend=0.0)

    def mean_and_spread(steps: int) -> tuple[float, float]:
        slope = times - 1.0 + (steps - 1) / (2 * steps)
        precision = slope @ slope + 5.0**-2
        return float(slope @ rise / precision), float(precision**-0.5)

    (mean, spread), (finer, _) = mean_and_spread(steps), mean_and_spread(2 * steps)
    tree, text = run(model, data, steps, chains=4, warmup=50, draws=50)
    shift = float(shift_of(tree, "a"))
    # The sums differ by 2 % at most; first order leaves out twice that, relative, and as much of the residuals.
    assert shift == pytest.approx((finer - mean) / spread, rel=0.06, abs=0.02)
    told = f"{SEEN}: with twice as many steps a would move by about -1.0 of its standard deviations; take more steps"
    assert (told in text) == (steps == 1)


def test_the_shift_of_a_noise_scale_is_that_of_its_exact_posterior():
    """Of a process whose steps have too little variance, to a tenth of a standard deviation; too little to warn of."""
    process = ornstein_uhlenbeck(noisy=False)
    times = 0.5 * np.arange(1, 25)
    data = pf.simulate(process.model(known=True), process.values, times, steps_per_interval=100, seed=3)
    coarse, fine = (Exact(process, data, steps).unknown.parameters for steps in (2, 4))
    exact = [(fine[name][0] - coarse[name][0]) / np.sqrt(coarse[name][1]) for name in process.free]
    assert exact[1] > 0.2
    tree, text = run(process.model(known=False), data, 2, chains=8, warmup=100, draws=100)
    theta, mu, sigma = (float(shift_of(tree, name)) for name in ("theta", "mu", "sigma"))
    assert mu == 0.0  # it is known
    np.testing.assert_allclose([theta, sigma], exact, atol=0.1)
    assert SEEN not in text


def test_the_shift_of_exact_steps_with_noise_in_proportion_is_that_of_their_exact_posterior():
    """dx = -k x dt + s x dW, seen exactly: ratios of neighbours are independent, with one normal or two.

    Given s the ratio m + s c v of one step is normal, that of two an integral over the first normal. Shifts are in
    units of the linearised posterior, where log s has the precision 1 + sum v^2 / 4 in units of its prior.
    """
    k, gap, truth, count = 1.0, 0.3, 0.05, 40
    model = pf.DiffusionModel(
        drift=lambda x, z: -k * x,
        diffusion=lambda x, z: z["s"] * x[:, None],
        parameters={"s": dist.LogNormal(-3.0, 0.5)},
        initial_state=[1.0],
        observation=pf.Noiseless(lambda x, z: x),
        scheme=pf.ExactLinearDrift(),
    )
    ratios = np.exp(-k * gap + truth * np.sqrt(gap) * np.random.default_rng(5).standard_normal(count))
    data = pf.Observations(gap * np.arange(1, count + 1), np.cumprod(ratios))
    s, v = np.linspace(0.02, 0.1, 400), np.linspace(-6.0, 6.0, 241)

    def factor(length: float) -> tuple[float, np.ndarray]:
        return np.exp(-k * length), s * np.sqrt(-np.expm1(-2.0 * k * length) / (2.0 * k))

    def mean_of(density: np.ndarray) -> float:
        """The mean of s, from the density (count, 400) of every ratio given it."""
        log = np.log(density).sum(axis=0) - np.log(s) - 0.5 * ((np.log(s) + 3.0) / 0.5) ** 2
        return float(np.average(s, weights=np.exp(log - log.max())))

    mean = mean_of(norm.pdf(ratios[:, None], *factor(gap)))
    middle, width = factor(gap / 2)
    first = middle + width[:, None] * v
    finer = mean_of(
        (norm.pdf(ratios[:, None, None], middle * first, first * width[:, None]) * norm.pdf(v)).sum(axis=-1)
    )
    misses = (ratios - factor(gap)[0]) / np.interp(mean, s, factor(gap)[1])
    exact = (finer - mean) / (0.5 * mean / np.sqrt(1.0 + 0.25 * misses @ misses))
    assert exact > 0.3
    tree, text = run(model, data, 1, chains=8, warmup=100, draws=100)
    # Squares of what half steps change, 5 % of the noise, are left out.
    assert float(shift_of(tree, "s")) == pytest.approx(exact, rel=0.1, abs=0.03)
    assert f"{SEEN}: with twice as many steps s would move by about +0" in text
    assert "pf.ExactLinearDrift()" not in text


def test_exact_steps_are_the_same_in_halves():
    """A drug with doses, noise that does not depend on the amounts, and rates of each subject's own."""
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-x[0], x[0] - z["k"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={"sigma": dist.LogNormal(-2.0, 0.5), "k": pf.Varying(dist.LogNormal(-1.0, 0.3))},
        initial_state=[0.0, dist.Normal(0.5, 0.1)],
        observation=pf.GaussianNoise(lambda x, z: x[1:], 0.1),
        events={"dose": lambda x, z, amount: x.at[0].add(amount)},
        scheme=pf.ExactLinearDrift(),
    )
    doses = {"dose": ([0.0, 2.5], 1.0)}
    people = [
        pf.Observations([0.0, 1.0, 2.0, 4.0], y, events=doses) for y in ([0.6, 0.9, 0.7, 0.8], [0.4, 0.8, 0.5, 0.6])
    ]
    tree, text = run(model, people, 2, chains=2, warmup=20, draws=20)
    for name in ("sigma", "k", "initial_state"):
        np.testing.assert_allclose(tree.half_step_shift[name], 0.0, atol=1e-7)
    assert SEEN not in text


PANEL = {"slow": np.arange(1.0, 16.0), "long": np.arange(1.0, 21.0), "rare": np.arange(2.0, 21.0, 2.0)}
MEAN, SPREAD, START, TAU = (0.0, 2.0), 1.5, (0.5, 0.8), 0.6


@once
def accelerating(**changes: Any) -> pf.DiffusionModel:
    """dx = a t dt + dW with noise, each series with its own slope a and start: all of it Gaussian."""
    parts: dict[str, Any] = {
        "drift": lambda x, z, t: jnp.array([z["a"] * t]),
        "diffusion": lambda x, z: jnp.eye(1),
        "parameters": {
            "a": pf.Varying(lambda z: dist.Normal(z["mean"], SPREAD)),
            "tau": TAU,
            "mean": dist.Normal(*MEAN),
        },
        "initial_state": dist.Normal(jnp.full(1, START[0]), START[1]),
        "observation": pf.GaussianNoise(lambda x, z: x, "tau"),
    }
    return pf.DiffusionModel(**parts | changes)


def panel() -> dict[str, pf.Observations]:
    rng, found = np.random.default_rng(3), {}
    for (name, times), slope in zip(PANEL.items(), (0.7, 1.0, -0.8), strict=True):
        path = 0.5 * slope * times**2 + np.cumsum(rng.normal(size=times.size) * np.sqrt(np.diff(times, prepend=0.0)))
        found[name] = pf.Observations(times, path + TAU * rng.normal(size=times.size))
    return found


def exact_of_panel(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of (mean, slopes, starts): one Gaussian regression with dense matrices."""
    K, data = len(PANEL), [*panel().values()]
    y = np.concatenate([each.values[:, 0] for each in data])
    design, noise, row = np.zeros((y.size, 1 + 2 * K)), TAU**2 * np.eye(y.size), 0
    for k, times in enumerate(PANEL.values()):
        starts, lengths, mine = np.append(0.0, times[:-1]), np.diff(times, prepend=0.0), slice(row, row + times.size)
        design[mine, 1 + k] = np.cumsum(lengths * (starts + lengths * (steps - 1) / (2 * steps)))
        design[mine, 1 + K + k] = 1.0
        noise[mine, mine] += np.minimum.outer(times, times)
        row += times.size
    centre = np.repeat([MEAN[0], START[0]], [1 + K, K])
    prior = np.diag(np.repeat([0.0, SPREAD, START[1]], [1, K, K]) ** 2)
    prior[: 1 + K, : 1 + K] += MEAN[1] ** 2
    gain = np.linalg.solve(design @ prior @ design.T + noise, design @ prior).T
    return centre + gain @ (y - design @ centre), np.sqrt(np.diag(prior - gain @ design @ prior))


@cache
def of_panel() -> tuple[xr.DataTree, str]:
    return run(accelerating(), panel(), 1, chains=4, warmup=50, draws=160)


def test_the_shift_of_what_varies_is_that_of_its_exact_posterior():
    """So is that of the starts."""
    (coarse, spread), (fine, _) = exact_of_panel(1), exact_of_panel(2)
    tree, _ = of_panel()
    found = np.concatenate([shift_of(tree, name).ravel() for name in ("mean", "a", "initial_state")])
    exact = (fine - coarse) / spread
    assert np.abs(exact[1:4]).max() > 1.0
    # The sums of t differ by 4 % at most, of what is rarely seen; first order leaves out twice that, relative.
    np.testing.assert_allclose(found, exact, rtol=0.08, atol=0.02)
    assert shift_of(tree, "tau") == 0.0, "it is known"
    assert tree.half_step_shift["a"].dims == ("chain", "draw", "series")
    assert tree.half_step_shift["series"].values.tolist() == [*PANEL]


def test_the_series_that_would_move_is_named():
    """By its own name, whatever else stands before it in the model."""
    (coarse, spread), (fine, _) = exact_of_panel(1), exact_of_panel(2)
    exact = dict(zip(["mean", *(f"a[{name}]" for name in PANEL)], (fine - coarse) / spread, strict=False))
    worst = max(exact, key=lambda label: abs(exact[label]))
    told = re.search(f"{SEEN}: with twice as many steps (.*) would move by about (.*) of its standard", of_panel()[1])
    assert told is not None
    assert told[1] == worst
    assert float(told[2]) == pytest.approx(exact[worst], rel=0.08, abs=0.05)
    listed = re.search(r"deviations \(so would (.*?)\)", of_panel()[1])
    others = sorted((label for label in exact if label != worst), key=lambda label: -abs(exact[label]))
    assert listed is not None
    assert listed[1] == ", ".join(label for label in others if abs(exact[label]) > 0.3)


def test_chance_in_many_series_is_no_shift():
    """Estimates of 4000 numbers with errors of 0.2 reach 0.7; one that is 2 is told, and that alone."""
    noise = 0.2 * np.sqrt(36) * np.random.default_rng(1).normal(size=(4, 9, 4000))

    def told(effect: np.ndarray) -> list[str]:
        draws = np.random.default_rng(2).normal(size=(4, 200, effect.shape[-1]))
        groups = {
            "/posterior": xr.Dataset({"effect": (("chain", "draw", "series"), draws)}),
            "/half_step_shift": xr.Dataset({"effect": (("chain", "draw", "series"), effect)}),
        }
        return [*_time_step(xr.DataTree.from_dict(groups), ["effect"])]

    assert np.abs(noise.mean(axis=(0, 1))).max() > 0.6
    assert told(noise) == []
    noise[..., 7] += 2.0
    (only,) = told(noise)
    assert "steps effect[7] would move by about +" in only
    assert "so would" not in only


def test_what_is_kept_has_its_shift():
    tree, _ = run(accelerating(), panel(), 1, chains=2, warmup=20, draws=20, keep=["a"])
    assert set(tree.half_step_shift.data_vars) == {"a"}
    whole, _ = run(accelerating(), panel(), 1, chains=2, warmup=20, draws=20)
    np.testing.assert_array_equal(tree.half_step_shift["a"], whole.half_step_shift["a"])


def test_one_parameter_is_judged_from_a_file_and_when_runs_are_joined(tmp_path):
    """A list of one number is a number in a file."""
    model, trees = accelerating(parameters={"a": dist.Normal(0.0, 5.0), "tau": TAU}), []
    for seed in (1, 2):
        tree, text = run(model, panel()["long"], 1, chains=1, warmup=50, draws=100, seed=seed, keep=["a"])
        assert f"{SEEN}: with twice as many steps a would move" in text
        tree.to_netcdf(tmp_path / f"{seed}.nc")
        trees.append(xr.open_datatree(tmp_path / f"{seed}.nc"))
    assert any(SEEN in sentence for sentence in troubles(trees[0], ["a"]))
    assert SEEN in pf.report(trees[0], tmp_path / "report.html").read_text()
    assert np.isfinite(pf.check(trees[0]).p_value)
    with pytest.warns(UserWarning, match=f"{SEEN}: with twice as many steps a would move"):
        joined = pf.combine(trees)
    assert joined.half_step_shift["a"].shape == (2, trees[0].half_step_shift.sizes["draw"])


def test_a_custom_scheme_gives_no_hint():
    """What its noise stands for is not known."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={"sigma": dist.LogNormal(0.0, 1.0)},
        initial_state=[0.0],
        observation=pf.Noiseless(lambda x, z: x),
        scheme=pf.CustomScheme(lambda x, z, v, delta, t: x - delta * x + jnp.sqrt(delta) * z["sigma"] * v, 1),
    )
    tree, _ = run(model, pf.Observations([1.0, 2.0], [0.3, -0.4]), 1, chains=1, warmup=10, draws=10)
    assert "half_step_shift" not in tree.children


@pytest.mark.slow
def test_lorenz96_with_few_steps_is_noticed():
    """Of twelve states with five steps sigma is 0.96, with ten 0.82, with a standard deviation of 0.1."""
    model, data = lorenz96.noisy(12), lorenz96.data(12)
    tree, text = run(model, data, 5, draws=200)
    assert SEEN in text
    assert shift_of(tree, "sigma") < -0.8
    assert SEEN not in run(model, data, 20, draws=200)[1]
