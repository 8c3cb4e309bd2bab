"""Reads and checks the times and amounts of the events of a series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pathfold.data.dates import Calendar, counted
from pathfold.data.names import check_name
from pathfold.data.real_arrays import check_same_rows, real_array
from pathfold.errors import DataError, told

ROUNDING = 8  # times that differ by so many units in the last place are the same

type Events = dict[str, tuple[np.ndarray, np.ndarray]]
"""By name: increasing times and amounts, both (E,)."""


def read_events(events: Any, calendar: Calendar | None) -> Events:
    """Return the user's name -> (times, amounts), sorted in time; dates are counted like those of the series."""
    if events is None:
        return {}
    if not isinstance(events, Mapping):
        raise DataError(f"events must be a dict of name -> (times, amounts), not {told(events)}")
    return {name: _read(name, given, calendar) for name, given in events.items()}


def _read(name: Any, given: Any, calendar: Calendar | None) -> tuple[np.ndarray, np.ndarray]:
    check_name("event", name, DataError)
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise DataError(f"the event {name!r} must be a pair (times, amounts), not {told(given)}")
    at, amounts = given
    what = f"the times of the event {name!r}"
    check_same_rows({what: at, f"the amounts of the event {name!r}": amounts})
    at = real_array(what, counted(what, at, calendar)).astype(np.float64)
    amounts = real_array(f"the amounts of the event {name!r}", amounts).astype(np.float64)
    if at.ndim != 1 or amounts.shape not in ((), at.shape):
        raise DataError(
            f"the event {name!r} has times {at.shape} and amounts {amounts.shape}, expected one amount a time"
        )
    amounts = np.broadcast_to(amounts, at.shape)
    if not (np.all(np.isfinite(at)) and np.all(np.isfinite(amounts))):
        raise DataError(f"the event {name!r} has a time or an amount that is not finite; leave it out")
    order = np.argsort(at, kind="stable")
    at, amounts = at[order], amounts[order]
    if np.any(np.diff(at) == 0.0):
        twice = at[:-1][np.diff(at) == 0.0][0]
        raise DataError(f"the event {name!r} happens twice at time {twice:g}; give it once, with the total amount")
    return at, amounts


def merged(one: Events, other: Events) -> dict[str, tuple[Any, Any]]:
    """Return the times and amounts of two series of events by name, one after the other."""
    parts = {name: [events[name] for events in (one, other) if name in events] for name in {**one, **other}}
    return {
        name: (np.concatenate([t for t, _ in both]), np.concatenate([a for _, a in both]))
        for name, both in parts.items()
    }


def close(t: Any) -> Any:
    """Return the difference below which a time is taken to be the same as t."""
    return 1e-12 * (1.0 + np.abs(t))


def check_event_times(events: Events, times: np.ndarray, initial_time: float) -> None:
    """Raise DataError for an event before the series begins, and for one that may or may not be at an observation."""
    for name, (at, _) in events.items():
        if at.size and at[0] < initial_time:
            raise DataError(
                f"the event {name!r} at time {at[0]:g} is before initial_time = {initial_time:g}; give an earlier "
                "initial_time, or leave it out"
            )
        for t in at.tolist():
            later = t - times
            if np.any((later > ROUNDING * np.spacing(np.abs(t))) & (later <= close(t))):
                raise DataError(
                    f"the event {name!r} at time {t!r} is {later[later > 0].min():.2g} after the observation before "
                    "it, too little to tell the two apart: give it the same time, and it comes before the observation, "
                    "or one that is later by more"
                )
