"""Cuts a long table, with a row for each time of each series, into the arguments of `pf.Observations`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pathfold.data.censoring import check_side
from pathfold.data.data_table import DataTable
from pathfold.data.dates import told_date
from pathfold.errors import DataError, told


@dataclass(frozen=True, eq=False)
class LongTable:
    """The columns of a long table: times (R,), values and censoring (R, Y), amounts of events and inputs by name."""

    table: DataTable
    names: list[Any]
    times: np.ndarray
    values: np.ndarray
    censored: np.ndarray | None
    events: dict[str, np.ndarray]
    inputs: dict[str, tuple[Any, np.ndarray, Any]]
    covariates: dict[str, np.ndarray]
    initial_time: Any
    unit: str | None

    @classmethod
    def read(
        cls,
        frame: Any,
        time: Any,
        values: Any,
        censored: Any,
        events: Any,
        inputs: Any,
        covariates: Any,
        initial_time: Any,
        unit: Any,
    ) -> LongTable:
        """Read the columns that the arguments of `pf.Observations.from_frame` name."""
        table = DataTable.read(frame)
        names = _listed("values", values)
        given = _columns("inputs", inputs).items()
        kinds = {name: column if isinstance(column, tuple) else (column, "linear") for name, column in given}
        if odd := [pair for pair in kinds.values() if len(pair) != 2]:
            raise DataError(
                f"inputs have {told(odd[0])}; give a column, or a pair of a column and the kind of the input"
            )
        return cls(
            table,
            names,
            table.times(time),
            np.stack([table.numbers(name) for name in names], axis=1),
            _censoring(table, names, censored),
            {name: table.numbers(column) for name, column in _columns("events", events).items()},
            {name: (column, table.numbers(column), kind) for name, (column, kind) in kinds.items()},
            {name: table.labels(name) for name in table.listed("covariates", covariates)},
            initial_time,
            unit,
        )

    def of_series(self, rows: np.ndarray) -> dict[str, Any]:
        """Return the arguments of the series that these rows are, in whatever order they stand, and a count of those
        that have inputs alone.

        A row that has an event or an input and no value is no time of the data.
        """
        rows = rows[np.argsort(self.times[rows], kind="stable")]
        empty, happens = np.isnan(self.values[rows]).all(axis=1), self._any(self.events.values(), rows)
        driven = self._any((column for _, column, _ in self.inputs.values()), rows)
        seen = rows[~(empty & (happens | driven))]
        if not seen.size:
            raise DataError("no row has a value, only events or inputs; give at least one value")
        self._check_once(seen)
        return {
            "times": pd.DataFrame(self.values[seen], index=pd.Index(self.times[seen]), columns=self.names),
            "initial_time": self.times[rows[0]] if self.initial_time is None else self.initial_time,
            "unit": self.unit,
            "censored": None if self.censored is None else self.censored[seen],
            "events": {name: self._known(amounts, rows) for name, amounts in self.events.items()},
            "inputs": {
                name: self.table.known(label, column, rows, self.times[rows], kind)
                for name, (label, column, kind) in self.inputs.items()
            },
            "covariates": {name: self.table.constant(name, column, rows) for name, column in self.covariates.items()},
            "unseen": int(np.sum(empty & driven & ~happens)),
        }

    @staticmethod
    def _any(columns: Iterable[np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Mark the rows in which any of these columns is not empty."""
        return np.logical_or.reduce([np.zeros(len(rows), dtype=bool), *(~np.isnan(column[rows]) for column in columns)])

    def _check_once(self, seen: np.ndarray) -> None:
        """Raise DataError if two rows have the same time."""
        if (same := self.times[seen[1:]] == self.times[seen[:-1]]).any():
            first, second = map(self.table.named, seen[int(np.argmax(same)) :][:2])
            time = told_date(self.times[seen[1:]][same][0])
            raise DataError(
                f"{self.table.label}s {first} and {second} have the same time, {time}; merge what was observed at one "
                "time into one row (pandas.DataFrame.pivot, groupby), or name the column that tells series apart in "
                "series="
            )

    def _known(self, column: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return times and numbers of a column where it is not empty."""
        rows = rows[~np.isnan(column[rows])]
        return self.times[rows], column[rows]


def _censoring(table: DataTable, names: list[Any], censored: Any) -> np.ndarray | None:
    """Return -1, 0 and 1 (R, Y) from the column, or from a dict of the columns by column of values."""
    if censored is None:
        return None
    if not isinstance(censored, Mapping):
        if len(names) != 1:
            raise DataError(
                f"censored is {told(censored)}, but there are {len(names)} columns of values; say which it is for, as "
                f"in censored={{{told(names[0])}: {told(censored)}}}"
            )
        censored = {names[0]: censored}
    if odd := [name for name in censored if name not in names]:
        raise DataError(f"censored names {told(odd[0])}, which is none of the columns of values, {told(names)}")
    for column in censored.values():
        check_side(table.column(column).dropna().to_numpy())
    zero = np.zeros(len(table.frame))
    return np.stack([np.nan_to_num(table.numbers(censored[n])) if n in censored else zero for n in names], axis=1)


def _listed(what: str, names: Any) -> list[Any]:
    """Return names of columns as a list, from one or several, each there once."""
    listed = list(names) if isinstance(names, Sequence | pd.Index) and not isinstance(names, str) else [names]
    if not listed or len(set(map(str, listed))) < len(listed):
        raise DataError(f"{what} must name at least one column, and each once, not {told(names)}")
    return listed


def _columns(what: str, given: Any) -> dict[str, Any]:
    """Return the user's dict of name -> column."""
    if not isinstance(given, Mapping | None):
        raise DataError(
            f"{what} must be a dict from the model's names to columns of the table, such as {{'a': 'column'}}, not "
            f"{told(given)}"
        )
    return dict(given or {})
