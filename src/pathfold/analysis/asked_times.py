"""Times and series that a user asks for, and what results call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import Observations
from pathfold.data.dates import Calendar, counted
from pathfold.data.real_arrays import real_array
from pathfold.errors import DataError, told
from pathfold.results.reading import along_time, is_panel


def read_times(times: Any, calendar: Calendar | None) -> np.ndarray:
    """Return times (T,) that a user asks for, counted like those of a series."""
    array = real_array("times", counted("times", times, calendar))
    if array.ndim != 1:
        raise DataError(f"times must be a list of times, such as [1.0, 2.0], not {told(times)}")
    return array


def series_of_rows(asked: Sequence[Observations]) -> np.ndarray:
    """Return the place of the series that each time belongs to, of series one after the other."""
    return np.repeat(np.arange(len(asked)), [series.times.size for series in asked])


def coordinates_of(
    tree: xr.DataTree, names: Sequence[Any], asked: Sequence[Observations]
) -> tuple[str, dict[str, Any]]:
    """Return the dimension of the times of series, one after the other, and its coordinates."""
    calendars, times = [series.calendar for series in asked], np.concatenate([series.times for series in asked])
    return along_time(names, calendars, times, series_of_rows(asked), panel=is_panel(tree))
