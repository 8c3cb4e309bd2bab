"""Checks of settings: each function returns the value in its plain type, or raises a SettingsError about it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from pathfold.errors import SettingsError, told

GREATEST = 2**63 - 1  # the largest integer that a file can hold


def whole(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= GREATEST:
        limit = f"most {GREATEST}" if isinstance(value, int) and value > GREATEST else f"least {least}"
        raise SettingsError(f"{name} must be a whole number of at {limit}, not {told(value)}")
    return int(value)


def cores(threads: Any) -> int:
    """Return how many threads are asked for; one for each core where nothing is said."""
    return os.cpu_count() or 1 if threads is None else whole("threads", threads, least=1)


def positive(name: str, value: Any, *, below: float = math.inf) -> float:
    """Return a number that lies strictly between 0 and a bound."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not 0.0 < value < below:
        wanted = "a positive number" if below == math.inf else f"a number between 0 and {below:g}"
        raise SettingsError(f"{name} must be {wanted}, not {told(value)}")
    return float(value)


def truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise SettingsError(f"{name} must be True or False, not {told(value)}")
    return bool(value)


def choice(name: str, value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise SettingsError(f"{name} must be {', '.join(others)} or {last}, not {told(value)}")
    return value


def selected(what: str, names: Any, known: Sequence[str]) -> list[int]:
    """Return the places of the chosen names or numbers among those known; all if none are chosen.

    A number that is a name is that name.
    """
    if names is None:
        return list(range(len(known)))
    chosen: list[Any] = [*names] if np.ndim(names) else [names]
    places = []
    for name in chosen:
        if isinstance(name, str | int | np.integer) and str(name) in known:
            places.append(known.index(str(name)))
        elif isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(known):
            places.append(int(name))
        else:
            raise SettingsError(f"there is no {what} {told(name)}; there are {', '.join(known) or 'none'}")
    if not places:
        raise SettingsError(f"no {what} is selected; leave the names out to take all")
    return places
