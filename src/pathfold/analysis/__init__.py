"""The analysis of results, and of models before there are any: checks, comparisons, predictions, pictures, a report."""

from pathfold.analysis.by_observation import by_observation
from pathfold.analysis.check import Check, check
from pathfold.analysis.evidence import Evidence, evidence
from pathfold.analysis.log_likelihood import log_likelihood
from pathfold.analysis.modes import modes
from pathfold.analysis.paths import paths
from pathfold.analysis.plots import (
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
)
from pathfold.analysis.predict import predict
from pathfold.analysis.predictive import posterior_predictive, prior_predictive
from pathfold.analysis.report import report
from pathfold.analysis.residuals import residuals
from pathfold.analysis.simulate import simulate

__all__ = [
    "Check",
    "Evidence",
    "by_observation",
    "check",
    "evidence",
    "log_likelihood",
    "modes",
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
    "report",
    "residuals",
    "simulate",
]
