"""A model, its data grid and the compiled step, ready to run: the host's side of the native engine."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pathfold.engine.build import build
from pathfold.engine.functions import ModelFunctions
from pathfold.engine.records import Records, Sizes
from pathfold.engine.state import Counts, Point, Problem, Scratch, Vector
from pathfold.model import DiffusionModel, TimeGrid
from pathfold.program.trace import check_compilable

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
        for name, (function, shapes) in model.user_functions().items():
            check_compilable(name, function, shapes)
        self.model, self.grid = model, grid
        self.intervals = len(grid.starts)
        self.series = len(grid.first)
        rows = model.observation_dim + (model.state_dim if conditioned else 0)
        self.sizes = Sizes(
            X=model.state_dim,
            V=model.noise_dim,
            U=model.parameters.size,
            Z=model.parameters.z_size,
            Y=rows,
            W=model.observation_noise_dim,
            V0=model.initial_state.size,
            L=lanes or choose_lanes(self.intervals),
        )
        self.conditioned = conditioned
        self.records = Records(self.sizes, regular=grid.regular)
        if not conditioned and grid.mask.all():
            self.records.grid.known["mask"] = np.ones(rows)
        self.functions = ModelFunctions(model, conditioned=conditioned)
        self.module, self._carried = build(self.functions, self.records, self.sizes, compiled=compiled)
        self.native = self.module.step
        self.chunks = -(-self.intervals // self.sizes.L)
        self.problem = self._problem(splitting)

    # --- arrays -------------------------------------------------------------------------------------------------------

    def _zeros(self, record: str) -> np.ndarray:
        r = self.records[record]
        repeats = {
            "shared": 1,
            "series": self.series,
            "lane": self.chunks * self.sizes.L,
            "step": self.chunks * self.sizes.L * self.grid.steps,
        }
        return np.zeros(r.size * repeats[r.kind])

    def _problem(self, splitting: Splitting) -> Problem:
        grid, r, n = self.grid, self.records, self.sizes
        problem = Problem(
            S=grid.steps,
            settings=self._zeros("settings"),
            grid=self._zeros("grid"),
            first=np.array([*grid.first, self.intervals], dtype=np.int64),
        )
        r.settings.view(problem.settings, "verlet", n.L)[...] = splitting == "stormer-verlet"
        observed = self.model.observation_dim
        values, mask = np.zeros((self.intervals, n.Y)), np.zeros((self.intervals, n.Y))
        values[:, :observed], mask[:, :observed] = grid.values, grid.mask
        delta = grid.delta
        if grid.regular:
            r.settings.view(problem.settings, "delta", n.L)[...] = delta[0]
        else:
            self.set_lanes(problem.grid, "grid", "delta", delta)
        self.set_lanes(problem.grid, "grid", "t_start", grid.starts)
        self.set_lanes(problem.grid, "grid", "t_end", grid.ends)
        self.set_lanes(problem.grid, "grid", "y", values)
        self.set_lanes(problem.grid, "grid", "mask", mask)
        return problem

    def condition(self, nodes, states, *, drop_observations: bool) -> None:
        """Condition on the full states at some nodes; exact observations there are implied and must be dropped."""
        observed = self.model.observation_dim
        values = self.get_lanes(self.problem.grid, "grid", "y")
        mask = self.get_lanes(self.problem.grid, "grid", "mask")
        mask[:, :observed], mask[:, observed:] = self.grid.mask, 0.0
        values[nodes, observed:], mask[nodes, observed:] = states, 1.0
        if drop_observations:
            mask[nodes, :observed] = 0.0
        self.set_lanes(self.problem.grid, "grid", "y", values)
        self.set_lanes(self.problem.grid, "grid", "mask", mask)

    def set_lanes(self, array: np.ndarray, record: str, field: str, values) -> None:
        """Write one field of a lane record, given by interval."""
        r, lanes = self.records[record], self.sizes.L
        rows = array.reshape(self.chunks, r.size, lanes)
        at, shape = r.offsets[field], r.fields[field]
        width = int(np.prod(shape, dtype=int))
        padded = np.zeros((self.chunks * lanes, width))
        padded[: self.intervals] = np.asarray(values).reshape(self.intervals, width)
        rows[:, at : at + width] = padded.reshape(self.chunks, lanes, width).transpose(0, 2, 1)

    def get_lanes(self, array: np.ndarray, record: str, field: str) -> np.ndarray:
        """One field of a lane record, by interval."""
        return self.records[record].view(array, field, self.sizes.L, intervals=self.intervals).copy()

    def vector(self) -> Vector:
        """A zero position, momentum or gradient."""
        parts = [self._zeros(name).size for name in ("u", "v0", "w", "v")]
        ends = np.cumsum([0, *parts])
        whole = np.zeros(ends[-1])
        return Vector(whole, *(whole[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)))

    def set_vector(self, vector: Vector, u, v0, w, v) -> None:
        """Write u (U), v0 (series, V0), w (intervals, W) and v (intervals, S, V); idle lanes are zero."""
        n, S = self.sizes, self.grid.steps
        vector.u[:] = np.ravel(u)
        vector.v0[:] = np.ravel(v0)
        self.set_lanes(vector.w, "w", "w", np.asarray(w).reshape(self.intervals, n.W))
        padded = np.zeros((self.chunks * n.L, S, n.V))
        padded[: self.intervals] = np.asarray(v).reshape(self.intervals, S, n.V)
        vector.v[:] = padded.reshape(self.chunks, n.L, S, n.V).transpose(0, 2, 3, 1).ravel()

    def get_vector(self, vector: Vector) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The parts (u, v0, w, v) of a vector, by series, interval and step."""
        n, S = self.sizes, self.grid.steps
        lanes = self.chunks * n.L
        v = vector.v.reshape(self.chunks, S, n.V, n.L).transpose(0, 3, 1, 2).reshape(lanes, S, n.V)
        w = vector.w.reshape(self.chunks, n.W, n.L).transpose(0, 2, 1).reshape(lanes, n.W)
        v0 = vector.v0.reshape(self.series, n.V0)
        return vector.u.copy(), v0.copy(), w[: self.intervals].copy(), v[: self.intervals].copy()

    def point(self) -> Point:
        """A point with room for all that is computed there."""
        q, gradient = self.vector(), self.vector()
        return Point(q, gradient, *(self._zeros(name) for name in ("theta", "start", "node", "path", "sums")))

    def scratch(self) -> Scratch:
        names = ("work", "slope", "newton", "newton_start", "gradient_start", "sums")
        return Scratch(np.zeros(max(1, self._carried) * self.sizes.L), *(self._zeros(name) for name in names))

    def counts(self) -> Counts:
        return Counts(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
