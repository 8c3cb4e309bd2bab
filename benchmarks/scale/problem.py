"""What is sampled: the tables, their sizes, and the problem of a size."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from benchmarks.step_cost import series
from pathfold.data import Data, Observations
from pathfold.example_models import lorenz63, lorenz96, ornstein_uhlenbeck
from pathfold.model import DiffusionModel, simulate

CORES = os.cpu_count() or 1
TO_CORES = (*(2**k for k in range(CORES.bit_length()) if 2**k < CORES), CORES)
SIZES: dict[str, tuple[int, ...]] = {
    "observations": (100, 1000, 10_000, 100_000),
    "chaotic": (100, 1000, 10_000),
    "series": (1, 10, 100, 1000, 3000),
    "states": (1, 4, 10, 20, 40),
    "chains": TO_CORES,
}
LARGEST = {("observations", 100_000), ("chaotic", 10_000), ("series", 3000)}
QUARTER = 0.5 * np.pi  # of a turn
STEPS = 5  # fine steps an interval
RING = 4  # states that Lorenz-96 needs


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The same for all rows but the largest; chains run at once, a thread for each."""

    chains: int = 4  # where these are not what is counted
    warmup: int = 250  # iterations
    draws: int = 1000
    seconds: float = 240.0  # of its core for each chain, warm-up included
    integration_time: float | None = None  # found in warm-up
    seed: int = 1

    def of(self, table: str, size: int) -> Terms:
        """Where an iteration takes seconds: fewer of them, and no longer trajectories to be tried."""
        if table == "chains":
            return replace(self, chains=size)
        if (table, size) in LARGEST:
            return replace(self, chains=min(2, self.chains), warmup=min(60, self.warmup), integration_time=QUARTER)
        return self


class Problem(NamedTuple):
    model: DiffusionModel
    data: Data

    def short(self) -> Problem:
        """The same model with the first two observations."""
        first = self.data if isinstance(self.data, Observations) else self.data[0]
        return Problem(self.model, Observations(first.times[:2], first.values[:2], first.initial_time))


def problem(table: str, size: int) -> Problem:
    if table == "series":
        return Problem(*panel(size, 20))
    if table == "states":
        return Problem(*states(size))
    if table == "chaotic":
        return Problem(*chaotic(size))
    return Problem(*series(1000 if table == "chains" else size))


def panel(count: int, observations: int) -> tuple[DiffusionModel, list[Observations]]:
    """Ornstein-Uhlenbeck, seen through noise: so many series, each of so many observations."""
    model, times = ornstein_uhlenbeck.noisy(), 0.5 * np.arange(1, observations + 1)
    truth = ornstein_uhlenbeck.TRUTH
    return model, [simulate(model, truth, times, steps_per_interval=20, seed=i) for i in range(count)]


def chaotic(observations: int) -> tuple[DiffusionModel, Observations]:
    """The system of Lorenz (1963), one of its three components seen through noise every 0.1 units of time."""
    model, times = lorenz63.noisy(), 0.1 * np.arange(1, observations + 1)
    start = lorenz63.INITIAL_STATE
    return model, simulate(model, lorenz63.TRUTH, times, initial_state=start, steps_per_interval=50, seed=1)


def states(count: int) -> tuple[DiffusionModel, Data]:
    """Lorenz-96 in so many variables, every other one seen at 25 times; a single one is Ornstein-Uhlenbeck's."""
    if count < RING:
        return panel(1, 25)
    return lorenz96.noisy(count), lorenz96.data(count, observations=25)


def of_one_family(table: str, size: int) -> bool:
    """Whether the problem is that of the other sizes of the table, but for the size."""
    return table != "states" or size >= RING
