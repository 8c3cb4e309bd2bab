"""The draws of a chain: in memory, or the last of them in memory and the rest on file; work that must not lose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pathfold.errors import SettingsError, told, warn

ARRAYS = ("z", "x0", "statistics", "nodes", "path")
STATES = ("nodes", "path")
BUFFER = 2**24  # bytes of draws that a chain whose draws go to files has in memory, or those of one draw


@dataclass(frozen=True)
class Shape:
    """The number and the sizes of draws; the states of the first `unkept` ones are not kept."""

    total: int
    unkept: int
    z_size: int
    series: int
    state_dim: int
    augmented_dim: int
    steps: int
    intervals: int
    nodes: int  # intervals whose last state is kept
    path: int  # intervals whose states are all kept
    statistics: int
    columns: dict[str, list[int]] = field(default_factory=dict)  # of the last axis, where not all are kept

    def drawn(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of one draw as the sampler writes them."""
        return {
            "z": (self.z_size,),
            "x0": (self.series, self.augmented_dim),
            "statistics": (self.statistics,),
            "nodes": (self.intervals, self.state_dim),
            "path": (self.path, self.steps, self.state_dim),
        }

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of one draw as they are kept."""
        whole = self.drawn() | {"nodes": (self.nodes, self.state_dim)}
        return {name: (*row[:-1], len(self.columns.get(name, range(row[-1])))) for name, row in whole.items()}

    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of all draws."""
        rows = {name: self.total - (self.unkept if name in STATES else 0) for name in ARRAYS}
        return {name: (rows[name], *row) for name, row in self.kept().items()}

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, as a Python integer, which does not overflow."""
        return _bytes(self.arrays())


def _bytes(arrays: Mapping[str, tuple[int, ...]]) -> int:
    return sum(8 * _product(shape) for shape in arrays.values())


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= int(size)
    return result


def rooms(shape: Shape, most: int) -> dict[str, np.ndarray]:
    """Make the arrays that the sampler writes draws to: as many as are asked for, fewer if they are large."""
    count = max(1, min(most, BUFFER // _bytes(shape.drawn())))
    return {name: np.zeros((count, *row)) for name, row in shape.drawn().items()}


class Held(NamedTuple):
    """A whole draw: its position, as a vector block, and what the sampler computed from it."""

    position: np.ndarray
    z: np.ndarray
    x0: np.ndarray
    nodes: np.ndarray


@dataclass
class Draws:
    """The draws of a chain, warm-up first: `made` draws, the first `unkept` of them without their states.

    The arrays hold the draws from `begin` on. Earlier ones are on file, in a `folder`.
    """

    z: np.ndarray
    x0: np.ndarray
    statistics: np.ndarray
    nodes: np.ndarray
    path: np.ndarray
    unkept: int = 0
    columns: dict[str, list[int]] = field(default_factory=dict)
    folder: Path | None = None
    chain: int = 0
    begin: int = 0
    made: int = 0
    since: int = 0  # iterations after the last draw
    seconds: float = 0.0  # processor seconds of all its threads: the time that others had the cores does not count
    main_seconds: float = 0.0  # of these after warm-up
    held: dict[int, Held] = field(default_factory=dict)  # a few draws, by how many were made with it
    integration_time: float = 0.0  # of static trajectories, as warm-up chose it
    unsaved: str = ""  # why the checkpoint does not hold all of them, if so

    @classmethod
    def empty(cls, shape: Shape, folder: Path | None = None, chain: int = 0) -> Draws:
        """Make arrays with room for all draws or, with a folder, for as many as are in memory at a time."""
        arrays, rows = shape.arrays(), shape.kept()
        if folder is not None:
            count = max(1, min(shape.total, BUFFER // _bytes(rows)))
            arrays = {name: (count, *row) for name, row in rows.items()}
        made: dict[str, Any] = {name: np.zeros(size) for name, size in arrays.items()}
        return cls(**made, unkept=shape.unkept, columns=shape.columns, folder=folder, chain=chain)

    @property
    def room(self) -> int:
        """The number of draws that there is room for without more memory."""
        return len(self.z) - (self.made - self.begin)

    def add(self, drawn: Mapping[str, np.ndarray]) -> None:
        """Append draws that the sampler wrote, with those columns of each array that are kept."""
        end = self.made + len(drawn["z"])
        while end - self.begin > len(self.z):
            self._grow()
        for name in ARRAYS:
            room = self._in_memory(name, self.made, end)
            if room.size:
                columns = self.columns.get(name)
                room[:] = drawn[name] if columns is None else drawn[name][..., columns]
        self.made = end

    def _grow(self) -> None:
        """Double the room, so that draws that cannot be written to their files are not lost."""
        for name, longer in self._each(
            lambda name: np.zeros((2 * len(self.z), *getattr(self, name).shape[1:]))
        ).items():
            before = getattr(self, name)
            longer[: len(before)] = before
            setattr(self, name, longer)

    def place(self, name: str, draw: int) -> int:
        """Return the row of a draw in one array; arrays of states have rows only for draws whose states are kept."""
        return max(0, draw - self.unkept) if name in STATES else draw

    def _in_memory(self, name: str, begin: int, end: int) -> np.ndarray:
        first = self.place(name, self.begin)
        return getattr(self, name)[max(0, self.place(name, begin) - first) : max(0, self.place(name, end) - first)]

    def rows(self, name: str, begin: int, end: int) -> np.ndarray:
        """Return the rows of one array for the draws from `begin` to `end`; of states only those that are kept."""
        if begin >= self.begin:
            return self._in_memory(name, begin, end)
        on_file = self._read(name, begin, min(end, self.begin))
        return on_file if end <= self.begin else np.concatenate([on_file, self._in_memory(name, self.begin, end)])

    def _read(self, name: str, begin: int, end: int) -> np.ndarray:
        row = getattr(self, name).shape[1:]
        assert self.folder is not None
        first, count = self.place(name, begin), self.place(name, end) - self.place(name, begin)
        numbers, size = np.zeros(0), _product(row)
        if count * size:
            file = rows_file(self.folder, self.chain, name)
            try:
                numbers = np.fromfile(file, count=count * size, offset=8 * first * size)
            except OSError as error:
                raise self._lost(file, error.strerror or str(error)) from None
            if numbers.size < count * size:
                raise self._lost(file, "it is shorter than it was")
        return numbers.reshape(count, *row)

    def _lost(self, file: Path, reason: str) -> SettingsError:
        return SettingsError(
            f"the draws are in the checkpoint file {file}, which cannot be read: {reason}; keep the folder for as long "
            "as the results are used, or load them into memory before, with results.load()"
        )

    def first(self, count: int) -> Draws:
        """Return the first draws alone, with only those in memory that are not on file."""
        begin, made = min(self.begin, count), min(self.made, count)

        def alone(name: str) -> np.ndarray:
            rows = self._in_memory(name, begin, made)
            return rows if self.folder is None else rows.copy()

        held = {number: draw for number, draw in self.held.items() if number <= count}
        return replace(self, **self._each(alone), held=held, begin=begin, made=made)

    def _each(self, make: Callable[[str], np.ndarray]) -> dict[str, Any]:
        return {name: make(name) for name in ARRAYS}


def held_by_all(chains: Sequence[Draws]) -> list[int]:
    """Return the numbers of the draws that every chain holds, counted from the first draw of warm-up as 1."""
    return sorted(set.intersection(*(set(chain.held) for chain in chains)))


def rows_file(folder: Path, chain: int, name: str) -> Path:
    """Return the file of one array of a chain, which has its rows one after the other, as float64."""
    return folder / f"chain_{chain}.{name}"


def spared[T](failure: str, make: Callable[[], T]) -> T | None:
    """Do work that follows the draws; if it fails or is interrupted, warn with the reason and return None.

    Warnings that are errors stay errors.
    """
    try:
        return make()
    except Warning:
        raise
    except (Exception, KeyboardInterrupt) as error:
        reason = f"{type(error).__name__}: {told(str(error))}" if str(error) else type(error).__name__
        warn(f"{failure}: {reason}; the draws are all here")
        return None
