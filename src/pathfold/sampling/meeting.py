"""Chains at the end of warm-up: one that is in a mode without mass begins again where a better one is.

No draw counts before that, so the law that each chain leaves invariant stays the same. Where chains begin does not: a
mode that is left has no draws, though its mass, below e^-5 of the best by Laplace's approximation, is not zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native.trajectory import LOG_DENSITY
from pathfold.errors import warn
from pathfold.sampling.chain import Chain
from pathfold.sampling.chain_task import Monitor
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.starts import WORTH, far_below

BATCHES = 4  # into which the last half of warm-up is cut, to see what chance does to its mean
FEWEST = 40  # iterations of warm-up: after fewer of them nothing can be said
CHANCE = 6.0  # standard errors that mean log densities may differ by
SHORT = 0.2  # steps shorter than this fraction of the longest are looked into as well
AGAIN = 0.5  # of warm-up is made again


def meet(chains: Sequence[Chain], monitors: Sequence[Monitor]) -> list[Chain]:
    """Let chains whose mode has no mass beside the best begin again from there; return these.

    Only chains on the manifold, in the same coordinates, can be compared, and only at the end of their warm-up.
    """
    able = [chain for chain in chains if isinstance(chain, HamiltonianChain) and _comparable(chain)]
    if len(able) < max(2, len(chains)) or not (doubtful := _doubtful(able)):
        return []
    best = max(able, key=_mean_log_density)
    lowest, moved = best.mode(), list[Chain]()
    for chain in doubtful:
        below = chain.mode() - lowest
        if far_below(int(chain.layout[at.SERIES])) < below < np.inf:  # infinite if the descent failed: nothing is known
            count = int(AGAIN * chain.task.warmup)
            chain.begin_again(best, count, monitors[chains.index(chain)])
            moved.append(chain)
            warn(
                f"chain {chain.task.index} ended its warm-up in a mode whose mass is e^-{below:.0f} of that of chain "
                f"{best.task.index}: it began again from there, with {count} more iterations of warm-up",
            )
    return moved


def _comparable(chain: HamiltonianChain) -> bool:
    task = chain.task
    constrained = task.layout[at.METHOD] == at.CONSTRAINED
    return bool(constrained and chain.coordinates is None and chain.draws.made == task.warmup >= FEWEST)


def _log_densities(chain: Chain) -> np.ndarray:
    """Return the log densities of the last half of warm-up, as means over batches."""
    warmup = chain.task.warmup
    rows = chain.draws.rows("statistics", warmup // 2, warmup)[:, LOG_DENSITY]
    return np.array([batch.mean() for batch in np.array_split(rows, BATCHES)])


def _mean_log_density(chain: Chain) -> float:
    return float(_log_densities(chain).mean())


def _doubtful(chains: Sequence[HamiltonianChain]) -> list[HamiltonianChain]:
    """Return chains whose log density is lower than the best, or whose steps are shorter, by more than chance."""
    batches = np.array([_log_densities(chain) for chain in chains])
    means, errors = batches.mean(axis=1), batches.std(axis=1, ddof=1) / np.sqrt(BATCHES)
    best, steps = int(np.argmax(means)), np.array([chain.step_size for chain in chains])
    low = means[best] - means > WORTH + CHANCE * np.hypot(errors, errors[best])
    return [chain for chain, doubted in zip(chains, low | (steps < SHORT * steps.max()), strict=True) if doubted]
