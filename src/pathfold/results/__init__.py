"""Draws as a DataTree; diagnostics; checks of the model, of the steps and of the sampler; plots."""

from pathfold.results.by_observation import by_observation
from pathfold.results.calibrate import Calibration, calibrate
from pathfold.results.check import Check, check
from pathfold.results.checkpointed import open_checkpoint
from pathfold.results.combine import combine
from pathfold.results.evidence import Evidence, evidence
from pathfold.results.log_likelihood import log_likelihood
from pathfold.results.plots import (
    plot_calibration,
    plot_check,
    plot_marginals,
    plot_paths,
    plot_predictions,
    plot_refinement,
)
from pathfold.results.predict import predict
from pathfold.results.predictive import posterior_predictive, prior_predictive
from pathfold.results.refine import Refinement, refine
from pathfold.results.report import report
from pathfold.results.residuals import residuals
from pathfold.results.sample import sample
from pathfold.results.simulate import simulate

__all__ = [
    "Calibration",
    "Check",
    "Evidence",
    "Refinement",
    "by_observation",
    "calibrate",
    "check",
    "combine",
    "evidence",
    "log_likelihood",
    "open_checkpoint",
    "plot_calibration",
    "plot_check",
    "plot_marginals",
    "plot_paths",
    "plot_predictions",
    "plot_refinement",
    "posterior_predictive",
    "predict",
    "prior_predictive",
    "refine",
    "report",
    "residuals",
    "sample",
    "simulate",
]
