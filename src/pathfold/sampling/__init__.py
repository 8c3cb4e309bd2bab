"""Starting points, warm-up, chains in threads or executors, checkpoints, progress."""

from pathfold.sampling.dynamic_sampler import DynamicHMC
from pathfold.sampling.execution import Run, run_chains
from pathfold.sampling.guided_sampler import GuidedProposals
from pathfold.sampling.replica_sampler import ReplicaExchange
from pathfold.sampling.sampler import Sampler
from pathfold.sampling.settings import Settings
from pathfold.sampling.static_sampler import StaticHMC
from pathfold.sampling.unconstrained_sampler import UnconstrainedHMC

__all__ = [
    "DynamicHMC",
    "GuidedProposals",
    "ReplicaExchange",
    "Run",
    "Sampler",
    "Settings",
    "StaticHMC",
    "UnconstrainedHMC",
    "run_chains",
]
