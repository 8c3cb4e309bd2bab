"""How well a scalar was sampled: effective draws and R-hat, by ArviZ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

AT_ONCE = 2**28  # bytes of a variable


class Convergence(NamedTuple):
    bulk: float  # effective draws, of the mean
    tail: float  # of the 5 and 95 % quantiles, the worse
    rhat: float  # NaN for a single chain

    @property
    def effective(self) -> float:
        return float(np.minimum(self.bulk, self.tail))  # NaN where either is


def convergence(x: np.ndarray) -> Convergence:
    """Of draws (chain, draw) of one scalar."""
    import arviz_stats.base as base

    stats: Any = base.array_stats  # pyright: ignore[reportPrivateImportUsage]
    with np.errstate(divide="ignore", invalid="ignore"):  # of chains that stand still: R-hat is then infinite
        bulk, tail = stats.ess(x, method="bulk"), stats.ess(x, method="tail", prob=(0.05, 0.95))
        return Convergence(float(bulk), float(tail), float(stats.rhat(x)) if len(x) > 1 else np.nan)


def scalars(values: xr.DataArray, *, constant: bool = False) -> Iterator[tuple[str, np.ndarray]]:
    """Label and draws (chain, draw) of every scalar of a variable, without those that are constant unless told to.

    Of a variable that is read from files there is only a part in memory at a time.
    """
    names, values = iter(labels(values)), values.transpose("chain", "draw", ...)
    for part in _parts(values):
        columns = part.values.reshape(*part.shape[:2], -1)
        for i in range(columns.shape[-1]):
            label = next(names)
            if constant or np.ptp(columns[..., i]) != 0.0:  # NaN is not constant
                yield label, columns[..., i]


def _parts(values: xr.DataArray) -> Iterator[xr.DataArray]:
    """Of a large variable (chain, draw, ...) some places of the first axis after these, in order; else all of it."""
    if values.ndim == 2 or values.nbytes <= AT_ONCE:
        yield values
        return
    dim, size = values.dims[2], values.shape[2]
    count = max(1, int(size * AT_ONCE // values.nbytes))
    for i in range(0, size, count):
        yield values.isel({dim: slice(i, i + count)})


def labels(values: xr.DataArray) -> list[str]:
    """Of every scalar of a variable, in order: its name and, if there are several, its coordinates or its numbers."""
    dims = [dim for dim in values.dims if dim not in ("chain", "draw")]
    if all(values.sizes[dim] == 1 for dim in dims):
        return [str(values.name)]
    places = [values.coords[dim].values if dim in values.coords else range(values.sizes[dim]) for dim in dims]
    return [f"{values.name}[{', '.join(map(str, place))}]" for place in product(*places)]
