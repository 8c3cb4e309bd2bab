"""Event tables of pharmacometrics: doses, infusions, bounds, covariates, and a sentence for what is not supported."""

from __future__ import annotations

import datetime as dt
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import pathfold as pf
from pathfold.example_models import doses
from pathfold.model.check_data import check_data

TWO = pd.DataFrame(
    {
        "ID": [1, 1, 1, 2, 2, 2],
        "TIME": [0.0, 1.0, 3.0, 5.0, 6.0, 9.0],
        "AMT": [100.0, 0.0, 0.0, 80.0, 0.0, 0.0],
        "DV": [np.nan, 4.0, 2.0, np.nan, 3.0, np.nan],
    }
)


def with_cells(**cells: Any) -> pd.DataFrame:
    """The table of two subjects with further columns, or others in their place."""
    return TWO.assign(**cells)


def events(data: pf.Observations) -> dict[str, list[list[float]]]:
    return {name: [part.tolist() for part in pair] for name, pair in data.events.items()}


def test_doses_are_events_and_values_observations():
    panel = pf.read_nonmem(TWO)
    assert [*panel] == [1, 2]
    assert panel[2].name == 2
    assert panel[2].components == ("DV",)
    assert (panel[1].initial_time, panel[2].initial_time) == (0.0, 5.0)
    assert events(panel[1]) == {"dose": [[0.0], [100.0]]}
    assert events(panel[2]) == {"dose": [[5.0], [80.0]]}
    np.testing.assert_array_equal(panel[1].times, [1.0, 3.0])
    np.testing.assert_array_equal(panel[2].values, [[3.0], [np.nan]])
    assert pf.read_nonmem(TWO, initial_time=-1.0)[2].initial_time == -1.0


@pytest.mark.parametrize("kind", ["lower case", "csv", "text"])
def test_files_and_frames_are_read_alike(kind, tmp_path):
    given: Any = TWO.rename(columns=str.lower)
    if kind == "csv":
        given = tmp_path / "table.csv"
        TWO.rename(columns={"ID": "#ID"}).to_csv(given, index=False, na_rep=".")
    elif kind == "text":
        given = TWO.astype(str).replace("nan", ".")
        given["ID"] = TWO["ID"]
    panel = pf.read_nonmem(given)
    for name, expected in pf.read_nonmem(TWO).items():
        np.testing.assert_array_equal(panel[name].values, expected.values)
        assert events(panel[name]) == events(expected)


def test_the_data_of_an_example_come_back_from_their_table():
    panel = {str(series.name): series for series in doses.data()}
    rows = []
    for name, series in panel.items():
        rows += [{"ID": name, "TIME": 0.0, "AMT": doses.DOSE, "ADDL": 2, "II": doses.INTERVAL, "EVID": 1}]
        for t, value, kind in zip(series.times, series.values[:, 0], series.censored[:, 0], strict=True):
            rows += [{"ID": name, "TIME": t, "DV": value, "CENS": -kind, "EVID": 0}]
    again = pf.read_nonmem(pd.DataFrame(rows))
    assert [*again] == [*panel]
    model = doses.dosed()
    for name, series in panel.items():
        for field in ("times", "values", "censored", "upper"):
            np.testing.assert_array_equal(getattr(again[name], field), getattr(series, field))
        assert events(again[name]) == events(series)
        check_data(model, again[name])


def test_additional_doses_are_written_out_and_those_of_one_time_summed():
    table = {"ID": 1, "TIME": [0.0, 0.0, 8.0, 30.0], "AMT": [10.0, 5.0, 1.0, 0.0], "DV": [None, None, None, 2.0]}
    table |= {"ADDL": [3, 0, None, 0], "II": [8.0, 0.0, 0.0, 0.0]}
    assert events(pf.read_nonmem(pd.DataFrame(table))[1]) == {
        "dose": [[0.0, 8.0, 16.0, 24.0], [15.0, 11.0, 10.0, 10.0]]
    }


