"""Where values lie among draws of what was expected, as standard normals.

Among equally weighted draws the randomised rank of a value is exactly uniform, but it is never further out than these.
Beyond most of them, on either side, the excess of a value is compared with the excesses of the draws, each in units of
the mean excess of the others at its time. These are pooled over all times: P(excess > x) is read off so many draws that
outliers are told from heavy tails, whatever the distribution, provided that its tail has one shape at all times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, ndtri_exp

from pathfold.inference.fit.exploration import generalised_pareto

TAIL = 0.2  # of the draws, beyond which excesses are compared
POOLED = 5_000_000  # draws, about, of a side of which the excesses are pooled
TOGETHER = 1000  # times that are placed at once
FEWEST = 5  # excesses that a generalised Pareto distribution is fitted to


class Tail(NamedTuple):
    """One side of the draws: how far values (time,) exceed its edge and the probability beyond that, excesses of draws
    and their weights.

    Excesses of values are not positive, or NaN, where the rank decides.
    """

    excess: np.ndarray
    probability: np.ndarray
    drawn: np.ndarray
    weights: np.ndarray


class Placed(NamedTuple):
    """Values (time,) among draws: their ranks, uniform if what was expected is right, and both tails."""

    rank: np.ndarray
    lower: Tail
    upper: Tail


def placed(y: np.ndarray, drawn: np.ndarray, weights: np.ndarray, uniform: np.ndarray, *, every: int = 1) -> Placed:
    """Place values (time,) among weighted draws (time, particle); ties are broken by uniform numbers (time,).

    A draw without weight is none. Excesses of draws are kept at every so many-th time.
    """
    size = 1.0 / np.sum(weights**2, axis=1)
    below, equal = (np.sum(weights, axis=1, where=where) for where in (drawn < y[:, None], drawn == y[:, None]))
    rank = (size * below + uniform * (size * equal + 1.0)) / (size + 1.0)
    return Placed(rank, *(_lower_tail(sign * y, sign * drawn, weights, size, every) for sign in (1.0, -1.0)))


def _lower_tail(y: np.ndarray, drawn: np.ndarray, weights: np.ndarray, size: np.ndarray, every: int) -> Tail:
    blocks = [slice(begin, begin + TOGETHER) for begin in range(0, max(1, len(y)), TOGETHER)]
    parts = [_excesses(y[some], drawn[some], weights[some], every) for some in blocks]
    excess, beyond, *pooled = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Tail(excess, size * beyond / (size + 1.0), *pooled)


def _excesses(y: np.ndarray, drawn: np.ndarray, weights: np.ndarray, every: int) -> tuple[np.ndarray, ...]:
    """Return e = (edge - y) / (mean excess) and the weight up to the edge, and e and weights of the draws beyond it.

    Edge and mean are those of all draws for y, and of all others for a draw. Draws that repeat themselves, as counts
    do, have no excess.
    """
    time, last = np.arange(len(y)), drawn.shape[1] - 1
    some = np.where(weights > 0.0, drawn, np.inf)
    order = np.argsort(some, axis=1)
    x, w = np.take_along_axis(some, order, axis=1), np.take_along_axis(weights, order, axis=1)
    mass, moment = np.cumsum(w, axis=1), np.cumsum(w * np.where(w > 0.0, x, 0.0), axis=1)
    most = 1 + int(np.sum(mass < TAIL, axis=1).max(initial=0))  # draws at a time that may lie beyond
    values, own = np.column_stack([y, x[:, :most]]), np.column_stack([np.zeros(len(y)), w[:, :most]])
    row = 2.0 * time[:, None]  # of each time above those of the one before: one search serves all
    found = np.searchsorted((row + mass).ravel(), (row + own + TAIL * (1.0 - own)).ravel())
    edge = np.clip(found.reshape(values.shape) - (last + 1) * time[:, None], 1, last)
    pairs = (x, edge), (mass, edge - 1), (moment, edge - 1)
    at_edge, mass_beyond, moment_beyond = (np.take_along_axis(of, k, axis=1) for of, k in pairs)
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = (at_edge - values) / (at_edge - (moment_beyond - own * values) / (mass_beyond - own))
        known = (edge > 1) & ~np.any(np.diff(x, axis=1) == 0.0, axis=1)[:, None] & np.isfinite(excess)
    pooled = known & (own > 0.0) & (np.arange(-1, most) < edge) & (time % every == 0)[:, None]
    beyond = mass[time, edge[:, 0]]
    return np.where(known[:, 0], excess[:, 0], np.nan), beyond, excess[pooled], own[pooled]


def normal_scores(draws: Sequence[Placed]) -> np.ndarray:
    """Turn the places of values among the draws of several predictions into standard normals (prediction, time)."""
    scores = ndtri(np.stack([each.rank for each in draws]))
    for side, sign in (("lower", 1.0), ("upper", -1.0)):
        tails: list[Tail] = [getattr(each, side) for each in draws]
        excess = np.stack([tail.excess for tail in tails])
        pooled = (np.concatenate([getattr(tail, name) for tail in tails]) for name in ("drawn", "weights"))
        log_chance = np.log(np.stack([tail.probability for tail in tails])) + log_exceeded(excess, *pooled)
        scores = np.where(excess > 0.0, sign * ndtri_exp(log_chance), scores)
    return scores


def log_exceeded(x: np.ndarray, drawn: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return log P(X > x) for positive x by weighted draws of X, and beyond most by a generalised Pareto tail.

    Its shape is not negative: a light tail is taken for an exponential one.
    """
    if drawn.size < 2:
        return np.zeros_like(x)
    order = np.argsort(drawn)
    drawn, weights = drawn[order], weights[order] / weights.sum()
    above = np.cumsum(weights[::-1])[::-1]
    near = np.log(np.interp(x, np.append(0.0, drawn), np.append(1.0, above - 0.5 * weights)))
    edge = drawn[-1 - int(np.sqrt(drawn.size))]
    beyond = drawn > edge
    if beyond.sum() < FEWEST:
        return near
    share = weights[beyond].sum()
    far, own = drawn[beyond] - edge, weights[beyond] / share
    shape, scale = generalised_pareto(far, own)
    away = np.maximum(x - edge, 0.0)
    tail = -np.log1p(shape * away / scale) / shape if shape > 0.0 else -away / (far @ own)
    return np.where(x > edge, np.log(share) + tail, near)
