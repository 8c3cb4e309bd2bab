"""The calls that run chains: sample, refine the time step, calibrate the sampler."""

from pathfold.inference.calibrate import Calibration, calibrate
from pathfold.inference.refine import Refinement, refine
from pathfold.inference.sample import sample

__all__ = ["Calibration", "Refinement", "calibrate", "refine", "sample"]
