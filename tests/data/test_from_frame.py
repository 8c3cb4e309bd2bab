"""Long tables: one series or a panel, rows in any order, and a sentence for every mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pathfold as pf

PLANTS = pd.DataFrame(
    {
        "plant": ["b", "a", "b", "a", "a"],
        "day": [4.0, 3.0, 1.0, 1.0, 2.0],
        "height": [2.2, np.nan, 1.0, 0.5, 0.7],
        "leaves": [5, 9, 2, 3, 4],
    }
)
NAMES: dict[str, Any] = {"series": "plant", "time": "day", "values": ["height", "leaves"]}


def test_a_panel_has_sorted_series_in_the_order_of_the_table():
    panel = pf.Observations.from_frame(PLANTS, **NAMES)
    assert [*panel] == ["b", "a"]
    assert panel["a"].name == "a"
    assert panel["a"].components == ("height", "leaves")
    np.testing.assert_array_equal(panel["a"].times, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(panel["a"].values, [[0.5, 3.0], [0.7, 4.0], [np.nan, 9.0]])
    np.testing.assert_array_equal(panel["b"].values, [[1.0, 2.0], [2.2, 5.0]])


def test_a_table_without_names_of_series_is_one():
    alone = PLANTS[PLANTS["plant"] == "a"]
    data = pf.Observations.from_frame(alone, time="day", values="leaves", initial_time=None)
    np.testing.assert_array_equal(data.values, [[3.0], [4.0], [9.0]])
    assert data.initial_time == 1.0
    assert data.name is None


@pytest.mark.parametrize("kind", ["dict", "csv", "text", "nullable"])
def test_what_pandas_reads_is_read_alike(kind, tmp_path):
    if kind == "dict":
        given: Any = PLANTS.to_dict("list")
    elif kind == "csv":
        given = tmp_path / "plants.csv"
        PLANTS.to_csv(given, index=False, na_rep=".")
    else:
        given = PLANTS.astype(str).replace("nan", " ") if kind == "text" else PLANTS.convert_dtypes()
    panel = pf.Observations.from_frame(given, **NAMES)
    np.testing.assert_array_equal(panel["a"].values, [[0.5, 3.0], [0.7, 4.0], [np.nan, 9.0]])
    np.testing.assert_array_equal(panel["b"].times, [1.0, 4.0])


@pytest.mark.parametrize("numbers", [[7, 7, 9], [7.0, 7.0, 9.0], pd.Categorical([7, 7, 9], categories=[1, 7, 9])])
def test_numbers_name_series(numbers):
    table = pd.DataFrame({"id": numbers, "t": [1, 2, 1], "y": [0.1, 0.2, 0.3]})
    panel = pf.Observations.from_frame(table, series="id", time="t", values="y")
    assert [(name, type(name)) for name in panel] == [(7, int), (9, int)]


def test_dates_are_counted_from_the_first_row_of_each_series():
    table = pd.DataFrame(
        {
            "id": [1, 1, 2, 2],
            "when": pd.to_datetime(["2026-03-02", "2026-03-01", "2026-04-01", "2026-04-08"]),
            "y": [1.0, np.nan, 3.0, 4.0],
            "amount": [np.nan, 5.0, np.nan, 6.0],
            "warmth": [10.0, 11.0, 12.0, 13.0],
        }
    )
    given: dict[str, Any] = {"time": "when", "values": "y", "events": {"feed": "amount"}, "unit": "days"}
    given |= {"inputs": {"warmth": ("warmth", "previous")}, "series": "id", "initial_time": None}
    for frame in (table, table.assign(when=table["when"].astype(str))):
        panel = pf.Observations.from_frame(frame, **given)
        assert panel[1].times.tolist() == [1.0]
        assert panel[2].times.tolist() == [0.0, 7.0]
        assert [part.tolist() for part in panel[1].events["feed"]] == [[0.0], [5.0]]
        assert [part.tolist() for part in panel[2].events["feed"]] == [[7.0], [6.0]]
        assert panel[2].inputs["warmth"].written() == {"times": [0.0, 7.0], "values": [12.0, 13.0], "kind": "previous"}


def test_rows_of_events_alone_are_no_times_of_the_data():
    table = {"t": [0, 1, 1, 2, 3], "y": [None, None, 0.3, None, 0.4], "dose": [10, 5, None, None, None]}
    data = pf.Observations.from_frame(table, time="t", values="y", events={"dose": "dose"})
    assert data.times.tolist() == [1.0, 2.0, 3.0], "a row without event stays, if all of it is missing"
    assert [part.tolist() for part in data.events["dose"]] == [[0.0, 1.0], [10.0, 5.0]]


def test_a_value_of_an_input_that_rows_of_one_time_repeat_counts_once():
    table = {"t": [1, 1, 2], "y": [None, 0.3, 0.4], "dose": [10, None, None], "u": [5.0, 5.0, 6.0]}
    data = pf.Observations.from_frame(table, time="t", values="y", events={"dose": "dose"}, inputs={"u": "u"})
    assert data.inputs["u"].written() == {"times": [1.0, 2.0], "values": [5.0, 6.0], "kind": "linear"}


def test_inputs_that_hold_do_so_until_another_value_follows():
    table = {"id": [1, 2, 1, 1], "t": [3, 1, 2, 4], "y": [0.1, 0.2, 0.3, 0.4], "w": [70.0, 60.0, 70.0, 72.0]}
    table["old"] = [None, 0, 1, None]
    given: dict[str, Any] = {"series": "id", "time": "t", "values": "y"}
    inputs = {name: (name, "hold") for name in ("w", "old")}
    panel = pf.Observations.from_frame(table, inputs=inputs, **given)
    assert panel[1].inputs["w"].written() == {"times": [2.0, 4.0], "values": [70.0, 72.0], "kind": "hold"}
    assert panel[1].inputs["w"].at(np.array([0.0, 3.0, 9.0])).tolist() == [70.0, 70.0, 72.0]
    assert panel[1].inputs["old"].written() == {"times": [2.0], "values": [1.0], "kind": "hold"}
    assert panel[2].inputs["w"].values.tolist() == [60.0]
    dated = {**table, "t": [f"2026-03-0{day}" for day in table["t"]]}
    panel = pf.Observations.from_frame(dated, inputs={"w": ("w", "hold")}, unit="days", **given)
    assert panel[1].inputs["w"].times.tolist() == [0.0, 2.0]


def test_inputs_are_as_long_as_the_table():
    """A dry end of the table is known, and what comes after it is not."""
    table = {"t": [0, 1, 2, 3, 4], "y": [1.0, None, 2.0, None, 3.0], "rain": [4.0, 4.0, 0.0, 0.0, 0.0]}
    data = pf.Observations.from_frame(table, time="t", values="y", inputs={"rain": ("rain", "previous")})
    assert data.inputs["rain"].times.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert data.inputs["rain"].span == (0.0, 5.0)


@pytest.mark.parametrize("kind", ["previous", "linear"])
def test_an_input_that_is_not_known_in_a_row_is_refused(kind):
    days = pd.date_range("2026-03-01", periods=3)
    table = pd.DataFrame({"day": days, "y": [1.0, 2.0, 3.0], "rain": [4.0, None, 0.0]})
    with pytest.raises(pf.DataError, match=r"row 1, column 'rain' is empty at time 2026-03-02"):
        pf.Observations.from_frame(table, time="day", values="y", inputs={"rain": ("rain", kind)}, unit="days")


def test_rows_of_inputs_alone_are_no_times_of_the_data():
    hours = np.arange(13)
    table = {"t": hours, "rain": np.ones(13), "y": np.where(hours % 6 == 0, 6.0, np.nan)}
    data = pf.Observations.from_frame(table, time="t", values="y", inputs={"rain": ("rain", "previous")})
    assert data.times.tolist() == [0.0, 6.0, 12.0]
    assert data.inputs["rain"].times.size == 13


def test_dates_may_be_the_index():
    days = pd.date_range("2026-03-01", periods=3)
    table = pd.DataFrame({"y": [1.0, 2.0, 3.0]}, index=days)
    with pytest.raises(pf.DataError, match=r"no column called 'day'.*its index has dates: name it, .rename"):
        pf.Observations.from_frame(table, time="day", values="y", unit="d")
    data = pf.Observations.from_frame(table.rename_axis("day"), time="day", values="y", unit="d")
    assert data.times.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("days", "initial_time", "words"),
    [
        (["2026-03-01", "2026-03-02"], None, ("times are dates", "unit='days'")),
        (["2026-03-01", "2026-03-02T00:00Z"], None, ("row 1, column 't' is '2026-03-02T00:00Z'", "has a time zone")),
        (
            [pd.Timestamp("2026-03-01", tz="UTC"), pd.Timestamp("2026-03-02")],
            None,
            ("row 1, column 't'", "which has none"),
        ),
        (
            pd.date_range("2026-03-01", periods=2, tz="Europe/Berlin"),
            "2026-02-28",
            ("times have a time zone, and initial_time none",),
        ),
    ],
)
def test_dates_that_could_be_mistaken_are_refused(days, initial_time, words):
    table, unit = {"t": days, "y": [1.0, 2.0]}, "days" if "unit='days'" not in words else None
    with pytest.raises(pf.DataError) as caught:
        pf.Observations.from_frame(table, time="t", values="y", initial_time=initial_time, unit=unit)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("unit", ["hours", "hour", "h"])
def test_text_with_other_offsets_from_utc_is_read(unit):
    table = {"t": ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00", "2026-03-29T02:00Z"], "y": [1.0, 2.0, 3.0]}
    data = pf.Observations.from_frame(table, time="t", values="y", unit=unit)
    assert data.times.tolist() == [0.0, 1.0, 2.0]
    assert data.calendar is not None
    assert data.calendar.aware
    assert type(data.calendar).read(data.calendar.written()) == data.calendar


@pytest.mark.parametrize("kind", ["frame", "dict", "pandas' own types", "categories"])
def test_covariates_are_the_same_in_all_rows_of_a_series(kind):
    table: Any = {"id": [1, 2, 1, 1], "t": [3, 1, 2, 4], "y": [0.1, 0.2, 0.3, 0.4]}
    table |= {"w": [None, 60, 70, 70], "sex": ["F", "M", "", "F"], "old": [False, True, False, False]}
    table = table if kind == "dict" else pd.DataFrame(table)
    table = table.convert_dtypes() if kind == "pandas' own types" else table
    table = table.assign(sex=table["sex"].astype("category")) if kind == "categories" else table
    panel = pf.Observations.from_frame(table, series="id", time="t", values="y", covariates=["w", "sex", "old"])
    assert panel[1].covariates == {"w": 70.0, "sex": "F", "old": 0.0}
    assert panel[2].covariates == {"w": 60.0, "sex": "M", "old": 1.0}
    assert not panel[1].inputs


def test_an_hour_that_comes_twice_has_one_value_of_an_input():
    hours = [f"2026-10-25 0{hour}:00" for hour in (1, 2, 2, 3)]
    table = {"hour": hours, "rain": [0.0, 1.0, 2.0, 0.0], "y": [1.0, None, None, 1.2]}
    with pytest.raises(
        pf.DataError, match=r"rows 1 and 2 have the same time, 2026-10-25 02:00:00, .* column 'rain': .*time zone"
    ):
        pf.Observations.from_frame(table, time="hour", values="y", inputs={"rain": "rain"}, unit="h")


def test_bounds_have_columns_of_their_own():
    table = {"t": [2, 1], "a": [0.1, 0.5], "b": [3.0, 4.0], "low": [-1, None], "high": [0, 1]}
    data = pf.Observations.from_frame(table, time="t", values=["a", "b"], censored={"b": "high"})
    np.testing.assert_array_equal(data.censored, [[0.0, 1.0], [0.0, 0.0]])
    data = pf.Observations.from_frame(table, time="t", values="a", censored="low")
    np.testing.assert_array_equal(data.censored, [[0.0], [-1.0]])


@pytest.mark.parametrize(
    ("table", "changes", "words"),
    [
        ({}, {"time": "hour"}, ("no column called 'hour'", "'plant', 'day'")),
        ({}, {"series": "tree"}, ("no column called 'tree'",)),
        ({}, {"values": ["height", "width"]}, ("no column called 'width'",)),
        ({}, {"values": []}, ("values must name at least one column",)),
        ({}, {"values": ["height", "height"]}, ("each once",)),
        ({}, {"series": None}, ("rows 2 and 3 have the same time, 1.0", "series=")),
        ({"day": [4.0, 2.0, 1.0, 1.0, 2.0]}, {}, ("series 'a': rows 1 and 4 have the same time, 2.0",)),
        ({"height": [2.2, "tall", 1.0, 0.5, 0.7]}, {}, ("row 1, column 'height' is 'tall', which is not a number",)),
        ({"day": [4.0, None, 1.0, 1.0, 2.0]}, {}, ("row 1, column 'day' has no time",)),
        ({"day": ["4", "x", "1", "1", "2"]}, {}, ("row 1, column 'day' is 'x', which is not a number",)),
        ({"day": ["2026-03-01", "31.3.26", *["2026-03-02"] * 3]}, {"unit": "days"}, ("row 1", "'31.3.26'", "dates")),
        ({"day": ["2026-03-01", "1500", *["2026-03-02"] * 3]}, {"unit": "days"}, ("row 1", "'1500'", "dates")),
        ({"day": pd.date_range("2026-01-01", periods=5)}, {}, ("series 'b'", "unit='days'")),
        ({"height": pd.date_range("2026-01-01", periods=5)}, {}, ("'height' has dates",)),
        ({"plant": ["b", None, "b", "a", "a"]}, {}, ("row 1, column 'plant' does not say",)),
        ({"plant": ["b", "a", "b", 1.5, 1.5]}, {}, ("series 1.5", "a whole number")),
        ({"height": [2.2] + [None] * 4}, {"values": "height"}, ("series 'a': every value is missing",)),
        ({"height": [2.2, np.inf, 1.0, 1.0, 1.0]}, {}, ("series 'a'", "infinity")),
        ({}, {"censored": "height"}, ("there are 2 columns of values", "censored={'height': 'height'}")),
        ({}, {"censored": {"width": "leaves"}}, ("censored names 'width'",)),
        ({}, {"values": "height", "censored": "leaves"}, ("series 'b'", "-1 (below the value)")),
        ({}, {"events": "leaves"}, ("events must be a dict",)),
        ({}, {"inputs": {"u": ("leaves",)}}, ("a column, or a pair",)),
        ({}, {"inputs": {"u": ("leaves", "stairs")}}, ("series 'b'", "'linear', 'previous' or 'hold'")),
        ({"u": [1.0, None, None, None, None]}, {"inputs": {"u": "u"}}, ("series 'b'", "row 2, column 'u' is empty")),
        (
            {"u": [1.0, 1.0, 1.0, None, 1.0]},
            {"inputs": {"v": ("u", "previous")}},
            ("series 'a': row 3, column 'u' is empty",),
        ),
        (
            {},
            {"inputs": {"u": ("leaves", "previous")}, "initial_time": [1.0]},
            ("initial_time must be a finite number",),
        ),
        ({}, {"covariates": {"u": "leaves"}}, ("covariates must be names of columns",)),
        ({}, {"covariates": ["weight"]}, ("no column called 'weight'",)),
        ({"u": [1.0, 2.0, 1.0, 2.0, 2.5]}, {"covariates": "u"}, ("'a': row 4, column 'u' is 2.5", "before it 2.0")),
        ({"u": [1.0, None, 1.0, None, None]}, {"covariates": "u"}, ("series 'a': column 'u' is empty",)),
        ({"u": [1.0, "x", 1.0, "x", "x"]}, {"covariates": "u"}, ("row 1, column 'u' is 'x', which is not a number",)),
        ({"height": [None] * 5}, {"values": "height", "events": {"e": "leaves"}}, ("'b': no row has a value",)),
    ],
)
def test_mistakes_are_told(table, changes, words):
    with pytest.raises(pf.DataError) as caught:
        pf.Observations.from_frame(PLANTS.assign(**table), **(NAMES | changes))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (PLANTS[:0], "no rows"),
        ("nowhere.csv", "'nowhere.csv' cannot be read"),
        (pd.concat([PLANTS, PLANTS["day"]], axis=1), "two columns called 'day'"),
    ],
)
def test_what_is_no_table_is_refused(table, words):
    with pytest.raises(pf.DataError, match=words):
        pf.Observations.from_frame(table, **NAMES)


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding=encoding)
    return path


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        (("007", "7"), ["007", "7"]),
        (("1e3", "1000"), ["1e3", "1000"]),
        (("1", "1.0"), ["1", "1.0"]),
        (("01", "02"), ["01", "02"]),
        (("-3", "12"), [-3, 12]),
        (("3.0", "12.0"), [3, 12]),
        (("3", "12a"), ["3", "12a"]),
        (("9007199254740993", "9007199254740992"), ["9007199254740993", "9007199254740992"]),
    ],
)
def test_codes_of_series_in_a_file_stay_apart(tmp_path, codes, names):
    one, other = codes
    path = written(tmp_path, f"plot,day,h,site\n{one},1,2.5,{one}\n{one},2,3.5,{one}\n{other},3,4,{other}\n")
    panel = pf.Observations.from_frame(path, series="plot", time="day", values="h")
    assert [*panel] == names
    assert [data.times.tolist() for data in panel.values()] == [[1.0, 2.0], [3.0]]


def test_covariates_of_a_file_are_numbers_unless_they_are_codes(tmp_path):
    path = written(
        tmp_path, "id,t,y,w,site,old,sex\na,1,2.5,70,007,TRUE,F\na,2,NA,70.0,007,TRUE,\nb,1,3,6e1,7,FALSE,M\n"
    )
    given = {"series": "id", "time": "t", "values": "y", "covariates": ["w", "site", "old", "sex"]}
    panel = pf.Observations.from_frame(path, **given)
    assert panel["a"].covariates == {"w": 70.0, "site": "007", "old": 1.0, "sex": "F"}
    assert panel["b"].covariates == {"w": 60.0, "site": "7", "old": 0.0, "sex": "M"}


SHEET = "plant,day,height\na,1,0.5\na,2,0.7\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("plant,day,height,,\na,1,0.5,,\na,2,0.7,,\n,,,,\n", "utf-8"),
        ("plant,day,height\na,1,0.5,\na,2,0.7,\n", "utf-8"),
        (" plant, day ,height \r\n\r\na,1,0.5\r\n a ,2, 0.7\r\n", "utf-8-sig"),
        ('"","plant","day","height"\n"1","a",1,0.5\n"2","a",2,0.7\n"3","a",3,NA\n', "utf-8"),
    ],
)
def test_files_of_other_programs_are_read(tmp_path, text, encoding):
    """Of spreadsheets, with empty columns and rows or a mark of the byte order, and of R, with names of rows."""
    data = pf.Observations.from_frame(written(tmp_path, text, encoding), **{**NAMES, "values": "height"})["a"]
    np.testing.assert_array_equal(data.times[:2], [1.0, 2.0])
    np.testing.assert_array_equal(data.values[:2], [[0.5], [0.7]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SHEET.replace("0.7", "0,7"), ("line 3", "4 cells, but its line of names 3")),
        (SHEET.replace(",", ";").replace("0.7", "0,7"), ("';' between its cells", "sep=';'", "decimal=','")),
        (SHEET.replace(",", "\t"), ("'\\t' between its cells",)),
        (SHEET.replace("day", "height"), ("no column called 'day'",)),
        (SHEET.replace("plant", "height"), ("two columns called 'height'",)),
        (SHEET.replace("0.7", '"1,234"'), ("line 3, column 'height' is '1,234', which is not a number",)),
        (SHEET.replace("0.7", "1_234"), ("line 3, column 'height' is '1_234', which is not a number",)),
        (SHEET.replace("0.7", '"0.7'), ("cannot be read",)),
        ("", ("no rows",)),
    ],
)
def test_files_that_would_be_misread_are_refused(tmp_path, text, words):
    with pytest.raises(pf.DataError) as caught:
        pf.Observations.from_frame(written(tmp_path, text), **{**NAMES, "values": "height"})
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("flags", [[False, True], [None, True], ["false", "true"]])
def test_truth_values_do_not_say_on_which_side_a_bound_is(tmp_path, flags):
    table: Any = {"t": [1, 2], "y": [0.1, 0.2], "below": flags}
    if "true" in flags:
        table = written(tmp_path, "t,y,below\n1,0.1,false\n2,0.2,true\n")
    with pytest.raises(pf.DataError, match="on which side"):
        pf.Observations.from_frame(table, time="t", values="y", censored="below")


def test_numbers_in_text_are_no_dates():
    """1500 is a year of ISO 8601; here it counts minutes."""
    for times in (["1000", "1500"], ["0800", "1500"]):
        with pytest.raises(pf.DataError, match="unit='minutes' is for times that are dates"):
            pf.Observations.from_frame({"t": times, "y": [1.0, 2.0]}, time="t", values="y", unit="minutes")


def test_a_file_is_spoken_of_by_its_lines(tmp_path):
    path = tmp_path / "plants.csv"
    path.write_text("plant,day,height\na,1,0.5\n\na,2,<0.1\n")
    with pytest.raises(pf.DataError, match=r"line 4, column 'height' is '<0\.1'"):
        pf.Observations.from_frame(path, series="plant", time="day", values="height")
