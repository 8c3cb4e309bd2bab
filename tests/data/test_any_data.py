"""Likelihoods, censored values, accumulators and events: what they become, and what is refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.errors import DataError, ModelError
from pathfold.model.check_data import check_data, check_panel
from pathfold.model.simulation import observe
from tests.once import once

NAN, INF = np.nan, np.inf
NOISE = pf.GaussianNoise(lambda x, z: x, 1e-12)


@once
def build(observation: Any = NOISE, **changes: Any) -> pf.DiffusionModel:
    parts: dict[str, Any] = {
        "drift": lambda x, z: jnp.array([1.0, z["a"]]),
        "diffusion": lambda x, z: jnp.array([[0.0], [1e-9]]),
        "parameters": {"a": dist.LogNormal(0.0, 0.3)},
        "initial_state": [0.5, dist.Normal(0.0, 1.0)],
        "observation": observation,
    }
    return pf.DiffusionModel(**(parts | changes))


def test_which_likelihoods_are_plain_factors():
    """Without a root, of several columns at once, or by the user's wish."""
    parts = [
        pf.Noiseless(lambda x, z: x[:1]),
        pf.Likelihood(lambda x, z: [dist.Poisson(jnp.exp(x[0])), dist.Laplace(x[1], 1.0)]),
        pf.Likelihood(lambda x, z: dist.MultivariateNormal(x, jnp.eye(2))),
        pf.Likelihood(lambda x, z: dist.Normal(x[0], 1.0), plain=True),
    ]
    assert build(parts).plain_factors().tolist() == [False, False, True, True, True, True]


def test_kinds_of_censored_values():
    data = pf.Observations([1, 2, 3, 4], [0.1, 0.2, NAN, 0.4], censored=[-1, 0, 0, 1])
    assert data.censored.ravel().tolist() == [-1, 0, 0, 1]
    data = pf.Observations([1, 2, 3], [0.1, NAN, 0.4], censored=-1)
    assert data.censored.ravel().tolist() == [-1, 0, -1]
    low, high = [-INF, NAN, 2.0, 0.3, 5.0], [0.05, NAN, 4.0, INF, 5.0]
    data = pf.Observations([1, 2, 3, 4, 5], [NAN, 0.31, NAN, NAN, NAN], censored=(low, high))
    assert data.censored.ravel().tolist() == [-1, 0, 2, 1, 0]
    np.testing.assert_array_equal(data.values.ravel(), [0.05, 0.31, 2.0, 0.3, 5.0])
    assert data.upper[2, 0] == 4.0


@pytest.mark.parametrize(
    ("censored", "words"),
    [
        ([2, 0], ("censored has 2", "-1 (below the value)")),
        ([0, 0, 0], ("censored have shape (3, 1)", "(2, 1)")),
        (([NAN, 0.0], [NAN, NAN]), ("low bound without a high one", "np.inf")),
        (([3.0, NAN], [1.0, NAN]), ("low bound 3 is above the high one, 1",)),
        (([-INF, NAN], [INF, NAN]), ("between -inf and inf says nothing",)),
        ((1, 2, 3), ("a pair (low, high)",)),
        ("no", ("censored", "real numbers")),
        (np.array([True, False]), ("on which side", "np.where(mask, -1, 0)")),
        (pd.array([True, False], dtype="boolean"), ("on which side",)),
        (True, ("on which side",)),
    ],
)
def test_censoring_that_cannot_be(censored, words):
    with pytest.raises(DataError) as caught:
        pf.Observations([1.0, 2.0], [0.1, 0.2], censored=censored)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_bound_that_is_missing_is_refused():
    with pytest.raises(DataError, match=r"censored has 1 in row 1, column 0, where the value is missing \(NaN\)"):
        pf.Observations([1.0, 2.0], [0.1, NAN], censored=[0, 1])


def test_events_are_nodes_between_the_observations():
    events = {"dose": ([2.5, 0.0, 2.0, 9.0], [3.0, 1.0, 2.0, 7.0]), "wash": ([2.5], 1.0)}
    grid = TimeGrid.build(pf.Observations([1.0, 2.0, 3.0], [1.0, NAN, 2.0], events=events), steps_per_interval=2)
    assert grid.ends.tolist() == [0.0, 1.0, 2.0, 2.5, 3.0]
    assert grid.rows.tolist() == [False, True, True, False, True]
    np.testing.assert_array_equal(grid.events["dose"], [1.0, NAN, 2.0, 3.0, NAN])
    np.testing.assert_array_equal(grid.events["wash"], [NAN, NAN, NAN, 1.0, NAN])
    fine = grid.refined()
    assert np.flatnonzero(~np.isnan(fine.events["dose"])).tolist() == [1, 5, 7]
    assert np.flatnonzero(fine.rows).tolist() == [3, 5, 9]


