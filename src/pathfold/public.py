"""The public names: `pathfold.NAME` is what is here, imported when the first of them is used."""

from pathfold import datasets
from pathfold.analysis.check import Check, check
from pathfold.analysis.evidence import Evidence, evidence
from pathfold.analysis.log_likelihood import log_likelihood
from pathfold.analysis.modes import modes
from pathfold.analysis.paths import paths
from pathfold.analysis.plots.check_plot import plot_check
from pathfold.analysis.plots.identifiability_plot import plot_identifiability
from pathfold.analysis.plots.many_runs_plot import plot_calibration, plot_refinement
from pathfold.analysis.plots.marginals_plot import plot_marginals
from pathfold.analysis.plots.paths_plot import plot_paths, plot_predictions
from pathfold.analysis.plots.population_plots import plot_effects, plot_individuals, plot_vpc
from pathfold.analysis.plots.profile_plot import plot_profile
from pathfold.analysis.predict import predict
from pathfold.analysis.predictive import posterior_predictive, prior_predictive
from pathfold.analysis.report import report
from pathfold.analysis.residuals import residuals
from pathfold.analysis.simulate import simulate
from pathfold.data import Input, Observations, read_nonmem
from pathfold.engine import Solver
from pathfold.errors import DataError, InitialisationError, ModelError, PathfoldError, SettingsError
from pathfold.inference import Calibration, Refinement, calibrate, compare, fit, profile, refine, sample
from pathfold.model import DiffusionModel, GaussianNoise, Likelihood, Noiseless, NoisyObservation, Reactions, Varying
from pathfold.paper import DynamicHMC, GuidedProposals, UnconstrainedHMC
from pathfold.results import combine, open_checkpoint, shrinkage, summary
from pathfold.sampling import ReplicaExchange, StaticHMC
from pathfold.schemes import (
    CustomScheme,
    EulerMaruyama,
    ExactLinearDrift,
    LinearlyImplicit,
    Milstein,
    StrongOrder1p5,
)

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
    "paths",
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
    "summary",
]
