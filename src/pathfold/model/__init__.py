"""The model that the user writes down: a diffusion, its parameters, how it is observed; and what it makes of noise."""

from pathfold.model.conditional import ConditionalMap
from pathfold.model.diffusion_model import DiffusionModel
from pathfold.model.gaussian_noise import GaussianNoise
from pathfold.model.likelihood import Likelihood
from pathfold.model.observation import Noiseless, NoisyObservation, Observation
from pathfold.model.parameters import Parameters, Varying, build_parameters
from pathfold.model.reactions import Reactions
from pathfold.model.simulation import simulate, simulate_path

__all__ = [
    "ConditionalMap",
    "DiffusionModel",
    "GaussianNoise",
    "Likelihood",
    "Noiseless",
    "NoisyObservation",
    "Observation",
    "Parameters",
    "Reactions",
    "Varying",
    "build_parameters",
    "simulate",
    "simulate_path",
]
