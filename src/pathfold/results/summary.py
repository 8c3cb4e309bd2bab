"""A table of parameters: mean, spread, effective draws, convergence, and the true values where they are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pathfold.results.convergence import convergence, labels, scalars


def summary_table(tree: xr.DataTree, names: list[str], truth: dict[str, Any] | None = None) -> str:
    """One line per scalar parameter; the last says how many effective draws per second the slowest of them gives."""
    head = f"{'':12s}{'truth':>10s}" if truth else f"{'':12s}"
    lines = [head + f"{'mean':>10s}{'sd':>10s}{'5 %':>10s}{'95 %':>10s}{'bulk ESS':>10s}{'tail ESS':>10s}{'R-hat':>8s}"]
    seconds = sum(tree.attrs["chain_seconds"])
    fewest, slowest = float("inf"), ""
    true = {label: each for name, value in (truth or {}).items() if name in names
            for label, each in zip(labels(tree.posterior[name]), np.ravel(value).tolist(), strict=True)}  # fmt: skip
    for name in names:
        for label, x in scalars(tree.posterior[name]):
            found = convergence(x)
            low, high = np.quantile(x, [0.05, 0.95])
            lines.append(
                f"{label:12s}"
                + (f"{true[label]:10.4g}" if truth else "")
                + f"{x.mean():10.4g}{x.std():10.4g}{low:10.4g}{high:10.4g}"
                + f"{found.bulk:10.0f}{found.tail:10.0f}{found.rhat:8.3f}"
            )
            if found.effective < fewest:
                fewest, slowest = found.effective, label
    lines.append(
        f"{fewest / seconds:.0f} effective draws per second of one core, warm-up included (for {slowest}, the slowest; "
        f"the smaller of bulk and tail ESS)"
    )
    return "\n".join(lines)
