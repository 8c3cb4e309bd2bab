"""Marginal distributions of parameters, beside their priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pathfold.errors import SettingsError
from pathfold.results.channels import check_posterior
from pathfold.results.convergence import scalars
from pathfold.results.plots.style import POSTERIOR, TRUTH, legend_outside, new_figure
from pathfold.results.summary import by_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 4
BINS = 40


def plot_marginals(
    posterior: xr.DataTree,
    names: Sequence[str] | str | None = None,
    *,
    truth: Mapping[str, Any] | None = None,
) -> Figure:
    """Histograms of parameters, chain by chain and together, with their priors and, where known, the true values.

    names: the parameters, or other variables of the posterior, to draw; by default all parameters.
    """
    tree = check_posterior(posterior)
    draws = {label: x for name in _names(tree, names) for label, x in scalars(tree.posterior[name])}
    if not draws:
        raise SettingsError("there is nothing to draw: every parameter is fixed")
    prior = {} if "prior" not in tree.children else {
        label: x.ravel() for name in tree.prior.data_vars for label, x in scalars(tree.prior[name])
    }  # fmt: skip
    true = by_label(tree, truth or {})
    columns = min(COLUMNS, len(draws))
    rows = -(-len(draws) // columns)
    figure = new_figure(2.3 * columns + 0.4, 2.1 * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (label, x) in zip(axes, draws.items(), strict=False):
        edges = np.histogram_bin_edges(x.ravel(), BINS)
        ax.hist(x.ravel(), edges, density=True, color=POSTERIOR.outer, label="posterior")
        for i, chain in enumerate(x):
            ax.hist(
                chain, edges, histtype="step", density=True, lw=0.8, alpha=0.7, color=POSTERIOR.line,
                label=None if i else "each chain",
            )  # fmt: skip
        limits = ax.get_xlim()
        if label in prior:
            ax.plot(*_density(prior[label], edges), color="#555555", lw=1.2, ls=":", label="prior")
        if label in true:
            ax.axvline(true[label], color=TRUTH, ls="--", lw=1.2, label="truth")
            limits = min(limits[0], true[label]), max(limits[1], true[label])
        ax.set_xlim(*limits)
        ax.set_xlabel(label)
        ax.set_yticks([])
    for ax in axes[len(draws) :]:
        ax.remove()
    legend_outside(figure)
    return figure


def parameter_names(tree: xr.DataTree) -> list[str]:
    """Of the posterior's variables those that are parameters, or deterministics of no state."""
    paths = {"time", "node", "component", "series"}
    return [str(name) for name in tree.posterior.data_vars if not paths & set(tree.posterior[name].dims)]


def _names(tree: xr.DataTree, names: Sequence[str] | str | None) -> list[str]:
    if names is None:
        return parameter_names(tree)
    chosen = [names] if isinstance(names, str) else list(names)
    if unknown := [name for name in chosen if name not in tree.posterior.data_vars]:
        known = ", ".join(map(str, tree.posterior.data_vars))
        raise SettingsError(f"the posterior has no variable {unknown[0]!r} to draw; it has {known}")
    return chosen


def _density(draws: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of prior draws where the posterior is: by a kernel whose width is that of the draws near it, at least a bin."""
    points, width = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
    quartiles = np.quantile(draws, [0.25, 0.75])
    bandwidth = max(0.9 * min(np.std(draws), np.ptp(quartiles) / 1.34) * len(draws) ** -0.2, width)
    kernel = np.exp(-0.5 * ((points[:, None] - draws) / bandwidth) ** 2)
    return points, kernel.mean(axis=1) / (bandwidth * np.sqrt(2.0 * np.pi))
