"""Marginal distributions of parameters, beside their priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pathfold.analysis.plots.style import POSTERIOR, TRUTH, legend_outside, small_pictures
from pathfold.errors import SettingsError
from pathfold.results.convergence import by_label, scalars
from pathfold.results.in_order import results_of
from pathfold.results.prior import chosen_variables, prior_density

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 40
MOST, FEW = 24, 4  # scalars of a variable that are all drawn, and how many of one that has more


def plot_marginals(
    posterior: xr.DataTree,
    names: Sequence[str] | str | None = None,
    *,
    truth: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw histograms of parameters, by chain and together, with their priors and, where known, the true values.

    Of a variable with more than 24 values, such as one that varies between the series of a large panel, the first four
    are drawn; `pf.plot_effects` draws all of them.

    Parameters
    ----------
    posterior
        Results of `pf.sample`.
    names
        The parameters, or other variables of the posterior, to draw; by default all parameters.
    truth
        True values by name, where they are known.
    """
    tree = results_of(posterior)
    shown = chosen_variables(tree, names)
    draws = {
        label: (name, i, x)
        for name in shown
        for i, (label, x) in enumerate(islice(scalars(tree.posterior[name]), _drawn(tree, name)))
        if np.ptp(x) > 0.0
    }
    if not draws:
        raise SettingsError("there is nothing to draw: every parameter is fixed")
    true = by_label(tree, {name: truth[name] for name in chosen_variables(tree, [*truth])} if truth else {})
    figure, axes = small_pictures(len(draws), 1.9, 0.6)
    for ax, (label, (name, i, x)) in zip(axes, draws.items(), strict=True):
        edges = np.histogram_bin_edges(x.ravel(), BINS)
        ax.hist(x.ravel(), edges, density=True, color=POSTERIOR.outer, label="posterior")
        for k, chain in enumerate(x):
            ax.hist(
                chain, edges, histtype="step", density=True, lw=0.8, alpha=0.7, color=POSTERIOR.line,
                label=None if k else "each chain",
            )  # fmt: skip
        limits = ax.get_xlim()
        points = np.linspace(edges[0], edges[-1], 200)
        density = prior_density(tree, name, i, points)
        if density is not None:
            ax.plot(points, density, color="#555555", lw=1.2, ls=":", label="prior")
        if label in true:
            ax.axvline(true[label], color=TRUTH, ls="--", lw=1.2, label="truth")
            limits = min(limits[0], true[label]), max(limits[1], true[label])
        ax.set_xlim(*limits)
        ax.set_xlabel(label)
        ax.set_yticks([])
        ax.locator_params(axis="x", nbins=3)
    if large := [name for name in shown if _drawn(tree, name) is not None]:
        figure.suptitle(f"of {', '.join(large)} the first {FEW} are drawn", fontsize="small")
    legend_outside(figure)
    return figure


def _drawn(tree: xr.DataTree, name: str) -> int | None:
    """Return how many scalars of a variable are drawn, None for all."""
    return FEW if np.prod(tree.posterior[name].shape[2:], dtype=int) > MOST else None
