"""Exploring log p~(u, y) beyond its mode: adaptive importance sampling with quasi-random points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pathfold.inference.fit.posterior_mode import Mode
from pathfold.inference.fit.proposal import Proposal
from pathfold.sampling.marginal import Pair
from pathfold.sampling.progress import Stages

ROUNDS = (4, 4, 2)  # by which the points are divided; each fits the proposal to all points before
MORE, ENOUGH = 2, 0.5  # rounds like the last that may follow, while its effective share is less than that
DIGITS = 30.0  # log of how many values a coordinate of a quasi-random point can have
BATCH = 32  # points after which it is seen whether the time is spent
HOPELESS = 0.4  # share of points without an inner mode at which no more are tried
Draw = Callable[[np.ndarray, int], list[Pair]]  # densities and paths at points, of which the first has that number
TAIL = 0.2  # of the weights, at most, that the shape of their tail is fitted to


@dataclass(frozen=True)
class Explored:
    """Points (count, U), the logs of their densities and of their weights, which sum to one; -inf where none was found.

    `first` is where the last round begins; `log_evidence` is log p~(y); `pairs` are paths, two for each point; `done`
    says whether there was time for all points.
    """

    u: np.ndarray
    log_density: np.ndarray
    log_weights: np.ndarray
    first: int
    log_evidence: float
    pairs: list[Pair]
    done: bool = True

    @property
    def failed(self) -> float:
        """The share of points of the last round without an inner mode."""
        return float(np.mean(~np.isfinite(self.log_density[self.first :])))

    @property
    def effective_share(self) -> float:
        """The effective share of the points of the last round."""
        return effective(self.log_weights[self.first :]) / (len(self.u) - self.first)

    @property
    def pareto_k(self) -> float:
        return pareto_k(self.log_weights)


def explore(
    mode: Mode, points: int, seed: int, stages: Stages, draw: Draw, useless: Callable[[Explored], bool]
) -> Explored:
    """Draw points about the mode, fit the proposal to them by weight, and draw again; weight all by the mixture.

    The first round is the last where its outcome is `useless`, and the time that there is may end any.
    """
    size = mode.origin.u.size
    if not size:
        u = np.zeros((1, 0))
        return Explored(u, np.array([mode.origin.log_density]), np.zeros(1), 0, mode.origin.log_density, draw(u, 0))
    uniforms = Uniforms(size + 1, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5,))))
    proposal, proposals, u, pairs = Proposal(mode.origin.u, mode.covariance), [], np.zeros((0, size)), []
    first, log_density, ratios, done = 0, np.zeros(0), np.zeros(0), False
    for number in range(len(ROUNDS) + MORE):
        stages.begin(f"exploring parameters and paths, {len(u)} points so far")
        new = proposal.of_uniforms(uniforms.next(max(4, points // ROUNDS[min(number, len(ROUNDS) - 1)])))
        for batch in np.split(new, range(BATCH, len(new), BATCH)):
            pairs += [] if stages.spent else draw(batch, len(pairs))
        done = len(pairs) == len(u) + len(new)
        if not (count := len(pairs) - len(u)):
            break
        first, u = len(u), np.concatenate([u, new[:count]])
        proposals.append((proposal, count))
        log_density = np.array([pair.log_density for pair in pairs])
        mixture = np.stack([each.log_student(u) + np.log(n / len(u)) for each, n in proposals])
        ratios = log_density - np.logaddexp.reduce(mixture, axis=0)
        proposal = proposal.refitted(u, ratios)
        enough = number >= len(ROUNDS) - 1 and effective(ratios[first:]) > ENOUGH * count
        if enough or not done or np.mean(~np.isfinite(log_density)) > HOPELESS:
            break
        if number == 0 and useless(Explored(u, log_density, normalised(ratios), first, np.nan, pairs)):
            break
    if not np.isfinite(ratios).any():  # the mode is all that there is
        at_mode, weights = mode.origin.u[None], np.append(np.full(len(u), -np.inf), 0.0)
        densities = np.append(log_density, mode.origin.log_density)
        pairs += draw(at_mode, len(u))
        return Explored(np.concatenate([u, at_mode]), densities, weights, first, np.nan, pairs, done)
    log_evidence = float(np.logaddexp.reduce(ratios) - np.log(len(u)))
    return Explored(u, log_density, normalised(ratios), first, log_evidence, pairs, done)


def normalised(logs: np.ndarray) -> np.ndarray:
    """Return logs of weights less that of their sum."""
    return logs - np.logaddexp.reduce(logs)


class Uniforms:
    """Quasi-random points of the unit cube: Halton's, the digits of each coordinate permuted at random (Owen 2017)."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        places = [int(DIGITS / np.log(base)) + 1 for base in _primes(size)]
        self.digits = [[rng.permutation(base) for _ in range(n)] for base, n in zip(_primes(size), places, strict=True)]
        self.made = 0

    def next(self, count: int) -> np.ndarray:
        """Return the next points (count, size)."""
        numbers = self.made + np.arange(count)
        self.made += count
        columns = []
        for permutations in self.digits:
            base, rest, column = len(permutations[0]), numbers, np.zeros(count)
            for place, permuted in enumerate(permutations, start=1):
                column += permuted[rest % base] * float(base) ** -place
                rest = rest // base
            columns.append(column)
        return np.clip(np.stack(columns, axis=1), 1e-12, 1.0 - 1e-12)


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % each for each in found):
            found.append(number)
        number += 1
    return found


def effective(log_weights: np.ndarray) -> float:
    """Return how many points of equal weight would be as good."""
    known = log_weights[np.isfinite(log_weights)]
    if not known.size:
        return 0.0
    return float(np.exp(2 * np.logaddexp.reduce(known) - np.logaddexp.reduce(2 * known)))


def pareto_k(log_weights: np.ndarray) -> float:
    """Return the shape of the tail of weights (Vehtari, Simpson, Gelman, Yao and Gabry 2024), by Zhang and Stephens."""
    known = np.sort(log_weights[np.isfinite(log_weights)])
    count = int(min(TAIL * known.size, 3 * np.sqrt(known.size)))
    if count < 5:
        return np.inf if known.size < 5 else 0.0
    tail = np.exp(known - known[-1])
    x = tail[-count:] - tail[-count - 1]
    x = x[x > 0.0]
    if x.size < 5:
        return -np.inf  # all of the largest are the same
    return float((x.size * generalised_pareto(x)[0] + 5.0) / (x.size + 10.0))  # with a prior worth ten values at 0.5


def generalised_pareto(x: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Return shape k and scale s of P(X > x) = (1 + k x / s)^(-1 / k), by Zhang and Stephens (2009).

    x are positive and in order; their weights sum to one.
    """
    n, grid, weights = x.size, 30 + int(np.sqrt(x.size)), np.full(x.size, 1.0 / x.size) if weights is None else weights
    quartile = x[int(n / 4 + 0.5) - 1]
    b = (1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3.0 * quartile) + 1.0 / x[-1]
    k = np.log1p(-b[:, None] * x) @ weights
    profile = n * (np.log(-b / k) - k - 1.0)
    b = float(np.exp(profile - np.logaddexp.reduce(profile)) @ b)
    shape = float(np.log1p(-b * x) @ weights)
    return shape, -shape / b
