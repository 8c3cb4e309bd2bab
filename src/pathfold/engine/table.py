"""The layout table: whole numbers in which native code finds what depends on the model and its data.

One array holds sizes, where the records of a block begin and end, where a field lies in its record, and the addresses
of the model's kernels. The constants here are places in that array, so native code reads `layout[at.LANES]`.
"""

from __future__ import annotations

import numpy as np

from pathfold.program.kernel import LAYOUT_ACTIVE, LAYOUT_HEAD, LAYOUT_ROWS, LAYOUT_SLOTS, LAYOUT_STEPS

# What kernels read: fine steps an interval, slots, where the rows that groups begin with are listed, and where the
# series with an interval in each row.
STEPS, SLOTS, ROWS, ACTIVE = LAYOUT_STEPS, LAYOUT_SLOTS, LAYOUT_ROWS, LAYOUT_ACTIVE

# Of the data: intervals and series; where the table lists the first interval of each series (and, after the last, the
# number of all), the slot of each interval, the place of each series, the idle slots and how many there are, the places
# where no series begins and how many; where it lists, by place, the slot before a segment that goes on with a series,
# -1 at all others and after the last.
(INTERVALS, SERIES, FIRST, SLOT, PLACE, IDLE, IDLE_SLOTS, IDLE_PLACE, IDLE_PLACES, BEFORE, _SIZES) = range(
    LAYOUT_HEAD, LAYOUT_HEAD + 11
)

# What the sampler is, how deep its trees may be, and sizes: chunks and lanes of the intervals, series abreast in a
# group, the dimensions of `records.Sizes`. Where pieces take the place of series: how many series they make, and where
# the table lists the first piece of each (and, after the last, the number of all).
(METHOD, MAX_DEPTH, CHUNKS, LANES, ABREAST, X, V, U, Z, Y, W, V0, WHOLE_SERIES, FIRST_PIECE, _PARTS) = range(
    _SIZES, _SIZES + 15
)

# Parts that the work is cut into (`native/run.py`): how many; whether each has whole series; where the chunks, groups
# of series, runs of rows, shares of a vector and series in segments are listed that each begins with (and, after the
# last, their number); where other tables than this one are.
(PARTS, APART, BY_CHUNK, BY_SERIES, BY_NODE, BY_SHARE, BY_SEGMENT, TABLES, _RECORDS) = range(_PARTS, _PARTS + 9)

CONSTRAINED, UNCONSTRAINED, GUIDED, LAPLACE = 0, 1, 2, 3  # values of METHOD


class _Places:
    """Gives names places in the table, one after the other, and remembers them."""

    def __init__(self, begin: int, width: int = 1) -> None:
        self.end, self.width = begin, width
        self.by_name: dict[tuple[str, ...], int] = {}

    def __call__(self, *name: str) -> int:
        assert name not in self.by_name, name
        self.by_name[name], self.end = self.end, self.end + self.width
        return self.by_name[name]


# Records, by block: three numbers each, where it begins, where it ends, and the scalars of one set of its fields.
END, SIZE = 1, 2
place_record = _Places(_RECORDS, 3)
PROBLEM_SETTINGS = place_record("problem", "settings")
PROBLEM_GRID = place_record("problem", "grid")
PROBLEM_FORCING = place_record("problem", "forcing")
PROBLEM_COORDINATES = place_record("problem", "coordinates")
PROBLEM_ABOUT = place_record("problem", "about")
PROBLEM_METRIC = place_record("problem", "metric")
PROBLEM_WINDOW_MEAN = place_record("problem", "window_mean")
PROBLEM_WINDOW_SQUARES = place_record("problem", "window_squares")
VECTOR_U = place_record("vector", "u")
VECTOR_V0 = place_record("vector", "v0")
VECTOR_W = place_record("vector", "w")
VECTOR_V = place_record("vector", "v")
POINT_U = place_record("point", "u")
POINT_V0 = place_record("point", "v0")
POINT_W = place_record("point", "w")
POINT_V = place_record("point", "v")
POINT_THETA = place_record("point", "theta")
POINT_START = place_record("point", "start")
POINT_NODE = place_record("point", "node")
POINT_PATH = place_record("point", "path")
POINT_SUMS = place_record("point", "sums")
POINT_SEGMENT = place_record("point", "segment")
POINT_DUAL = place_record("point", "dual")
POINT_DUAL_START = place_record("point", "dual_start")
POINT_GUIDE = place_record("point", "guide")
POINT_PIECE = place_record("point", "piece")
SCRATCH_WORK = place_record("scratch", "work")
SCRATCH_SLOPE = place_record("scratch", "slope")
SCRATCH_NEWTON = place_record("scratch", "newton")
SCRATCH_START_MULTIPLIERS = place_record("scratch", "start_multipliers")
SCRATCH_START_WEIGHTS = place_record("scratch", "start_weights")
SCRATCH_NEWTON_SUMS = place_record("scratch", "newton_sums")
SCRATCH_ELEMENT = place_record("scratch", "element")
SCRATCH_ELEMENT_START = place_record("scratch", "element_start")
SCRATCH_GAINS = place_record("scratch", "gains")
SCRATCH_TIED = place_record("scratch", "tied")
SCRATCH_LANE_NORMALS = place_record("scratch", "lane_normals")
SCRATCH_SERIES_NORMALS = place_record("scratch", "series_normals")
SCRATCH_HANDED = place_record("scratch", "handed")
SCRATCH_GUESS = place_record("scratch", "guess")
SCRATCH_DESCENT = place_record("scratch", "descent")
SCRATCH_DESCENT_OF_SERIES = place_record("scratch", "descent_of_series")
SCRATCH_CARRY = place_record("scratch", "carry")

