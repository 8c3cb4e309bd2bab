"""The rungs of replica exchange: powers of the likelihood, placed so that all exchanges are rejected as often.

The barrier between two powers is the sum of the rejection rates of the exchanges that lead from one to the other; it
hardly depends on how many rungs there are between them (Syed, Bouchard-Côté, Deligiannidis and Doucet 2022).
"""

from __future__ import annotations

import numpy as np

from pathfold.engine.native.thresholds import MOST_RUNGS

FIRST_COUNT = 12  # rungs to begin with ...
FIRST_RATIO = 10.0**-0.5  # ... each of them of this part of the power before; the last one is the prior
REJECTED = 0.5  # of exchanges between neighbours: most round trips for the work on a single core
FEWEST = 3  # rungs: posterior, prior and one between them
LEAST = 0.01  # rejections that a pair counts with: where there are none, rungs need not be near each other
HOPELESS = 0.95  # rejections of exchanges with the prior above which nothing is known of the barrier there ...
FURTHER = 1e-3  # ... and rungs are placed down to this part of the power of the last one before it
ROUNDS = (0.05, 0.1, 0.2, 0.35, 0.5)  # of warm-up: when rungs are placed anew


def first_powers(count: int) -> np.ndarray:
    """Return powers that fall by equal factors, from 1, and at last 0."""
    return np.append(FIRST_RATIO ** np.arange(count - 1), 0.0)


def wanted(rejections: np.ndarray) -> int:
    """Return the number of rungs with which exchanges are rejected as often as they should be."""
    return int(np.clip(1 + np.ceil(rejections.sum() / REJECTED), FEWEST, MOST_RUNGS))


def placed(powers: np.ndarray, rejections: np.ndarray, count: int) -> np.ndarray:
    """Return so many powers with equal barriers between them, given the rejection rates between neighbours.

    Between two rungs the barrier is taken to grow with the logarithm of the power, to the last one with the power.
    Where hardly any draw of the prior could be exchanged, there are powers between that are smaller by far.
    """
    barrier = np.concatenate([[0.0], np.cumsum(np.maximum(rejections, LEAST))])
    inner = np.linspace(0.0, barrier[-1], count)[1:-1]
    logarithms = np.exp(np.interp(inner, barrier[:-1], np.log(powers[:-1])))
    share = (inner - barrier[-2]) / (barrier[-1] - barrier[-2])
    to_the_last = powers[-2] * (1.0 - share if rejections[-1] < HOPELESS else FURTHER**share)
    return np.concatenate([[1.0], np.where(inner < barrier[-2], logarithms, to_the_last), [0.0]])


def nearest(powers: np.ndarray, power: float) -> np.ndarray:
    """Return the places of rungs, those nearest to a power first, by the ratio of powers."""
    floor = 0.1 * powers[-2]
    return np.argsort(np.abs(np.log(powers + floor) - np.log(power + floor)), kind="stable")
