"""Pictures of a posterior: paths through the observations, marginals of the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANDS = (0.95, 0.5)
COLOUR = "#1f5f8b"


def plot_paths(tree: xr.DataTree, *, observed: dict[int, int] | None = None, truth: np.ndarray | None = None) -> Figure:
    """Posterior bands (50 and 95 %) of every state component over time.

    `observed` says which observation column shows which component directly (column by component); `truth` (time,
    component) is drawn where it is known.
    """
    from matplotlib.figure import Figure

    state = tree.posterior["state"]
    times, components = state["time"].values, state.sizes["component"]
    figure = Figure(figsize=(9, 2.6 * components + 0.6), layout="constrained")
    axes = figure.subplots(components, sharex=True, squeeze=False)[:, 0]
    for k, ax in enumerate(axes):
        draws = state.isel(component=k).values.reshape(-1, times.size)
        for band in BANDS:
            low, high = np.quantile(draws, [0.5 - band / 2, 0.5 + band / 2], axis=0)
            ax.fill_between(times, low, high, color=COLOUR, alpha=0.25, lw=0, label=f"{band:.0%} of the posterior")
        ax.plot(times, np.median(draws, axis=0), color=COLOUR, lw=1.2, label="median")
        if truth is not None:
            ax.plot(times, truth[:, k], color="black", lw=0.8, ls="--", label="truth")
        if observed and k in observed:
            data = tree.observed_data["y"].isel(observation=observed[k])
            ax.plot(data["time"], data, "o", color="black", ms=2.5, label="observed")
        ax.set_ylabel(f"$x_{k}$")
        ax.legend(loc="upper right", fontsize="x-small", ncols=5, frameon=False)
    axes[-1].set_xlabel("time")
    return figure


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
