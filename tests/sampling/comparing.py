"""Draws against exact expectations, in units of the Monte-Carlo standard error."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from arviz_stats import base
from scipy.stats import norm

from tests.sampling.linear_gaussian import QUANTILES, Moments

array_stats: Any = base.array_stats  # pyright: ignore[reportPrivateImportUsage]

EXACTLY = 1e-7  # what has no posterior variance is equal to this


def mean_scores(x: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """z-scores of the means of x (quantities, chains, draws)."""
    return (x.mean(axis=(1, 2)) - expected) / np.asarray(array_stats.mcse(x, method="mean"))


def threshold(comparisons: int, rate: float) -> float:
    """What the largest of so many z-scores stays below, but for a false alarm at this rate (Bonferroni, two-sided)."""
    return float(norm.isf(0.5 * rate / comparisons))


def path_draws(tree: xr.DataTree) -> np.ndarray:
    """x_0 and the node states as one vector: (quantities, chains, draws)."""
    start, nodes = tree.posterior["initial_state"].values, tree.posterior["state"].values
    states = np.concatenate([start[:, :, None], nodes], axis=2)
    return np.moveaxis(states.reshape(*states.shape[:2], -1), -1, 0)


def scores(tree: xr.DataTree, exact: Moments) -> dict[str, np.ndarray]:
    """z-scores of means and covariances of the path, and of means, variances and quantiles of the parameters."""
    x = path_draws(tree)
    moving = np.diag(exact.path_cov) > 1e-10
    np.testing.assert_allclose(x[~moving], np.broadcast_to(exact.path_mean[~moving, None, None], x[~moving].shape),
                               atol=EXACTLY)  # fmt: skip
    x, mean, cov = x[moving], exact.path_mean[moving], exact.path_cov[np.ix_(moving, moving)]
    away = x - mean[:, None, None]
    i, j = np.tril_indices(len(mean))
    found = {
        "path means": mean_scores(x, mean),
        "path covariances": mean_scores(away[i] * away[j], cov[i, j]),
    }
    for name, (centre, variance, quantiles) in exact.parameters.items():
        z = tree.posterior[name].values[None]
        found[f"{name}: mean"] = mean_scores(z, np.array([centre]))
        found[f"{name}: variance"] = mean_scores((z - centre) ** 2, np.array([variance]))
        below = (z <= quantiles[:, None, None]).astype(float)
        found[f"{name}: quantiles"] = mean_scores(below, np.array(QUANTILES))
    return found
