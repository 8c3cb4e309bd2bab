"""Reads event tables in the form that NONMEM made common in pharmacometrics: doses, samples and covariates by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pathfold.data.data import Observations, Panel
from pathfold.data.data_table import DataTable, naming_series
from pathfold.data.events import close
from pathfold.data.inputs import Input
from pathfold.data.real_arrays import real_number
from pathfold.errors import DataError, told

SAMPLE, DOSE, OTHER = 0, 1, 2  # values of EVID
FLAGS = ("CENS", "BLQ", "BQL", "BLOQ")
CALENDARS = ("DATE", "DAT1", "DAT2", "DAT3")
RESERVED = {"ID", "TIME", "DV", "AMT", "RATE", "DUR", "ADDL", "II", "SS", "EVID", "MDV", "CMT", "DVID", "LLOQ", "LIMIT"}
MONOLIX = {"YTYPE": "DVID", "ADM": "CMT", "TINF": "DUR"}
# Relative to 1 + |t|: how much later a dose is given than a sample that was drawn just before it; beyond `close`.
LATER = 1e-9
MOST_ADDITIONAL = 10_000  # doses that a row may add: one a day for 27 years


def read_nonmem(
    table: Any,
    *,
    doses: str | Mapping[int, str] = "dose",
    infusions: str | Mapping[int, str] = "infusion",
    observed: str | Mapping[int, str] = "DV",
    covariates: str | Sequence[str] = (),
    inputs: str | Sequence[str] = (),
    lloq: float | None = None,
    initial_time: float | None = None,
) -> dict[str | int, Observations]:
    """Read a panel from an event table of pharmacometrics, with the columns that NONMEM reserves.

    The table has ID, TIME and DV, and may have AMT, RATE or DUR, ADDL, II, EVID, MDV, CMT, DVID, a flag CENS or BLQ,
    LLOQ and LIMIT, in capitals or not; YTYPE, ADM and TINF, as Monolix has them, are DVID, CMT and DUR. Rows of one ID
    follow each other, in the order of time. A sample in a row before a dose of the same time was drawn before it. What
    pathfold cannot do as the table asks is a `pf.DataError` that names row and column: resets (EVID 3 and 4), steady
    states (SS), rates that the model is to find (RATE below 0).

    Parameters
    ----------
    table
        A pandas DataFrame, or the path of a CSV file with a line of names, where a lone dot is an empty cell.
    doses
        The event of the model that a dose is; or a dict from CMT to events, where doses go to several compartments.
        Additional doses (ADDL, II) are written out.
    infusions
        The input of the model that has the total rate of the infusions (doses with a RATE, or a duration DUR) at each
        time; or a dict from CMT to inputs. The times at which a rate changes become times of the data at which all is
        missing, so that fine steps end there.
    observed
        The name of the observed component; or a dict from DVID, or from CMT in a table without DVID, to names. They
        are the columns of the data, in the order of the dict.
    covariates
        Columns of covariates, numbers or names of groups, each the same in all rows of an ID.
    inputs
        Columns, such as of covariates that change, that become inputs of the same names: a value holds from its row on
        until another follows.
    lloq
        The lower limit of quantification, in a table without a column LLOQ. Values that the flag marks by 1 are known
        to be at most the limit, or at most DV if none is given; those marked by -1 (CENS) at least DV. A cell of LIMIT
        is the other end of the interval. In a table without flag, values below the limit are marked.
    initial_time
        When each series begins; without it, in the first row of its ID.

    Returns
    -------
    dict
        A panel: `pf.Observations` by ID.

    Examples
    --------
    >>> table = {
    ...     "ID": [1, 1, 1, 2, 2],
    ...     "TIME": [0.0, 1.0, 30.0, 0.0, 2.0],
    ...     "AMT": [100.0, 0.0, 0.0, 80.0, 0.0],
    ...     "ADDL": [2, 0, 0, 0, 0],
    ...     "II": [12.0, 0.0, 0.0, 0.0, 0.0],
    ...     "DV": [None, 4.2, 3.1, None, 2.5],
    ... }
    >>> panel = pf.read_nonmem(table)
    >>> panel[1].events["dose"][0]
    array([ 0., 12., 24.])
    """
    events = EventTable.read(table)
    events.check()
    routes = Routes(
        events.routed("doses", doses, "CMT", events.is_bolus),
        events.routed("infusions", infusions, "CMT", events.is_dose & ~events.is_bolus),
        events.routed("observed", observed, "DVID" if events.has("DVID") else "CMT", events.is_sample),
        events.bounds(None if lloq is None else real_number("lloq", lloq)),
        {name: events.table.labels(name) for name in events.table.listed("covariates", covariates)},
        {name: events.table.numbers(name) for name in events.table.listed("inputs", inputs)},
    )
    if taken := [name for name in routes.infusions.names if name in routes.inputs]:
        raise DataError(
            f"inputs names the column {taken[0]!r}, but the rate of the infusions has this name; give infusions="
            "'another name', or leave the column out"
        )
    start = None if initial_time is None else real_number("initial_time", initial_time)
    panel = Panel()
    for name, rows in events.table.series("ID"):
        with naming_series(name):
            events.check_together(rows)
            panel[name] = _observations(events, routes, rows, start, name)
    return panel


type Doses = dict[str, np.ndarray]
"""By name, each (D,): the row and the amount of each dose, when it begins and ends, and its rate, 0 if at once."""


@dataclass(frozen=True, eq=False)
class Routed:
    """Names, and which of them (R,) each row of a table belongs to; -1 if to none."""

    names: tuple[str, ...]
    of_rows: np.ndarray

    def parts(self, doses: Doses) -> dict[str, Doses]:
        """Return by name the doses whose rows belong to it."""
        own = self.of_rows[doses["row"]]
        return {name: {key: each[own == i] for key, each in doses.items()} for i, name in enumerate(self.names)}


@dataclass(frozen=True, eq=False)
class Routes:
    """What rows stand for: names of doses, infusions and observed components; bounds (R,) of values; other columns."""

    doses: Routed
    infusions: Routed
    observed: Routed
    bounds: tuple[np.ndarray, np.ndarray]
    covariates: dict[str, np.ndarray]
    inputs: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class EventTable:
    """The columns of an event table (R,), with what NONMEM takes empty cells and missing columns to mean."""

    table: DataTable
    time: np.ndarray
    dv: np.ndarray
    amt: np.ndarray
    rate: np.ndarray
    addl: np.ndarray
    ii: np.ndarray
    ss: np.ndarray
    evid: np.ndarray
    mdv: np.ndarray

    @classmethod
    def read(cls, given: Any) -> EventTable:
        table = DataTable.read(given)
        table = replace(table, frame=table.frame.rename(columns=_spelt))
        if dated := [name for name in CALENDARS if name in table.frame]:
            raise DataError(
                f"the table has a column {dated[0]!r}: let TIME count from one moment on, in hours or days, and leave "
                "the dates out"
            )
        time = table.times("TIME")
        if time.dtype != np.float64:
            raise DataError(
                "the column 'TIME' has dates or durations: let it count from one moment on, in hours or days"
            )
        amt, rate, duration = (_filled(table, name) for name in ("AMT", "RATE", "DUR"))
        evid = _filled(table, "EVID", np.where((amt != 0.0) | (rate != 0.0), DOSE, SAMPLE))
        return cls(
            table,
            time,
            table.numbers("DV"),
            amt,
            np.divide(amt, duration, out=rate.copy(), where=(duration > 0.0) & (rate == 0.0)),
            _filled(table, "ADDL"),
            _filled(table, "II"),
            _filled(table, "SS"),
            evid,
            _filled(table, "MDV", np.where(evid == SAMPLE, 0.0, 1.0)),
        )

    def has(self, column: str) -> bool:
        return column in self.table.frame

    @cached_property
    def is_dose(self) -> np.ndarray:
        return self.evid == DOSE

    @cached_property
    def is_bolus(self) -> np.ndarray:
        return self.is_dose & (self.rate == 0.0)

    @cached_property
    def is_sample(self) -> np.ndarray:
        """Whether something was observed: a value, or that it is beyond a limit."""
        flagged = np.any([_filled(self.table, flag) != 0.0 for flag in FLAGS], axis=0)
        return (self.evid == SAMPLE) & (self.mdv == 0.0) & (~np.isnan(self.dv) | flagged)

    def refuse(self, rows: np.ndarray, column: str, problem: str) -> None:
        """Raise DataError for the first of these rows (R,), if there is any, with what its cell of the column says."""
        if rows.any():
            row = int(np.argmax(rows))
            said = told(self.table.frame[column].tolist()[row]) if self.has(column) else "not there"
            raise DataError(f"{self.table.place(row, column)} is {said}: {problem}")

    def check(self) -> None:
        """Raise DataError for the first row that asks for something that cannot be done, or that has no meaning."""
        dose = self.is_dose
        if self.has("C"):
            marked = self.table.column("C").astype(str).str.strip().str.upper() == "C"
            self.refuse(marked.to_numpy(), "C", "the row is marked as a comment; leave such rows out")
        self.refuse(
            np.isin(self.evid, (3, 4)),
            "EVID",
            "pathfold does not reset the system within a series; give the rows from here on an ID of their own",
        )
        self.refuse(~np.isin(self.evid, (SAMPLE, DOSE, OTHER)), "EVID", "give 0 (observation), 1 (dose) or 2 (other)")
        self.refuse(~np.isin(self.mdv, (0, 1)), "MDV", "give 0, or 1 where the value is missing")
        self.refuse(
            self.ss != 0.0,
            "SS",
            "a diffusion has no steady state that a formula gives; write out the doses before it with ADDL and II",
        )
        self.refuse(
            self.rate < 0.0,
            "RATE",
            "a rate that the model is to find is not supported; give a RATE above 0, or 0 for a dose at once, and let "
            "the model's drift say how it is absorbed",
        )
        self.refuse(~dose & (self.amt != 0.0), "AMT", "this is a dose, but EVID is not 1; give one or the other")
        self.refuse(~dose & (self.rate != 0.0), "RATE", "this is an infusion, but EVID is not 1; give one or the other")
        unknown = np.isnan(_filled(self.table, "AMT", np.nan))
        self.refuse(dose & unknown | (self.amt < 0.0), "AMT", "give the amount of the dose, not below 0")
        duration = _filled(self.table, "DUR")
        self.refuse(duration < 0.0, "DUR", "a duration that the model is to find is not supported; give it, or RATE")
        otherwise = (duration > 0.0) & ~np.isclose(self.rate * duration, self.amt)
        self.refuse(otherwise, "DUR", "this is not AMT / RATE; give one of DUR and RATE")
        self.refuse(
            (self.rate > 0.0) & (self.amt <= self.rate * close(self.time)),
            "AMT",
            "an infusion needs an amount, which says when it ends; leave RATE out for a dose at once",
        )
        uncounted = (self.addl < 0) | (self.addl % 1 != 0) | (self.addl > MOST_ADDITIONAL)
        self.refuse(uncounted, "ADDL", f"give the number of additional doses, at most {MOST_ADDITIONAL}")
        self.refuse((self.addl > 0) & ~(self.ii > 0.0), "II", "additional doses need the time between them, above 0")
        told_twice = dose & (_filled(self.table, "MDV") == 0.0) & (np.nan_to_num(self.dv) != 0.0)
        self.refuse(
            told_twice, "DV", "a row is a dose or an observation; give the observation a row of its own, or MDV 1"
        )
        if self.has("CMT"):
            self.refuse(self.table.numbers("CMT") < 0.0, "CMT", "compartments are not turned off; give one from 1 on")

    def check_together(self, rows: np.ndarray) -> None:
        """Raise DataError if the rows of a subject do not follow each other: in NONMEM a new subject would begin."""
        if (apart := np.diff(rows) > 1).any():
            again, ended = (self.table.named(int(own[apart][0])) for own in (rows[1:], rows[:-1]))
            raise DataError(
                f"its rows end in {self.table.label} {ended}, and {self.table.label} {again} has the same ID, which in "
                "NONMEM is another subject; sort the table by ID and TIME, or give each subject an ID of its own"
            )

    def routed(self, what: str, given: Any, column: str, rows: np.ndarray) -> Routed:
        """Return the names of these rows (R,), which is one for all, or found by what they have in the column."""
        keys = _filled(self.table, column)
        if isinstance(given, str):
            found = np.unique(keys[rows])
            if len(found) > 1:
                example = ", ".join(f"{key:g}: 'name {i + 1}'" for i, key in enumerate(found))
                raise DataError(f"rows of {what} have different {column}; say which is which: {what}={{{example}}}")
            return Routed((given,) if found.size or what == "observed" else (), np.where(rows, 0, -1))
        if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given.values()):
            raise DataError(f"{what} must be a name, or a dict of {column} -> name, not {told(given)}")
        self.refuse(rows & ~np.isin(keys, [*given]), column, f"{what} names {told([*given])} only; name this one too")
        names = tuple(dict.fromkeys(given.values()))
        return Routed(
            names, np.array([names.index(given[key]) if row else -1 for key, row in zip(keys, rows, strict=True)])
        )

    def bounds(self, lloq: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds (R,) between which values lie that were not seen themselves, NaN elsewhere."""
        flags = [name for name in FLAGS if self.has(name)]
        if len(flags) > 1 or (lloq is not None and self.has("LLOQ")):
            both = flags if len(flags) > 1 else ["LLOQ", "lloq"]
            raise DataError(f"both {both[0]} and {both[1]} are given; leave one of them out")
        limit = (
            self.table.numbers("LLOQ") if self.has("LLOQ") else np.full(len(self.dv), np.nan if lloq is None else lloq)
        )
        sample = (self.evid == SAMPLE) & (self.mdv == 0.0)
        flag = np.where(self.dv < limit, 1.0, 0.0)
        if flags:
            flag = _filled(self.table, flags[0])
            allowed = (-1.0, 0.0, 1.0) if flags[0] == "CENS" else (0.0, 1.0)
            self.refuse(~np.isin(flag, allowed), flags[0], f"give one of {', '.join(f'{each:g}' for each in allowed)}")
        below, above = sample & (flag == 1.0), sample & (flag == -1.0)
        at_most = np.where(np.isnan(limit), np.where(self.dv == 0.0, np.nan, self.dv), limit)
        self.refuse(
            below & np.isnan(at_most), "DV", "the value is below a limit that is not given; give lloq, or a column LLOQ"
        )
        self.refuse(above & np.isnan(self.dv), "DV", "the value is above a limit, which DV has to be")
        low = np.where(below, _filled(self.table, "LIMIT", -np.inf), np.where(above, self.dv, np.nan))
        high = np.where(below, at_most, np.where(above, _filled(self.table, "LIMIT", np.inf), np.nan))
        self.refuse(
            low >= high, "LIMIT", "it is the other end of the interval: below the value for CENS 1, above for -1"
        )
        return low, high

    def moments(self, rows: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return when what is in the rows of a subject happens, whose times (R,) do not decrease.

        A bolus in a row after a sample of the same time happens a little later, and so do the rows after it. One in a
        row before the sample keeps the time: there events come first.
        """
        delays, sampled = np.zeros(len(rows)), False
        for i, row in enumerate(rows):
            if i > 0 and time[i] == time[i - 1]:
                delayed = sampled and self.is_bolus[row]
                delays[i], sampled = delays[i - 1] + delayed, sampled and not delayed
            else:
                sampled = False
            sampled = sampled or self.is_sample[row]
        return time + delays * LATER * (1.0 + np.abs(time))

    def doses(self, rows: np.ndarray, time: np.ndarray, moments: np.ndarray) -> Doses:
        """Return the doses of a subject, additional ones too, from times and moments (R,) of its rows."""
        own = np.flatnonzero(self.is_dose[rows])
        counts = self.addl[rows[own]].astype(int) + 1
        at, row = np.repeat(own, counts), np.repeat(rows[own], counts)
        number = np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)
        begin = np.where(self.is_bolus[row] & (number == 0), moments[at], time[at] + self.ii[row] * number)
        amt, rate = self.amt[row], self.rate[row]
        end = begin + np.divide(amt, rate, out=np.zeros(row.size), where=rate > 0.0)
        begin, end = np.split(_snapped(np.concatenate([begin, end]), np.concatenate([time, moments])), 2)
        return {"row": row, "amount": amt, "begin": begin, "end": end, "rate": rate}


def _snapped(times: np.ndarray, known: Any) -> np.ndarray:
    """Return times (D,) as they are in `known`, or else as the first of them, where they differ by rounding alone."""
    marks = np.unique(np.concatenate([times, known]))
    new = np.append(True, np.diff(marks) > close(marks[1:]))
    first, group, is_known = marks[new], np.cumsum(new) - 1, np.isin(marks, known)
    first[group[is_known]] = marks[is_known]
    return first[group[np.searchsorted(marks, times)]]


def _spelt(name: Any) -> Any:
    """Return NONMEM's name of a reserved column, without the sign of a comment before it, and others as they are."""
    plain = str(name).strip().lstrip("#").upper()
    plain = MONOLIX.get(plain, plain)
    return plain if plain in {*RESERVED, *FLAGS, *CALENDARS} else name


def _filled(table: DataTable, name: str, otherwise: Any = 0.0) -> np.ndarray:
    """Return a column of numbers with `otherwise` in its empty cells, and in all of them if there is no such column."""
    numbers = table.numbers(name) if name in table.frame else np.full(len(table.frame), np.nan)
    return np.where(np.isnan(numbers), otherwise, numbers)


def _observations(events: EventTable, routes: Routes, rows: np.ndarray, start: float | None, name: Any) -> Observations:
    """Return the series of the subject that these rows belong to."""
    start = float(events.time[rows[0]]) if start is None else start
    time = _snapped(events.time[rows], [start])
    if np.any(back := np.diff(time) < 0.0):
        row = int(rows[1:][back][0])
        raise DataError(
            f"{events.table.place(row, 'TIME')} is {events.time[row]:g}, earlier than the row before; put the rows in "
            "the order of time, and give a further occasion an ID of its own"
        )
    if time[0] < start:
        raise DataError(f"the first row is at time {time[0]:g}, before initial_time = {start:g}; give an earlier one")
    is_sample, moments = events.is_sample[rows], events.moments(rows, time)
    if not is_sample.any():
        raise DataError("no row has an observation; leave the subject out, or give it one")
    doses = events.doses(rows, time, moments)
    inputs = {key: _rate(infusions, start) for key, infusions in routes.infusions.parts(doses).items()}
    changes = np.concatenate([[], *(each.times for each in inputs.values())])
    seen = moments[~events.is_dose[rows]]
    times = np.union1d(seen, changes[(changes > start) & (changes < seen[-1])])
    values, low, high = _columns(events, routes, rows[is_sample], moments[is_sample], times)
    return Observations(
        pd.DataFrame(values, index=pd.Index(times), columns=[*routes.observed.names]),
        initial_time=start,
        inputs=inputs
        | {key: events.table.known(key, column, rows, time, "hold") for key, column in routes.inputs.items()},
        covariates={key: events.table.constant(key, column, rows) for key, column in routes.covariates.items()},
        events={key: _amounts(given) for key, given in routes.doses.parts(doses).items() if given["row"].size},
        censored=(low, high),
        name=name,
    )


def _columns(
    events: EventTable, routes: Routes, rows: np.ndarray, moments: np.ndarray, times: np.ndarray
) -> list[np.ndarray]:
    """Return values and bounds (T, Y) of a subject with samples in these rows, at these moments, NaN elsewhere."""
    at, column = np.searchsorted(times, moments), routes.observed.of_rows[rows]
    _, first = np.unique(at * len(routes.observed.names) + column, return_index=True)
    if (again := np.delete(rows, first)).size:
        component = routes.observed.names[routes.observed.of_rows[again[0]]]
        raise DataError(
            f"{events.table.place(int(again[0]), 'DV')} is a second observation of {component!r} at time "
            f"{events.time[again[0]]:g}; tell replicates apart by DVID and name them in observed=, or give their mean"
        )
    filled = []
    for source in (events.dv, *routes.bounds):
        array = np.full((len(times), len(routes.observed.names)), np.nan)
        array[at, column] = source[rows]
        filled.append(array)
    return filled


def _amounts(doses: Doses) -> tuple[np.ndarray, np.ndarray]:
    """Return times and amounts (E,): what is given at one time is one dose."""
    times, place = np.unique(doses["begin"], return_inverse=True)
    return times, np.bincount(place, weights=doses["amount"])


def _rate(infusions: Doses, start: float) -> Input:
    """Return the total rate of infusions: steps up and down, and zero without any."""
    changes = np.unique(np.concatenate([[start], infusions["begin"], infusions["end"]]))
    rates, kind = np.unique(infusions["rate"], return_inverse=True)
    running = np.zeros((len(changes), len(rates)))
    np.add.at(running, (np.searchsorted(changes, infusions["begin"]), kind), 1.0)
    np.add.at(running, (np.searchsorted(changes, infusions["end"]), kind), -1.0)
    return Input(changes, np.cumsum(running, axis=0) @ rates, kind="hold")
