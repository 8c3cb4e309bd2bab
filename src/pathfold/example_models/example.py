"""The record of an example model: the model, data for it, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathfold.data import Observations
    from pathfold.model import DiffusionModel


@dataclass(frozen=True)
class Example:
    """A model of the literature with data to calibrate it to, simulated from `truth` unless that is None."""

    name: str
    summary: str
    reference: str
    model: Callable[[], DiffusionModel]
    data: Callable[[], Observations | list[Observations]]
    steps_per_interval: int
    truth: dict[str, Any] | None = None
    natural: Callable[[Any], Any] | None = None  # maps the state to its usual units, for pictures: "log rate" to rates
    observed: dict[int, int] = field(default_factory=dict)  # natural components that are seen, with their columns of y
