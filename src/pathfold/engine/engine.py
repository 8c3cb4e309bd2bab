"""A model, its data grid and the compiled step, ready to run: the host's side of the native engine."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pathfold.engine.build import CONSTRAINED, UNCONSTRAINED, build
from pathfold.engine.functions import ModelFunctions
from pathfold.engine.records import Sizes
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel, TimeGrid, clocks
from pathfold.program.kernel import LAYOUT_CHUNKS, LAYOUT_FIRST, LAYOUT_HEAD, LAYOUT_SERIES, LAYOUT_STEPS
from pathfold.program.layout import Record, size_of
from pathfold.program.trace import check_compilable, is_compilable

Splitting = Literal["gaussian", "stormer-verlet"]


def choose_lanes(intervals: int) -> int:
    """Lanes a chunk: 16 to 32 vectorise well; of these the number that leaves fewest idle in the last chunk."""
    if intervals < 12:
        return intervals + intervals % 2
    return min(range(16, 34, 2), key=lambda lanes: (-intervals % lanes, abs(lanes - 20)))


class Engine:
    """Compiled operations on the manifold of one model and one set of observations.

    `conditioned` adds a row mask for the full state at every node (values and mask from `condition`).
    With `compiled=False` the same functions run as plain Python.
    """

    method = CONSTRAINED

    def __init__(
        self,
        model: DiffusionModel,
        grid: TimeGrid,
        *,
        splitting: Splitting = "gaussian",
        conditioned: bool = False,
        compiled: bool = True,
        lanes: int | None = None,
    ) -> None:
        self.grid, self.conditioned = grid, conditioned
        self.intervals = len(grid.starts)
        self.series = len(grid.first)
        self.lanes = lanes or choose_lanes(self.intervals)
        try:
            self._compile(model, compiled=compiled)
        except (ModelError, NotImplementedError, TypeError, ValueError):
            # Looked into only now, since it takes time: a prior whose quantile function cannot be compiled has another
            # map; if a function of the user's is what stands in the way, the error names it.
            model = model.restricted_to(is_compilable)
            for name, (function, shapes) in model.user_functions().items():
                check_compilable(name, function, shapes)
            self._compile(model, compiled=compiled)
        self.chunks = -(-self.intervals // self.sizes.L)
        self.layout = self._make_layout()
        self.problem = self._make_problem(splitting)

    def _compile(self, model: DiffusionModel, *, compiled: bool) -> None:
        self.model = model
        rows = model.observation_dim + (model.state_dim if self.conditioned else 0)
        self.sizes = Sizes(
            X=model.state_dim,
            V=model.noise_dim,
            U=model.parameters.size,
            Z=model.parameters.z_size,
            Y=rows,
            W=self._observation_noise_dim(model),
            V0=model.initial_state.size,
            IN=len(model.inputs),
            L=self.lanes,
        )
        self.records = self.method.records(self.sizes, regular=self.grid.regular)
        if not self.conditioned and self.grid.mask.all():
            self.records.grid.known["mask"] = np.ones(rows)
        self.functions = ModelFunctions(model, conditioned=self.conditioned)
        self.native = build(self.method, self.functions, self.records, self.sizes, compiled=compiled)

    def _observation_noise_dim(self, model: DiffusionModel) -> int:
        return model.observation_noise_dim

    def _length(self, record: Record) -> int:
        lanes = self.chunks * self.sizes.L
        repeats = {"shared": 1, "series": self.series, "lane": lanes, "step": lanes * self.grid.steps}
        return record.size * repeats[record.kind]

    def _make_layout(self) -> np.ndarray:
        """The layout table: sizes of the data, where each record lies in its block, first interval of each series."""
        r = self.records
        head, table = np.zeros(LAYOUT_HEAD, dtype=np.int64), []
        self.block_sizes: dict[str, int] = {}
        for block, names in r.blocks.items():
            at = 0
            for name in names:
                if block == "point" and name == "theta":
                    at *= 2  # the gradient has the shape of the position and follows it
                table += [at, at + self._length(r[name])]
                at = table[-1]
            self.block_sizes[block] = at
        head[[LAYOUT_STEPS, LAYOUT_CHUNKS, LAYOUT_SERIES]] = self.grid.steps, self.chunks, self.series
        head[LAYOUT_FIRST] = LAYOUT_HEAD + len(table)
        return np.array([*head, *table, *self.grid.first, self.intervals], dtype=np.int64)

    def block(self, kind: str) -> np.ndarray:
        """A new block of zeros: "vector" (a momentum), "point" or "scratch"."""
        return np.zeros(self.block_sizes[kind])

    def record(self, kind: str, block: np.ndarray, name: str) -> np.ndarray:
        """The part of a block that holds a record."""
        at = self.records.at(kind, name)
        return block[self.layout[at] : self.layout[at + 1]]

    def get(self, kind: str, block: np.ndarray, name: str, field: str) -> np.ndarray:
        """A copy of one field: of shared records as it is, of others by series, interval, or interval and step."""
        r, lanes = self.records[name], self.sizes.L
        columns, shape = r.columns(field), r.fields[field]
        array = self.record(kind, block, name)
        if r.kind == "shared":
            return array[columns].reshape(shape).copy()
        if r.kind == "series":
            return array.reshape(self.series, r.size)[:, columns].reshape(self.series, *shape).copy()
        steps = self.grid.steps if r.kind == "step" else 1
        rows = array.reshape(self.chunks, steps, r.size, lanes)[:, :, columns].transpose(0, 3, 1, 2)
        rows = rows.reshape(self.chunks * lanes, steps, *shape)[: self.intervals]
        return rows.copy() if r.kind == "step" else rows[:, 0].copy()

    def set(self, kind: str, block: np.ndarray, name: str, field: str, values) -> None:
        """Write one field, in the shape `get` returns it; idle lanes become zero."""
        r, lanes = self.records[name], self.sizes.L
        columns, width = r.columns(field), size_of(r.fields[field])
        array = self.record(kind, block, name)
        if r.kind == "shared":
            array[columns] = np.ravel(values)
        elif r.kind == "series":
            array.reshape(self.series, r.size)[:, columns] = np.reshape(values, (self.series, width))
        else:
            steps = self.grid.steps if r.kind == "step" else 1
            padded = np.zeros((self.chunks * lanes, steps, width))
            padded[: self.intervals] = np.reshape(values, (self.intervals, steps, width))
            rows = padded.reshape(self.chunks, lanes, steps, width).transpose(0, 2, 3, 1)
            array.reshape(self.chunks, steps, r.size, lanes)[:, :, columns] = rows

    def set_vector(self, block: np.ndarray, u, v0, w, v) -> None:
        """Write u (U), v0 (series, V0), w (intervals, W), v (intervals, S, V) to a vector or a point's position."""
        for name, values in (("u", u), ("v0", v0), ("w", w), ("v", v)):
            self.set("vector", block, name, name, values)

    def get_vector(self, block: np.ndarray) -> tuple[np.ndarray, ...]:
        """The parts (u, v0, w, v) of a vector or of a point's position."""
        return tuple(self.get("vector", block, name, name) for name in ("u", "v0", "w", "v"))

    def gradient(self, point: np.ndarray) -> np.ndarray:
        """The projected gradient of h1 at a point, as a vector block."""
        size = self.block_sizes["vector"]
        return point[size : 2 * size]

    def _make_problem(self, splitting: Splitting) -> np.ndarray:
        grid, observed = self.grid, self.model.observation_dim
        problem = self.block("problem")
        self.set("problem", problem, "settings", "verlet", splitting == "stormer-verlet")
        if grid.regular:
            self.set("problem", problem, "settings", "delta", grid.delta[0])
        else:
            self.set("problem", problem, "grid", "delta", grid.delta)
        values, mask = np.zeros((2, self.intervals, self.sizes.Y))
        values[:, :observed], mask[:, :observed] = grid.values, grid.mask
        for field, entries in (("t_start", grid.starts), ("t_end", grid.ends), ("y", values), ("mask", mask)):
            self.set("problem", problem, "grid", field, entries)
        if self.model.inputs:
            starts, ends = clocks(self.model.inputs, grid)
            for record, field, by_name in (
                ("forcing", "inputs", starts.inputs),
                ("forcing", "slopes", starts.slopes),
                ("grid", "inputs_end", ends.inputs),
            ):
                self.set("problem", problem, record, field, np.stack([*by_name.values()], axis=-1))
        return problem

    def condition(self, nodes, states) -> None:
        """Condition on the full states at some nodes; exact observations there are implied, and dropped."""
        observed = self.model.observation_dim
        values = self.get("problem", self.problem, "grid", "y")
        mask = np.zeros_like(values)
        mask[:, :observed] = self.grid.mask
        values[nodes, observed:], mask[nodes, observed:] = states, 1.0
        mask[np.ix_(nodes, np.flatnonzero(self.model.exactly_observed))] = 0.0
        self.set("problem", self.problem, "grid", "y", values)
        self.set("problem", self.problem, "grid", "mask", mask)


class UnconstrainedEngine(Engine):
    """Compiled potential and gradient of (u, v0, v), with every fine step an interval of its own; no constraint."""

    method = UNCONSTRAINED

    def __init__(self, model: DiffusionModel, grid: TimeGrid, **options) -> None:
        super().__init__(model, grid.refined(), **options)
        self.problem = np.concatenate([self.problem, np.ones(self.block_sizes["vector"])])  # the metric follows

    def _observation_noise_dim(self, model: DiffusionModel) -> int:
        return 0
