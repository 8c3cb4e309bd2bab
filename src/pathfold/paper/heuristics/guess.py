"""A first guess for every chain, from prior draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import jax
import numpy as np

from pathfold.engine import Engine
from pathfold.errors import InitialisationError
from pathfold.paper.heuristics.adam import adam, adam_states
from pathfold.paper.heuristics.interpolation import interpolation
from pathfold.paper.heuristics.prior_paths import Attempt, Paths, Position
from pathfold.sampling.starts import Point, name_worst

Heuristic = Literal["interpolation", "adam", "adam-states"]

GUESS_ATTEMPTS = 10  # prior draws that a heuristic begins with

_HEURISTICS: dict[Heuristic, Callable[[Paths], Attempt]] = {
    "interpolation": interpolation,
    "adam": adam,
    "adam-states": adam_states,
}


def guess_starts(engine: Engine, choice: Heuristic, seed: int, chains: Iterable[int]) -> dict[int, Point]:
    """Return a guess for each of the chains; raise InitialisationError if there is none."""
    with jax.enable_x64(True):
        attempt = _HEURISTICS[choice](Paths(engine.functions.of, engine.grid))
        return {chain: _guess(engine, choice, attempt, seed, chain) for chain in chains}


def _guess(engine: Engine, choice: Heuristic, attempt: Attempt, seed: int, chain: int) -> Point:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain, 0)))
    last = None
    for _ in range(GUESS_ATTEMPTS):
        last = attempt(rng)
        if isinstance(last, Position):
            point = engine.block("point")
            engine.set_vector(point, last.u, last.v0, last.w, last.v)
            engine.set("point", point, "node", "x_node", last.nodes)
            return Point.of(engine, point)
    assert last is not None
    residuals = name_worst(last.residuals, engine.grid.ends, engine.grid.first, engine.grid.series)
    raise InitialisationError(
        f"initial_states={choice!r} found no start for chain {chain} in {GUESS_ATTEMPTS} prior draws. In the last one "
        f"{last.stage} {residuals}. {last.remedy}, or leave initial_states at 'descent'"
    )
