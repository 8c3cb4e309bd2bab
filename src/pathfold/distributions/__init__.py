"""What is known of numpyro's distributions: the normals that a prior is made of, roots and tails of likelihoods."""

from pathfold.distributions.priors import NormalMap, normal_map

__all__ = ["NormalMap", "normal_map"]
