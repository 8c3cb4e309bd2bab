"""Starting points, warm-up, chains in threads or executors, checkpoints, progress."""

from pathfold.sampling.execution import Run, run_chains
from pathfold.sampling.replica_sampler import ReplicaExchange
from pathfold.sampling.sampler import Sampler
from pathfold.sampling.settings import Settings
from pathfold.sampling.static_sampler import StaticHMC

__all__ = [
    "ReplicaExchange",
    "Run",
    "Sampler",
    "Settings",
    "StaticHMC",
    "run_chains",
]
