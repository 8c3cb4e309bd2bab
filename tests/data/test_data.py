"""Observations and the grid of intervals."""

import datetime as dt

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pathfold as pf
from pathfold.data import Input, Observations, TimeGrid
from pathfold.data.data import panel_of
from pathfold.data.time_grid import MISSING
from pathfold.errors import DataError, SettingsError
from pathfold.model.check_data import check_panel


@pytest.mark.parametrize(
    ("times", "values", "initial_time", "words"),
    [
        ([1.0, 3.0, 2.0], [0.0] * 3, 0.0, ("increase", "times[2]")),
        ([1.0, 1.0], [0.0] * 2, 0.0, ("increase", "merge")),
        ([1.0, np.inf], [0.0] * 2, 0.0, ("finite",)),
        ([np.nan, 1.0], [0.0] * 2, 0.0, ("finite",)),
        ([-0.1, 1.0], [0.0] * 2, 0.0, ("before initial_time",)),
        ([1.0, 2.0], [0.0] * 2, 1.5, ("before initial_time",)),
        ([1.0, 2.0], [0.0] * 3, 0.0, ("2 times", "3 rows")),
        ([1.0, 2.0], [0.0, -np.inf], 0.0, ("infinity", "NaN")),
        ([], [], 0.0, ("empty",)),
        ([1.0], np.zeros((1, 0)), 0.0, ("empty",)),
        ([1.0, 2.0], [np.nan] * 2, 0.0, ("missing",)),
        ([[1.0], [2.0]], [0.0] * 2, 0.0, ("(T,)",)),
        ([1.0], ["a"], 0.0, ("real numbers", "turn text into numbers")),
        (pd.Series([1.0], ["1.1.2026"]), None, 0.0, ("times are text", "'1.1.2026'", "dates like 2026-03-31")),
        (pd.Series([1.0], ["2026-01-01"]), None, 0.0, ("times are dates", "unit='days'")),
        ([1.0, 2.0], None, 0.0, ("values are missing", "DataFrame")),
        (
            pd.Series([1.0, 2.0], pd.date_range("2026-01-01", periods=2)),
            None,
            0.0,
            ("times are dates", "unit='days'", "numbers"),
        ),
        (pd.Series([1.0, 2.0], ["a", "b"]), None, 0.0, ("times", "numbers")),
        (pd.DataFrame({"id": ["a"], "y": [1.0]}, [0.5]), None, 0.0, ("the column 'id'", "text", "from_frame")),
        (["2026-03-01", "2026-03-02T00Z"], [1.0, 2.0], 0.0, ("with and without a time zone", "'2026-03-02T00Z'")),
        (
            pd.DataFrame({"day": [4, 3], "y": [1.0, 2.0]}),
            None,
            0.0,
            ("counts its rows", "set_index('day')", "from_frame"),
        ),
        (
            pd.DataFrame({"Date": ["1.2.", "2.2."], "y": [1.0, 2.0]}),
            None,
            0.0,
            ("counts its rows", "set_index('Date')"),
        ),
        (pd.DataFrame({"t": [4, 3, 5], "y": [1.0, 2.0, 3.0]})[1:], None, 0.0, ("counts its rows", "set_index('t')")),
        (pd.DataFrame({"u": [4, 3], "y": [1.0, 2.0]}), None, 0.0, ("counts its rows", "time='day'", "rename_axis")),
        (pd.DataFrame({"day": [4, 3], "y": [1.0, 2.0]})["y"], None, 0.0, ("Series counts its rows", "from_frame")),
        (xr.Dataset({"y": ("time", [1.0])}), None, 0.0, ("xarray.Dataset", "one of its variables")),
        (np.ma.masked_array([1.0, 2.0], [False, True]), [0.0] * 2, 0.0, ("times", "1 masked", "leave these out")),
        ([1.0, 2.0], np.array(["2020", "NaT"], "M8[s]"), 0.0, ("values", "dates", "real numbers")),
        ([1.0, 2.0], [dt.date(2020, 1, 1)] * 2, 0.0, ("values", "dates")),
        ([1.0, 2.0], ["1.0", "2.0"], 0.0, ("values", "real numbers")),
        (["1.0", "2.0"], [0.0] * 2, 0.0, ("times are text", "dates like 2026-03-31")),
        ([1.0, 2.0], [0.0, -1e300], 0.0, ("values", "as large as 1e+300", "unit")),
        ([1.0, 1e300], [0.0, 0.0], 0.0, ("times", "as large as 1e+300", "unit")),
        ([1.0], [0.0], "now", ("initial_time are text", "numbers")),
        ([1.0], [0.0], [0.0, 0.5], ("initial_time must be a finite number",)),
        ([1.0], [0.0], np.nan, ("initial_time must be a finite number",)),
        ([1.0], [0.0], 1j, ("initial_time must be a finite number",)),
        ([1.0], [0.0], None, ("initial_time must be a finite number",)),
        ([1.0], [0.0], dt.date(2020, 1, 1), ("initial_time", "times are numbers")),
        (xr.DataArray([1.0, 2.0], dims="time"), None, 0.0, ("coordinate 'time'",)),
        (xr.DataArray(np.zeros((1, 1, 1))), None, 0.0, ("dimensions", "dim_2")),
    ],
)
def test_bad_series_are_refused(times, values, initial_time, words):
    with pytest.raises(DataError) as caught:
        Observations(times, values, initial_time)
    assert all(word in str(caught.value) for word in words)


