"""The data sets that are typed into the package: shapes, and sums that others have printed."""

import pandas as pd
import pytest

import pathfold as pf

ROWS = {
    "drivers": 192,
    "glucose_tolerance": 24,
    "hare_lynx": 21,
    "influenza": 14,
    "lynx": 114,
    "nile": 100,
    "pound": 252,
    "redstart": 30,
    "theophylline": 132,
}


def test_every_data_set_is_a_table_of_its_own_size():
    assert {name: len(getattr(pf.datasets, name)()) for name in pf.datasets.__all__} == ROWS


@pytest.mark.parametrize("name", ROWS)
def test_tables_are_numbers_and_dates_without_gaps(name):
    table = getattr(pf.datasets, name)()
    assert not table.isna().any(axis=None)
    dates = table.pop("date") if "date" in table else pd.Series(dtype="datetime64[ns]")
    assert pd.api.types.is_datetime64_dtype(dates)
    assert dates.is_monotonic_increasing
    assert all(pd.api.types.is_numeric_dtype(column) for _, column in table.items())
    assert (table >= 0).all(axis=None)


@pytest.mark.parametrize("name", ROWS)
def test_a_table_is_the_callers_own(name):
    table, again = getattr(pf.datasets, name)(), getattr(pf.datasets, name)()
    table.iloc[:, 1] = -1
    assert not table.equals(again)
    assert again.equals(getattr(pf.datasets, name)())


def test_drivers_have_the_summary_that_r_prints():
    """`summary(UKDriverDeaths)` in R, to four digits."""
    summary = pf.datasets.drivers()["drivers"].describe()
    assert summary[["min", "25%", "50%", "75%", "max"]].round().tolist() == [1057, 1462, 1631, 1851, 2654]
    assert round(summary["mean"]) == 1670


def test_lynx_has_the_summary_that_r_prints():
    """`summary(lynx)` in R."""
    summary = pf.datasets.lynx()["lynxes"].describe()
    assert summary[["min", "25%", "50%", "75%", "max"]].tolist() == [39.0, 348.25, 771.0, 2566.75, 6991.0]
    assert round(summary["mean"], 1) == 1538.0


def test_theophylline_has_the_summary_that_r_prints():
    """`summary(Theoph)` in R, to four digits."""
    summary = pf.datasets.theophylline().describe()
    printed = {
        "weight": [54.60, 63.58, 70.50, 74.42, 86.40, 69.58],
        "dose": [3.100, 4.305, 4.530, 5.037, 5.860, 4.626],
        "hours": [0.0, 0.595, 3.530, 9.000, 24.650, 5.895],
        "concentration": [0.0, 2.877, 5.275, 7.140, 11.400, 4.960],
    }
    for column, numbers in printed.items():
        found = summary.loc[["min", "25%", "50%", "75%", "max", "mean"], column]
        assert found.to_list() == pytest.approx(numbers, rel=6e-4)


def test_everyone_who_took_theophylline_gave_eleven_samples():
    table = pf.datasets.theophylline()
    people = table.groupby("subject")
    assert list(people.groups) == list(range(1, 13))
    assert set(people.size()) == {11}
    assert people["hours"].is_monotonic_increasing.all()
    assert (people[["weight", "dose"]].nunique() == 1).all(axis=None)
    assert (people["hours"].min() == 0).all()


def test_nile_has_the_mean_that_is_printed():
    """919.35, with the least flow, 456, in 1913."""
    table = pf.datasets.nile().set_index("year")["flow"]
    assert table.sum() == 91935
    assert table.idxmin() == 1913
    assert table.index[[0, -1]].tolist() == [1871, 1970]


def test_pounds_have_the_monthly_means_that_are_published():
    """Series EXUSUK of FRED, from release G.5: the mean of each month, to four digits."""
    table = pf.datasets.pound().set_index("date")["dollars"]
    means = [1.9702, 1.9646, 2.0015, 1.9816, 1.9650, 1.9664, 1.9888, 1.8865, 1.7973, 1.6862, 1.5327, 1.4854]
    assert table.groupby(table.index.month).mean().round(4).tolist() == means


def test_years_of_the_other_series():
    assert pf.datasets.hare_lynx()["year"].iloc[[0, -1]].tolist() == [1900, 1920]
    assert pf.datasets.redstart()["year"].iloc[[0, -1]].tolist() == [1966, 1995]


def test_no_more_boys_lie_in_bed_than_fell_ill():
    assert pf.datasets.influenza()["in_bed"].max() < 512 < 763
