"""Correcting an explored Laplace approximation by pairs of paths, and drawing from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pathfold.inference.fit.exploration import Explored
from pathfold.sampling.marginal import Pair

LIGHT = 0.1  # points with less than this fraction of an equal weight have no paths, and no draws
MOST_FAILED = 0.1  # share of paths that did not reach the data, above which no correction is made


@dataclass(frozen=True)
class Corrected:
    """Points with paths: their numbers, weights that sum to one, and the pairs.

    `slope` is that of the correction's log by u; `log_evidence` has the mean weight of the pairs in it.
    """

    numbers: np.ndarray
    weights: np.ndarray
    pairs: list[Pair]
    failed: float
    spread: float
    slope: np.ndarray
    log_correction: np.ndarray
    log_evidence: float


def with_weight(explored: Explored) -> np.ndarray:
    """Return the numbers of the points whose weight is enough for them to be drawn."""
    return np.flatnonzero(explored.log_weights > np.log(LIGHT / len(explored.u)))


def corrected(explored: Explored) -> Corrected:
    """Regress the logs of the pairs' mean weights on u, and add the line to the log weights of the points.

    Where too many paths fail nothing is added: they do not fail at random.
    """
    numbers = with_weight(explored)
    pairs = [explored.pairs[i] for i in numbers]
    u, logs = explored.u[numbers], np.array([pair.log_weights for pair in pairs])
    weights = np.exp(explored.log_weights[numbers])
    weights = weights / weights.sum()
    reached = np.isfinite(logs)
    failed = float(1.0 - weights @ reached.mean(axis=1))
    whole = reached.all(axis=1)
    slope, spread, log_evidence = np.zeros(u.shape[1]), np.inf, explored.log_evidence
    means = np.logaddexp(*logs[whole].T) - np.log(2.0)
    if whole.sum() > 2 * (u.shape[1] + 2):
        w = weights[whole] / weights[whole].sum()
        centred = u[whole] - w @ u[whole]
        coefficients = np.linalg.lstsq(
            np.sqrt(w)[:, None] * np.column_stack([np.ones_like(w), centred]), np.sqrt(w) * means
        )[0]
        left = means - coefficients[0] - centred @ coefficients[1:]
        spread = float(np.sqrt(w @ left**2))
        if failed <= MOST_FAILED:
            slope = coefficients[1:]
            log_evidence += float(np.logaddexp.reduce(np.log(w) + means))
    log_correction = (u - weights @ u) @ slope
    reached = reached.any(axis=1) if reached.any() else np.ones(len(u), dtype=bool)
    tilted = np.where(reached, np.log(weights) + log_correction, -np.inf)
    tilted = np.exp(tilted - np.logaddexp.reduce(tilted))
    return Corrected(numbers, tilted, pairs, failed, spread, slope, log_correction, log_evidence)


def resample(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return places drawn by weight, each as often as its share of the count, rounded at random; in random order."""
    places = np.searchsorted(np.cumsum(weights), (rng.random() + np.arange(count)) / count)
    return rng.permutation(np.minimum(places, len(weights) - 1))
