"""What a run of chains leaves: draws with the model, grid and settings they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pathfold.model import DiffusionModel, TimeGrid
from pathfold.sampling.draws import Draws
from pathfold.sampling.noise import Noise


@dataclass(frozen=True)
class Run:
    model: DiffusionModel
    grid: TimeGrid
    settings: dict[str, Any]
    chains: list[Draws]
    seconds: dict[str, float]
    noise: Noise | None = None  # of the draws that all chains hold, if there are any
