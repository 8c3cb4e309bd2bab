"""Pictures of results: paths, marginals, predictions, checks. Each function returns a Matplotlib figure."""

from pathfold.results.plots.calibration import plot_calibration
from pathfold.results.plots.check import plot_check
from pathfold.results.plots.marginals import plot_marginals
from pathfold.results.plots.paths import plot_paths, plot_predictions
from pathfold.results.plots.refinement import plot_refinement

__all__ = ["plot_calibration", "plot_check", "plot_marginals", "plot_paths", "plot_predictions", "plot_refinement"]
