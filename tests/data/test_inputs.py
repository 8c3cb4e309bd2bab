"""Inputs: what they are between their times, and models driven by them against solutions known in closed form."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import pathfold as pf
from pathfold.data import TimeGrid, clocks
from pathfold.data.time_grid import warn_of_skipped_values
from pathfold.model.check_data import check_data, check_panel
from pathfold.model.model_text import model_text
from tests.once import once
from tests.sampling.comparing import mean_scores, threshold

STAIRS = pf.Input([0.0, 0.5], [1.0, 3.0], kind="hold")


@once
def build(**changes: Any) -> pf.DiffusionModel:
    """dx = (u(t) - x) dt + sigma dW, seen exactly."""
    parts: dict[str, Any] = {
        "drift": lambda x, z, t, inputs: inputs["u"] - x,
        "diffusion": lambda x, z: z["sigma"].reshape(1, 1),
        "parameters": {"sigma": 0.5},
        "initial_state": [2.0],
        "observation": pf.Noiseless(lambda x, z: x),
        "scheme": pf.StrongOrder1p5(),
        "inputs": {"u": pf.Input([0.0, 10.0], [1.0, 6.0])},
    }
    return pf.DiffusionModel(**parts | changes)


def test_clocks_hold_values_and_slopes_at_steps_and_nodes():
    inputs = {"line": pf.Input([0.0, 1.0, 2.0], [0.0, 2.0, 0.0]), "stairs": STAIRS}
    own = {"line": pf.Input([0.0, 4.0], [0.0, 4.0])}
    panel = [pf.Observations([1.0, 2.0], [0.0, 0.0]), pf.Observations([0.0, 1.0], [0.0, 0.0], inputs=own)]
    steps, nodes = clocks(inputs, {}, TimeGrid.build(panel, steps_per_interval=2))
    np.testing.assert_allclose(steps.t, [[0.0, 0.5], [1.0, 1.5], [0.0, 0.0], [0.0, 0.5]])
    np.testing.assert_allclose(steps.inputs["line"], [[0.0, 1.0], [2.0, 1.0], [0.0, 0.0], [0.0, 0.5]])
    np.testing.assert_allclose(steps.slopes["line"], [[2.0, 2.0], [-2.0, -2.0], [0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(steps.inputs["stairs"], [[1.0, 3.0], [3.0, 3.0], [1.0, 1.0], [1.0, 3.0]])
    np.testing.assert_array_equal(steps.slopes["stairs"], 0.0)
    np.testing.assert_allclose(nodes.inputs["line"], [2.0, 0.0, 0.0, 1.0])


def test_a_value_changes_in_the_step_that_begins_there_in_spite_of_rounding():
    grid = TimeGrid.build(pf.Observations(0.1 * np.arange(1, 31), np.zeros(30)), steps_per_interval=3)
    steps, _ = clocks({"u": pf.Input(0.1 * np.arange(30), np.arange(30.0), kind="previous")}, {}, grid)
    np.testing.assert_array_equal(steps.inputs["u"], np.repeat(np.arange(30.0)[:, None], 3, axis=1))


@pytest.mark.parametrize(("kind", "order"), [("linear", 2), ("previous", 2)])
def test_the_solution_of_a_driven_linear_equation(kind, order):
    """Without noise the scheme is a Taylor method of order two, if it sees the slope of the input."""
    times = np.array([1.0, 3.0])
    if kind == "linear":  # u = 1 + t / 2
        model, solution = build(parameters={"sigma": 0.0}), 1.5 * np.exp(-times) + 0.5 + 0.5 * times
    else:
        at_half = 1.0 + np.exp(-0.5)
        model = build(parameters={"sigma": 0.0}, inputs={"u": STAIRS})
        solution = 3.0 + (at_half - 3.0) * np.exp(-(times - 0.5))
    errors = [
        np.abs(pf.simulate(model, {}, times, steps_per_interval=steps).values[:, 0] - solution).max()
        for steps in (20, 40)
    ]
    assert errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.15)


def test_a_posterior_driven_by_an_input():
    """dx = u dt + sigma dW from 0, u = 1 until 0.5 and 3 after: x(0.5) given x(1) = y is N(0.5 + (y - 2) / 2, 0.25)."""
    model = build(
        drift=lambda x, z, t, inputs: inputs["u"][None],
        parameters={"sigma": 1.0},
        initial_state=[0.0],
        scheme=pf.EulerMaruyama(),
        inputs={"u": pf.Input([0.0, 1.0], [9.0, 9.0])},
    )
    data = pf.Observations([0.5, 1.0], [np.nan, 1.2], inputs={"u": STAIRS})
    tree = pf.sample(model, data, steps_per_interval=3, chains=4, warmup=200, draws=1000, seed=3, progress=False)
    x = tree.posterior["state"].sel(time=0.5).values[..., 0]
    z = mean_scores(np.stack([x, (x - 0.1) ** 2]), np.array([0.1, 0.25]))
    assert np.abs(z).max() < threshold(2, 1e-3), z


def test_a_transformed_model_keeps_its_inputs():
    model = build(initial_state=dist.LogNormal(jnp.array([0.0]), 0.1))
    options: dict[str, Any] = {"times": [1.0, 2.0], "steps_per_interval": 4000, "seed": 1}
    expected = pf.simulate(model, {}, initial_state=[2.0], **options).values
    found = pf.simulate(model.transform(jnp.log, jnp.exp), {}, initial_state=[np.log(2.0)], **options).values
    np.testing.assert_allclose(found, expected, rtol=1e-2)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([0.0, 1.0], [1.0, 2.0], "cubic"), "'linear', 'previous' or 'hold'"),
        (([0.0, 1.0], [1.0]), "one value per time"),
        (([1.0, 0.0], [1.0, 2.0]), "increase"),
        (([0.0, 1.0], [1.0, np.nan]), "fill in"),
        ((["a"], [1.0]), "an input's times are text, such as 'a'"),
        (([0.0, 1.0], np.ma.masked_array([1.0, 9.0], [False, True])), "an input's values have 1 masked"),
        ((np.ma.masked_array([0.0, 1.0], [False, True]), [1.0, 9.0]), "an input's times have 1 masked"),
        ((np.array(["2021", "2020"], "M8[D]"), [1.0, 9.0]), "increase"),
        (([pd.Timestamp("2021"), pd.NaT], [1.0, 9.0]), "finite"),
        (([0.0, 1.0], [1.0, 2.0], ["linear"]), "kind must be 'linear', 'previous' or 'hold'"),
    ],
)
def test_bad_inputs_are_refused(arguments, word):
    with pytest.raises(pf.DataError, match=word):
        pf.Input(*arguments)


LATE = pf.Input([0.5, 1.0, 1.5], [1.0, 3.0, 2.0], kind="previous")


@pytest.mark.parametrize(
    ("times", "initial_time", "inputs", "words"),
    [
        ([1.0, 11.0], 0.0, {}, ("input 'u'", "0.0 to 10.0", "0.0 to 11.0", "values after that", "pf.predict")),
        ([1.0, 2.0], -1.0, {}, ("input 'u'", "-1.0 to 2.0", "values before that, or a later initial_time")),
        ([1.0, 2.0], 0.0, {"u": LATE}, ("input 'u'", "0.5 to 2.0", "0.0 to 2.0", "values before that", "'hold'")),
        ([1.0, 2.1], 0.5, {"u": LATE}, ("input 'u'", "0.5 to 2.0", "0.5 to 2.1", "values after that", "'hold'")),
        ([1.0, 2.0], 0.0, {"v": STAIRS}, ("input 'v'", "none of the model's")),
    ],
)
def test_inputs_must_cover_the_data(times, initial_time, inputs, words):
    data = pf.Observations(times, np.zeros(2), initial_time, inputs)
    for attempt in (
        lambda: pf.sample(build(), data, steps_per_interval=2, progress=False),
        lambda: pf.simulate(build(), {}, times, initial_time=initial_time, inputs=inputs, steps_per_interval=2),
    ):
        with pytest.raises(pf.DataError) as caught:
            attempt()
        assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("given", "span"),
    [
        (pf.Input([0.0, 1.0, 2.0], [1.0, 0.0, 1.0], kind="previous"), (0.0, 3.0)),  # equal steps: one more
        (pf.Input([0.0, 1.0, 3.0], [1.0, 0.0, 1.0], kind="previous"), (0.0, 3.0)),
        (pf.Input([0.0, 1.0], [1.0, 0.0], kind="previous"), (0.0, 1.0)),
        (pf.Input([0.0, 1.0, 2.0], [1.0, 0.0, 1.0]), (0.0, 2.0)),
        (pf.Input([5.0], [1.0], kind="previous"), (-np.inf, np.inf)),
        (pf.Input([5.0], [1.0]), (-np.inf, np.inf)),
        (STAIRS, (-np.inf, np.inf)),
    ],
)
def test_when_an_input_is_known(given, span):
    assert given.span == span
    data = pf.Observations([1.0, 4.0], np.zeros(2), 0.0, {"u": given})
    if np.isfinite(span[1]):
        with pytest.raises(pf.DataError, match=r"known from 0.0 to \d.0"):
            check_data(build(), data)
    else:
        check_data(build(), data)


def test_an_input_that_is_declared_by_name_comes_with_the_data():
    for names in ("u", ("u",), {"u": None}):
        model = build(inputs=names)
        with pytest.raises(pf.DataError, match=r"no input 'u', which the model uses: .*inputs=\{'u': pf.Input"):
            check_data(model, pf.Observations([1.0], [1.0]))
        check_data(model, pf.Observations([1.0], [1.0], inputs={"u": STAIRS}))
    assert model_text(model)["input u"] == "given by the data"
    assert model.transform(lambda x: 2.0 * x, lambda y: y / 2.0).inputs == {"u": None}
    given, by_name = (
        pf.simulate(each, {}, [1.0, 2.0], inputs={"u": STAIRS}, steps_per_interval=2).values
        for each in (build(), model)
    )
    np.testing.assert_array_equal(by_name, given)


def test_inputs_with_dates_are_counted_like_the_data():
    days = ["2026-03-01", "2026-03-02", "2026-03-04"]
    rain = pf.Input(days, [1.0, 0.0, 2.0], kind="previous")
    data = pf.Observations(days, np.zeros(3), unit="hours", inputs={"u": rain})
    assert data.inputs["u"].written() == {"times": [0.0, 24.0, 72.0], "values": [1.0, 0.0, 2.0], "kind": "previous"}
    with pytest.raises(pf.DataError, match="times of the input 'u' are dates, but the times of the series are numbers"):
        pf.Observations([1.0], [1.0], inputs={"u": rain})
    with pytest.raises(pf.ModelError, match=r"input 'u' has dates.* name it in the model"):
        build(inputs={"u": rain})
    early = pf.Observations(days, np.zeros(3), "2026-02-28", {"u": rain}, unit="hours")
    with pytest.raises(pf.DataError, match=r"known from 2026-03-01 00:00:00 to .* needed from 2026-02-28 00:00:00"):
        check_data(build(), early)


def test_an_input_that_seems_to_be_in_another_unit_gives_a_warning():
    hourly = pf.Input(np.arange(721.0), np.sin(np.arange(721.0)), kind="previous")
    with pytest.warns(UserWarning, match="input 'u' runs from 0 to 720, the series from 0 to 30: count both"):
        check_panel(build(), pf.Observations([1.0, 30.0], np.zeros(2), inputs={"u": hourly}))
    check_panel(build(), pf.Observations([1.0, 700.0], np.zeros(2), inputs={"u": hourly}))
    dated = pf.Input(pd.date_range("2026-03-01", periods=100), hourly.values[:100])
    days = ["2026-03-02", "2026-03-03"]
    check_panel(build(), pf.Observations(days, np.zeros(2), "2026-03-01", {"u": dated}, unit="d"))


def test_values_that_fine_steps_leave_out_give_a_warning():
    hourly = pf.Input(np.arange(13.0), np.arange(13.0) % 2, kind="previous")
    data = pf.Observations([6.0, 12.0], np.zeros(2), inputs={"u": hourly})
    warn_of_skipped_values({"u": None}, TimeGrid.build(data, steps_per_interval=6))
    with pytest.warns(UserWarning, match="input 'u' changes up to 5 times within a fine step.*take max_step=1,"):
        warn_of_skipped_values({"u": None}, TimeGrid.build(data, steps_per_interval=1))


def test_totals_in_a_table_with_rows_of_inputs_alone():
    """Six-hourly totals of 1 an hour are 6, and where one may be missing nobody can tell from such a table."""
    model = build(
        drift=lambda x, z, t, inputs: inputs["u"][None],
        parameters={"sigma": 0.0},
        initial_state=[0.0],
        scheme=pf.EulerMaruyama(),
        accumulators=0,
        inputs="u",
    )
    hours = np.arange(25)
    table = pd.DataFrame({"t": hours, "u": 1.0, "y": np.where((hours % 6 == 0) & (hours > 0), 6.0, np.nan)})
    read: dict[str, Any] = {"time": "t", "values": "y", "inputs": {"u": ("u", "previous")}}
    data = pf.Observations.from_frame(table, **read)
    y = pf.prior_predictive(model, data, draws=2, max_step=1.0).prior_predictive["y"].values
    np.testing.assert_allclose(y, 6.0)
    gone = pf.Observations.from_frame(table.assign(y=table["y"].where(hours != 12)), **read)
    with pytest.raises(pf.DataError, match=r"and 22 rows .* inputs alone.*6 to 12 apart.*NaN where one is"):
        check_data(model, gone)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inputs": None}, ("drift takes arguments (x, z, t, inputs)", "the model has none", "pf.Input")),
        ({"inputs": {"u": [1.0, 2.0]}}, ("inputs must be a dict", "pf.Input")),
        ({"inputs": {"": STAIRS}}, ("the input ''", "another name")),
        ({"inputs": {"a/b": STAIRS}}, ("the input 'a/b'", "without '/'")),
        ({"inputs": {"v": STAIRS}}, ("drift asks for parameter or input 'u'", "'sigma', 'v'")),
    ],
)
def test_models_that_misname_their_inputs_are_refused(changes, words):
    with pytest.raises(pf.ModelError) as caught:
        build(**changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    with pytest.raises(pf.DataError, match="inputs must be a dict"):
        pf.Observations([1.0], [1.0], inputs=[STAIRS])  # pyright: ignore[reportArgumentType]
