"""The layout table: whole numbers in which native code finds what depends on the model and its data.

One array holds sizes, where the records of a block begin and end, where a field lies in its record, and the addresses
of the model's kernels. The constants here are places in that array, so native code reads `layout[at.LANES]`.
"""

from __future__ import annotations

import numpy as np

from pathfold.program.kernel import LAYOUT_FIRST, LAYOUT_HEAD, LAYOUT_INTERVALS, LAYOUT_STEPS

# Of the data: fine steps an interval, intervals, where the first interval of each series is listed.
STEPS, INTERVALS, FIRST = LAYOUT_STEPS, LAYOUT_INTERVALS, LAYOUT_FIRST

# What the sampler is, how deep its trees may be, and sizes: chunks and lanes of the intervals, series, the dimensions
# of `records.Sizes`. Where pieces take the place of series: how many series they make, and where the table lists the
# first piece of each (and, after the last, the number of all).
(METHOD, MAX_DEPTH, CHUNKS, LANES, SERIES, X, V, U, Z, Y, W, V0, WHOLE_SERIES, FIRST_PIECE, _PARTS) = range(
    LAYOUT_HEAD, LAYOUT_HEAD + 15
)

# Parts that the work is cut into (`native/parts.py`): how many; where the chunks, series and runs of nodes are listed
# that each begins with (and, after the last, their number); where other tables than this one are.
(PARTS, BY_CHUNK, BY_SERIES, BY_NODE, TABLES, _RECORDS) = range(_PARTS, _PARTS + 6)

CONSTRAINED, UNCONSTRAINED, GUIDED = 0, 1, 2  # values of METHOD

# Records, by block: three numbers each, where it begins, where it ends, and the scalars of one set of its fields.
END, SIZE = 1, 2
(
    PROBLEM_SETTINGS,
    PROBLEM_GRID,
    PROBLEM_FORCING,
    PROBLEM_COORDINATES,
    PROBLEM_METRIC,
    PROBLEM_WINDOW_MEAN,
    PROBLEM_WINDOW_SQUARES,
    VECTOR_U,
    VECTOR_V0,
    VECTOR_W,
    VECTOR_V,
    POINT_U,
    POINT_V0,
    POINT_W,
    POINT_V,
    POINT_THETA,
    POINT_START,
    POINT_NODE,
    POINT_PATH,
    POINT_SUMS,
    POINT_GUIDE,
    POINT_PIECE,
    SCRATCH_WORK,
    SCRATCH_SLOPE,
    SCRATCH_NEWTON,
    SCRATCH_START_MULTIPLIERS,
    SCRATCH_START_WEIGHTS,
    SCRATCH_NEWTON_SUMS,
    SCRATCH_CARRY,
    _FIELDS,
) = range(_RECORDS, _RECORDS + 3 * 30, 3)

# Fields that the control flow reads or writes: where each lies in its record.
(
    SETTINGS_VERLET,
    SETTINGS_CONSTRAINT_TOLERANCE,
    SETTINGS_POSITION_TOLERANCE,
    SETTINGS_MAX_ITERATIONS,
    SETTINGS_ROW_RELAXATION,
    SETTINGS_GAP_RELAXATION,
    SETTINGS_STATE_SCALE,
    GRID_T_END,
    GRID_Y,
    GRID_ROW_SCALE,
    COORDINATES_FACTOR,
    THETA_Z,
    THETA_EXCESS_U,
    START_X0,
    START_EXCESS_X0,
    NODE_X_START,
    NODE_X_NODE,
    NODE_H,
    NODE_EXCESS,
    PATH_X,
    SUMS_C,
    SUMS_C_INV,
    SUMS_LOG_DET,
    SUMS_MISFIT,
    SUMS_A,
    SUMS_B,
    SUMS_RESIDUAL,
    SUMS_CHANGE,
    SUMS_GZ,
    SUMS_GU,
    SUMS_WD,
    WORK_BP,
    WORK_ZETA,
    NEWTON_GAP,
    NEWTON_O,
    V_V,
    V0_V0,
    GUIDE_H,
    GUIDE_F,
    PIECE_X_BEGIN,
    PIECE_X_END,
    PIECE_H_BEGIN,
    PIECE_F_BEGIN,
    PIECE_H_END,
    PIECE_F_END,
    PIECE_LOG_WEIGHT,
    PIECE_LOG_RATIO,
    PIECE_EXCESS,
    PIECE_LOG_SERIES,
    PIECE_MISSED,
    PIECE_NOISE0,
    NODE_NOISE,
    KERNELS,
) = range(_FIELDS, _FIELDS + 53)

# Addresses: of the kernels; of no kernel, always 0; of the function that goes through parts (`native/team.py`); and of
# the team that shares them, 0 if there is none.
(
    PARAMETERS,
    START_STATES,
    LINK,
    SIMULATE,
    LINEARISE,
    OBSERVE,
    FACTORISE,
    PUSH,
    FILTER_VECTOR,
    UNEXPLAINED,
    SMOOTH_VECTOR,
    PULL,
    WEIGHTS,
    SPREAD,
    CURVATURE,
    OBSERVE_CURVATURE,
    PULL_BACK,
    START_CURVATURE,
    PARAMETER_GRADIENT,
    GRADIENT_VECTOR,
    MOVE_NODES,
    SHOOT,
    SHOOT_LINEARISED,
    RESIDUAL,
    RESIDUAL_LINEARISED,
    CROSS_FACTORISE,
    CROSS_FILTER,
    CROSS_UNEXPLAINED,
    CROSS_SMOOTH,
    PATH,
    PATH_GRADIENT,
    START_GRADIENT,
    GUIDED_START,
    INNOVATIONS_START,
    GUIDE,
    GUIDE_NODE,
    GUIDED_PATH,
    INNOVATIONS,
    GUIDED_NODE,
    INNOVATIONS_NODE,
    NOTHING,
    DO_PARTS,
    TEAM,
    LENGTH,
) = range(KERNELS, KERNELS + 44)

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
        table[FIRST] -= begin
        for place in (SCRATCH_CARRY,) if i < others else OF_PARTS.values():
            table[place] += number * layout[place + SIZE]


def without_addresses(layout: np.ndarray) -> np.ndarray:
    """Return the part of the layout that is the same in every process."""
    return np.delete(layout[: layout[TABLES]], np.s_[KERNELS:LENGTH])


def record_place(block: str, record: str) -> int:
    """Return the place in the table of a record of a block."""
    return globals()[f"{block}_{record}".upper()]


def field_places(record: str, fields: list[str]) -> dict[str, int]:
    """Return the places in the table of those fields of a record that it lists."""
    places = {field: globals().get(f"{record}_{field}".upper()) for field in fields}
    return {field: place for field, place in places.items() if place is not None}


def kernel_place(name: str) -> int:
    """Return the place in the table of a kernel's address."""
    return globals()[name.upper()]
