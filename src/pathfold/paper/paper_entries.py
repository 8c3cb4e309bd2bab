"""What the host calls for the paper's comparators (see `engine/entries.py`)."""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, typeof

from pathfold.engine.entries import BLOCK, DRAWN, LAYOUT, MACHINE, RNG, TABLE, WORK, Entries
from pathfold.paper.native import metropolis
from pathfold.paper.native.coordinates import change_coordinates, to_normals
from pathfold.paper.native.dynamic_hmc import TREE
from pathfold.paper.native.dynamic_loop import run_dynamic

DYNAMIC: Entries = (
    (to_normals, (MACHINE, BLOCK)),
    (change_coordinates, (MACHINE, TABLE, BLOCK, BLOCK, BLOCK)),
    (run_dynamic, (WORK, RNG, typeof(np.zeros(1, TREE)), boolean, int64, float64, *DRAWN)),
)
GUIDED: Entries = (
    (metropolis.begin, (MACHINE, TABLE, BLOCK, BLOCK)),
    (metropolis.exchange_noise, (LAYOUT, BLOCK, BLOCK, boolean)),
    (metropolis.run_guided, (MACHINE, TABLE, RNG, typeof(metropolis.Search.of(1, 1, True)), int64, *DRAWN)),
)
