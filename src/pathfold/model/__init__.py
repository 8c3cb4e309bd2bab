"""The model and the data that the user writes down: a diffusion, its parameters and priors, how it is observed."""

from pathfold.model.conditional import ConditionalMap
from pathfold.model.data import Data, Observations, panel_of
from pathfold.model.diffusion_model import DiffusionModel
from pathfold.model.inputs import Input
from pathfold.model.likelihood import Likelihood
from pathfold.model.nonmem import read_nonmem
from pathfold.model.observation import GaussianNoise, Noiseless, NoisyObservation, Observation
from pathfold.model.parameters import Parameters, Varying, build_parameters
from pathfold.model.priors import NormalMap, normal_map
from pathfold.model.reactions import Reactions
from pathfold.model.seen import Seen
from pathfold.model.simulation import simulate, simulate_path
from pathfold.model.time_grid import TimeGrid, clocks

__all__ = [
    "ConditionalMap",
    "Data",
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
    "Reactions",
    "Seen",
    "TimeGrid",
    "Varying",
    "build_parameters",
    "clocks",
    "normal_map",
    "panel_of",
    "read_nonmem",
    "simulate",
    "simulate_path",
]
