"""Pictures of results: paths, marginals, predictions, checks. Each function returns a Matplotlib figure."""

from pathfold.analysis.plots.check_plot import plot_check
from pathfold.analysis.plots.identifiability_plot import plot_identifiability
from pathfold.analysis.plots.many_runs_plot import plot_calibration, plot_refinement
from pathfold.analysis.plots.marginals_plot import plot_marginals
from pathfold.analysis.plots.paths_plot import plot_paths, plot_predictions
from pathfold.analysis.plots.population_plots import plot_effects, plot_individuals, plot_vpc
from pathfold.analysis.plots.profile_plot import plot_profile

__all__ = [
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
]
