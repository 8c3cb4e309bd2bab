"""Whether a posterior has several modes that matter, and trajectories that do not move between them.

Then replica exchange takes the place of the default sampler, if its cost is bearable (method.md, section 22).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from pathfold.engine import Engine
from pathfold.sampling.chain_task import ChainTask
from pathfold.sampling.draws import Draws
from pathfold.sampling.run_chain import run_chain
from pathfold.sampling.starts import LIGHT, Candidate

APART = 3.0  # chains whose means are further from each other, in their standard deviations, are in different modes
MOST_VALUES = 100  # observed: the number of rungs grows with their root, the cost of a round trip with their number
MOST_PILOTS = 4  # of all modes that were found, the best
WARMUP, DRAWS = 50, 50  # of a pilot chain


def bearable(engine: Engine) -> bool:
    """Return whether replica exchange is possible, and its cost no matter to be asked about."""
    return engine.model.noise_everywhere and engine.grid.mask.sum() <= MOST_VALUES and engine.work < LIGHT


def stay_apart(task: ChainTask, modes: Sequence[Candidate], threads: int) -> bool:
    """Return whether short chains, each of them begun at another mode, end in different parts of the posterior."""
    shape = replace(task.shape, total=WARMUP + DRAWS, unkept=WARMUP, nodes=task.shape.intervals, path=0, columns={})
    pilot = replace(
        task, warmup=WARMUP, draws=DRAWS, shape=shape, thin=1, max_seconds=math.inf, pace=None, checkpoint=None
    )
    pilots = [replace(pilot, index=i, start=mode.point) for i, mode in enumerate(modes[:MOST_PILOTS])]
    with ThreadPoolExecutor(threads) as pool:
        drawn = np.stack([*pool.map(lambda each: _scalars(run_chain(each)), pilots)])
    means, spreads = drawn.mean(axis=1), drawn.std(axis=1)
    return any(apart(means[i], spreads[i], means[j], spreads[j]).any() for i in range(len(pilots)) for j in range(i))


def _scalars(draws: Draws) -> np.ndarray:
    """Return the draws (draw, scalar) of parameters, initial states, what varies, and states at the nodes."""
    parts = (draws.rows(name, WARMUP, WARMUP + DRAWS) for name in ("z", "x0", "nodes"))
    return np.concatenate([part.reshape(DRAWS, -1) for part in parts], axis=1)


def apart(mean: np.ndarray, spread: np.ndarray, other_mean: Any, other_spread: Any) -> np.ndarray:
    """Return whether means of chains are further from each other than the spreads about them explain."""
    return np.abs(mean - other_mean) > APART * 0.5 * (spread + other_spread)