def test_a_sample_in_a_row_before_the_dose_was_drawn_before_it():
    table = pd.DataFrame({"ID": 1, "TIME": [0.0, 12.0, 12.0, 24.0, 24.0], "AMT": [9.0, 0.0, 9.0, 9.0, 0.0]})
    (data,) = pf.read_nonmem(table.assign(DV=[None, 1.0, None, None, 2.0])).values()
    at = data.events["dose"][0]
    assert at[[0, 2]].tolist() == [0.0, 24.0]
    assert 12.0 < at[1] < 12.0 + 1e-6
    model = pf.DiffusionModel(
        drift=lambda x, z: 0.0 * x,
        diffusion=lambda x, z: jnp.zeros((1, 1)),
        parameters={},
        initial_state=[0.0],
        observation=pf.Noiseless(lambda x, z: x),
        events={"dose": lambda x, z, amount: x + amount},
    )
    seen = pf.simulate(model, {}, data.times, events=data.events, steps_per_interval=1)
    assert seen.values[:, 0].tolist() == [9.0, 27.0]


def test_samples_after_a_dose_of_their_time_were_drawn_after_it():
    """Also those of another component, and of the same one: then it was seen twice, before and after."""
    table = pd.DataFrame({"ID": 1, "TIME": [0.0] + 5 * [12.0] + [24.0], "AMT": [9.0, 0.0, 9.0, 0.0, 5.0, 0.0, 0.0]})
    table = table.assign(
        DV=[None, 1.0, None, 2.0, None, 3.0, 4.0], DVID=[0, 1, 0, 2, 0, 2, 1], ADDL=[2] + 6 * [0], II=12.0
    )
    (data,) = pf.read_nonmem(table, observed={1: "a", 2: "b"}).values()
    before, after, last, end = data.times
    assert (before, end) == (12.0, 24.0)
    assert 12.0 < after < last < 12.0 + 1e-6
    np.testing.assert_array_equal(data.values, [[1.0, np.nan], [np.nan, 2.0], [np.nan, 3.0], [4.0, np.nan]])
    assert events(data) == {"dose": [[0.0, 12.0, after, last, 24.0], [9.0, 9.0, 9.0, 5.0, 9.0]]}


def test_compartments_choose_events_and_columns():
    table = with_cells(
        CMT=[1, 2, 3, 2, 3, 2], AMT=[100.0, 0.0, 0.0, 80.0, 0.0, 0.0], EVID=[1, 0, 0, 1, 0, 0], TIME=[0, 1, 1, 5, 6, 9]
    )
    panel = pf.read_nonmem(table, doses={1: "oral", 2: "iv"}, observed={3: "effect", 2: "plasma"})
    assert events(panel[1]) == {"oral": [[0.0], [100.0]]}
    assert events(panel[2]) == {"iv": [[5.0], [80.0]]}
    assert panel[1].components == ("effect", "plasma")
    np.testing.assert_array_equal(panel[1].values, [[2.0, 4.0]])
    np.testing.assert_array_equal(panel[2].values, [[3.0, np.nan], [np.nan, np.nan]])
    by_kind = table.assign(DVID=[0, 7, 8, 0, 8, 7])
    for given in (by_kind, by_kind.rename(columns={"CMT": "ADM", "DVID": "ytype"})):
        again = pf.read_nonmem(given, doses={1: "oral", 2: "iv"}, observed={8: "effect", 7: "plasma"})
        np.testing.assert_array_equal(again[1].values, panel[1].values)
        assert events(again[2]) == events(panel[2])


