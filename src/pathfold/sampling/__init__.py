"""Starting points, warm-up, chains in threads or executors, checkpoints, progress."""

from pathfold.sampling.execution import Run, run_chains
from pathfold.sampling.samplers import DynamicHMC, GuidedProposals, ReplicaExchange, StaticHMC, UnconstrainedHMC
from pathfold.sampling.settings import Settings

__all__ = [
    "DynamicHMC",
    "GuidedProposals",
    "ReplicaExchange",
    "Run",
    "Settings",
    "StaticHMC",
    "UnconstrainedHMC",
    "run_chains",
]
