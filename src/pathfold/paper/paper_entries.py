"""What the host calls for the paper's comparators (see `engine/entries.py`)."""

from __future__ import annotations

from numba import boolean, float64, int64

from pathfold.engine.entries import BLOCK, DRAWN, LAYOUT, MACHINE, RNG, TABLE, WORK, Entries
from pathfold.paper.native import metropolis
from pathfold.paper.native.coordinates import change_coordinates, to_normals
from pathfold.paper.native.dynamic_loop import run_dynamic

DYNAMIC: Entries = (
    (to_normals, (MACHINE, BLOCK)),
    (change_coordinates, (MACHINE, TABLE, BLOCK, BLOCK, BLOCK)),
    (run_dynamic, (WORK, BLOCK, boolean, int64, float64, *DRAWN)),
)
GUIDED: Entries = (
    (metropolis.guided_search_size, (LAYOUT,)),
    (metropolis.begin_search, (LAYOUT, BLOCK, float64, boolean)),
    (metropolis.begin, (MACHINE, TABLE, BLOCK, BLOCK)),
    (metropolis.exchange_noise, (LAYOUT, BLOCK, BLOCK, boolean)),
    (metropolis.run_guided, (MACHINE, TABLE, RNG, BLOCK, int64, *DRAWN)),
)
