"""Exact, automatic Bayesian calibration of stochastic differential equation models to discrete observations."""

from importlib.metadata import version

from pathfold.errors import DataError, InitialisationError, ModelError
from pathfold.model import DiffusionModel, GaussianNoise, Noiseless, NoisyObservation, Observations, simulate
from pathfold.schemes import CustomScheme, EulerMaruyama, Milstein, StrongOrder1p5

__version__ = version("pathfold")

__all__ = [
    "CustomScheme",
    "DataError",
    "DiffusionModel",
    "EulerMaruyama",
    "GaussianNoise",
    "InitialisationError",
    "Milstein",
    "ModelError",
    "Noiseless",
    "NoisyObservation",
    "Observations",
    "StrongOrder1p5",
    "__version__",
    "simulate",
]
