"""Pictures of a posterior: paths through the observations, marginals of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANDS = (0.95, 0.5)
COLOUR = "#1f5f8b"


def plot_paths(
    tree: xr.DataTree,
    *,
    observed: dict[int, int] | None = None,
    natural: Callable[[np.ndarray], np.ndarray] | None = None,
    truth: np.ndarray | None = None,
) -> Figure:
    """Posterior bands (50 and 95 %) of every state component over time; a panel has a column for each series.

    `natural` maps states (..., component) to the units they are drawn in. `observed` says which observation column
    shows which component directly, in these units (column by component); `truth` (node, component) is drawn where it
    is known.
    """
    from matplotlib.figure import Figure

    posterior, observations = tree.posterior, tree.observed_data
    states = posterior["state"].values.reshape(-1, *posterior["state"].shape[2:])
    states = states if natural is None else natural(states)
    times, components = posterior["time"].values, states.shape[-1]
    series, called = _series(posterior), posterior["state"]["component"].values
    names = [*dict.fromkeys(series.tolist())]
    columns = len(names)
    figure = Figure(figsize=(max(9.0, 2.6 * columns), 2.6 * components + 0.6), layout="constrained")
    axes = figure.subplots(components, columns, sharex=True, sharey="row", squeeze=False)
    for (k, j), ax in np.ndenumerate(axes):
        mine = series == names[j]
        for band in BANDS:
            low, high = np.quantile(states[:, mine, k], [0.5 - band / 2, 0.5 + band / 2], axis=0)
            label = f"{band:.0%} of the posterior"
            ax.fill_between(times[mine], low, high, color=COLOUR, alpha=0.25, lw=0, label=label)
        ax.plot(times[mine], np.median(states[:, mine, k], axis=0), color=COLOUR, lw=1.2, label="median")
        if truth is not None:
            ax.plot(times[mine], truth[mine, k], color="black", lw=0.8, ls="--", label="truth")
        if observed and k in observed:
            seen = _series(observations) == names[j]
            y = observations["y"].values[seen, observed[k]]
            ax.plot(observations["time"].values[seen], y, "o", color="black", ms=2.5, label="observed")
        if j == 0:
            ax.set_ylabel(called[k] if isinstance(called[k], str) else f"$x_{k}$")
            ax.legend(loc="upper right", fontsize="x-small", ncols=1 if columns > 1 else 5, frameon=False)
        if k == 0 and isinstance(names[j], str):
            ax.set_title(names[j], fontsize="small")
        if k == components - 1:
            ax.set_xlabel("time")
    return figure


def _series(group: xr.DataTree | xr.Dataset) -> np.ndarray:
    """The name or number of the series that each node belongs to."""
    coordinates = group.coords
    return coordinates["node_series"].values if "node_series" in coordinates else np.zeros(group.sizes["time"], int)


def plot_marginals(tree: xr.DataTree, names: list[str], truth: dict[str, Any] | None = None) -> Figure:
    """Histograms of scalar parameters, chain by chain, with the true values where they are known."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(names), 2.6), layout="constrained")
    for ax, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        values = tree.posterior[name].values
        edges = np.histogram_bin_edges(values.ravel(), 40)
        for chain in values:
            ax.hist(chain, edges, histtype="step", density=True, alpha=0.6, lw=0.8, color=COLOUR)
        ax.hist(values.ravel(), edges, density=True, alpha=0.25, color=COLOUR)
        if truth and name in truth:
            ax.axvline(truth[name], color="black", ls="--", lw=1)
        ax.set_xlabel(name)
        ax.set_yticks([])
    return figure
