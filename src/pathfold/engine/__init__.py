"""The native sampler: kernels of the method, and the control flow around them."""

from pathfold.engine.engine import (
    Engine,
    FilterEngine,
    GuidedEngine,
    IntegratedEngine,
    LaplaceEngine,
    Solver,
    UnconstrainedEngine,
)

__all__ = [
    "Engine",
    "FilterEngine",
    "GuidedEngine",
    "IntegratedEngine",
    "LaplaceEngine",
    "Solver",
    "UnconstrainedEngine",
]