def test_dates_of_events_are_counted_as_those_of_the_data():
    days = pd.to_datetime(["2026-03-02", "2026-03-05"])
    dose = (pd.to_datetime(["2026-03-03T12:00"]), [5.0])
    data = pf.Observations(
        days, [1.0, 2.0], initial_time=pd.Timestamp("2026-03-01"), unit="days", events={"dose": dose}
    )
    assert data.events["dose"][0].tolist() == [2.5]
    data = pf.Observations(days, [1.0, 2.0], unit="days", events={"dose": dose})
    assert data.events["dose"][0].tolist() == [1.5]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([1], ("dict of name -> (times, amounts)",)),
        ({"dose": 3.0}, ("'dose'", "a pair (times, amounts)")),
        ({"dose": ([1.0, 2.0], [1.0])}, ("times (2,) and amounts (1,)",)),
        ({"dose": ([1.0, 1.0], [1.0, 2.0])}, ("twice at time 1", "total amount")),
        ({"dose": ([-1.0], [1.0])}, ("before initial_time",)),
        ({"dose": ([1.0], [NAN])}, ("not finite",)),
    ],
)
def test_events_that_cannot_be(events, words):
    with pytest.raises(DataError) as caught:
        pf.Observations([1.0, 2.0], [0.1, 0.2], events=events)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("t", [2.0, 2e4])
def test_an_event_that_may_or_may_not_be_at_an_observation_is_refused(t):
    """Up to rounding it is at it, and comes first; from a trillionth on it is after it."""
    model = build(events={"dose": lambda x, z, amount: x.at[1].add(amount)})
    grid = {"initial_state": [0.5, 0.0], "steps_per_interval": 1}
    seen = []
    for later in (np.nextafter(t, np.inf), t - 1e-13 * t, t + 3e-12 * t):
        data = pf.simulate(model, {"a": 1e-9}, [1.0, t, t + 1.0], events={"dose": ([later], 5.0)}, **grid)
        seen.append(data.values[1, 1] > 4.0)
    assert seen == [True, True, False]
    with pytest.raises(DataError, match=r"'dose' at time .* after the observation before it, .* the same time"):
        pf.simulate(model, {"a": 1e-9}, [1.0, t, t + 1.0], events={"dose": ([t + 1e-13 * t], 5.0)}, **grid)


def test_a_path_with_accumulators_and_events():
    """x_0 counts time since the last row, doses aside; a row at which all is missing counts too."""
    model = build(accumulators=0, events={"dose": lambda x, z, amount: x.at[0].add(z["a"] * amount)})
    events = {"dose": ([1.5, 2.0, 3.2], [10.0, 100.0, 1000.0])}
    data = pf.simulate(
        model, {"a": 2.0}, [1.0, 2.0, 3.0, 4.0], initial_state=[0.5, 0.0], events=events, steps_per_interval=4
    )
    np.testing.assert_allclose(data.values[:, 0], [1.5, 1.0 + 20.0 + 200.0, 1.0, 1.0 + 2000.0], rtol=1e-9)
    np.testing.assert_allclose(data.values[:, 1], [2.0, 4.0, 6.0, 8.0], rtol=1e-6)
    assert data.events["dose"][0].tolist() == [1.5, 2.0, 3.2]


def test_jumps_of_a_transformed_model():
    model = build(
        initial_state=[1.5, dist.Normal(1.0, 0.1)],
        events={"dose": lambda x, z, amount: x.at[0].add(amount)},
    ).transform(lambda x: 2.0 * x, lambda y: 0.5 * y)
    data = pf.simulate(
        model, {"a": 2.0}, [1.0, 2.0], initial_state=[1.0, 0.0], events={"dose": ([1.5], [10.0])}, steps_per_interval=2
    )
    np.testing.assert_allclose(data.values[:, 0], [1.5, 12.5], rtol=1e-9)
    with pytest.raises(ModelError, match="forward is not finite where the accumulators are zero"):
        build(accumulators=0, initial_state=[1.0, 1.0]).transform(jnp.log, jnp.exp)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"accumulators": 2}, ("accumulators have 2", "states 0 to 1")),
        ({"accumulators": "S"}, ("'S'", "no names of states")),
        ({"accumulators": [0, -2]}, ("a state twice",)),
        ({"events": [1]}, ("events must be a dict",)),
        ({"events": {"dose": 3}}, ("'dose'", "'int' object is not callable")),
        ({"events": {"dose": lambda x, z, amount: x[0]}}, ("shape ()", "x.at[0].add(amount)")),
        ({"events": {"dose": lambda x, z: x}}, ("'dose'",)),
        ({"observation": []}, ("empty list",)),
        ({"observation": [pf.Noiseless(lambda x, z: x), 3]}, ("or a list of these", "3")),
        ({"observation": pf.Likelihood(lambda x, z: x)}, ("numpyro distribution",)),
        ({"observation": pf.Likelihood(lambda x, z: [])}, ("empty list",)),
        ({"observation": pf.Likelihood(lambda x, z: dist.Poisson(jnp.ones((2, 2))))}, ("shape (2, 2)",)),
        ({"observation": pf.Likelihood(lambda x, z: dist.Poisson(z["b"]))}, ("'b'",)),
    ],
)
def test_what_a_model_cannot_have(changes, words):
    with pytest.raises(ModelError) as caught:
        build(**changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


COUNTS = pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(x[0])))
ORDERED = pf.Likelihood(lambda x, z: dist.OrderedLogistic(x[1], jnp.array([-1.0, 0.0, 1.5])))
CATEGORIES = pf.Likelihood(lambda x, z: dist.Categorical(logits=x[1] * jnp.array([0.0, 1.0, -1.0])))
JOINT = pf.Likelihood(lambda x, z: dist.MultivariateNormal(x, jnp.eye(2)))


