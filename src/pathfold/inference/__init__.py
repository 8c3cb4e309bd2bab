"""The calls that infer: sample, fit, refine the time step, calibrate the sampler."""

from pathfold.inference.calibrate import Calibration, calibrate
from pathfold.inference.compare import compare
from pathfold.inference.fit import fit
from pathfold.inference.profile import profile
from pathfold.inference.refine import Refinement, refine
from pathfold.inference.sample import sample

__all__ = ["Calibration", "Refinement", "calibrate", "compare", "fit", "profile", "refine", "sample"]
