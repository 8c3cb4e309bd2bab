"""The native sampler: kernels of the method, and the control flow around them."""

from pathfold.engine.engine import Engine, GuidedEngine, Solver, UnconstrainedEngine

__all__ = ["Engine", "GuidedEngine", "Solver", "UnconstrainedEngine"]
