"""The first-order shift of parameters and initial states when the constraints are no longer quite met."""

from __future__ import annotations

from pathfold.engine import table as at

from .jit import compiled
from .manifold import factorise, linearise, pull_start, set_weights, solve_pushed
from .parts import over_chunks


@compiled
def first_order_shift(layout, problem, point, vector, scratch):
    """Write u and v0 of -J^T G^{-1} c, with c the gaps and misfits at the point, to the vector, which is zero on entry.

    To first order their posterior means change by this when the constraints change by c. The scratch has the weights of
    the initial states' Jacobians, which their posterior covariance is made of. Returns a status.
    """
    linearise(layout, problem, point, scratch)
    status = factorise(layout, problem, point, scratch)
    over_chunks(at.PUSH, layout, problem, point, vector, scratch)
    solve_pushed(layout, problem, point, vector, scratch)
    pull_start(layout, vector, scratch)
    set_weights(layout, problem, point, vector, scratch)
    return status
