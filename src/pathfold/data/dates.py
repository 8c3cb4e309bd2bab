"""Turns dates and durations into times, counted in a unit that the user names, from a date that is known."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pathfold.data.real_arrays import is_date, real_number, unmasked
from pathfold.errors import DataError, told

UNITS = {
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
    "days": 86400.0,
    "weeks": 7 * 86400.0,
    "years": 365.25 * 86400.0,
}
"""In seconds; a year is a Julian one, of 365.25 days."""
SHORT = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "D": "days", "w": "weeks", "W": "weeks"}
SHORT |= {unit[:-1]: unit for unit in UNITS} | {"y": "years"}
DATE = re.compile(r"\d{4}-\d")  # the beginning of a date in text
ZONE = re.compile(r"[T ]\d.*(Z|[+-]\d\d(:?\d\d)?)$")  # the end of a date in text that says how far it is from UTC


@dataclass(frozen=True)
class Dates:
    """Dates or durations (R,), in microseconds or finer; dates are in UTC if they are `aware` of a time zone."""

    array: np.ndarray
    aware: bool

    @property
    def kind(self) -> str:
        return "dates" if self.array.dtype.kind == "M" else "durations"


def check_one_unit(units: Mapping[Any, str | None]) -> None:
    """Raise DataError if series, by what they are called, count their times in different units; None is a number."""
    (first, unit), *others = units.items()
    for name, other in others:
        if other != unit:
            one, two = (each or "numbers without a unit" for each in (unit, other))
            raise DataError(
                f"{first} counts its times in {one}, {name} in {two}: a rate would be per another time in each; give "
                "all times in one unit, such as pf.Observations(..., unit='days')"
            )


@dataclass(frozen=True)
class Calendar:
    """The unit in which dates and durations are counted, and the `origin` of dates; durations have none.

    If dates are `aware` of a time zone, the origin is in UTC.
    """

    unit: str
    origin: np.datetime64 | None
    aware: bool = False

    def written(self) -> dict[str, str]:
        """Return the arguments as text."""
        return {"unit": self.unit, "origin": "" if self.origin is None else f"{self.origin}{'Z' * self.aware}"}

    @classmethod
    def read(cls, written: dict[str, str]) -> Calendar:
        origin = written["origin"]
        return cls(written["unit"], np.datetime64(origin.rstrip("Z")) if origin else None, origin.endswith("Z"))

    def dates(self, times: np.ndarray) -> np.ndarray | None:
        """Turn times, which are numbers, back into dates, to the microsecond; return None if they were durations."""
        if self.origin is None:
            return None
        return self.origin + np.round(times * UNITS[self.unit] * 1e6).astype("m8[us]")


def dates_of(calendars: Sequence[Calendar | None], times: np.ndarray, series: np.ndarray) -> np.ndarray | None:
    """Return the dates of times (R,) of series of these numbers, or None if any series has none."""
    dates = np.empty(times.shape, "M8[us]")
    for k, calendar in enumerate(calendars):
        if calendar is None or (own := calendar.dates(times[series == k])) is None:
            return None
        dates[series == k] = own
    return dates


def told_time(t: float, calendar: Calendar | None) -> str:
    """Write a time of a series: as a date, if it has dates."""
    date = calendar and calendar.dates(np.asarray(t))
    return f"{t}" if date is None else told_date(date)


def told_date(date: Any) -> str:
    """Write a NumPy date, to the second; another time as it is."""
    return str(date.astype("M8[s]")).replace("T", " ") if isinstance(date, np.datetime64) else str(date)


def counted(name: str, given: Any, calendar: Calendar | None) -> Any:
    """Turn dates or durations into numbers, counted like those of a series; return anything else as it is."""
    dated = as_dates(name, given)
    if dated is None:
        return given
    if calendar is None or (dated.kind == "dates" and calendar.origin is None):
        raise DataError(
            f"{name} are {dated.kind}, but the times of the series are "
            f"{'numbers' if calendar is None else 'durations'}; give these"
        )
    if np.isnat(dated.array).any():
        raise DataError(f"{name} contain NaT, a date that is not known; leave it out")
    if dated.kind == "durations":
        return _count(dated.array, calendar.unit)
    _check_zones(name, dated.aware, "the dates of the series", calendar.aware)
    return _count(dated.array - calendar.origin, calendar.unit)


def in_unit(times: Any, initial_time: Any, unit: Any) -> tuple[Any, Any, Calendar | None]:
    """Return times and initial time as numbers in the unit, and the calendar if times are dates or durations.

    Dates are counted from the initial time if that is a date, which then is 0, and else from the first of them. Times
    that are numbers are returned as they are. A calendar in the place of the unit has counted them already.
    """
    if isinstance(unit, Calendar):
        return times, initial_time, unit
    dated, start = as_dates("times", times), as_dates("initial_time", initial_time)
    if dated is None:
        if unit is not None:
            raise DataError(f"unit={told(unit)} is for times that are dates or durations; leave it out for numbers")
        if start is not None:
            raise DataError(f"initial_time is {told(initial_time)}, but times are numbers; give a number in their unit")
        return times, initial_time, None
    if unit is None:
        raise DataError(
            f"times are {dated.kind}, such as {dated.array.flat[0]}; say in which unit to count them, as in "
            "pf.Observations(..., unit='days'), or make them numbers"
        )
    unit = SHORT.get(unit, unit) if isinstance(unit, str) else unit
    if not isinstance(unit, str) or unit not in UNITS:
        raise DataError(f"unit must be one of {', '.join(map(repr, UNITS))}, not {told(unit)}")
    if np.isnat(dated.array).any() or (start is not None and np.isnat(start.array)):
        raise DataError("times or initial_time contain NaT, a date that is not known; leave out rows without a date")
    if start is not None and start.kind != dated.kind:
        raise DataError(
            f"times are {dated.kind}, but initial_time is the {start.kind[:-1]} {start.array}; give a "
            f"{dated.kind[:-1]} or a number"
        )
    if dated.kind == "durations":
        begin = initial_time if start is None else float(_count(start.array, unit))
        return _count(dated.array, unit), begin, Calendar(unit, None)
    if start is not None:
        _check_zones("initial_time", start.aware, "times", dated.aware)
        origin = start.array.flat[0]
        return _count(dated.array - origin, unit), 0.0, Calendar(unit, origin, dated.aware)
    first = dated.array.min() if dated.array.size else np.datetime64(0, "us")
    begin = real_number("initial_time", initial_time)
    return _count(dated.array - first, unit), begin, Calendar(unit, first, dated.aware)


def _check_zones(one: str, aware: bool, other: str, of_other: bool) -> None:
    """Raise DataError if one has a time zone and the other none: nobody knows how far apart they are."""
    if aware != of_other:
        those = (one, other) if aware else (other, one)
        raise DataError(
            f"{those[0]} have a time zone, and {those[1]} none: give it one, with .tz_localize(...) of pandas or "
            "tzinfo= of datetime"
        )


def _count(durations: np.ndarray, unit: str) -> np.ndarray:
    return durations / np.timedelta64(1, "s") / UNITS[unit]


def as_dates(name: str, given: Any) -> Dates | None:
    """Return dates (text of ISO 8601, too) or durations, if all entries are such; None for anything else."""
    array, masked = unmasked(name, given)
    aware = np.zeros(array.shape, dtype=bool)
    if array.dtype.kind == "U" or (array.dtype == object and array.size and all(map(_is_text, array.flat))):
        array, aware = _of_text(name, array)
    elif array.dtype == object and array.size and all(map(is_date, array.flat)):
        array, aware = _of_objects(name, array)
    if array.dtype.kind not in "mM":
        return None
    if masked.any():
        raise DataError(f"{name} have {np.sum(masked)} masked entries; leave these out")
    if np.any(other := aware != aware.flat[:1]):
        first, odd = (told(np.asarray(given).ravel().tolist()[place]) for place in (0, int(np.argmax(other))))
        raise DataError(f"{name} are dates with and without a time zone, such as {first} and {odd}; give all one")
    fine = np.datetime_data(array.dtype)[0] in ("us", "ns", "ps", "fs", "as")
    if array.dtype.kind == "m" and np.datetime_data(array.dtype)[0] in ("Y", "M", "generic"):
        raise DataError(f"{name} are durations of no fixed length ({array.dtype}); give them in days or seconds")
    result = array if fine else array.astype(f"{array.dtype.kind}8[us]")
    if not np.array_equal(result.astype(array.dtype)[~np.isnat(array)], array[~np.isnat(array)]):
        raise DataError(f"{name} contain dates too far away to be counted in microseconds: {told(given)}")
    return Dates(result, bool(aware.any()))


def text_dates(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read dates of ISO 8601, NaT where text is none (a number, such as 1500, is none), and mark those with a zone."""
    given = [text if DATE.match(text) else None for text in texts]
    dates = pd.to_datetime(given, format="ISO8601", errors="coerce", utc=True).tz_localize(None)
    return dates.to_numpy(), np.array([ZONE.search(text) is not None for text in texts])


def is_aware(date: Any) -> bool:
    """Tell whether a date has a time zone."""
    return getattr(date, "tzinfo", None) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _of_text(name: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    texts = array.ravel().tolist()
    dates, aware = text_dates(texts)
    if np.any(odd := np.isnat(dates)):
        raise DataError(
            f"{name} are text, such as {told(texts[int(np.argmax(odd))])}; give numbers, or dates like 2026-03-31"
        )
    return dates.reshape(array.shape), aware.reshape(array.shape)


def _of_objects(name: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Convert dates or durations of Python or pandas to NumPy, dates with a time zone to UTC, and mark these."""

    def plain(date: Any) -> Any:
        if date != date:
            return None  # becomes NaT
        return date.astimezone(datetime.UTC).replace(tzinfo=None) if is_aware(date) else date

    durations = any(hasattr(date, "total_seconds") for date in array.flat if date == date)
    try:
        flat = np.array([plain(date) for date in array.flat], "m8[us]" if durations else "M8[us]")
    except (TypeError, ValueError, OverflowError) as problem:
        raise DataError(f"{name} cannot be read as dates: {told(array.tolist())}") from problem
    return flat.reshape(array.shape), np.array([is_aware(date) for date in array.flat]).reshape(array.shape)