def test_values_beyond_a_limit_are_bounds():
    cells: dict[str, Any] = {"DV": [None, 4.0, 0.5, None, 3.0, 0.0]}
    flagged = with_cells(**cells, BLQ=[None, 0, 1, 0, 0, 1], LLOQ=[0.5, 0.5, 0.5, 0.4, 0.4, 0.4])
    for panel in (
        pf.read_nonmem(flagged),
        pf.read_nonmem(flagged.drop(columns="BLQ").replace({"DV": 0.5}, 0.1)),
        pf.read_nonmem(flagged.assign(DV=[None, 4.0, None, None, 3.0, None])),
    ):
        np.testing.assert_array_equal(panel[1].censored, [[0.0], [-1.0]])
        np.testing.assert_array_equal(panel[1].values, [[4.0], [0.5]])
        np.testing.assert_array_equal(panel[2].values, [[3.0], [0.4]])
    panel = pf.read_nonmem(flagged.drop(columns="LLOQ"), lloq=0.3)
    np.testing.assert_array_equal(panel[2].values, [[3.0], [0.3]])
    ignored = pf.read_nonmem(flagged.assign(MDV=[1, 0, 1, 1, 0, 1]))
    np.testing.assert_array_equal(ignored[1].values, [[4.0], [np.nan]])
    assert not ignored[1].censored.any()

    both = with_cells(
        DV=[None, 4.0, 0.5, None, 5.0, 0.2], CENS=[0, -1, 1, 0, -1, 1], LIMIT=[None, None, 0.1, None, 8.0, None]
    )
    panel = pf.read_nonmem(both)
    np.testing.assert_array_equal(panel[1].censored, [[1.0], [2.0]])
    np.testing.assert_array_equal(panel[1].values, [[4.0], [0.1]])
    np.testing.assert_array_equal(panel[1].upper, [[0.0], [0.5]])
    np.testing.assert_array_equal(panel[2].censored, [[2.0], [-1.0]])
    np.testing.assert_array_equal(panel[2].values, [[5.0], [0.2]])
    np.testing.assert_array_equal(panel[2].upper, [[8.0], [0.0]])