@pytest.mark.parametrize(
    ("observation", "values", "options", "error", "words"),
    [
        (COUNTS, [1.0, 2.5], {}, DataError, ("the value 2.5 in row 1, column 0", "Poisson", "integer")),
        (COUNTS, [1.0, -1.0], {}, DataError, ("the value -1",)),
        (
            COUNTS,
            [1.0, NAN],
            {"censored": ([NAN, 0.2], [NAN, 0.8])},
            DataError,
            ("known to be between 0.2 and 0.8 in row 1", "integer nonnegative"),
        ),
        (COUNTS, [1.0, -0.5], {"censored": [0, -1]}, DataError, ("known to be at most -0.5 in row 1", "Poisson")),
        (
            pf.Likelihood(lambda x, z: dist.Binomial(9, logits=x[0])),
            [1.0, 9.5],
            {"censored": [0, 1]},
            DataError,
            ("known to be at least 9.5 in row 1", "integer interval"),
        ),
        (
            ORDERED,
            [1.0, 4.0],
            {},
            DataError,
            ("the value 4 in row 1", "OrderedLogistic", "integer interval from 0 to 3"),
        ),
        (ORDERED, [1.0, 1.5], {}, DataError, ("the value 1.5 in row 1", "integer interval from 0 to 3")),
        (ORDERED, [1.0, 4.0], {"censored": [0, 1]}, DataError, ("known to be at least 4 in row 1",)),
        (CATEGORIES, [0.0, 3.0], {}, DataError, ("the value 3 in row 1", "CategoricalLogits", "from 0 to 2")),
        (CATEGORIES, [0.0, 1.0], {"censored": [0, 1]}, ModelError, ("CategoricalLogits has no distribution function",)),
        (JOINT, [[1.0, NAN], [1.0, 2.0]], {}, DataError, ("MultivariateNormal", "all or none")),
        (JOINT, [[1.0, 1.0], [1.0, 2.0]], {"censored": [[1, 0], [0, 0]]}, DataError, ("cannot be censored",)),
        (pf.Noiseless(lambda x, z: x[:1]), [1.0, 2.0], {"censored": [1, 0]}, DataError, ("need a likelihood",)),
        (
            pf.GaussianNoise(lambda x, z: x, np.array([1.0, 0.0])),
            [[1.0, 1.0], [1.0, 2.0]],
            {"censored": [[0, 1], [0, 0]]},
            DataError,
            ("observed without noise",),
        ),
        (
            pf.GaussianNoise(lambda x, z: x, np.eye(2)),
            [[1.0, 1.0], [1.0, 2.0]],
            {"censored": [[0, 1], [0, 0]]},
            DataError,
            ("scale is a matrix",),
        ),
        (
            pf.Likelihood(lambda x, z: dist.VonMises(x[0], 1.0)),
            [1.0, 2.0],
            {"censored": [1, 0]},
            ModelError,
            ("VonMises", "cannot be censored"),
        ),
        (
            pf.Likelihood(lambda x, z: dist.Poisson(-jnp.exp(x[0]))),
            [1.0, 2.0],
            {},
            ModelError,
            ("not a number", "jnp.exp"),
        ),
        (COUNTS, [1.0, 2.0], {"events": {"dose": ([1.0], [1.0])}}, DataError, ("the event 'dose'",)),
    ],
)
def test_data_that_the_model_cannot_have(observation, values, options, error, words):
    with pytest.raises(error) as caught:
        check_data(build(observation), pf.Observations([1.0, 2.0], values, **options))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_column_without_bounds_needs_no_distribution_function():
    """Beside a column that is censored, whatever is not may have any distribution."""
    model = build([COUNTS, pf.Likelihood(lambda x, z: dist.VonMises(x[1], 1.0))])
    values = [[1.0, 0.1], [2.0, 0.2]]
    check_data(model, pf.Observations([1.0, 2.0], values, censored=[[1, 0], [0, 0]]))
    with pytest.raises(ModelError, match="VonMises has no distribution function"):
        check_data(model, pf.Observations([1.0, 2.0], values, censored=[[0, 1], [0, 0]]))


