"""Variables of the results, as parts of the arrays of draws: in memory, or read from files when they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from pathfold.sampling.draws import Draws

IN_MEMORY = 2**26  # bytes: a larger variable whose draws are on file stays there
BLOCK = 2**23  # bytes that are read at once


@dataclass(frozen=True)
class Variable:
    """A variable of the results: entries from `begin` to `end` of the last axis of an array of draws, in a shape."""

    name: str
    array: str  # one of ARRAYS, or "state", the states that are kept
    begin: int
    end: int
    dims: tuple[str, ...] = ()  # besides chain and draw
    shape: tuple[int, ...] = ()
    dtype: str = "float64"

    def of(self, values: np.ndarray, leading: int = 1) -> np.ndarray:
        """Return the variable's values from the array, whose first axes go over draws."""
        return (
            values[..., self.begin : self.end]
            .reshape(*values.shape[:leading], *self.shape)
            .astype(self.dtype, copy=False)
        )


class DrawnArray(BackendArray):
    """A variable (chain, draw, ...) of the draws from `begin` to `end`; `kept` masks the states (interval, step) that
    are kept."""

    def __init__(self, variable: Variable, chains: Sequence[Draws], begin: int, end: int, kept: np.ndarray) -> None:
        self.variable, self.begin, self.kept = variable, begin, kept
        self.chains = [replace(chain, held={}) for chain in chains]
        self.shape = (len(chains), end - begin, *variable.shape)
        self.dtype = np.dtype(variable.dtype)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.float64)) * self.dtype.itemsize

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.read)

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Read values; `key` has for each axis a number, a slice or an array of places."""
        of_chains, of_draws, *rest = key
        chains = np.arange(self.shape[0])[of_chains]
        places = np.arange(self.shape[1])[of_draws]
        example = self._picked(np.empty((0, *self.variable.shape), self.dtype), rest)
        out = np.empty((chains.size, places.size, *example.shape[1:]), self.dtype)
        for i, k in enumerate(np.atleast_1d(chains)):
            for rows in self._blocks(np.atleast_1d(places)):
                here = np.atleast_1d(places)[rows]
                first, last = int(here.min()), int(here.max())
                values = self.variable.of(self._rows(self.chains[k], self.begin + first, self.begin + last + 1))
                out[i, rows] = self._picked(values[here - first], rest)
        return out.reshape(*chains.shape, *places.shape, *example.shape[1:])

    def _blocks(self, places: np.ndarray) -> Iterable[np.ndarray]:
        """Yield the places that are read together: near each other, and not too many."""
        row = max(1, self.nbytes // max(1, self.shape[0] * self.shape[1]))
        block = places // max(1, BLOCK // row)
        return [rows for rows in np.split(np.arange(places.size), np.flatnonzero(np.diff(block)) + 1) if rows.size]

    @staticmethod
    def _picked(values: np.ndarray, rest: Sequence[Any]) -> np.ndarray:
        """Select from the axes after the first, in reverse order, so that those before keep their numbers."""
        for axis in reversed(range(len(rest))):
            values = values[(slice(None),) * (axis + 1) + (rest[axis],)]
        return values

    def _rows(self, chain: Draws, begin: int, end: int) -> np.ndarray:
        if self.variable.array != "state":
            return chain.rows(self.variable.array, begin, end)
        nodes = chain.rows("nodes", begin, end)
        steps = np.nonzero(self.kept)[1]
        last = steps == self.kept.shape[1] - 1
        if last.all():
            return nodes
        states = np.empty((len(nodes), steps.size, nodes.shape[-1]))
        states[:, last] = nodes
        states[:, ~last] = chain.rows("path", begin, end)[:, :, 1:][:, self.kept[:, :-1]]
        return states


class Joined(BackendArray):
    """A variable (chain, ...) of several results, joined along its chains."""

    def __init__(self, parts: Sequence[xr.Variable]) -> None:
        self.parts = parts
        self.of_chains = [(part, k) for part in parts for k in range(part.shape[0])]
        self.shape = (len(self.of_chains), *parts[0].shape[1:])
        self.dtype = parts[0].dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.read)

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        chains = np.arange(self.shape[0])[key[0]]
        chosen = (self.of_chains[i] for i in np.atleast_1d(chains))
        values = [part[(k, *key[1:])].values for part, k in chosen]
        return np.stack(values) if chains.shape else values[0]


def along_chains(parts: Sequence[xr.Variable]) -> Any:
    """Join a variable of several results along chains: as a copy, unless it is large."""
    if sum(part.nbytes for part in parts) > IN_MEMORY:
        return _on_demand(Joined(parts))
    return np.concatenate([part.values for part in parts])


def _on_demand(array: DrawnArray | Joined) -> Any:
    """Wrap an array as data of an xarray.Variable that are read when they are needed, and changed in memory alone."""
    lazy: Any = indexing.LazilyIndexedArray(array)
    return indexing.CopyOnWriteArray(lazy)


def drawn_dataset(
    variables: Iterable[Variable],
    coordinates: Mapping[str, Any],
    chains: Sequence[Draws],
    begin: int,
    end: int,
    kept: np.ndarray,
) -> xr.Dataset:
    """Return the variables of the draws from `begin` to `end`, read now unless they are large and on file."""
    data = {}
    for variable in variables:
        drawn = DrawnArray(variable, chains, begin, end, kept)
        stays = drawn.nbytes > IN_MEMORY and any(chain.begin > begin for chain in chains)
        try:
            values = _on_demand(drawn) if stays else drawn.read((slice(None),) * len(drawn.shape))
        except MemoryError:  # of the copy: the draws themselves are there
            values = _on_demand(drawn)
        data[variable.name] = xr.Variable(("chain", "draw", *variable.dims), values)
    numbers = {"chain": [chain.chain for chain in chains], "draw": np.arange(end - begin)}
    return xr.Dataset(data, {**numbers, **coordinates})


def in_blocks(group: xr.Dataset, name: str) -> list[xr.Dataset]:
    """Yield a group of the results in parts of consecutive draws, with no more of a variable than is read at once."""
    draws = group.sizes["draw"]
    row = group[name].nbytes // max(1, draws) if name in group else 0
    count = max(1, BLOCK // max(1, row))
    return [group.isel(draw=slice(i, i + count)) for i in range(0, max(1, draws), count)]
