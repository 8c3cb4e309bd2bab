"""Tests of standard normals e (draw, time): a statistic and its p-value for each draw, and one p-value of all draws.

If e are independent standard normals, p-values are exact, or bounds that are too large, never too small.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import bdtrc, chdtr, chdtrc, fdtr, fdtrc, ndtr, ndtri

LONGEST, SIMULATED = 1000, 9999  # values of a block whose shape is tested; series that it is compared with


def bounded(p_values: np.ndarray) -> float:
    """Return a p-value from those of K dependent draws: K / k times the k-th smallest, k about K / 2 (Rueger 1978).

    NaN if one of them is: of a draw that is no number nothing is known.
    """
    k = (len(p_values) + 1) // 2
    middle = np.sort(p_values)[k - 1] * len(p_values) / k
    return float("nan") if np.isnan(p_values).any() else float(np.minimum(1.0, middle))


def normal_p_value(z: np.ndarray) -> np.ndarray:
    """Return the two-sided p-value of a standard normal."""
    return 2.0 * ndtr(-np.abs(z))


def mean_test(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Test the mean; exact."""
    return e.mean(axis=1), normal_p_value(e.sum(axis=1) / np.sqrt(e.shape[1]))


def variance_test(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Test the mean of squares, by chi-squared; exact."""
    squares = np.sum(e**2, axis=1)
    tail = np.minimum(chdtr(e.shape[1], squares), chdtrc(e.shape[1], squares))
    return squares / e.shape[1], 2.0 * tail


def tail_test(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Test the largest value, and the number beyond 2: twice the smaller of two exact p-values."""
    largest, beyond = np.abs(e).max(axis=1), np.sum(np.abs(e) > 2.0, axis=1)
    of_largest = -np.expm1(e.shape[1] * np.log1p(-2.0 * ndtr(-largest)))
    of_number = bdtrc(beyond - 1, e.shape[1], 2.0 * ndtr(-2.0))
    return largest, np.minimum(1.0, 2.0 * np.minimum(of_largest, of_number))


def autocorrelation_test(e: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Test the correlation of neighbours, which `same` (time - 1,) marks: given every second value, exactly normal."""
    products = np.where(same, e[:, :-1] * e[:, 1:], 0.0)
    sums = np.zeros_like(e)  # of the neighbours of each
    sums[:, 1:] += np.where(same, e[:, :-1], 0.0)
    sums[:, :-1] += np.where(same, e[:, 1:], 0.0)
    spread = np.sum(sums[:, 1::2] ** 2, axis=1)
    correlation = products.sum(axis=1) / np.maximum(1, same.sum())
    return correlation, normal_p_value(_divided(np.sum(e[:, 1::2] * sums[:, 1::2], axis=1), np.sqrt(spread)))


def correlation_test(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Test the correlation of two sources: given the second, exactly normal."""
    products = np.sum(a * b, axis=1)
    return products / a.shape[1], normal_p_value(_divided(products, np.sqrt(np.sum(b**2, axis=1))))


def shift_test(e: np.ndarray, sign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Test whether e goes with a sign that is known before it is: e times the sign is standard normal again; exact."""
    return mean_test(e * sign)


def sizes(e: np.ndarray) -> np.ndarray:
    """Return standard normals that rise with the size of e: the normal scores of |e|."""
    return -ndtri(np.clip(2.0 * ndtr(-np.abs(e)), np.finfo(float).tiny, 1.0 - np.finfo(float).eps))


def spread_test(e: np.ndarray, sign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Test whether e is larger where a sign, known before it is, is positive, by the ratio of mean squares.

    How often the sign is positive may depend on e of earlier times, so that the ratio does not follow F. Normal scores
    of |e|, times the sign, are standard normals again, and their mean gives the p-value; exact.
    """
    up, down = (np.where(side, 1.0, 0.0) for side in (sign > 0.0, sign < 0.0))
    large, small = (_divided(np.sum(side * e**2, axis=1), side.sum(axis=1)) for side in (up, down))
    return _divided(large, small), mean_test(sizes(e) * sign)[1]


def ratio_test(e: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Test the ratio of mean squares, at times `first` (time,) to the others, by F; exact, whatever the scale of e."""
    return ratio_of_sums(
        np.sum(e[:, first] ** 2, axis=1), first.sum(), np.sum(e[:, ~first] ** 2, axis=1), (~first).sum()
    )


def ratio_of_sums(one: np.ndarray, n: int, other: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Test the ratio of mean squares, given the sums of n squares and of m others, by F; exact, whatever the scale."""
    ratio = _divided(one / n, other / m)
    return ratio, 2.0 * np.minimum(fdtr(n, m, ratio), fdtrc(n, m, ratio))


def shape_test(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the excess kurtosis, and p-values of Jarque and Bera's statistic, by simulation, free of mean and scale.

    A p-value is the share of simulated values, with that of e among them, that are as large, which is exact. Long
    series are cut into blocks, of which the p-values are combined by Fisher's rule.
    """
    blocks = np.array_split(e, -(-e.shape[1] // LONGEST), axis=1)
    logs = np.zeros(len(e))
    for block in blocks:
        null = _simulated(block.shape[1])
        statistic = jarque_bera(block)
        smaller = np.searchsorted(null, statistic)
        logs += np.where(np.isnan(statistic), np.nan, np.log((len(null) - smaller + 1.0) / (len(null) + 1.0)))
    return kurtosis(e), chdtrc(2 * len(blocks), -2.0 * logs)


def kurtosis(e: np.ndarray) -> np.ndarray:
    """Return the excess kurtosis about the mean."""
    squares = (e - e.mean(axis=1, keepdims=True)) ** 2
    return _divided(np.mean(squares**2, axis=1), np.mean(squares, axis=1) ** 2) - 3.0


def jarque_bera(e: np.ndarray) -> np.ndarray:
    """Return skewness^2 + (excess kurtosis)^2 / 4 (Jarque and Bera 1980)."""
    away = e - e.mean(axis=1, keepdims=True)
    skewness = _divided(np.mean(away**3, axis=1), np.mean(away**2, axis=1) ** 1.5)
    return skewness**2 + 0.25 * kurtosis(e) ** 2


@cache
def _simulated(length: int) -> np.ndarray:
    """Return Jarque and Bera's statistic of simulated series of standard normals, sorted."""
    rng = np.random.default_rng(0)
    return np.sort(np.concatenate([jarque_bera(rng.standard_normal((SIMULATED // 9, length))) for _ in range(9)]))


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, 0 where b is."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0.0)
