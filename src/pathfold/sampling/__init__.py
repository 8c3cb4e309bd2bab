"""Starting points, warm-up, chains in threads or executors, checkpoints, progress."""

from pathfold.sampling.dynamic_hmc import DynamicHMC
from pathfold.sampling.execution import Run, run_chains
from pathfold.sampling.guided_proposals import GuidedProposals
from pathfold.sampling.replica_exchange import ReplicaExchange
from pathfold.sampling.settings import Settings
from pathfold.sampling.static_hmc import StaticHMC
from pathfold.sampling.unconstrained_hmc import UnconstrainedHMC

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
