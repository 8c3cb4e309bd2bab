"""How well a scalar was sampled: effective draws and R-hat, by ArviZ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
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


def scalars(values: xr.DataArray, *, constant: bool = False) -> Iterator[tuple[str, np.ndarray]]:
    """Label and draws (chain, draw) of every scalar of a variable, without those that are constant unless told to."""
    ordered = values.transpose("chain", "draw", ...).values
    columns = ordered.reshape(*ordered.shape[:2], -1)
    for i, label in enumerate(labels(values)):
        if constant or np.ptp(columns[..., i]) > 0.0:
            yield label, columns[..., i]


def labels(values: xr.DataArray) -> list[str]:
    """Of every scalar of a variable, in order: its name and, if there are several, its coordinates or its numbers."""
    dims = [dim for dim in values.dims if dim not in ("chain", "draw")]
    if all(values.sizes[dim] == 1 for dim in dims):
        return [str(values.name)]
    places = [values.coords[dim].values if dim in values.coords else range(values.sizes[dim]) for dim in dims]
    return [f"{values.name}[{', '.join(map(str, place))}]" for place in product(*places)]
