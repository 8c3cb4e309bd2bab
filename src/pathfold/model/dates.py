"""Turns dates and durations into times, counted in a unit that the user names, from a date that is known."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np

from pathfold.errors import DataError, told
from pathfold.model.real_arrays import is_date, real_number, unmasked

UNITS = {
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
    "days": 86400.0,
    "weeks": 7 * 86400.0,
    "years": 365.25 * 86400.0,
}
"""In seconds; a year is a Julian one, of 365.25 days."""


@dataclass(frozen=True)
class Calendar:
    """The unit in which dates and durations are counted, and the `origin` of dates; durations have none."""

    unit: str
    origin: np.datetime64 | None

    def written(self) -> dict[str, str]:
        """Return the arguments as text."""
        return {"unit": self.unit, "origin": "" if self.origin is None else str(self.origin)}

    @classmethod
    def read(cls, written: dict[str, str]) -> Calendar:
        return cls(written["unit"], np.datetime64(written["origin"]) if written["origin"] else None)

    def dates(self, times: np.ndarray) -> np.ndarray | None:
        """Turn times, which are numbers, back into dates, to the microsecond; return None if they were durations."""
        if self.origin is None:
            return None
        return self.origin + np.round(times * UNITS[self.unit] * 1e6).astype("m8[us]")


def counted(name: str, given: Any, calendar: Calendar | None) -> Any:
    """Turn dates or durations into numbers, counted like those of a series; return anything else as it is."""
    dated = _dated(name, given)
    if dated is None:
        return given
    kind = "dates" if dated.dtype.kind == "M" else "durations"
    if calendar is None or (kind == "dates" and calendar.origin is None):
        raise DataError(
            f"{name} are {kind}, but the times of the series are {'numbers' if calendar is None else 'durations'}; "
            "give these"
        )
    if np.isnat(dated).any():
        raise DataError(f"{name} contain NaT, a date that is not known; leave it out")
    return _count(dated - calendar.origin if kind == "dates" else dated, calendar.unit)


def in_unit(times: Any, initial_time: Any, unit: Any) -> tuple[Any, Any, Calendar | None]:
    """Return times and initial time as numbers in the unit, and the calendar if times are dates or durations.

    Dates are counted from the initial time if that is a date, which then is 0, and else from the first of them. Times
    that are numbers are returned as they are.
    """
    dated, start = _dated("times", times), _dated("initial_time", initial_time)
    if dated is None:
        if unit is not None:
            raise DataError(f"unit={told(unit)} is for times that are dates or durations; leave it out for numbers")
        if start is not None:
            raise DataError(f"initial_time is {told(initial_time)}, but times are numbers; give a number in their unit")
        return times, initial_time, None
    if unit is None:
        raise DataError(
            f"times are dates or durations ({dated.dtype}); say in which unit to count them, as in "
            "pf.Observations(..., unit='days'), or make them numbers"
        )
    if not isinstance(unit, str) or unit not in UNITS:
        raise DataError(f"unit must be one of {', '.join(map(repr, UNITS))}, not {told(unit)}")
    if np.isnat(dated).any() or (start is not None and np.isnat(start)):
        raise DataError("times or initial_time contain NaT, a date that is not known; leave out rows without a date")
    if dated.dtype.kind == "m":
        if start is not None and start.dtype.kind != "m":
            raise DataError(f"times are durations, but initial_time is the date {start}; give a duration or a number")
        begin = initial_time if start is None else float(_count(start, unit))
        return _count(dated, unit), begin, Calendar(unit, None)
    if start is not None and start.dtype.kind != "M":
        raise DataError(f"times are dates, but initial_time is the duration {start}; give a date or a number")
    if start is not None:
        return _count(dated - start, unit), 0.0, Calendar(unit, np.datetime64(start.item(0), "us"))
    first = dated.min() if dated.size else np.datetime64(0, "us")
    return _count(dated - first, unit), real_number("initial_time", initial_time), Calendar(unit, first)


def _count(durations: np.ndarray, unit: str) -> np.ndarray:
    return durations / np.timedelta64(1, "s") / UNITS[unit]


def _dated(name: str, given: Any) -> np.ndarray | None:
    """Return dates or durations in microseconds, or finer if they are given so; None for anything else."""
    array, masked = unmasked(name, given)
    if array.dtype == object and array.size and all(map(is_date, array.flat)):
        array = _of_objects(name, array)
    if array.dtype.kind in "SU":
        raise DataError(f"{name} are text, {told(given)}; give numbers, or dates: np.asarray(..., 'datetime64[s]')")
    if array.dtype.kind not in "mM":
        return None
    if masked.any():
        raise DataError(f"{name} have {np.sum(masked)} masked entries; leave these out")
    fine = np.datetime_data(array.dtype)[0] in ("us", "ns", "ps", "fs", "as")
    if array.dtype.kind == "m" and np.datetime_data(array.dtype)[0] in ("Y", "M", "generic"):
        raise DataError(f"{name} are durations of no fixed length ({array.dtype}); give them in days or seconds")
    result = array if fine else array.astype(f"{array.dtype.kind}8[us]")
    if not np.array_equal(result.astype(array.dtype)[~np.isnat(array)], array[~np.isnat(array)]):
        raise DataError(f"{name} contain dates too far away to be counted in microseconds: {told(given)}")
    return result


def _of_objects(name: str, array: np.ndarray) -> np.ndarray:
    """Convert dates or durations of Python or pandas to NumPy; those with a time zone are taken in UTC."""

    def plain(date: Any) -> Any:
        if date != date:
            return None  # becomes NaT
        if getattr(date, "tzinfo", None) is not None:
            return date.astimezone(datetime.UTC).replace(tzinfo=None)
        return date

    durations = any(hasattr(date, "total_seconds") for date in array.flat if date == date)
    try:
        flat = np.array([plain(date) for date in array.flat], "m8[us]" if durations else "M8[us]")
    except (TypeError, ValueError, OverflowError) as problem:
        raise DataError(f"{name} cannot be read as dates: {told(array.tolist())}") from problem
    return flat.reshape(array.shape)
