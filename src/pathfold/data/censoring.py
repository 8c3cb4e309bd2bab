"""Values that are known only to lie below, above, or between bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from pathfold.data.real_arrays import real_array, unmasked
from pathfold.errors import DataError, told

EXACT, BELOW, ABOVE, BETWEEN = 0, -1, 1, 2


def read_censored(values: np.ndarray, censored: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values, kinds and upper bounds, all (T, Y), from what the user gives for `censored`.

    That is an array of -1 (below the value), 0 and 1 (above it), or a pair (low, high) of bounds, NaN where the value
    is what was observed. The value of an interval is its lower bound. A single number holds for all observed values.
    """
    values, kinds, upper = values.copy(), np.zeros(values.shape), np.zeros(values.shape)
    if censored is None:
        return values, kinds, upper
    if isinstance(censored, tuple):
        if len(censored) != 2:
            raise DataError(f"censored must be an array of -1, 0 and 1, or a pair (low, high), not {told(censored)}")
        return _of_bounds(values, *(_shaped("bounds", bound, values) for bound in censored))
    check_side(unmasked("censored", censored)[0])
    kinds[:] = _shaped("censored", censored, values)
    if not np.all(np.isin(kinds, (BELOW, EXACT, ABOVE))):
        odd = kinds[~np.isin(kinds, (BELOW, EXACT, ABOVE))][0]
        raise DataError(f"censored has {odd:g}; give -1 (below the value), 0 (observed) or 1 (above the value)")
    unknown = np.isnan(values) & (kinds != EXACT)
    if np.ndim(censored) and np.any(unknown):
        row, column = np.argwhere(unknown)[0]
        raise DataError(
            f"censored has {kinds[row, column]:g} in row {row}, column {column}, where the value is missing (NaN): "
            "give the bound as the value, or 0 if nothing is known"
        )
    kinds[unknown] = EXACT
    return values, kinds, upper


def check_side(censored: np.ndarray) -> None:
    """Raise DataError for truth values, which do not say on which side of a bound the true value lies."""
    if censored.size and all(isinstance(entry, bool | np.bool_) for entry in censored.flat):
        raise DataError(
            "censored is of True and False, which does not say on which side the true value lies: give -1 where it is "
            "at most the value given, 1 where it is at least that, 0 elsewhere; such as censored=np.where(mask, -1, 0)"
        )


def told_value(value: float, kind: float, upper: float) -> str:
    """Write a value in words, with the bound that it is."""
    known = {BELOW: f"known to be at most {value:g}", ABOVE: f"known to be at least {value:g}"}
    return (known | {BETWEEN: f"known to be between {value:g} and {upper:g}"}).get(int(kind), f"{value:g}")


def _of_bounds(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    given = ~(np.isnan(low) | np.isnan(high))
    if np.any(np.isnan(low) != np.isnan(high)):
        raise DataError("censored: a low bound without a high one; write -np.inf or np.inf where there is none")
    if np.any(low[given] > high[given]):
        row, column = np.argwhere(given & (np.nan_to_num(low) > np.nan_to_num(high)))[0]
        raise DataError(f"censored: the low bound {low[row, column]:g} is above the high one, {high[row, column]:g}")
    if np.any(given & (low == -np.inf) & (high == np.inf)):
        raise DataError("censored: a value between -inf and inf says nothing; write NaN for a missing entry")
    kinds = np.where(given, BETWEEN, EXACT)
    kinds = np.where(given & (low == -np.inf), BELOW, np.where(given & (high == np.inf), ABOVE, kinds))
    kinds = np.where(given & (low == high), EXACT, kinds)
    values = np.where(kinds == BELOW, high, np.where(given, low, values))
    return values, kinds.astype(float), np.where(kinds == BETWEEN, high, 0.0)


def _shaped(name: str, given: Any, values: np.ndarray) -> np.ndarray:
    array = real_array(name, given, missing=True).astype(np.float64)
    array = array[:, None] if array.ndim == 1 and values.shape[1] == 1 else array
    if array.shape not in ((), values.shape):
        raise DataError(f"{name} have shape {array.shape}, expected that of the values, {values.shape}")
    return np.broadcast_to(array, values.shape)
