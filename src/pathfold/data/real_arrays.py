"""Reads the user's arrays: real numbers are taken, and everything that only looks like them is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pathfold.errors import DataError, PathfoldError, told


def real_array(name: str, given: Any, *, error: type[PathfoldError] = DataError, missing: bool = False) -> np.ndarray:
    """Return the user's array as float32 if it is one, otherwise as float64; refuse dates and text.

    With `missing`, entries that are masked or marked as missing (None, pandas.NA) become NaN, as those of observed
    values do. Otherwise they are refused, since the number under a mask means nothing, and so are truth values.
    """
    array, masked = unmasked(name, given, error)
    if array.dtype.kind in "mM" or (array.dtype == object and any(map(is_date, array.flat))):
        raise error(f"{name} are dates or durations ({array.dtype}); give real numbers")
    if array.dtype == object:
        empty = np.array([entry is None or type(entry).__name__ == "NAType" for entry in array.flat], dtype=bool)
        masked = masked | empty.reshape(array.shape)
        array = np.where(masked, 0.0, array)
    if masked.any() and not missing:
        raise error(f"{name} have {np.sum(masked)} masked or missing entries; leave these out or fill them in")
    if array.dtype.kind == "b" and not missing:
        raise error(f"{name} are True or False, {told(given)}; give real numbers")
    if array.dtype.kind not in "biuf" and not _all_numbers(array):
        text = any(isinstance(entry, str) for entry in array.flat)
        remedy = "; turn text into numbers, or into dates with pandas.to_datetime" if text else ""
        raise error(f"{name} must be an array of real numbers, not {told(given)}{remedy}")
    try:
        real = array if array.dtype == np.float32 else array.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise error(f"{name} must be an array of real numbers that a float can hold, not {told(given)}") from problem
    return np.where(masked, np.array(np.nan, real.dtype), real) if masked.any() else real


def real_number(name: str, given: Any, *, error: type[PathfoldError] = DataError) -> float:
    """Return the user's value as a finite float, or raise."""
    sentence = f"{name} must be a finite number, not {told(given)}"
    try:
        array = real_array(name, given, error=error)
    except error as problem:
        raise error(sentence) from problem
    if array.ndim != 0 or not np.isfinite(array):
        raise error(sentence)
    return float(array)


def unmasked(name: str, given: Any, error: type[PathfoldError] = DataError) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries as an array, and a mask of those that are masked."""
    try:
        if isinstance(given, list | tuple) and any(np.ma.isMaskedArray(part) for part in given):
            given = np.ma.array(given)
        masked = np.array(np.ma.getmaskarray(given)) if np.ma.isMaskedArray(given) else None
        array = np.asarray(given)
    except (TypeError, ValueError) as problem:  # an xarray.Dataset; rows of different lengths
        raise error(f"{name} must be an array of real numbers, not {told(given)}") from problem
    return array, np.zeros(array.shape, dtype=bool) if masked is None else masked


def is_frame(given: Any) -> bool:
    """Tell whether this is a pandas Series or DataFrame, by its attributes."""
    return hasattr(given, "index") and hasattr(given, "to_numpy")


def is_labelled(given: Any) -> bool:
    """Tell whether the rows have labels: whether this is a pandas object or an xarray DataArray."""
    return is_frame(given) or (hasattr(given, "dims") and hasattr(given, "coords"))


def check_same_rows(given: dict[str, Any]) -> None:
    """Raise DataError if two of these, by name, are pandas objects whose rows have different labels.

    Rows are matched by their order, which would then contradict the labels. If one of them is an index itself, labels
    that only count from zero do not contradict it.
    """
    parts = [
        (name, part) for name, value in given.items() for part in (value if isinstance(value, tuple) else (value,))
    ]
    indices = [(name, part) for name, part in parts if hasattr(part, "get_indexer")]
    frames = [(name, part.index) for name, part in parts if is_frame(part)]
    if indices:
        frames = [(name, index) for name, index in frames if index.tolist() != [*range(len(index))]]
    for (one, index), (other, second) in pairwise(indices + frames):
        if not index.equals(second):
            raise DataError(
                f"{one} and {other} have different indices, {told(index.tolist())} and {told(second.tolist())}: bring "
                "their rows together by label (pandas.concat, join or reindex), or give .to_numpy() to go by order"
            )


def is_date(value: Any) -> bool:
    """Tell whether this is a date or duration of datetime, NumPy or pandas, by its type or attributes."""
    has = ("isoformat", "total_seconds")
    return isinstance(value, np.datetime64 | np.timedelta64) or any(hasattr(value, attribute) for attribute in has)


def _all_numbers(array: np.ndarray) -> bool:
    """Tell whether all objects are numbers; text that reads like a number is not one."""
    return array.dtype == object and all(
        hasattr(entry, "__float__") and not isinstance(entry, str) for entry in array.flat
    )