def test_draws_of_a_likelihood_follow_it():
    several = [
        COUNTS,
        pf.GaussianNoise(lambda x, z: x[1:], 0.1),
        pf.Likelihood(lambda x, z: dist.Bernoulli(logits=x[1:])),
    ]
    model = build(several)
    with jax.enable_x64(True):
        states = jnp.broadcast_to(jnp.array([1.0, 0.7]), (4000, 2))
        drawn = observe(model, states, {"a": jnp.array(1.0)}, jnp.zeros(4000), np.random.default_rng(1))
    assert drawn.shape == (4000, 3)
    expected = np.array([np.e, 0.7, 1 / (1 + np.exp(-0.7))])
    spread = np.array([np.sqrt(np.e), 0.1, 0.47])
    assert np.all(np.abs(drawn.mean(axis=0) - expected) < 4.0 * spread / np.sqrt(4000))
    assert np.all(np.abs(drawn.std(axis=0) / spread - 1.0) < 0.1)


def test_what_checks_the_values_of_a_series_is_compiled_once_for_a_panel():
    calls = []
    model = build(pf.Likelihood(lambda x, z: calls.append(x) or dist.Poisson(jnp.exp(x))))
    times, counts = [1.0, 2.0, 3.0], np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 1.0]])
    check_data(model, pf.Observations(times, counts))
    calls.clear()
    check_data(model, pf.Observations(times, counts + 2.0))
    assert len(calls) == 1  # to see which distributions there are
    with pytest.raises(DataError, match=r"-1 in row 2, column 0, at time 3\.0, cannot come from dist\.Poisson"):
        check_data(model, pf.Observations(times, counts - [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))
    hours = ["2026-03-01 06:00", "2026-03-01 12:00", "2026-03-01 18:00"]
    with pytest.raises(DataError, match="row 1, column 1, at time 2026-03-01 12:00:00, cannot"):
        check_data(model, pf.Observations(hours, counts - [[0.0, 0.0], [0.0, 4.0], [0.0, 0.0]], unit="h"))


def test_a_zero_that_a_distribution_cannot_give_hears_of_limits():
    model = build(pf.Likelihood(lambda x, z: dist.LogNormal(x, 0.1)))
    values = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    with pytest.raises(DataError, match="give the limit with censored=-1 if it was too small to be measured"):
        check_data(model, pf.Observations([1.0, 2.0, 3.0], values))
    with pytest.raises(DataError, match="write NaN if it is missing, or choose another distribution"):
        check_data(model, pf.Observations([1.0, 2.0, 3.0], -values))


@pytest.mark.parametrize(
    ("likelihood", "shown"),
    [
        (lambda x, z: dist.StudentT(3.0, x, 0.2), [0, 1]),
        (lambda x, z: dist.StudentT(3.0, x[::-1], 0.2), [1, 0]),
        (lambda x, z: [dist.LogNormal(jnp.log(x[1]), 0.1), dist.Poisson(x[0])], [1, 0]),
        (lambda x, z: [dist.Normal(x[0] + x[1], 0.1), dist.Bernoulli(logits=x[0])], [-1, -1]),
        (lambda x, z: [dist.NegativeBinomial2(x[0], 3.0), dist.TruncatedNormal(x[1], 1.0, low=0.0)], [0, -1]),
    ],
)
def test_the_components_that_values_scatter_about(likelihood, shown):
    assert build(pf.Likelihood(likelihood)).components_shown().tolist() == shown


def test_a_column_of_another_name_is_asked_about():
    data = pf.Observations.from_frame(
        {"t": [1.0, 2.0], "rain": [0.1, 0.2], "Q": [1.0, 2.0]}, time="t", values=["rain", "Q"], initial_time=0.0
    )
    model = build(pf.GaussianNoise(lambda x, z: x, 0.1), observed=("level", "Q"))
    with pytest.warns(UserWarning, match="the column 'rain' of the data is taken for 'level', which the model"):
        check_panel(model, data)
    check_panel(model, data, in_results=True)
