"""Reads the user's tables: their columns by name, with sentences that name the row and the column that is amiss."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pathfold.data.dates import is_aware, text_dates, told_date
from pathfold.data.inputs import Input
from pathfold.data.real_arrays import is_date
from pathfold.errors import DataError, told

EMPTY = {"", ".", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>"}  # cells of a file
TRUTH = {"true": True, "false": False}
WHOLE = re.compile(r"(-?(?:0|[1-9]\d{0,14}))(?:\.0*)?")  # 7 and 7.0; 007 and 1e3 are codes


@dataclass(frozen=True, eq=False)
class DataTable:
    """A table with named columns; the labels of its index are rows of a frame or lines of a file.

    A file has text in its cells: what it stands for depends on what the column is used for.
    """

    frame: pd.DataFrame
    label: str

    @classmethod
    def read(cls, given: Any) -> DataTable:
        """Take a DataFrame, what pandas makes one of, or the path of a CSV file."""
        if isinstance(given, str | os.PathLike):
            table = cls(_read_file(given), "line")
        else:
            given = given.to_pandas() if hasattr(given, "to_pandas") else given
            table = cls(given if isinstance(given, pd.DataFrame) else pd.DataFrame(given), "row")
        if table.frame.empty:
            raise DataError("the table has no rows; give at least one")
        return table

    def column(self, name: Any) -> pd.Series:
        """Return the column of this name, or raise DataError if there is none, or more than one."""
        if (count := [*self.frame.columns].count(name)) != 1:
            if not count and name is not None and name in self.frame.index.names:
                return self.frame.index.get_level_values(name).to_series(index=self.frame.index)
            known = told([*self.frame.columns])
            problem = "two columns" if count else "no column"
            dated = f"; its index has dates: name it, .rename_axis({told(name)})" if self._has_dates_as_labels else ""
            raise DataError(f"the table has {problem} called {told(name)}; its columns are {known}{dated}")
        return self.frame[name]

    @property
    def _has_dates_as_labels(self) -> bool:
        return self.frame.index.name is None and self.frame.index.dtype.kind == "M"

    def place(self, row: int, name: Any) -> str:
        """Name a cell, as it is called in a sentence."""
        return f"{self.label} {self.named(row)}, column {told(name)}"

    def named(self, row: int) -> str:
        """Return the label of a row."""
        return told(self.frame.index.tolist()[row])

    def numbers(self, name: Any) -> np.ndarray:
        """Return a column as numbers, NaN where a cell is missing; text that is not a number is refused."""
        cells = self.column(name)
        if pd.api.types.is_datetime64_any_dtype(cells) or pd.api.types.is_timedelta64_dtype(cells):
            raise DataError(f"the column {told(name)} has dates or durations; give real numbers")
        numbers = _as_numbers(cells)
        if (odd := np.isnan(numbers) & ~_missing(cells)).any():
            row = int(np.argmax(odd))
            raise DataError(
                f"{self.place(row, name)} is {told(cells.iloc[row])}, which is not a number; leave the cell empty if "
                "the value is missing"
            )
        return numbers

    def times(self, name: Any) -> np.ndarray:
        """Return a column of times: numbers, dates or durations; text is read as numbers, or as ISO 8601 dates."""
        cells = self.column(name)
        if (empty := _missing(cells)).any():
            raise DataError(f"{self.place(int(np.argmax(empty)), name)} has no time; leave out rows without one")
        if all(map(is_date, cells)):
            times, aware = cells.to_numpy(), np.array([is_aware(cell) for cell in cells])
        elif (is_number := ~np.isnan(_as_numbers(cells))).all():
            return self.numbers(name)
        else:
            dates, aware = text_dates([str(cell) for cell in cells])
            if (odd := np.isnat(dates)).any():
                row = int(np.argmax(odd & ~is_number)) if (odd & ~is_number).any() else int(np.argmax(odd))
                what = "a number, and others are dates" if is_number[row] else "which is not a number"
                raise DataError(
                    f"{self.place(row, name)} is {told(cells.iloc[row])}, {what}; write dates like 2026-03-31 "
                    "(pandas.to_datetime reads others), or numbers in all rows"
                )
            times = pd.DatetimeIndex(dates, tz="UTC").astype(object).to_numpy() if aware.all() else dates
        if (other := aware != aware[0]).any():
            row = int(np.argmax(other))
            has = ("has a time zone", "has none")[:: 1 if aware[row] else -1]
            raise DataError(
                f"{self.place(row, name)} is {told(cells.iloc[row])}, which {has[0]}, and the first row {has[1]}: "
                "give all rows one, with .tz_localize(...) of pandas, or none"
            )
        return times

    def series(self, name: Any) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield the name of each series in the column and the numbers of its rows, series in the order of the table."""
        cells = self.column(name)
        if (empty := _missing(cells)).any():
            raise DataError(f"{self.place(int(np.argmax(empty)), name)} does not say to which series the row belongs")
        codes, names = pd.factorize(cells)
        if self.label == "line":
            names = _names(names)
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        for each, own in zip(names, rows, strict=True):
            yield int(each) if isinstance(each, float) and each.is_integer() else each, own

    def listed(self, what: str, names: Any) -> list[str]:
        """Return the names of columns that the user gives, one or several, each of which is there."""
        listed = [names] if isinstance(names, str) else names
        if isinstance(listed, Mapping):
            raise DataError(f"{what} must be names of columns, not {told(names)}")
        return [name for name in listed if self.column(name) is not None]

    def labels(self, name: str) -> np.ndarray:
        """Return a column of covariates: as text if all its cells are text, else as numbers; None where it is empty.

        Text of a file that reads as numbers is numbers, unless a cell such as 007 shows that they are codes.
        """
        cells, empty = self.column(name), _missing(self.column(name))
        texts = all(isinstance(cell, str) for cell in cells[~empty])
        if self.label == "line" and not cells[~empty].astype(str).str.match(r"[+-]?0\d").any():
            texts = texts and np.isnan(_as_numbers(cells[~empty])).any()
        labels = cells.astype(object).to_numpy(copy=True) if texts else self.numbers(name).astype(object)
        labels[empty] = None
        return labels

    def constant(self, name: str, column: np.ndarray, rows: np.ndarray) -> Any:
        """Return the only value that a column of labels has in the rows of a series."""
        known = [row for row in rows if column[row] is not None]
        if not known:
            raise DataError(f"column {told(name)} is empty; give every series its covariate")
        if other := [row for row in known if column[row] != column[known[0]]]:
            raise DataError(
                f"{self.place(other[0], name)} is {told(column[other[0]])}, and before it {told(column[known[0]])}: a "
                "covariate is the same in all rows of a series; name what changes in inputs"
            )
        return column[known[0]]

    def known(self, name: Any, column: np.ndarray, rows: np.ndarray, times: np.ndarray, kind: Any) -> Input:
        """Return a column of a series as an input, from rows in the order of their `times`.

        Each row has a value, and rows of one time have the same. One of kind "hold" keeps a value until another row has
        one, from the first row on, whose value holds before, too; of those of one time the last counts.
        """
        values = column[rows]
        if kind == "hold" and not np.isnan(values[0]):
            times, values = times[~np.isnan(values)], values[~np.isnan(values)]
            last = np.append(times[1:] != times[:-1], True)
            times, values = times[last], values[last]
            new = np.append(True, np.diff(values) != 0.0)
            return Input(times[new], values[new], kind)
        if (empty := np.isnan(values)).any():
            row = int(np.argmax(empty))
            raise DataError(
                f"{self.place(int(rows[row]), name)} is empty at time {told_date(times[row])}: give the input in "
                "every row, or in the first one if it is of kind 'hold', where the value before holds on"
            )
        new = np.append(True, (times[1:] != times[:-1]) | (np.diff(values) != 0.0))
        if (twice := new[1:] & (times[1:] == times[:-1])).any():
            row = int(np.argmax(twice))
            first, second = map(self.named, rows[row : row + 2])
            raise DataError(
                f"{self.label}s {first} and {second} have the same time, {told_date(times[row])}, and other values in "
                f"column {told(name)}: give each time once. Where clocks are put back, an hour comes twice: give dates "
                "a time zone, or take UTC"
            )
        return Input(times[new], values[new], kind)


