"""Where the parameters go when the constraints are not quite met any more, to first order."""

from __future__ import annotations

from pathfold.engine import table as at

from .jit import compiled
from .manifold import factorise, linearise, pull_start, solve_pushed
from .parts import over_chunks


@compiled
def first_order_shift(layout, problem, point, vector, scratch):
    """u of -J^T G^{-1} c in the vector, which is zero on entry, with c the gaps and misfits at the point.

    To first order the posterior mean of u changes by this when the constraints change by c. Returns a status.
    """
    linearise(layout, problem, point, scratch)
    status = factorise(layout, problem, point, scratch)
    over_chunks(at.PUSH, layout, problem, point, vector, scratch)
    solve_pushed(layout, problem, point, vector, scratch)
    pull_start(layout, vector, scratch)
    return status
