"""The native sampler: kernels of the method, and the control flow around them."""

from pathfold.engine.engine import Engine, GuidedEngine, LaplaceEngine, Solver, UnconstrainedEngine

__all__ = ["Engine", "GuidedEngine", "LaplaceEngine", "Solver", "UnconstrainedEngine"]
