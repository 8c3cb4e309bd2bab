"""The layout table: whole numbers that say what native code cannot know when it is compiled, model and data.

It holds sizes, offsets of records and fields in their blocks, and addresses; lists follow it, which it says the
beginning of. The names here are offsets in the table, frozen as numbers where native code says `layout[at.LANES]`.

An interval has a *slot*, chunk times LANES plus lane; series (or segments of them) that a scan over nodes takes at once
are a *group*, in which each has a *place*, group times ABREAST plus lane; the n-th intervals of a group are a *row*,
neighbouring slots. A *part* is what one thread does at a time: a run of chunks, of groups, of rows, of a vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pathfold.program.kernel import LAYOUT_ACTIVE, LAYOUT_HEAD, LAYOUT_ROWS, LAYOUT_SLOTS, LAYOUT_STEPS

# What kernels read: fine steps an interval; slots; lists of the first row of each group, and of the series with an
# interval in each row.
STEPS, SLOTS, ROWS, ACTIVE = LAYOUT_STEPS, LAYOUT_SLOTS, LAYOUT_ROWS, LAYOUT_ACTIVE

X, V, U, Z, Y, W, V0 = range(LAYOUT_HEAD, LAYOUT_HEAD + 7)  # dimensions, as in `records.Sizes`
(
    METHOD,  # one of the five below
    MAX_DEPTH,  # of the trees of dynamic trajectories
    INTERVALS,  # of all series
    SERIES,  # pieces, where paths are guided
    CHUNKS,  # of intervals
    LANES,  # intervals of a chunk
    ABREAST,  # places of a group
    FIRST,  # list: first interval of each series, and the number of all
    SLOT,  # list: slot of each interval
    PLACE,  # list: place of each series
    BEFORE,  # list, by place: slot of the interval before a segment that goes on with a series, else -1
    IDLE,  # list: slots without an interval ...
    IDLE_SLOTS,  # ... and how many
    IDLE_PLACE,  # list: places where no series begins ...
    IDLE_PLACES,  # ... and how many
    WHOLE_SERIES,  # how many series the pieces make
    FIRST_PIECE,  # list: first piece of each series, and the number of all
    PARTS,  # that the work is cut into
    APART,  # whether parts have whole series
    BY_CHUNK,  # list: first chunk of each part, and the number of all; the same for ...
    BY_SERIES,  # ... groups of series
    BY_NODE,  # ... rows
    BY_SHARE,  # ... shares of a vector
    BY_SEGMENT,  # ... series that are cut into segments
    TABLES,  # other tables than this one: of threads, then of parts (`write_tables`)
    PLANS,  # list: all plans (`plans.bind`)
    RUN,  # address of the function that goes through them (`native/run.py`)
    TEAM,  # address of the team whose threads share the parts, or 0
    _RECORDS,
) = range(V0 + 1, V0 + 30)

CONSTRAINED, UNCONSTRAINED, GUIDED, LAPLACE, INTEGRATED = range(5)  # values of METHOD

# Records, by block, as in POINT_SUMS: three numbers each, where it begins, where it ends, the scalars of one set of its
# fields.
END, SIZE = 1, 2
RECORDS = {
    "problem": "settings grid forcing coordinates about metric window_mean window_squares",
    "vector": "u v0 w v",
    "point": "u v0 w v theta start node path sums segment dual dual_start guide piece",
    "scratch": "work slope newton start_multipliers start_weights newton_sums element element_start gains tied "
    "lane_normals series_normals handed guess descent descent_of_series carry",
}

# Fields that control flow reads or writes, by record, as in SUMS_LOG_DET: where each lies in its record.
FIELDS = {
    "settings": "verlet constraint_tolerance position_tolerance max_iterations row_relaxation gap_relaxation "
    "coldness curved held",
    "grid": "y",
    "coordinates": "factor",
    "theta": "z excess_u",
    "start": "x0",
    "segment": "x_in",
    "node": "x_start x_node loss noise",
    "path": "x",
    "sums": "C C_inv condition log_det log_C negatives excesses rows penalty misfit a b a_error residual change "
    "factors squares gz wD",
    "guess": "best least",
    "descent_of_series": "share missed fraction",
    "newton": "gap o",
    "v": "v",
    "v0": "v0",
    "guide": "H F",
    "piece": "x_begin x_end H_begin F_begin H_end F_end log_weight log_ratio excess log_series missed noise0 kind",
}


def _offsets(begin: int, width: int, listed: dict[str, str]) -> dict[str, int]:
    names = [f"{owner}_{name}".upper() for owner, named in listed.items() for name in named.split()]
    assert len({*names}) == len(names)
    return {name: begin + width * i for i, name in enumerate(names)}


_of_records = _offsets(_RECORDS, 3, RECORDS)
_of_fields = _offsets(_RECORDS + 3 * len(_of_records), 1, FIELDS)
LENGTH = _RECORDS + 3 * len(_of_records) + len(_of_fields)
globals().update(_of_records | _of_fields)
if TYPE_CHECKING:

    def __getattr__(name: str) -> int: ...


# Records that there is one of for every part: its sums, and the lane buffer.
OF_PARTS = {
    "sums": _of_records["POINT_SUMS"],
    "newton_sums": _of_records["SCRATCH_NEWTON_SUMS"],
    "carry": _of_records["SCRATCH_CARRY"],
}


def record_place(block: str, record: str) -> int:
    """Return the offset in the table of a record of a block."""
    return _of_records[f"{block}_{record}".upper()]


def field_places(record: str, fields: list[str]) -> dict[str, int]:
    """Return the offsets in the table of those fields of a record that it lists."""
    listed = FIELDS.get(record, "").split()
    return {field: _of_fields[f"{record}_{field}".upper()] for field in fields if field in listed}


def write_tables(layout: np.ndarray) -> None:
    """Write the tables of threads and of parts after the first: they differ from it in the offsets of their own memory.

    A thread has its own lane buffer; a part has that of a thread, and its own sums.
    """
    others = layout[PARTS] - 1
    for i in range(2 * others):
        begin, number = layout[TABLES] + i * LENGTH, 1 + i % max(1, others)
        table = layout[begin : begin + LENGTH]
        table[:] = layout[:LENGTH]
        table[[ROWS, ACTIVE, BEFORE]] -= begin
        for place in (OF_PARTS["carry"],) if i < others else OF_PARTS.values():
            table[place] += number * layout[place + SIZE]
