"""A table of parameters: mean, spread, effective draws, convergence, and the true values where they are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pathfold.results.convergence import judged, labels


def summary_table(tree: xr.DataTree, names: list[str], truth: dict[str, Any] | None = None) -> str:
    """Write a line for each scalar parameter; the last line has the effective draws per second of the slowest."""
    head = f"{'':12s}{'truth':>10s}" if truth else f"{'':12s}"
    lines = [head + f"{'mean':>10s}{'sd':>10s}{'5 %':>10s}{'95 %':>10s}{'bulk ESS':>10s}{'tail ESS':>10s}{'R-hat':>8s}"]
    seconds = float(np.sum(tree.attrs["chain_seconds"]))  # a number, of one chain from a file
    fewest, slowest = float("inf"), ""
    true = by_label(tree, truth or {})
    for name in names:
        for label, x, convergence in judged(tree.posterior[name]):
            low, high = np.quantile(x, [0.05, 0.95])
            lines.append(
                f"{label:12s}"
                + (f"{true[label]:10.4g}" if truth else "")
                + f"{x.mean():10.4g}{x.std():10.4g}{low:10.4g}{high:10.4g}"
                + f"{convergence.bulk:10.0f}{convergence.tail:10.0f}{convergence.rhat:8.3f}"
            )
            if convergence.effective < fewest:
                fewest, slowest = convergence.effective, label
    lines.append(
        f"{fewest / seconds:.0f} effective draws per second of one core, warm-up included (for {slowest}, the slowest; "
        f"the smaller of bulk and tail ESS)"
    )
    return "\n".join(lines)


def by_label(tree: xr.DataTree, truth: Mapping[str, Any]) -> dict[str, float]:
    """Return the true values of variables of the posterior, by the labels of `scalars`."""
    values: dict[str, float] = {}
    for name in [name for name in truth if name in tree.posterior]:
        values |= dict(zip(labels(tree.posterior[name]), np.ravel(truth[name]).tolist(), strict=True))
    return values
