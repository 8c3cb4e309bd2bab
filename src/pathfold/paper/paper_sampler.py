"""What the paper's samplers have in common: how the Hamiltonian is split, and how a first point is sought."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, get_args

from pathfold.data.checks import choice
from pathfold.engine import Engine
from pathfold.engine.engine import Splitting
from pathfold.paper.heuristics import Heuristic, guess_starts
from pathfold.sampling.sampler import Sampler
from pathfold.sampling.starts import Point

InitialStates = Literal["descent"] | Heuristic


class PaperSampler(Sampler):
    """A sampler whose chains may begin with one of the paper's heuristics."""

    splitting: Splitting = "gaussian"
    initial_states: InitialStates = "descent"

    @property
    def recorded(self) -> dict[str, Any]:
        return {k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in super().recorded.items()}

    def guesses(self, engine: Engine, seed: int, chains: Sequence[int]) -> dict[int, Point]:
        if self.initial_states == "descent":
            return {}
        return guess_starts(engine, self.initial_states, seed, chains)

    def _check_settings(self) -> None:
        self._check_solver()
        choice("splitting", self.splitting, get_args(Splitting))
        choice("initial_states", self.initial_states, ("descent", *get_args(Heuristic)))
