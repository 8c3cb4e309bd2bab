"""The outcome of a run of chains: draws, with the model, grid and settings they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pathfold.model import DiffusionModel, TimeGrid
from pathfold.sampling.draws import Draws
from pathfold.sampling.half_steps import Shift
from pathfold.sampling.held_noise import Noise
from pathfold.sampling.selection import Selection


@dataclass(frozen=True)
class Run:
    model: DiffusionModel
    grid: TimeGrid
    settings: dict[str, Any]
    chains: list[Draws]
    seconds: dict[str, float]
    noise: Noise | None = None  # of the draws that all chains hold, if there are any
    half_step_shift: Shift | None = None  # at these, where it is known
    iterations: list[int] = field(default_factory=list)  # of every chain, kept or not, where a run was cut short
    left_out: list[Draws] = field(default_factory=list)  # chains that a run cut short could not wait for
    keep: Selection | None = None  # what the draws have of parameters and states; all if it is None
