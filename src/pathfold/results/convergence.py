"""How well a scalar was sampled: effective draws and R-hat, by ArviZ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr


class Convergence(NamedTuple):
    bulk: float  # effective draws, of the mean
    tail: float  # of the 5 and 95 % quantiles, the worse
    rhat: float  # NaN for a single chain

    @property
    def effective(self) -> float:
        return min(self.bulk, self.tail)


def convergence(x: np.ndarray) -> Convergence:
    """Of draws (chain, draw) of one scalar."""
    import arviz_stats.base as base

    stats: Any = base.array_stats  # pyright: ignore[reportPrivateImportUsage]
    with np.errstate(divide="ignore", invalid="ignore"):  # of chains that stand still: R-hat is then infinite
        bulk, tail = stats.ess(x, method="bulk"), stats.ess(x, method="tail", prob=(0.05, 0.95))
        return Convergence(float(bulk), float(tail), float(stats.rhat(x)) if len(x) > 1 else np.nan)


def scalars(values: xr.DataArray) -> Iterator[tuple[str, np.ndarray]]:
    """Label and draws (chain, draw) of every scalar of a variable that is not constant."""
    extra = [d for d in values.dims if d not in ("chain", "draw")]
    ordered = values.transpose("chain", "draw", *extra).values
    columns = ordered.reshape(*ordered.shape[:2], -1)
    for i in range(columns.shape[-1]):
        if np.ptp(columns[..., i]) > 0.0:
            yield str(values.name) if columns.shape[-1] == 1 else f"{values.name}[{i}]", columns[..., i]
