"""The hint that the posterior depends on the time step, against posteriors that are known."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.example_models import lorenz96
from tests.sampling.linear_gaussian import Exact, ornstein_uhlenbeck

SEEN = "the posterior depends on the time step"


def run(model: pf.DiffusionModel, data: pf.Observations, steps: int, **options) -> tuple[xr.DataTree, str]:
    """The draws, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = pf.sample(model, data, steps_per_interval=steps, seed=1, progress=False, **options)
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
    (shift,) = tree.attrs["half_step_shift"]
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
    theta, mu, sigma = tree.attrs["half_step_shift"]
    assert mu == 0.0  # it is known
    np.testing.assert_allclose([theta, sigma], exact, atol=0.1)
    assert SEEN not in text


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
    assert "half_step_shift" not in tree.attrs


@pytest.mark.slow
def test_lorenz96_with_few_steps_is_noticed():
    """Of twelve states with five steps sigma is 0.96, with ten 0.82, with a standard deviation of 0.1."""
    model, data = lorenz96.noisy(12), lorenz96.data(12)
    tree, text = run(model, data, 5, draws=200)
    assert SEEN in text
    assert tree.attrs["half_step_shift"][1] < -0.8
    assert SEEN not in run(model, data, 20, draws=200)[1]
