"""Modes of the parameters' density with paths integrated out, where chains of linear models begin (method.md, section
25)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pathfold.engine import IntegratedEngine, table
from pathfold.engine.native.integrated_paths import condition, integrate_with_gradient
from pathfold.engine.native.run import Machine
from pathfold.errors import InitialisationError
from pathfold.sampling.spread import spread
from pathfold.sampling.starts import SAME, Candidate, Point, Starts, worth_beginning_with

STEPS = 30  # of Newton's method to a mode, at most
SETTLED = 1e-4  # what a step of it promises to gain of the log density, at a mode
DIFFERENCE = 1e-4  # of a parameter's normal, for second derivatives
FLATTEST = 0.1  # curvature that the posterior has at least, in units of the prior's
LONGEST, SHORTEST = 3.0, 1e-3  # steps of Newton's method, in prior standard deviations; shares of one that are tried

# How far from the centre of the prior the searches of each round begin: not at it, where a ridge may be.
# The first two rounds are made in any case, so that a second mode is seen if there is one; then, until two agree on the
# best.
ROUNDS = ((0.1, 0.3), (1.0, 1.0), (0.3, 1.0), (0.3, 1.0), (0.3, 1.0), (0.3, 1.0))
LEAST = 2


@dataclass(frozen=True)
class Mode:
    """Parameters, minus their log density, and size and directions of its curvature there."""

    u: np.ndarray
    value: float
    scales: np.ndarray
    directions: np.ndarray

    @property
    def potential(self) -> float:
        """Minus the log of the mass that Laplace's method gives it, up to a constant."""
        return self.value + 0.5 * float(np.sum(np.log(self.scales)))


class Density:
    """Minus the log density of parameters in their own coordinates, at a point that it works with.

    There is none once it `is_over`, so that all that goes by it soon ends too.
    """

    def __init__(self, machine: Machine, point: np.ndarray, size: int, is_over: Callable[[], bool]) -> None:
        self.machine, self.point, self.size, self.is_over = machine, point, size, is_over

    def at(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and its gradient."""
        if self.is_over():
            return np.inf, np.zeros(self.size)
        self.point[: self.size] = u
        value, slope = integrate_with_gradient(self.machine, self.point), self._gradient()
        return value + 0.5 * float(u @ u), slope + u

    def _gradient(self) -> np.ndarray:
        begin = self.machine.layout[table.VECTOR_V + table.END]
        return self.point[begin : begin + self.size]

    def mode(self, u: np.ndarray) -> Mode | None:
        """Go to the mode next to parameters by Newton's method; None where the data have no density."""
        value, slope = self.at(u)
        if not np.isfinite(value):
            return None
        scales, directions = self._curvature(u)
        for _ in range(STEPS):
            step = -directions @ (directions.T @ slope / scales)
            if -slope @ step < SETTLED:
                break
            share = min(1.0, LONGEST / float(np.linalg.norm(step)))
            while share > SHORTEST and not self.at(u + share * step)[0] < value:
                share *= 0.5
            if share <= SHORTEST:
                break
            u = u + share * step
            value, slope = self.at(u)
            scales, directions = self._curvature(u)
        return Mode(u, value, scales, directions)

    def _curvature(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return size and directions of the curvature, by differences of gradients, at least `FLATTEST`."""
        rows = [self.at(u + step)[1] - self.at(u - step)[1] for step in DIFFERENCE * np.eye(self.size)]
        curvature = np.reshape(rows, (self.size, self.size)) / (2.0 * DIFFERENCE)
        if not np.all(np.isfinite(curvature)):
            curvature = np.eye(self.size)
        scales, directions = np.linalg.eigh(0.5 * (curvature + curvature.T))
        return np.maximum(np.abs(scales), FLATTEST), directions


def find_modes(
    engine: IntegratedEngine,
    chains: Sequence[int],
    *,
    seed: int,
    threads: int,
    guesses: Mapping[int, np.ndarray],
    again: bool,
) -> Starts:
    """Find a start for each of the chains: from its guess of parameters if it has one, else among modes.

    It is `starts.find_starts` for these engines; if `again`, a guess without density is given up for a mode.
    """
    if not chains:
        return Starts([])
    tried = [_candidate(engine, guesses[chain], "guess") if chain in guesses else None for chain in chains]
    if guesses and None in tried and not again:
        raise InitialisationError("no start was found: the data have no density at the parameters of a guess")
    modes = _modes(engine, seed, threads) if None in tried else []
    kept = worth_beginning_with(modes) if modes else []
    candidates, of_chains = [*modes], dict[int, int]()
    for chain, candidate in zip(chains, tried, strict=True):
        of_chains[chain] = len(candidates) if candidate else kept[chain % len(kept)]
        candidates += [candidate] if candidate else []
    return Starts(candidates, of_chains)


def _modes(engine: IntegratedEngine, seed: int, threads: int) -> list[Candidate]:
    """Search in rounds, from draws of the prior, until two searches agree on the best mode."""
    found = list[Candidate]()
    for number, spreads in enumerate(ROUNDS):

        def sought(i: int, number: int = number, spreads: Sequence[float] = spreads) -> Candidate | None:
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 3, number, i)))
            return _candidate(engine, spreads[i] * rng.standard_normal(engine.sizes.U), "parameters")

        found += [each for each in spread(sought, len(spreads), threads) if each is not None]
        potentials = sorted(candidate.potential for candidate in found)
        if number + 1 >= LEAST and len(potentials) > 1 and potentials[1] - potentials[0] < SAME:
            break
    if not found:
        raise InitialisationError(
            f"no start was found in {sum(map(len, ROUNDS))} searches: the data have no density at draws of the prior. "
            "Check the domain of the model's functions (logarithms and roots of negative numbers), take more "
            "steps_per_interval, or narrow the priors"
        )
    return found


def _candidate(engine: IntegratedEngine, u: np.ndarray, way: str) -> Candidate | None:
    """Return the mode next to parameters, or what is guessed, with the most probable noise; None if there is none."""
    point, machine = engine.block("point"), engine.machine()
    density = Density(machine, point, engine.sizes.U, lambda: False)
    mode = density.mode(u)
    if mode is None:
        return None
    density.at(mode.u)
    condition(machine, point)
    return Candidate(way, Point.of(engine, point), mode.potential, np.zeros(engine.series))