def test_masked_values_are_missing():
    masked = np.ma.masked_array([[0.1, 9.0], [9.0, 0.2]], [[False, True], [True, False]])
    for values in (masked, list(masked), [[0.1, None], [None, 0.2]], pd.DataFrame(masked).astype("Float64")):
        np.testing.assert_array_equal(Observations([1.0, 2.0], values).values, [[0.1, np.nan], [np.nan, 0.2]])
    frame = pd.DataFrame({"a": pd.array([1, pd.NA], dtype="Int64")}, index=[1.0, 2.0])
    np.testing.assert_array_equal(Observations(frame).values, [[1.0], [np.nan]])
    with pytest.raises(DataError, match="every value is missing"):
        Observations([1.0, 2.0], np.ma.masked_all(2))


DAYS = pd.date_range("2026-03-28", periods=3)


@pytest.mark.parametrize(
    ("times", "initial_time", "unit", "expected", "start"),
    [
        (DAYS, 0.0, "days", [0.0, 1.0, 2.0], 0.0),
        (DAYS, -1.5, "days", [0.0, 1.0, 2.0], -1.5),
        (DAYS, pd.Timestamp("2026-03-27T12"), "hours", [12.0, 36.0, 60.0], 0.0),
        (DAYS, dt.date(2026, 3, 21), "weeks", [1.0, 8 / 7, 9 / 7], 0.0),
        (DAYS, np.datetime64("2026-03-27", "ns"), "days", [1.0, 2.0, 3.0], 0.0),
        (DAYS.to_numpy().astype("M8[D]"), np.datetime64("2026-03-28"), "minutes", [0.0, 1440.0, 2880.0], 0.0),
        (DAYS.tz_localize("Europe/Berlin"), 0.0, "hours", [0.0, 24.0, 47.0], 0.0),
        ([dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 1)], 0.0, "seconds", [0.0, 1.0], 0.0),
        (np.array(["2026", "2027"], "M8[Y]"), 0.0, "years", [0.0, 365 / 365.25], 0.0),
        (pd.to_timedelta([1.0, 2.5], "D"), dt.timedelta(hours=12), "days", [1.0, 2.5], 0.5),
        ([dt.timedelta(1), dt.timedelta(2)], 0.25, "days", [1.0, 2.0], 0.25),
    ],
)
def test_dates_are_counted_in_their_unit(times, initial_time, unit, expected, start):
    data = Observations(times, np.zeros(len(times)), initial_time, unit=unit)
    np.testing.assert_allclose(data.times, expected, rtol=1e-14)
    assert data.initial_time == start


