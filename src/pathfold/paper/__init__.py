"""What the paper has and we measured not to pay: kept to be compared with, apart from the rest, which knows none of it.

Dynamic trajectories, on the manifold and without constraints; guided proposals; conditioning in blocks, the splitting
of Stormer and Verlet, another metric of the parameters, and heuristics for a first point.
"""

from pathfold.paper.dynamic_sampler import DynamicHMC
from pathfold.paper.guided_sampler import GuidedProposals
from pathfold.paper.unconstrained_sampler import UnconstrainedHMC

__all__ = ["DynamicHMC", "GuidedProposals", "UnconstrainedHMC"]
