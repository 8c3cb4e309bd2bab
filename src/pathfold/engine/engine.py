"""A model, its data grid and the compiled step, ready to run: the host's side of the native engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pathfold.data import TimeGrid
from pathfold.data.checks import positive, whole
from pathfold.engine import table as at
from pathfold.engine.compile import (
    CONSTRAINED_METHOD,
    FILTER_METHOD,
    GUIDED_METHOD,
    INTEGRATED_METHOD,
    LAPLACE_METHOD,
    SEGMENTED_METHOD,
    UNCONSTRAINED_METHOD,
    Variant,
    compile_model,
)
from pathfold.engine.native.run import Machine
from pathfold.engine.slots import ABREAST, Slots, arrange, arrange_segments, choose_abreast
from pathfold.model import DiffusionModel
from pathfold.program.layout import Record, size_of

Splitting = Literal["gaussian", "stormer-verlet"]

# Into how many parts the work of a step is cut: so many that each has this much of it, in multiplications that one pass
# over the fine steps takes; at most as many, and one if they would be few. A node counts as some fine steps.
WORK, MOST_PARTS, FEWEST_PARTS, NODE = 20_000, 32, 8, 5
# One long series, or few, are cut into segments, for so many parts at the least and at the most; shorter ones than this
# many intervals would not be worth their ends. With more states the kernels of the ends take long to compile.
FEWEST_CUTS, MOST_CUTS, SHORTEST, MOST_STATES = 16, 64, 24, 12
# Where a panel is large, parts have whole series, and are as large as a cache that belongs to a core: so many bytes.
CACHE = 700_000


@dataclass(frozen=True)
class Solver:
    """Convergence criteria for the projection of a step onto the manifold (Newton's method; defaults are the paper's).

    Parameters
    ----------
    constraint_tolerance
        The largest misfit of an observation, or gap in the path, in units of their sizes.
    position_tolerance
        The largest change of the position in the last iteration, in prior standard deviations. A step that is undone
        must come back to within twice this.
    max_iterations
        The most iterations of Newton's method. A projection that needs more is tried in smaller pieces, then given up.
    """

    constraint_tolerance: float = 1e-9
    position_tolerance: float = 1e-8
    max_iterations: int = 50

    def __post_init__(self) -> None:
        for name in ("constraint_tolerance", "position_tolerance"):
            object.__setattr__(self, name, positive(name, getattr(self, name), below=1.0))
        object.__setattr__(self, "max_iterations", whole("max_iterations", self.max_iterations, least=1))


class Engine:
    """Compiled operations on the manifold of one model and one set of observations.

    `conditioned` adds a row mask for the full state at every node (values and mask are written to a problem). With a
    `metric` the parameters are sampled in coordinates that can be changed, at first their own. If `tempered`, a setting
    says what power likelihoods are taken to, at first one (method.md, section 22). The functions of
    `engine.native` take the engine's `machine`, and blocks that it makes.
    """

    method = CONSTRAINED_METHOD
    in_parts = True
    in_segments = True
    of_fine_steps = False  # whether every fine step is an interval, and observation noise no part of a position

    def __init__(
        self,
        model: DiffusionModel,
        grid: TimeGrid,
        *,
        splitting: Splitting = "gaussian",
        solver: Solver | None = None,
        conditioned: bool = False,
        metric: bool = False,
        tempered: bool = False,
        lanes: int | None = None,
        abreast: int | None = None,
        longest: int | None = None,
    ) -> None:
        self.grid = grid = grid.refined() if self.of_fine_steps else grid
        self.conditioned, self.metric, self.tempered = conditioned, metric, tempered
        self.intervals = len(grid.starts)
        self.first = self._first_intervals(grid)
        self.series = len(self.first)
        self.work = self._multiplications(model)
        self.longest = self._choose_longest(model) if longest is None and abreast is None else longest or 0
        assert not (self.longest and conditioned), "a state that is held is not handed to the next segment"
        self.abreast = abreast or self._choose_abreast(lanes)
        complete, censored = bool(grid.mask.all()), bool(grid.censored.any())
        method = SEGMENTED_METHOD if self.longest else self.method
        variant = Variant(method, grid.regular, complete, censored, conditioned, metric, tempered, lanes, self.abreast)
        compiled = compile_model(model, variant)
        self.model, self.sizes, self.lanes = compiled.model, compiled.sizes, compiled.lanes
        self.records, self.functions, self.program = compiled.records, compiled.programs, compiled.program
        self.assembly = compiled.assembly
        self.slots = self._arrange()
        self.chunks = -(-self.slots.count // self.lanes)
        self.parts = self._choose_parts()
        self.table = self._make_layout()
        self.layout = self.program.bind(self.table)
        self.problem = self._make_problem(splitting, solver or Solver())

    def _first_intervals(self, grid: TimeGrid) -> np.ndarray:
        """Return the first interval of each run of intervals that a kernel over nodes goes through."""
        return grid.first

    def _choose_abreast(self, lanes: int | None) -> int:
        """Choose how many series, or segments of one, go abreast, from the data alone."""
        if self.longest:
            return math.gcd(ABREAST, lanes or ABREAST)
        return choose_abreast(self.first, self.intervals, self.grid.steps, lanes)

    def _choose_longest(self, model: DiffusionModel) -> int:
        """Choose how many intervals a segment has, from the size of model and data alone; none, if series are whole."""
        many = self.series >= ABREAST * FEWEST_PARTS or model.augmented_dim > MOST_STATES
        if many or not self.in_segments or self.conditioned:
            return 0
        parts = min(self.work // WORK, MOST_CUTS, self.intervals // (ABREAST * SHORTEST))
        return self.intervals // (ABREAST * parts) if parts >= FEWEST_CUTS else 0

    def _multiplications(self, model: DiffusionModel) -> int:
        """Return how many one pass over the fine steps takes, about."""
        X, V, U = model.augmented_dim, model.noise_dim, model.parameters.size
        return self.intervals * (self.grid.steps + NODE) * X * (X + V + U)

    def _arrange(self) -> Slots:
        """Arrange series and segments; a panel in parts with whole series, if that gives enough of them."""
        rows_of_chunk = self.lanes // self.abreast
        if self.longest:
            return arrange_segments(self.first, self.intervals, self.abreast, self.longest, rows_of_chunk)
        if self.in_parts:
            work = self.work * self.abreast // self.intervals
            least = max(CACHE // self._bytes_of_row(), -(-WORK // work), 4 * rows_of_chunk)
            cut = arrange(self.first, self.intervals, self.abreast, rows_of_chunk, least)
            if cut.cuts is not None and len(cut.cuts) > FEWEST_PARTS:
                return cut
        return arrange(self.first, self.intervals, self.abreast)

    def _bytes_of_row(self) -> int:
        """Return the bytes of the intervals abreast in two points, as a solve has them, and in all else."""
        points, of_kind = {"point": 2}, {"lane": 1, "step": self.grid.steps}
        sizes = [
            points.get(block, 1) * of_kind.get(self.records[name].kind, 0) * self.records[name].size
            for block, names in self.records.blocks.items()
            for name in names
        ]
        return 8 * self.abreast * sum(sizes)

    def _choose_parts(self) -> int:
        """Choose the number of parts, from the size of model and data alone, since sums depend on it."""
        if self.slots.cuts is not None:
            return len(self.slots.cuts) - 1
        parts = min(self.work // WORK, MOST_PARTS, self.chunks) if self.in_parts else 1
        return parts if parts >= FEWEST_PARTS else 1

    def _length(self, record: Record) -> int:
        if record.kind == "vector":
            return sum(self._length(self.records[name]) for name in self.records.blocks["vector"])
        if record.name in at.OF_PARTS:
            return record.size * self.parts
        lanes = self.chunks * self.lanes
        repeats = {"shared": 1, "series": self.slots.places, "lane": lanes, "step": lanes * self.grid.steps}
        return record.size * repeats[record.kind]

    def _make_layout(self) -> np.ndarray:
        """Make the layout table (see `table`), all but what binding it adds: plans, and addresses in this process."""
        layout, n = self._make_lists(), self.sizes
        layout[[at.STEPS, at.SLOTS, at.INTERVALS]] = self.grid.steps, self.slots.count, self.intervals
        layout[[at.METHOD, at.MAX_DEPTH]] = self.method.number, self.method.max_depth
        layout[[at.CHUNKS, at.LANES, at.SERIES, at.ABREAST]] = self.chunks, self.lanes, self.series, self.abreast
        layout[[at.X, at.V, at.U, at.Z, at.Y, at.W, at.V0]] = n.X, n.V, n.U, n.Z, n.Y, n.W, n.V0
        self.block_sizes: dict[str, int] = {}
        for block, names in self.records.blocks.items():
            begin = 0
            for name in names:
                record, place = self.records[name], at.record_place(block, name)
                if place == at.POINT_THETA:
                    begin *= 2  # the gradient has the shape of the position and follows it
                end = begin + self._length(record)
                layout[place], layout[place + at.END], layout[place + at.SIZE] = begin, end, record.size
                for field, of_field in at.field_places(name, list(record.fields)).items():
                    layout[of_field] = record.offsets[field]
                begin = end
            self.block_sizes[block] = begin
        return layout

    def _make_lists(self) -> np.ndarray:
        """Return the table followed by its lists, with room for the tables of other threads and parts.

        The parts of nodes are runs of rows like those of groups, and listed after these: a kernel that needs nothing of
        the series goes through either. The places of a series in segments are listed last: rows of a kernel over them.
        """
        slots, rows_of_chunk = self.slots, self.lanes // self.abreast
        if slots.cuts is None:
            by_chunk = np.linspace(0, self.chunks, self.parts + 1).astype(np.int64)
            runs = np.minimum(by_chunk * rows_of_chunk, slots.rows[-1])
            by_series = np.searchsorted(slots.rows[:-1], runs)
        else:
            runs, by_series = slots.rows[slots.cuts], slots.cuts
            by_chunk = -(-runs // rows_of_chunk)
        idle = np.setdiff1d(np.arange(self.chunks * self.lanes), slots.of_interval)
        idle_places = np.setdiff1d(np.arange(slots.places), slots.of_series)
        nodes, segments = len(slots.rows), len(slots.rows) + len(runs)  # where their rows are listed
        lists = {
            at.FIRST: [*self.first, self.intervals],
            at.SLOT: slots.of_interval,
            at.PLACE: slots.of_series,
            at.IDLE: idle,
            at.IDLE_PLACE: idle_places,
            at.BEFORE: [*slots.before, -1],
            at.ROWS: [*slots.rows, *runs, *slots.of_series, slots.places],
            at.ACTIVE: slots.active,
            at.BY_CHUNK: by_chunk,
            at.BY_SERIES: by_series,
            at.BY_NODE: np.arange(self.parts + 1) + nodes,
            at.BY_SHARE: np.arange(self.parts + 1),
            at.BY_SEGMENT: np.append(0, self.parts * [self.series]) + segments,
        }
        layout = np.zeros(at.LENGTH, dtype=np.int64)
        for place, numbers in lists.items():
            layout[place] = len(layout)
            layout = np.append(layout, numbers).astype(np.int64)
        layout[[at.PARTS, at.APART, at.TABLES]] = self.parts, slots.cuts is not None, len(layout)
        layout[[at.IDLE_SLOTS, at.IDLE_PLACES]] = len(idle), len(idle_places)
        return np.append(layout, np.zeros(2 * (self.parts - 1) * at.LENGTH, dtype=np.int64))

    def machine(self, scratch: np.ndarray | None = None) -> Machine:
        """Return what native functions are given first, with memory of its own to work in unless it is given."""
        return Machine.of(self.layout, self.problem, self.block("scratch") if scratch is None else scratch)

    def block(self, kind: str) -> np.ndarray:
        """Make a new block of zeros: "vector" (a momentum), "point" or "scratch"."""
        return np.zeros(self.block_sizes[kind])

    def record(self, kind: str, block: np.ndarray, name: str) -> np.ndarray:
        """Return the part of a block that holds a record."""
        place = at.record_place(kind, name)
        return block[self.layout[place] : self.layout[place + at.END]]

    def get(self, kind: str, block: np.ndarray, name: str, field: str) -> np.ndarray:
        """Return a copy of one field: as it is in shared records, else by series, interval, or interval and step."""
        r = self.records[name]
        columns, shape = r.columns(field), r.fields[field]
        array = self.record(kind, block, name)
        if r.kind == "shared":
            return array[columns].reshape(shape).copy()
        by_lane, places = self._by_lane(array, r)
        rows = by_lane[:, :, columns].transpose(0, 3, 1, 2)
        rows = rows.reshape(rows.shape[0] * rows.shape[1], rows.shape[2], *shape)[places]
        return rows if r.kind == "step" else rows[:, 0]

    def set(self, kind: str, block: np.ndarray, name: str, field: str, values) -> None:
        """Write one field, in the shape `get` returns it; idle lanes become zero."""
        r = self.records[name]
        columns, width = r.columns(field), size_of(r.fields[field])
        array = self.record(kind, block, name)
        if r.kind == "shared":
            array[columns] = np.ravel(values)
            return
        by_lane, places = self._by_lane(array, r)
        count, steps, _, lanes = by_lane.shape
        padded = np.zeros((count * lanes, steps, width))
        padded[places] = np.reshape(values, (len(places), steps, width))
        by_lane[:, :, columns] = padded.reshape(count, lanes, steps, width).transpose(0, 2, 3, 1)

    def _by_lane(self, array: np.ndarray, r: Record) -> tuple[np.ndarray, np.ndarray]:
        """Return a record as [chunk, s, scalar, lane] or [group, 1, scalar, series], and where each of them lies."""
        if r.kind == "series":
            return array.reshape(self.slots.groups, 1, r.size, self.abreast), self.slots.of_series
        steps = self.grid.steps if r.kind == "step" else 1
        return array.reshape(self.chunks, steps, r.size, self.lanes), self.slots.of_interval

    def set_vector(self, block: np.ndarray, u, v0, w, v) -> None:
        """Write u (U), v0 (series, V0), w (intervals, W), v (intervals, S, V) to a vector or a point's position."""
        for name, values in (("u", u), ("v0", v0), ("w", w), ("v", v)):
            self.set("vector", block, name, name, values)

    def get_vector(self, block: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the parts (u, v0, w, v) of a vector or of a point's position."""
        return tuple(self.get("vector", block, name, name) for name in ("u", "v0", "w", "v"))

    def gradient(self, point: np.ndarray) -> np.ndarray:
        """Return the projected gradient of h1 at a point, as a vector block."""
        size = self.block_sizes["vector"]
        return point[size : 2 * size]

    def _make_problem(self, splitting: Splitting, solver: Solver) -> np.ndarray:
        grid, observed = self.grid, self.model.observation_dim
        problem = self.block("problem")
        self.set("problem", problem, "settings", "verlet", splitting == "stormer-verlet")
        self.set("problem", problem, "settings", "coldness", 1.0)
        for name, value in vars(solver).items():
            self.set("problem", problem, "settings", name, value)
        self.set("problem", problem, "settings", "state_scale", np.ones(self.sizes.X))
        if self.metric:
            self.set("problem", problem, "coordinates", "factor", np.eye(self.sizes.U))
        if grid.regular:
            self.set("problem", problem, "settings", "delta", grid.delta[0])
        else:
            self.set("problem", problem, "grid", "delta", grid.delta)
        values, mask = np.zeros((2, self.intervals, self.sizes.Y))
        values[:, :observed], mask[:, :observed] = grid.values, grid.mask
        entries = {"t_start": grid.starts, "t_end": grid.ends, "y": values, "mask": mask}
        if grid.censored.any():
            entries |= {"censored": grid.censored, "upper": grid.upper}
        entries["row_scale"] = np.ones_like(values)
        for field, entry in entries.items():
            self.set("problem", problem, "grid", field, entry)
        forcing, inputs_end = self.model.forcing(grid)
        self.set("problem", problem, "forcing", "forcing", forcing)
        self.set("problem", problem, "grid", "inputs_end", inputs_end)
        series = np.searchsorted(grid.first, self.first, side="right") - 1
        covariates = [numbers[series] for numbers in self.model.covariates_of(grid).values()]
        self.set("problem", problem, "about", "covariates", np.array(covariates).T)
        self.set("problem", problem, "about", "begins", np.ones(self.series))
        return problem


class UnconstrainedEngine(Engine):
    """Compiled potential and gradient of (u, v0, v), with every fine step an interval of its own; no constraint."""

    method = UNCONSTRAINED_METHOD
    in_segments = False
    of_fine_steps = True

    def __init__(self, model: DiffusionModel, grid: TimeGrid, **options) -> None:
        super().__init__(model, grid, **options)
        self.record("problem", self.problem, "metric")[:] = 1.0


class LaplaceEngine(Engine):
    """Compiled operations on the paths of given parameters, which stand in the problem (method.md, section 21)."""

    method = LAPLACE_METHOD
    in_segments = False

    def _make_layout(self) -> np.ndarray:
        layout = super()._make_layout()
        layout[at.U] = 0
        return layout

    def give(self, problem: np.ndarray, u: np.ndarray) -> None:
        """Write the parameters, as normals, to a problem."""
        self.set("problem", problem, "coordinates", "centre", u)


class IntegratedEngine(Engine):
    """Compiled density of the parameters, with paths integrated out, and draws of noise given them (method.md,
    section 25); the parameters have coordinates, at first their own."""

    method = INTEGRATED_METHOD
    in_segments = False

    def __init__(self, model: DiffusionModel, grid: TimeGrid, **options) -> None:
        super().__init__(model, grid, metric=True, **options)
        self.metric = False  # of engines on the manifold that are made like it


class GuidedEngine(Engine):
    """Compiled guides and guided paths, with every fine step an interval of its own, in pieces (method.md, section 19).

    `nodes` are the steps that end at an observation, each of which ends a segment; `pieces` the first piece of each
    segment, `starts` 1 where a series begins with it. Steps after the last observation of a series are its tail, a
    piece in no segment; `first_pieces` are the first pieces of all series. Noise of a start belongs to these alone.
    """

    method = GUIDED_METHOD
    in_parts = False
    in_segments = False
    of_fine_steps = True

    def _choose_abreast(self, lanes: int | None) -> int:
        """Pieces follow each other; none goes beside another."""
        return 1

    def _first_intervals(self, grid: TimeGrid) -> np.ndarray:
        first, first_pieces, pieces, starts, nodes = [], [], [], [], []
        for rows in np.split(np.arange(len(grid.starts)), grid.first[1:]):
            begin, observed = rows[0], rows[grid.mask[rows].any(axis=1)]
            first_pieces.append(len(first))
            for node in observed:
                pieces.append(len(first))
                starts.append(node == observed[0])
                first += [begin, node]
                begin = node + 1
            nodes.extend(observed)
            first.append(begin)
        self.pieces, self.nodes = np.array(pieces, dtype=np.int64), np.array(nodes, dtype=np.int64)
        self.starts, self.first_pieces = np.array(starts, dtype=np.int64), np.array(first_pieces, dtype=np.int64)
        return np.array(first, dtype=np.int64)

    def _make_layout(self) -> np.ndarray:
        layout = super()._make_layout()
        layout[[at.WHOLE_SERIES, at.FIRST_PIECE]] = len(self.first_pieces), layout.size
        return np.concatenate([layout, self.first_pieces, [self.series]])

    def set_vector(self, block: np.ndarray, u, v0, w, v) -> None:
        by_piece = np.zeros((self.series, self.sizes.V0))
        by_piece[self.first_pieces] = v0
        super().set_vector(block, u, by_piece, w, v)

    def get_vector(self, block: np.ndarray) -> tuple[np.ndarray, ...]:
        u, v0, w, v = super().get_vector(block)
        return u, v0[self.first_pieces], w, v


class FilterEngine(GuidedEngine):
    """The same for the particle filter of a model whose observations have heavy tails."""

    method = FILTER_METHOD
