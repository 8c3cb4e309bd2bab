"""The user's arrays: real numbers, and nothing that only looks like them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pathfold.errors import DataError, PathfoldError, told


def real_array(name: str, given: Any, *, error: type[PathfoldError] = DataError, missing: bool = False) -> np.ndarray:
    """An array of float32 where the user has one, else of float64; dates, text and complex numbers are refused.

    What is masked or marked as missing (None, pandas.NA) becomes NaN where entries may be `missing`, as those of
    observed values, and is refused elsewhere: the number under a mask means nothing. So are truth values.
    """
    array, masked = unmasked(name, given, error)
    if array.dtype.kind in "mM" or (array.dtype == object and any(map(is_date, array.flat))):
        raise error(f"{name} are dates or durations ({array.dtype}); give real numbers")
    if array.dtype == object:
        empty = np.array([each is None or type(each).__name__ == "NAType" for each in array.flat], dtype=bool)
        masked = masked | empty.reshape(array.shape)
        array = np.where(masked, 0.0, array)
    if masked.any() and not missing:
        raise error(f"{name} have {np.sum(masked)} masked or missing entries; leave these out or fill them in")
    if array.dtype.kind == "b" and not missing:
        raise error(f"{name} are True or False, {told(given)}; give real numbers")
    if array.dtype.kind == "c" or (array.dtype == object and any(isinstance(each, complex) for each in array.flat)):
        raise error(f"{name} are complex; give real numbers")
    if array.dtype.kind not in "biuf" and not _all_numbers(array):
        raise error(f"{name} must be an array of real numbers, not {told(given)}")
    try:
        real = array if array.dtype == np.float32 else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise error(f"{name} must be an array of real numbers that a float can hold, not {told(given)}") from problem
    return np.where(masked, np.array(np.nan, real.dtype), real) if masked.any() else real


def real_number(name: str, given: Any, *, error: type[PathfoldError] = DataError) -> float:
    """A finite number."""
    sentence = f"{name} must be a finite number, not {told(given)}"
    try:
        array = real_array(name, given, error=error)
    except error as problem:
        raise error(sentence) from problem
    if array.ndim != 0 or not np.isfinite(array):
        raise error(sentence)
    return float(array)


def unmasked(name: str, given: Any, error: type[PathfoldError] = DataError) -> tuple[np.ndarray, np.ndarray]:
    """The entries as an array, and which of them are masked."""
    try:
        if isinstance(given, list | tuple) and any(np.ma.isMaskedArray(each) for each in given):
            given = np.ma.array(given)
        masked = np.array(np.ma.getmaskarray(given)) if np.ma.isMaskedArray(given) else None
        array = np.asarray(given)
    except Exception as problem:  # an object may do anything when it is asked for its numbers
        raise error(f"{name} must be an array of real numbers, not {told(given)}") from problem
    return array, np.zeros(array.shape, dtype=bool) if masked is None else masked


def is_frame(given: Any) -> bool:
    """Whether this is a Series or DataFrame of pandas, known by what they have."""
    return hasattr(given, "index") and hasattr(given, "to_numpy")


def is_labelled(given: Any) -> bool:
    """Whether rows have labels: of pandas, or a DataArray of xarray."""
    return is_frame(given) or (hasattr(given, "dims") and hasattr(given, "coords"))


def check_same_rows(given: dict[str, Any]) -> None:
    """Raise DataError if two of these, by name, are of pandas and call their rows differently.

    Rows are taken in their order, which then is not what the labels say. A count from zero is no other name for what an
    index, given as it is, calls something.
    """
    parts = [(name, part) for name, each in given.items() for part in (each if isinstance(each, tuple) else (each,))]
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
    """Of datetime, NumPy or pandas, or a duration; known by what they have."""
    has = ("isoformat", "total_seconds")
    return isinstance(value, np.datetime64 | np.timedelta64) or any(hasattr(value, each) for each in has)


def _all_numbers(array: np.ndarray) -> bool:
    """Whether objects are numbers: text that reads like one is not."""
    return array.dtype == object and all(
        hasattr(each, "__float__") and not isinstance(each, str | bytes | complex) for each in array.flat
    )