@contextmanager
def naming_series(name: Any) -> Iterator[None]:
    """Put the name of the series before what is said of it."""
    try:
        yield
    except DataError as problem:
        raise DataError(f"series {told(name)}: {problem}") from problem


def _read_file(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the cells of a CSV file as text, or True and False, with the numbers of lines as labels of rows.

    The first line that is not empty has the names. Blanks around cells, and empty cells after the last name, count for
    nothing.
    """
    named = told(os.fspath(path))
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except (OSError, ValueError, csv.Error) as problem:
        raise DataError(f"the table {named} cannot be read: {problem}") from problem
    (_, names), *lines = [line for line in lines if any(line[1])] or [(0, [])]
    while names and not names[-1]:
        names.pop()
    if len(names) == 1 and (separator := re.search("[;\t|]", names[0])):
        raise DataError(
            f"the table {named} has {told(separator[0])} between its cells: give pandas.read_csv({named}, "
            f"sep={told(separator[0])}), with decimal=',' if it writes 0,5"
        )
    for number, cells in lines:
        if any(cells[len(names) :]):
            raise DataError(
                f"line {number} of the table {named} has {len(cells)} cells, but its line of names {len(names)}: give "
                "every column a name, and write numbers like 1234.5, without other commas"
            )
    rows = [[*cells, *[""] * len(names)][: len(names)] for _, cells in lines]
    columns = {i: _cells([row[i] for row in rows]) for i in range(len(names))}
    return pd.DataFrame(columns, index=[number for number, _ in lines], dtype=object).set_axis(names, axis=1)


def _cells(texts: list[str]) -> list[Any]:
    """Return a column of a file: None for empty cells, truth values if all others are such, else text."""
    cells = [None if text in EMPTY else text for text in texts]
    truth = [cell and TRUTH.get(cell.lower()) for cell in cells]
    return cells if any(cell and known is None for cell, known in zip(cells, truth, strict=True)) else truth


def _names(codes: Any) -> list[Any]:
    """Return the names of series in a file: whole numbers if all are such, and no two the same; else as text."""
    whole = [WHOLE.fullmatch(str(code)) for code in codes]
    numbers = [int(each[1]) for each in whole if each]
    return numbers if len({*numbers}) == len(codes) else [*codes]


def _as_numbers(cells: pd.Series) -> np.ndarray:
    """Return the cells of a column as numbers, NaN for those that are none."""
    return np.asarray(pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan))


def _missing(cells: pd.Series) -> np.ndarray:
    """Mark the cells that have nothing in them, or only blanks or a lone dot."""
    blank = [isinstance(cell, str) and cell.strip() in ("", ".") for cell in cells]
    return cells.isna().to_numpy() | np.array(blank, dtype=bool)
