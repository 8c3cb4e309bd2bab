"""How trajectories are made: the choice of sampler and its settings."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class StaticHMC:
    """Trajectories of a random number of steps about an integration time, accepted or rejected as a whole.

    With the Gaussian splitting directions that the data leave alone turn with period 2 pi: a quarter turn makes them
    almost independent. Without a given `integration_time` warm-up chooses between a quarter and three quarters of a
    turn. `target_acceptance` is what the step size is tuned for in warm-up.
    """

    integration_time: float | None = None
    target_acceptance: float = 0.9

    def __post_init__(self) -> None:
        _check_target(self.target_acceptance)
        if self.integration_time is not None and not (0.0 < self.integration_time < math.inf):
            raise ValueError(f"integration_time must be a positive number, not {self.integration_time}")


@dataclass(frozen=True)
class DynamicHMC:
    """Trajectories doubled until they turn back (at most 1023 steps), states drawn by weight: the paper's choice."""

    target_acceptance: float = 0.8

    def __post_init__(self) -> None:
        _check_target(self.target_acceptance)


Sampler = StaticHMC | DynamicHMC


def _check_target(target: float) -> None:
    if not (0.0 < target < 1.0):
        raise ValueError(f"target_acceptance must lie between 0 and 1, not {target}")