# Fields that the control flow reads or writes: where each lies in its record.
place_field = _Places(place_record.end)
SETTINGS_VERLET = place_field("settings", "verlet")
SETTINGS_CONSTRAINT_TOLERANCE = place_field("settings", "constraint_tolerance")
SETTINGS_POSITION_TOLERANCE = place_field("settings", "position_tolerance")
SETTINGS_MAX_ITERATIONS = place_field("settings", "max_iterations")
SETTINGS_ROW_RELAXATION = place_field("settings", "row_relaxation")
SETTINGS_GAP_RELAXATION = place_field("settings", "gap_relaxation")
SETTINGS_COLDNESS = place_field("settings", "coldness")
SETTINGS_CURVED = place_field("settings", "curved")
SETTINGS_HELD = place_field("settings", "held")
GRID_Y = place_field("grid", "y")
COORDINATES_FACTOR = place_field("coordinates", "factor")
THETA_Z = place_field("theta", "z")
THETA_EXCESS_U = place_field("theta", "excess_u")
START_X0 = place_field("start", "x0")
SEGMENT_X_IN = place_field("segment", "x_in")
NODE_X_START = place_field("node", "x_start")
NODE_X_NODE = place_field("node", "x_node")
NODE_LOSS = place_field("node", "loss")
PATH_X = place_field("path", "x")
SUMS_C = place_field("sums", "C")
SUMS_C_INV = place_field("sums", "C_inv")
SUMS_LOG_DET = place_field("sums", "log_det")
SUMS_LOG_C = place_field("sums", "log_C")
SUMS_NEGATIVES = place_field("sums", "negatives")
SUMS_EXCESSES = place_field("sums", "excesses")
SUMS_ROWS = place_field("sums", "rows")
SUMS_PENALTY = place_field("sums", "penalty")
SUMS_MISFIT = place_field("sums", "misfit")
SUMS_A = place_field("sums", "a")
SUMS_B = place_field("sums", "b")
SUMS_RESIDUAL = place_field("sums", "residual")
SUMS_CHANGE = place_field("sums", "change")
SUMS_FACTORS = place_field("sums", "factors")
SUMS_SQUARES = place_field("sums", "squares")
SUMS_GZ = place_field("sums", "gz")
SUMS_WD = place_field("sums", "wD")
GUESS_BEST = place_field("guess", "best")
GUESS_LEAST = place_field("guess", "least")
DESCENT_SHARE = place_field("descent_of_series", "share")
DESCENT_MISSED = place_field("descent_of_series", "missed")
DESCENT_FRACTION = place_field("descent_of_series", "fraction")
NEWTON_GAP = place_field("newton", "gap")
NEWTON_O = place_field("newton", "o")
V_V = place_field("v", "v")
V0_V0 = place_field("v0", "v0")
GUIDE_H = place_field("guide", "H")
GUIDE_F = place_field("guide", "F")
PIECE_X_BEGIN = place_field("piece", "x_begin")
PIECE_X_END = place_field("piece", "x_end")
PIECE_H_BEGIN = place_field("piece", "H_begin")
PIECE_F_BEGIN = place_field("piece", "F_begin")
PIECE_H_END = place_field("piece", "H_end")
PIECE_F_END = place_field("piece", "F_end")
PIECE_LOG_WEIGHT = place_field("piece", "log_weight")
PIECE_LOG_RATIO = place_field("piece", "log_ratio")
PIECE_EXCESS = place_field("piece", "excess")
PIECE_LOG_SERIES = place_field("piece", "log_series")
PIECE_MISSED = place_field("piece", "missed")
PIECE_NOISE0 = place_field("piece", "noise0")
PIECE_KIND = place_field("piece", "kind")
NODE_NOISE = place_field("node", "noise")

# Where all plans are listed (`plans.bind`); the addresses of the function that goes through them (`native/run.py`)
# and of the team that shares their parts, 0 if there is none.
PLANS, RUN, TEAM, LENGTH = range(place_field.end, place_field.end + 4)

# Records that there is one of for every part: its sums, and the lane buffer.
OF_PARTS = {"sums": POINT_SUMS, "newton_sums": SCRATCH_NEWTON_SUMS, "carry": SCRATCH_CARRY}


def write_tables(layout: np.ndarray) -> None:
    """Write the tables of threads and of parts after the first: they differ from it in the places of their own memory.

    A thread has its own lane buffer; a part has that of a thread, and its own sums.
    """
    others = layout[PARTS] - 1
    for i in range(2 * others):
        begin, number = layout[TABLES] + i * LENGTH, 1 + i % max(1, others)
        table = layout[begin : begin + LENGTH]
        table[:] = layout[:LENGTH]
        table[[ROWS, ACTIVE, BEFORE]] -= begin
        for place in (SCRATCH_CARRY,) if i < others else OF_PARTS.values():
            table[place] += number * layout[place + SIZE]


def record_place(block: str, record: str) -> int:
    """Return the place in the table of a record of a block."""
    return place_record.by_name[block, record]


def field_places(record: str, fields: list[str]) -> dict[str, int]:
    """Return the places in the table of those fields of a record that it lists."""
    return {field: place_field.by_name[record, field] for field in fields if (record, field) in place_field.by_name}
