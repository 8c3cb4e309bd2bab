"""Exact, automatic Bayesian calibration of stochastic differential equation models to discrete observations."""

import sys

if sys.platform == "win32":
    raise ImportError("pathfold does not run on Windows yet: use it in the Windows Subsystem for Linux, or on Linux")

from importlib.metadata import version

from pathfold import datasets
from pathfold.analysis import (
    Check,
    Evidence,
    by_observation,
    check,
    evidence,
    log_likelihood,
    modes,
    plot_calibration,
    plot_check,
    plot_effects,
    plot_identifiability,
    plot_individuals,
    plot_marginals,
    plot_paths,
    plot_predictions,
    plot_profile,
    plot_refinement,
    plot_vpc,
    posterior_predictive,
    predict,
    prior_predictive,
    report,
    residuals,
    shrinkage,
    simulate,
)
from pathfold.engine import Solver
from pathfold.errors import DataError, InitialisationError, ModelError, PathfoldError, SettingsError
from pathfold.inference import Calibration, Refinement, calibrate, compare, fit, profile, refine, sample
from pathfold.model import (
    DiffusionModel,
    GaussianNoise,
    Input,
    Likelihood,
    Noiseless,
    NoisyObservation,
    Observations,
    Reactions,
    Varying,
    read_nonmem,
)
from pathfold.results import combine, open_checkpoint
from pathfold.sampling import DynamicHMC, GuidedProposals, ReplicaExchange, StaticHMC, UnconstrainedHMC
from pathfold.schemes import (
    CustomScheme,
    EulerMaruyama,
    ExactLinearDrift,
    LinearlyImplicit,
    Milstein,
    StrongOrder1p5,
)

__version__ = version("pathfold")

__all__ = [
    "Calibration",
    "Check",
    "CustomScheme",
    "DataError",
    "DiffusionModel",
    "DynamicHMC",
    "EulerMaruyama",
    "Evidence",
    "ExactLinearDrift",
    "GaussianNoise",
    "GuidedProposals",
    "InitialisationError",
    "Input",
    "Likelihood",
    "LinearlyImplicit",
    "Milstein",
    "ModelError",
    "Noiseless",
    "NoisyObservation",
    "Observations",
    "PathfoldError",
    "Reactions",
    "Refinement",
    "ReplicaExchange",
    "SettingsError",
    "Solver",
    "StaticHMC",
    "StrongOrder1p5",
    "UnconstrainedHMC",
    "Varying",
    "__version__",
    "by_observation",
    "calibrate",
    "check",
    "combine",
    "compare",
    "datasets",
    "evidence",
    "fit",
    "log_likelihood",
    "modes",
    "open_checkpoint",
    "plot_calibration",
    "plot_check",
    "plot_effects",
    "plot_identifiability",
    "plot_individuals",
    "plot_marginals",
    "plot_paths",
    "plot_predictions",
    "plot_profile",
    "plot_refinement",
    "plot_vpc",
    "posterior_predictive",
    "predict",
    "prior_predictive",
    "profile",
    "read_nonmem",
    "refine",
    "report",
    "residuals",
    "sample",
    "shrinkage",
    "simulate",
]
