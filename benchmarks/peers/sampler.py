"""What a sampler is to the comparison: a module of `samplers` with these names.

PACKAGES    names of the distributions whose versions are recorded
SETTINGS    what it is run with, for the record
refuses     a function of the problem: why it cannot be expressed, or None
draw        a function of (problem, chains, seed): yields Draws for as long as it is asked
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.peers.problem import Problem


@dataclass(frozen=True)
class Draws:
    """Parameters (chain, draw, parameter) as they come, or how far warm-up is."""

    values: np.ndarray
    warmup: bool = False
    diverging: int = 0
    steps: float = 0.0  # steps of an integrator, over all chains


class Sampler(Protocol):
    PACKAGES: tuple[str, ...]
    SETTINGS: dict[str, Any]

    def refuses(self, problem: Problem) -> str | None: ...

    def draw(self, problem: Problem, chains: int, seed: int) -> Iterator[Draws]: ...


def needs_a_density(problem: Problem) -> str | None:
    """The refusal of those that need a density of the observations."""
    return "exact observations have no density" if problem.exact else None


# The modules, in the order of the tables, by the names these show.
SAMPLERS = {
    "pathfold": "benchmarks.peers.samplers.pathfold_default",
    "NumPyro NUTS": "benchmarks.peers.samplers.numpyro_nuts",
    "BlackJAX NUTS": "benchmarks.peers.samplers.blackjax_nuts",
    "BlackJAX MCLMC": "benchmarks.peers.samplers.blackjax_mclmc",
    "PyMC NUTS": "benchmarks.peers.samplers.pymc_nuts",
    "Mici constrained HMC": "benchmarks.peers.samplers.mici_constrained",
    "particles PMMH": "benchmarks.peers.samplers.particles_pmmh",
    "dynestyx NUTS": "benchmarks.peers.samplers.dynestyx_nuts",
    "dynestyx PMMH": "benchmarks.peers.samplers.dynestyx_pmmh",
}