def test_infusions_are_rates_that_add_up_and_end_where_fine_steps_do():
    """dx = rate dt: what has been given by then is seen, with one fine step an interval."""
    table = pd.DataFrame({"ID": ["a"] * 5 + ["b"] * 2, "TIME": [0.0, 0.5, 0.7, 1.0, 9.0, 0.0, 3.0]})
    table["AMT"] = [3.0, 4.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    table["RATE"] = [2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    table["ADDL"], table["II"] = [1] + [0] * 6, [5.0] + [0.0] * 6
    table["DV"] = [None, None, 0.1, 0.2, 0.3, None, 0.4]
    panel = pf.read_nonmem(table, infusions="drip")
    rates = panel["a"].inputs["drip"]
    assert rates.written() == {
        "times": [0.0, 0.5, 1.5, 4.5, 5.0, 6.5],
        "values": [2.0, 3.0, 1.0, 0.0, 2.0, 0.0],
        "kind": "hold",
    }
    assert panel["b"].inputs["drip"].values.tolist() == [0.0]
    assert panel["a"].times.tolist() == [0.5, 0.7, 1.0, 1.5, 4.5, 5.0, 6.5, 9.0]
    assert np.isfinite(panel["a"].values[:, 0]).tolist() == [False, True, True, False, False, False, False, True]
    model = pf.DiffusionModel(
        drift=lambda x, z, t, inputs: inputs["drip"][None],
        diffusion=lambda x, z: jnp.zeros((1, 1)),
        parameters={},
        initial_state=[0.0],
        observation=pf.Noiseless(lambda x, z: x),
        inputs={"drip": pf.Input([0.0], [0.0], kind="previous")},
    )
    seen = pf.simulate(model, {}, panel["a"].times, inputs=panel["a"].inputs, steps_per_interval=1)
    np.testing.assert_allclose(seen.values[:, 0], [1.0, 1.6, 2.5, 4.0, 7.0, 7.0, 10.0, 10.0], rtol=1e-14)


@pytest.mark.parametrize("name", ["DUR", "tinf"])
def test_a_duration_says_how_long_an_infusion_takes(name):
    table = with_cells(**{name: [4.0, 0.0, 0.0, None, None, None]})
    for given in (table, table.assign(RATE=[25.0, 0, 0, 0, 0, 0])):
        panel = pf.read_nonmem(given)
        assert panel[1].inputs["infusion"].written() == {"times": [0.0, 4.0], "values": [25.0, 0.0], "kind": "hold"}
        assert panel[1].events == {}
        assert events(panel[2]) == {"dose": [[5.0], [80.0]]}


def test_times_that_differ_by_rounding_are_one():
    """Of infusions that meet, of one that ends at a dose or a sample, and of rows."""
    table = pd.DataFrame({"ID": 1, "TIME": [0.1, 0.1, 0.3, 0.6, 0.3 * 3, 1.0], "AMT": [0.2, 0.1, 0.7, 5.0, 0.0, 0.0]})
    table = table.assign(RATE=[1.0, 0.0, 1.0, 0.0, 0.0, 0.0], ADDL=[0, 2, 0, 0, 0, 0], II=[0, 0.4, 0, 0, 0, 0])
    (data,) = pf.read_nonmem(table.assign(DV=[None] * 4 + [1.0, 2.0])).values()
    assert data.inputs["infusion"].written()["times"] == [0.1, 0.3, 1.0]
    assert data.inputs["infusion"].values.tolist() == [1.0, 1.0, 0.0]
    assert data.times.tolist() == [0.3, 0.3 * 3, 1.0]
    assert events(data) == {"dose": [[0.1, 0.5, 0.6, 0.3 * 3], [0.1, 0.1, 5.0, 0.1]]}
    rows = {"ID": 1, "TIME": [0.0, 0.1 + 0.2, 0.3], "DV": [None, 1.0, 2.0], "DVID": [0, 1, 2], "AMT": [1.0, 0, 0]}
    assert pf.read_nonmem(pd.DataFrame(rows), observed={1: "a", 2: "b"})[1].times.tolist() == [0.3]


def test_covariates_are_the_same_in_all_rows_of_a_subject():
    table = with_cells(wt=[70.0, None, 70.0, 60.0, 60.0, 60.0], SEX=["F", "F", "F", "M", "M", "M"])
    panel = pf.read_nonmem(table, covariates=["wt", "SEX"])
    assert [each.covariates for each in panel.values()] == [{"wt": 70.0, "SEX": "F"}, {"wt": 60.0, "SEX": "M"}]
    with pytest.raises(pf.DataError, match=r"series 1: row 2, column 'wt' is 72.0, and before it 70.0: .* in inputs"):
        pf.read_nonmem(with_cells(wt=[70.0, None, 72.0, 60.0, 60.0, 60.0]), covariates="wt")


def test_inputs_hold_until_another_value_follows():
    table = with_cells(wt=[70.0, None, 72.0, 60.0, 60.0, 60.0], AGE=[30, 30, 30, 40, 40, 41])
    panel = pf.read_nonmem(table, inputs=["wt", "AGE"])
    assert panel[1].inputs["wt"].written() == {"times": [0.0, 3.0], "values": [70.0, 72.0], "kind": "hold"}
    assert panel[2].inputs["wt"].written() == {"times": [5.0], "values": [60.0], "kind": "hold"}
    assert panel[2].inputs["AGE"].values.tolist() == [40.0, 41.0]
    assert [*pf.read_nonmem(table, inputs="AGE")[1].inputs] == ["AGE"]


def test_rows_of_another_kind_are_times_without_values():
    panel = pf.read_nonmem(with_cells(EVID=[1, 2, 0, 1, 0, 2], DV=[None, 9.0, 2.0, None, 3.0, 9.0]))
    np.testing.assert_array_equal(panel[1].values, [[np.nan], [2.0]])
    np.testing.assert_array_equal(panel[2].values, [[3.0], [np.nan]])


NO, HERE = [0] * 6, "row 4, column"


@pytest.mark.parametrize(
    ("cells", "settings", "words"),
    [
        ({"EVID": [1, 0, 0, 1, 3, 0]}, {}, (HERE, "'EVID' is 3", "an ID of their own")),
        ({"EVID": [1, 0, 0, 1, 4, 0]}, {}, (HERE, "'EVID' is 4", "an ID of their own")),
        ({"EVID": [1, 0, 0, 1, 7, 0]}, {}, (HERE, "'EVID' is 7", "0 (observation)")),
        ({"MDV": [1, 0, 0, 1, 2, 0]}, {}, (HERE, "'MDV' is 2")),
        ({"SS": [0, 0, 0, 0, 1, 0]}, {}, (HERE, "'SS' is 1", "ADDL and II")),
        ({"RATE": [0, 0, 0, -2, 0, 0]}, {}, ("row 3, column 'RATE' is -2", "not supported")),
        ({"RATE": [0, 0, 0, 0, 2, 0], "EVID": [1, 0, 0, 1, 0, 0]}, {}, (HERE, "'RATE' is 2", "EVID")),
        ({"RATE": [0, 0, 0, 0, 2, 0]}, {}, (HERE, "'AMT' is 0.0", "needs an amount")),
        ({"EVID": [1, 0, 0, 0, 0, 0]}, {}, ("row 3, column 'AMT' is 80.0", "EVID is not 1")),
        ({"AMT": [100, 0, 0, 80, -1, 0]}, {}, (HERE, "'AMT' is -1")),
        (
            {"AMT": [100, 0, 0, None, 0, 0], "EVID": [1, 0, 0, 1, 0, 0]},
            {},
            ("row 3, column 'AMT' is nan", "the amount"),
        ),
        ({"C": [".", ".", "C", ".", ".", "."]}, {}, ("row 2, column 'C' is 'C'", "leave such rows out")),
        ({"ADDL": [0.5, *NO[1:]]}, {}, ("row 0, column 'ADDL' is 0.5",)),
        ({"ADDL": [2, *NO[1:]], "II": NO}, {}, ("row 0, column 'II' is 0", "above 0")),
        ({"ADDL": [2, *NO[1:]]}, {}, ("row 0, column 'II' is not there",)),
        ({"ADDL": [10**9, *NO[1:]], "II": [12.0, *NO[1:]]}, {}, ("row 0, column 'ADDL' is 1000000000", "10000")),
        ({"DUR": [-2, *NO[1:]]}, {}, ("row 0, column 'DUR' is -2", "not supported")),
        ({"DUR": [4, *NO[1:]], "RATE": [50, *NO[1:]]}, {}, ("row 0, column 'DUR' is 4", "AMT / RATE")),
        ({"RATE": [1e15, *NO[1:]]}, {}, ("row 0, column 'AMT' is 100.0", "leave RATE out")),
        ({"ID": [1, 1, 2, 2, 1, 2]}, {}, ("series 1: its rows end in row 1, and row 4 has the same ID", "sort")),
        (
            {"CENS": [0, -1, 0, 0, 0, 0], "LIMIT": [0, 4, 0, 0, 0, 0]},
            {},
            ("row 1, column 'LIMIT' is 4", "above for -1"),
        ),
        ({"BLQ": [0, 1, 0, 0, 0, 0], "LIMIT": [0, 5, 0, 0, 0, 0]}, {}, ("row 1, column 'LIMIT' is 5", "other end")),
        (
            {"RATE": [50, *NO[1:]], "infusion": NO},
            {"inputs": "infusion"},
            ("inputs names the column 'infusion'", "infusions="),
        ),
        ({"DV": [5.0, 4.0, 2.0, None, 3.0, 1.0], "MDV": NO}, {}, ("row 0, column 'DV' is 5.0", "row of its own")),
        ({"DV": [5.0, 4.0, 2.0, None, 3.0, 1.0]}, {}, ("row 0, column 'DV' is 5.0", "MDV 1")),
        ({"CMT": [1, 2, 2, 1, -2, 2]}, {}, (HERE, "'CMT' is -2", "not turned off")),
        ({"CMT": [1, 2, 2, 2, 2, 2]}, {}, ("rows of doses have different CMT", "doses={1: 'name 1', 2: 'name 2'}")),
        ({"CMT": [1, 2, 2, 1, 3, 2]}, {}, ("observed={2: 'name 1', 3: 'name 2'}",)),
        ({"CMT": [1, 2, 2, 1, 3, 2]}, {"observed": {2: "blood"}}, (HERE, "'CMT' is 3", "observed names [2] only")),
        ({}, {"observed": 3}, ("observed must be a name, or a dict of CMT",)),
        ({"TIME": [0.0, 1.0, 3.0, 5.0, 4.0, 9.0]}, {}, ("series 2: row 4, column 'TIME' is 4", "order of time")),
        ({"TIME": ["0", "1", "3", "5", "8:30", "9"]}, {}, (HERE, "'TIME' is '8:30'", "not a number")),
        ({"DATE": ["2026-01-01"] * 6}, {}, ("column 'DATE'", "let TIME count")),
        ({"TIME": pd.date_range("2026-01-01", periods=6)}, {}, ("column 'TIME' has dates", "count from one moment")),
        ({"TIME": pd.to_timedelta(range(6), "h")}, {}, ("column 'TIME' has dates or durations",)),
        ({"TIME": [dt.date(2026, 1, 1)] * 6}, {}, ("column 'TIME' has dates",)),
        ({"TIME": [0.0, 1.0, 1.0, 5.0, 6.0, 9.0]}, {}, ("series 1: row 2, column 'DV'", "second observation of 'DV'")),
        ({"DV": [None, 4.0, 2.0, None, None, None]}, {}, ("series 2: no row has an observation",)),
        ({"DV": [None, 4.0, 2.0, None, "BLQ", None]}, {}, (HERE, "'DV' is 'BLQ'")),
        (
            {"BLQ": [0, 0, 1, 0, 0, 0], "DV": [None, 4.0, 0.0, None, 3.0, 1.0]},
            {},
            ("row 2, column 'DV' is 0.0", "lloq"),
        ),
        ({"BLQ": [0, 0, -1, 0, 0, 0]}, {}, ("row 2, column 'BLQ' is -1", "one of 0, 1")),
        ({"CENS": [0, 0, 0, 0, 0, -1]}, {}, ("row 5, column 'DV' is nan", "above a limit")),
        ({"BLQ": NO, "CENS": NO}, {}, ("both CENS and BLQ",)),
        ({"LLOQ": [0.1] * 6}, {"lloq": 0.1}, ("both LLOQ and lloq",)),
        ({}, {"covariates": ["WT"]}, ("no column called 'WT'",)),
        ({"WT": [1.0, 1.0, 1.0, None, 1.0, 1.0]}, {"inputs": ["WT"]}, ("series 2: row 3, column 'WT' is empty",)),
        ({}, {"initial_time": 0.5}, ("series 1: the first row is at time 0, before initial_time = 0.5",)),
        ({"ID": [1, 1, None, 2, 2, 2]}, {}, ("row 2, column 'ID'",)),
        ({"amt": NO}, {}, ("two columns called 'AMT'",)),
        ({}, {"covariates": {"WT": "ID"}}, ("covariates must be names of columns, not {'WT': 'ID'}",)),
    ],
)
def test_what_is_not_supported_or_amiss_is_told(cells, settings, words):
    with pytest.raises(pf.DataError) as caught:
        pf.read_nonmem(with_cells(**cells), **settings)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("column", ["ID", "TIME", "DV"])
def test_a_table_has_subjects_times_and_values(column):
    with pytest.raises(pf.DataError, match=f"no column called '{column}'"):
        pf.read_nonmem(TWO.drop(columns=column))


def test_a_panel_with_a_trough_and_an_infusion_is_sampled():
    model = pf.DiffusionModel(
        drift=lambda x, z, t, inputs: (inputs["infusion"] - z["k"] * x[0])[None],
        diffusion=lambda x, z: (z["sigma"] * x)[:, None],
        parameters={"k": dist.LogNormal(-1.0, 0.5), "sigma": dist.LogNormal(-2.0, 0.5)},
        initial_state=[1.0],
        observation=pf.Likelihood(lambda x, z: dist.LogNormal(jnp.log(x[0]), 0.1)),
        events={"dose": lambda x, z, amount: x + amount},
        inputs={"infusion": pf.Input([0.0], [0.0], kind="previous")},
    )
    table = pd.DataFrame({"ID": 1, "TIME": [0.0, 1.0, 4.0, 4.0, 5.0, 6.0], "AMT": [2.0, 0.0, 0.0, 3.0, 1.0, 0.0]})
    table["RATE"], table["DV"] = [0.0, 0.0, 0.0, 0.0, 2.0, 0.0], [None, 2.3, 1.0, None, None, 3.1]
    (data,) = pf.read_nonmem(table).values()
    with pytest.warns(UserWarning, match="(few effective|not converged)"):
        tree = pf.sample(model, data, steps_per_interval=3, chains=1, warmup=60, draws=60, progress=False, seed=1)
    assert tree.sample_stats["n_failed_steps"].values.sum() < 0.01 * tree.sample_stats["n_steps"].values.sum()
    state = tree.posterior["state"].values[0, :, :, 0]
    times = tree.posterior["time"].values
    jump = state[:, np.searchsorted(times, 4.0) + 1] - state[:, np.searchsorted(times, 4.0)]
    np.testing.assert_allclose(jump, 3.0, rtol=1e-3)
