"""pf.simulate: observations of the discretised model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from tests.once import once
from tests.sampling.comparing import threshold

TRUTH = {"theta": 1.5, "sigma": 0.8}
TIMES = 0.5 * np.arange(1, 7)


@once
def model(**changes) -> pf.DiffusionModel:
    parts = {
        "drift": lambda x, z: -z["theta"] * (x - z["mu"]),
        "diffusion": lambda x, z: z["sigma"].reshape(1, 1),
        "parameters": {"theta": dist.LogNormal(0.0, 1.0), "mu": 0.5, "sigma": dist.LogNormal(0.0, 1.0)},
        "initial_state": lambda z: dist.Normal(z["mu"], 2.0),
        "observation": pf.Noiseless(lambda x, z: x),
    }
    return pf.DiffusionModel(**parts | changes)


def simulate(seed: int = 1, **options: Any):
    settings: dict[str, Any] = {"steps_per_interval": 4, "seed": seed} | options
    return pf.simulate(model(), TRUTH, TIMES, **settings)


def test_a_seed_says_it_all():
    assert np.array_equal(simulate(1).values, simulate(1).values)
    assert not np.array_equal(simulate(1).values, simulate(2).values)


def test_what_comes_back_can_be_sampled_from():
    data = simulate(initial_time=-0.25)
    assert isinstance(data, pf.Observations)
    assert np.array_equal(data.times, TIMES)
    assert data.values.shape == (6, 1)
    assert data.initial_time == -0.25


def test_dates_are_counted_and_kept():
    days = ["2026-03-01", "2026-03-02", "2026-03-05"]
    times, settings = [1.0, 2.0, 5.0], {"max_step": 0.1, "seed": 1}
    numbers = pf.simulate(model(), TRUTH, times, **settings)
    start: dict[str, Any] = {"initial_time": "2026-02-28", "unit": "days"}
    dated = pf.simulate(model(), TRUTH, days, **start, **settings)
    assert numbers.calendar is None
    assert dated.calendar
    np.testing.assert_array_equal(dated.times, times)
    np.testing.assert_array_equal(dated.values, numbers.values)
    np.testing.assert_array_equal(dated.calendar.dates(dated.times), np.array(days, "M8[D]"))
    many = pf.simulate(model(), TRUTH, days, draws=3, **start, **settings)
    np.testing.assert_array_equal(many.prior_predictive["date"], np.array(days, "M8[D]"))
    with pytest.raises(pf.DataError, match="say in which unit to count them"):
        pf.simulate(model(), TRUTH, days, **settings)


def test_a_split_interval_is_not_observed_twice():
    data = pf.simulate(model(), TRUTH, [0.1, 0.2, 3.0], max_step=0.05, seed=1)
    assert data.values.shape == (3, 1)


def test_without_noise_it_is_the_drift_alone():
    """x <- x + delta theta (mu - x), from the initial state given; fixed parameters need no value."""
    still = model(diffusion=lambda x, z: 1e-300 * jnp.ones((1, 1)))
    data = pf.simulate(still, TRUTH, TIMES, initial_state=[2.0], steps_per_interval=4, seed=1)
    expected = 0.5 + 1.5 * (1.0 - 1.5 * 0.125) ** (4 * np.arange(1, 7))
    np.testing.assert_allclose(data.values[:, 0], expected, rtol=1e-12)


def test_the_law_is_that_of_the_scheme():
    """Stationary variance and autocorrelation of the Euler-Maruyama recursion, from one long path."""
    data = pf.simulate(model(), TRUTH, 0.5 * np.arange(1, 8001), steps_per_interval=2, seed=3)
    a = 1.0 - 0.25 * 1.5
    variance, rho = 0.25 * 0.8**2 / (1.0 - a**2), a**2
    x = (data.values[100:, 0] - 0.5) / np.sqrt(variance)
    n = x.size
    scores = [
        x.mean() * np.sqrt(n * (1 - rho) / (1 + rho)),
        (np.mean(x**2) - 1.0) / np.sqrt(2.0 / n * (1 + rho**2) / (1 - rho**2)),
        (np.mean(x[1:] * x[:-1]) / np.mean(x**2) - rho) / np.sqrt((1 - rho**2) / n),
    ]
    assert np.abs(scores).max() < threshold(len(scores), 1e-3), scores


def test_the_initial_state_is_drawn_when_it_is_not_given():
    first = [simulate(seed, initial_time=0.4999).values[0, 0] for seed in range(12)]
    assert 0.8 < np.std(first) < 4.0


@pytest.mark.parametrize("initial_state", [[1.0, 2.0], 1.0, [[1.0]]])
def test_a_wrong_initial_state_is_refused(initial_state):
    with pytest.raises(pf.DataError, match=r"initial_state has shape .*, expected \(1,\), the state of the model"):
        simulate(initial_state=initial_state)


def test_wrong_parameters_are_refused():
    with pytest.raises(pf.ModelError, match="unknown parameter 'tau'"):
        pf.simulate(model(), TRUTH | {"tau": 1.0}, TIMES, steps_per_interval=4)
    with pytest.raises(pf.ModelError, match="no value was given for parameter 'sigma'"):
        pf.simulate(model(), {"theta": 1.0}, TIMES, steps_per_interval=4)
    with pytest.raises(pf.ModelError, match=r"parameter 'theta' was given with shape \(2,\)"):
        pf.simulate(model(), {"theta": [1.0, 2.0], "sigma": 1.0}, TIMES, steps_per_interval=4)


@pytest.mark.parametrize("draws", [None, 2])
@pytest.mark.parametrize(
    ("prior", "value"),
    [
        (dist.LogNormal(0.0, 1.0), -1.0),
        (dist.Uniform(0.5, 2.0).expand([2]).to_event(1), [1.0, 2.5]),
        (lambda z: dist.HalfNormal(z["sigma"]), -0.5),
        (pf.Varying(dist.Beta(2.0, 2.0)), 1.5),
    ],
)
def test_values_that_the_prior_cannot_give_are_refused(prior, value, draws):
    m = model(
        drift=lambda x, z: -jnp.sum(z["theta"]) * x,
        parameters={"theta": prior, "mu": 0.5, "sigma": dist.LogNormal(0.0, 1.0)},
    )
    with pytest.raises(pf.ModelError, match=r"parameter 'theta' was given as .*, but its prior has values that are"):
        pf.simulate(m, {"theta": value, "sigma": 1.0}, TIMES, steps_per_interval=1, draws=draws)  # type: ignore[call-overload]


def test_values_at_the_edge_of_a_prior_are_scenarios():
    data = pf.simulate(model(), {"theta": 0.0, "sigma": 0.0}, TIMES, initial_state=[2.0], steps_per_interval=1)
    np.testing.assert_array_equal(data.values, 2.0)


def test_a_proportion_that_leaves_its_bounds_is_told_of_the_logit():
    """As it is, an Euler step from near 1 goes beyond it; in the logit that the error names it cannot."""
    pull = pf.DiffusionModel(
        drift=lambda x, z: 3.0 * (0.7 - x),
        diffusion=lambda x, z: jnp.sqrt(x * (1.0 - x)).reshape(1, 1),
        parameters={},
        initial_state=dist.Beta(2.0 * jnp.ones(1), 2.0),
        observation=pf.GaussianNoise(lambda x, z: x, 1e-6),
    )
    settings: dict[str, Any] = {"times": np.arange(1.0, 51.0), "steps_per_interval": 20, "seed": 1}
    with pytest.raises(pf.DataError, match="one between 0 and 1 as its logit") as caught:
        pf.simulate(pull, {}, initial_state=[0.6], **settings)
    functions = [eval(name, {"jax": jax}) for name in str(caught.value).split("transform(")[-1].rstrip(")").split(", ")]
    values = pf.simulate(pull.transform(*functions), {}, initial_state=[0.4], **settings).values
    assert -1e-4 < values.min() < values.max() < 1.0 + 1e-4


def test_a_path_that_explodes_is_refused():
    with pytest.raises(pf.DataError, match="the simulated path is not finite: take smaller steps"):
        pf.simulate(model(drift=lambda x, z: x**3), TRUTH, 5.0 * TIMES, initial_state=[30.0], steps_per_interval=40)