def test_counted_dates_are_turned_back_whatever_they_are_stored_in():
    for stored in ("s", "ms", "us", "ns"):
        days = DAYS.astype(f"M8[{stored}]")
        for start in (days[0], days[0].to_numpy(), days[0].to_pydatetime(), str(days[0]), 0.0):
            data = Observations(days, np.zeros(3), start, unit="days")
            assert data.calendar
            np.testing.assert_array_equal(data.calendar.dates(data.times), DAYS)
        table = {"day": days, "y": np.zeros(3)}
        data = Observations.from_frame(table, time="day", values="y", initial_time=None, unit="days")
        np.testing.assert_array_equal(data.calendar.dates(data.times), DAYS)


def test_labelled_series_with_dates_are_counted():
    for data in (pd.Series([1.0, 2.0, 3.0], DAYS), xr.DataArray([1.0, 2.0, 3.0], {"time": DAYS}, dims="time")):
        np.testing.assert_array_equal(Observations(data, unit="days").times, [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("times", "initial_time", "unit", "words"),
    [
        (DAYS, 0.0, None, ("dates", "unit='days'")),
        (DAYS, 0.0, "month", ("unit must be one of 'seconds'", "'years'", "not 'month'")),
        (DAYS, 0.0, 3, ("unit must be one of",)),
        ([1.0, 2.0, 3.0], 0.0, "days", ("unit='days'", "leave it out")),
        ([DAYS[0], pd.NaT, DAYS[2]], 0.0, "days", ("NaT",)),
        (DAYS, pd.NaT, "days", ("NaT",)),
        (DAYS, dt.timedelta(1), "days", ("times are dates", "initial_time is the duration")),
        (pd.to_timedelta([1, 2, 3], "D"), DAYS[0], "days", ("times are durations", "initial_time is the date")),
        (DAYS, pd.Timestamp("2027-01-01"), "days", ("before initial_time",)),
        (np.ma.masked_array(DAYS.to_numpy(), [False, True, False]), 0.0, "days", ("masked",)),
        (np.arange(1, 4).astype("m8[M]"), 0.0, "days", ("no fixed length",)),
        (np.array(["300000", "300001", "300002"], "M8[Y]"), 0.0, "years", ("too far away",)),
        ([dt.time(1), dt.time(2), dt.time(3)], 0.0, "hours", ("cannot be read as dates",)),
    ],
)
def test_dates_that_cannot_be_counted_are_refused(times, initial_time, unit, words):
    with pytest.raises(DataError) as caught:
        Observations(times, np.zeros(3), initial_time, unit=unit)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_grid_has_an_interval_for_each_observation():
    data = Observations([1.0, 2.0, 4.0], [[1.0, np.nan], [np.nan, np.nan], [3.0, 4.0]], initial_time=0.5)
    grid = TimeGrid.build(data, steps_per_interval=5)
    np.testing.assert_array_equal(grid.starts, [0.5, 1.0, 2.0])
    np.testing.assert_array_equal(grid.ends, [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(grid.mask, [[True, False], [False, False], [True, True]])
    np.testing.assert_array_equal(grid.values[grid.mask], [1.0, 3.0, 4.0])
    assert np.all(grid.values[~grid.mask] == MISSING)
    np.testing.assert_allclose(grid.delta, [0.1, 0.2, 0.4])
    assert grid.steps == 5
    assert not grid.regular


def test_long_intervals_are_split_so_that_no_step_exceeds_max_step():
    data = Observations([1.0, 2.0, 3.0, 5.5], np.arange(4.0))
    grid = TimeGrid.build(data, max_step=0.3)
    assert grid.steps == 4
    assert np.all(grid.delta <= 0.3)
    assert len(grid.ends) == 6
    np.testing.assert_array_equal(grid.ends[grid.mask[:, 0]], data.times)
    np.testing.assert_array_equal(grid.values[grid.mask], data.values.ravel())


def test_a_whole_ratio_is_not_rounded_up():
    data = Observations(0.3 * np.arange(1, 11), np.zeros(10))
    grid = TimeGrid.build(data, max_step=0.1)
    assert (grid.steps, len(grid.ends)) == (3, 10)


def test_a_panel_is_laid_end_to_end():
    panel = [Observations([1.0, 2.0], [1.0, 2.0]), Observations([3.0], [3.0], initial_time=2.0)]
    grid = TimeGrid.build(panel, steps_per_interval=2)
    np.testing.assert_array_equal(grid.first, [0, 2])
    np.testing.assert_array_equal(grid.starts, [0.0, 1.0, 2.0])
    assert grid.regular


@pytest.mark.parametrize("count", [100, 1000])
def test_single_precision_times_on_a_regular_grid_are_regular(count):
    grid = TimeGrid.build(Observations(0.2 * jnp.arange(1, count + 1), np.zeros(count)), steps_per_interval=1)
    assert grid.regular
    np.testing.assert_allclose(grid.delta, 0.2, rtol=1e-6)


def test_single_precision_times_that_say_too_little_stay_as_they_are():
    """At a million they are told apart by a sixteenth: a step of one could be anything near it."""
    for second in (2.25, 2.0625):
        times = np.array([1e6 + 1, 1e6 + second, 1e6 + 3, 1e6 + 4], np.float32)
        data = Observations(times, np.zeros(4), initial_time=1e6)
        np.testing.assert_array_equal(data.times - 1e6, [1.0, second, 3.0, 4.0])


SHUFFLED = pd.Series([2.0, 1.0], index=[1, 0])


@pytest.mark.parametrize(
    ("times", "values", "options", "words"),
    [
        (pd.Series([1.0, 2.0]), SHUFFLED, {}, ("times and values have different indices", "[0, 1] and [1, 0]")),
        (pd.Series([1.0, 2.0]), SHUFFLED.to_numpy(), {}, ()),
        (pd.Index([1.0, 2.0]), pd.Series([2.0, 1.0], index=[3.0, 4.0]), {}, ("times and values",)),
        (pd.Index([1.0, 2.0]), pd.Series([2.0, 1.0]), {}, ()),
        (pd.Series([2.0, 1.0], index=[1.0, 2.0]), None, {"censored": SHUFFLED * 0}, ("times and censored",)),
        ([1.0, 2.0], SHUFFLED, {"censored": (SHUFFLED, SHUFFLED.sort_index())}, ("censored and censored",)),
        ([1.0, 2.0], SHUFFLED, {"events": {"dose": (pd.Series([1.0, 2.0]), SHUFFLED)}}, ("the amounts of the event",)),
        ([1.0, 2.0], SHUFFLED, {}, ()),
    ],
)
def test_rows_with_other_labels_are_refused(times, values, options, words):
    if not words:
        np.testing.assert_array_equal(Observations(times, values, **options).values.ravel(), [2.0, 1.0])
        return
    with pytest.raises(DataError) as caught:
        Observations(times, values, **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_an_input_of_rows_with_other_labels_is_refused():
    with pytest.raises(DataError, match="an input's times and an input's values have different indices"):
        Input(pd.Series([1.0, 2.0]), SHUFFLED)


@pytest.mark.parametrize("columns", [["a", "a"], [1, "1"]])
def test_two_columns_of_one_name_are_refused(columns):
    with pytest.raises(DataError, match="two columns of the data are called"):
        Observations(pd.DataFrame(np.zeros((2, 2)), index=[1.0, 2.0], columns=columns))


def test_an_index_that_somebody_chose_has_the_times():
    series = pd.Series([1.0, 2.0, 3.0])
    for index in (range(1966, 1969), [0, 1, 2], np.arange(3), pd.RangeIndex(3, name="day"), pd.RangeIndex(0, 6, 2)):
        for given in (chosen := series.set_axis(index), chosen.to_frame()):
            assert Observations(given).times.tolist() == chosen.index.tolist()


def test_frames_and_labelled_arrays_bring_times_values_and_names():
    times, values = [0.5, 1.0, 2.0], np.array([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]])
    frame = pd.DataFrame(values, index=times, columns=["a", "b"])
    array = xr.DataArray(values.T, {"of": ["a", "b"], "time": times}, dims=("of", "time"))
    for data in (Observations(frame), Observations(array)):
        np.testing.assert_array_equal(data.times, times)
        np.testing.assert_array_equal(data.values, values)
        assert data.components == TimeGrid.build(data, steps_per_interval=1).components == ("a", "b")
    for one in (Observations(frame["a"]), Observations(array[0], initial_time=0.1)):
        np.testing.assert_array_equal(one.values, values[:, :1])
    assert Observations(frame["a"]).components == ("a",)
    unnamed = Observations(times, values)
    assert unnamed.components is None
    assert TimeGrid.build(unnamed, steps_per_interval=1).components == (0, 1)


def test_an_observation_at_the_initial_time_ends_an_interval_of_length_zero():
    data = Observations([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], initial_time=1.0)
    for grid in (TimeGrid.build(data, steps_per_interval=4), TimeGrid.build(data, max_step=0.25)):
        np.testing.assert_array_equal(grid.starts, [1.0, 1.0, 2.0])
        np.testing.assert_array_equal(grid.ends, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(grid.delta, [0.0, 0.25, 0.25])
    only = TimeGrid.build(Observations([0.0], [1.0]), max_step=0.1)
    assert (only.steps, len(only.ends)) == (1, 1)
    single = Observations(0.2 * jnp.arange(101), np.zeros(101))
    np.testing.assert_allclose(np.diff(single.times), 0.2, rtol=1e-12)


SERIES = Observations([1.0, 2.0], [0.0, 0.0])


@pytest.mark.parametrize(
    ("series", "settings", "word"),
    [
        (SERIES, {}, "exactly one"),
        (SERIES, {"steps_per_interval": 2, "max_step": 0.1}, "exactly one"),
        (SERIES, {"steps_per_interval": 0}, "steps_per_interval must be a whole number of at least 1"),
        (SERIES, {"steps_per_interval": 2.5}, "steps_per_interval must be a whole number"),
        (SERIES, {"steps_per_interval": True}, "steps_per_interval must be a whole number"),
        (SERIES, {"steps_per_interval": 10**12}, "steps_per_interval = 1000000000000 makes 2e\\+12 fine steps"),
        (SERIES, {"max_step": "a"}, "max_step must be a positive number"),
        (SERIES, {"max_step": -1.0}, "max_step must be a positive number"),
        (SERIES, {"max_step": 1e-300}, "max_step = 1e-300 makes 2e\\+300 fine steps"),
        (Observations([1e-9, 1e12], [0.0, 0.0]), {"max_step": 1e-9}, "fine steps"),
    ],
)
def test_bad_steps_are_refused(series, settings, word):
    with pytest.raises(SettingsError, match=word):
        TimeGrid.build(series, **settings)


@pytest.mark.parametrize(
    ("series", "settings", "word"),
    [
        (None, {"steps_per_interval": 2}, "data must be pf.Observations"),
        (pd.DataFrame({"y": [1.0]}), {"steps_per_interval": 2}, r"write pf.Observations\(...\) for one series"),
        ([], {"steps_per_interval": 2}, "empty"),
        ([SERIES, Observations([1.0], [[0.0, 0.0]])], {"steps_per_interval": 2}, "widths"),
        (
            [Observations(pd.Series([0.0], [1.0], name=name)) for name in "ab"],
            {"steps_per_interval": 2},
            "different columns, .*'a'.*'b'",
        ),
        ([1.0, 2.0], {"steps_per_interval": 2}, "pf.Observations"),
    ],
)
def test_bad_grids_are_refused(series, settings, word):
    with pytest.raises(DataError, match=word):
        TimeGrid.build(series, **settings)


def relaxing(**options) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
        **options,
    )


def test_a_series_that_begins_long_before_its_data_warns():
    """As years do, without initial_time; but not of data that results exist of."""
    model, years = relaxing(), np.arange(1966.0, 1990.0)
    with pytest.warns(
        UserWarning, match="the first observation is at 1966, long after initial_time, .* initial_time=1966"
    ):
        check_panel(model, pf.Observations(years, np.zeros(24)))
    check_panel(model, pf.Observations(years, np.zeros(24)), in_results=True)
    check_panel(model, pf.Observations(years, np.zeros(24), initial_time=1966.0))
    check_panel(model, pf.Observations([50.0, 51.0], np.zeros(2)))


def test_a_model_with_doses_and_data_without_any_warns():
    """Once, and not if some of the series had none, or if results exist of them."""
    model = relaxing(events={"dose": lambda x, z, amount: x + amount})
    placebo = pf.Observations([1.0, 2.0], np.zeros(2))
    treated = pf.Observations([1.0, 2.0], np.ones(2), events={"dose": ([0.0], [1.0])})
    with pytest.warns(
        UserWarning, match="the model has an event 'dose', and the data have none: give .*events="
    ) as told:
        check_panel(model, [placebo, placebo])
    assert len(told) == 1
    check_panel(model, [placebo, placebo], in_results=True)
    check_panel(model, [placebo, treated])


def test_data_and_panels_print_as_what_they_have():
    times, inputs = [1.0, 2.0, 4.0], {"heat": pf.Input([0.0, 9.0], [1.0, 2.0])}
    events = {"dose": ([0.0, 1.0], [5.0, 5.0])}
    one = pf.Observations(times, [0.2, 0.2, np.nan], censored=[-1, -1, 0], events=events, inputs=inputs)
    assert repr(one) == "Observations(2 values at 3 times from 1 to 4, 2 below 0.2, 2 dose events, inputs heat)"
    two = pf.Observations([8.0], [[3.0, 0.1]], censored=([[-np.inf, 0.1]], [[3.0, 0.4]]), covariates={"sex": "F"})
    assert repr(two) == ("Observations(2 values at 1 times from 8 to 8, 1 below 3, 1 between bounds, covariates sex)")
    table = pd.DataFrame({"who": ["a", "a", "b"], "t": [1.0, 2.0, 9.0], "y": [0.5, 0.6, 0.25], "low": [0, 0, -1]})
    panel = pf.Observations.from_frame(table, series="who", time="t", values="y", censored="low")
    assert repr(panel) == "panel of 2 series: 3 values at 3 times from 1 to 9, 1 below 0.25"
    assert panel == dict(panel)
    assert repr(type(panel)()) == "panel of 0 series: none"


def test_bounds_in_a_table_go_by_the_names_of_columns():
    """Columns of `censored` in another order are brought into that of the values; other columns are refused."""
    index = [1.0, 2.0]
    values = pd.DataFrame({"u": [0.1, 0.2], "v": [1.1, 1.2]}, index=index)
    kinds = pd.DataFrame({"v": [0, -1], "u": [0, 0]}, index=index)
    np.testing.assert_array_equal(Observations(values, censored=kinds).censored, [[0.0, 0.0], [0.0, -1.0]])
    with pytest.raises(DataError, match=r"censored has the columns .*'w'.*, the values"):
        Observations(values, censored=kinds.rename(columns={"v": "w"}))


def test_series_of_a_panel_count_their_times_in_one_unit():
    dates = pd.Series([0.1, 0.2], index=pd.date_range("2026-01-02", periods=2))
    days, weeks = (Observations(dates, unit=unit, initial_time="2026-01-01") for unit in ("days", "weeks"))
    for other, unit in ((weeks, "weeks"), (Observations([1.0, 2.0], [0.1, 0.2]), "numbers without a unit")):
        with pytest.raises(DataError, match=f"series 'a' counts its times in days, series 'b' in {unit}"):
            panel_of({"a": days, "b": other})
    assert [*panel_of({"a": days, "b": days})] == ["a", "b"]
