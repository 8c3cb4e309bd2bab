"""Pictures of results: paths, marginals, predictions, checks. Each function returns a Matplotlib figure."""

from pathfold.analysis.plots.calibration_plot import plot_calibration
from pathfold.analysis.plots.check_plot import plot_check
from pathfold.analysis.plots.marginals_plot import plot_marginals
from pathfold.analysis.plots.paths_plot import plot_paths, plot_predictions
from pathfold.analysis.plots.profile_plot import plot_profile
from pathfold.analysis.plots.refinement_plot import plot_refinement

__all__ = [
    "plot_calibration",
    "plot_check",
    "plot_marginals",
    "plot_paths",
    "plot_predictions",
    "plot_profile",
    "plot_refinement",
]
