"""A chain to be run: all it depends on, as plain arrays and numbers, so that it can be sent to another process."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from pathfold.engine.compile import Program
from pathfold.sampling.draws import Shape
from pathfold.sampling.sampler import Sampler
from pathfold.sampling.starts import Point
from pathfold.sampling.warm_start import Pace


@dataclass(frozen=True)
class ChainTask:
    """A chain of a compiled model that is to be run."""

    index: int
    seed: int
    program: Program
    layout: np.ndarray
    problems: np.ndarray  # a row each: the first is that of the data
    block_sizes: dict[str, int]
    start: Point | None  # None if there is a checkpoint to go on from
    sampler: Sampler
    warmup: int
    draws: int
    shape: Shape
    thin: int = 1  # iterations for each draw after warm-up
    pace: Pace | None = None  # of an earlier run, to begin with
    helpers: int = 0  # threads besides its own that share the work of its steps, if there is enough of it
    max_seconds: float = math.inf  # of all its threads together, those before a checkpoint too
    checkpoint: str | None = None
    checkpoint_seconds: float = 5.0

    def iterations(self, made: int) -> int:
        """Return the number of iterations behind the first `made` draws, warm-up included."""
        return made + max(0, made - self.warmup) * (self.thin - 1)


@dataclass
class Monitor:
    """State shared with the host while a chain runs in a thread: a flag to stop it, its number of transitions, those of
    them made `before` this run, and the statistics of the last ones."""

    stop: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    done: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    before: int = 0
    recent: np.ndarray | None = None
