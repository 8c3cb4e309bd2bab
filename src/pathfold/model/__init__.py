"""What the user writes down: a diffusion, its parameters and priors, its observation, and the data."""

from pathfold.model.conditional import ConditionalMap
from pathfold.model.data import Observations
from pathfold.model.diffusion_model import DiffusionModel
from pathfold.model.inputs import Input
from pathfold.model.likelihood import Likelihood
from pathfold.model.observation import GaussianNoise, Noiseless, NoisyObservation, Observation
from pathfold.model.parameters import Parameters
from pathfold.model.priors import NormalMap, normal_map
from pathfold.model.seen import Seen
from pathfold.model.simulate import simulate, simulate_path
from pathfold.model.time_grid import TimeGrid, clocks

__all__ = [
    "ConditionalMap",
    "DiffusionModel",
    "GaussianNoise",
    "Input",
    "Likelihood",
    "Noiseless",
    "NoisyObservation",
    "NormalMap",
    "Observation",
    "Observations",
    "Parameters",
    "Seen",
    "TimeGrid",
    "clocks",
    "normal_map",
    "simulate",
    "simulate_path",
]
