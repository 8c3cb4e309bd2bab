"""What the host calls of the native sampler, with the types of the arguments, so that it can be compiled beforehand.

Samplers name a list by its module, as in "pathfold.engine.entries:STATIC".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int64, typeof
from numba.core.types import NamedTuple

from pathfold.engine.native.chain_loop import Work, run_static
from pathfold.engine.native.constrained_step import first_order_shift, linearise
from pathfold.engine.native.dynamics import prepare
from pathfold.engine.native.fibre import draw_pair
from pathfold.engine.native.inner_mode import inner_mode
from pathfold.engine.native.integrated_paths import condition, integrate, integrate_with_gradient, run_integrated
from pathfold.engine.native.integration_time import integration_time
from pathfold.engine.native.nodes import guess_nodes
from pathfold.engine.native.recording import Drawn
from pathfold.engine.native.replica_exchange import PACING, Replicas, meet, run_replicas, set_coldness
from pathfold.engine.native.run import Machine, help_along
from pathfold.engine.native.start_search import seek
from pathfold.engine.native.tuning import Tuning

type Entries = tuple[tuple[Any, tuple], ...]

LAYOUT = COUNTS = int64[::1]
BLOCK, TABLE, PATHS = float64[::1], float64[:, ::1], float64[:, :, :, ::1]
STATES = float64[:, :, ::1]
RNG = typeof(np.random.default_rng())
MACHINE = NamedTuple((LAYOUT, BLOCK, BLOCK, COUNTS), Machine)
TUNING = typeof(Tuning.of(1, 1))
WORK = NamedTuple((LAYOUT, TABLE, TABLE, TABLE, BLOCK, TUNING, COUNTS), Work)
DRAWN = (NamedTuple((TABLE, STATES, STATES, PATHS, TABLE), Drawn), COUNTS, COUNTS)

_START = (MACHINE, TABLE, TABLE, TABLE, int64, float64, float64, RNG)
_PACING = typeof(np.zeros(1, PACING))
_REPLICAS = NamedTuple((TABLE, BLOCK, BLOCK, COUNTS, COUNTS, TABLE, TABLE, TABLE, COUNTS, _PACING), Replicas)

OF_ALL: Entries = (
    (integration_time, (float64, int64, int64)),
    (linearise, (MACHINE, BLOCK)),
    (guess_nodes, (MACHINE, BLOCK, int64)),
    (prepare, (MACHINE, BLOCK)),
    (seek, _START),
    (first_order_shift, (MACHINE, BLOCK, BLOCK)),
    (help_along, (int64, int64)),
)
STATIC: Entries = (
    (run_static, (WORK, RNG, float64, int64, float64, *DRAWN)),
    (integrate_with_gradient, (MACHINE, BLOCK)),
    (condition, (MACHINE, BLOCK)),
    (run_integrated, (WORK, RNG, TABLE, int64, float64, *DRAWN)),
)
REPLICAS: Entries = (
    (set_coldness, (MACHINE, float64)),
    (meet, (MACHINE, BLOCK)),
    (run_replicas, (WORK, RNG, _REPLICAS, int64, int64, *DRAWN)),
)
LINEAR: Entries = (
    (integrate, (MACHINE, BLOCK)),
    (integrate_with_gradient, (MACHINE, BLOCK)),
    (condition, (MACHINE, BLOCK)),
)
LAPLACE: Entries = (
    (inner_mode, (MACHINE, TABLE, BLOCK, boolean)),
    (draw_pair, (MACHINE, TABLE, BLOCK, RNG)),
)
