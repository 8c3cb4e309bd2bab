"""Draws on the fibre, the paths that meet the data given the parameters, about the most probable one.

A draw is a tangent vector from the Gaussian law whose precision is the curvature at the mode, projected onto the fibre
along the rows of the Jacobian there; its weight is what the fibre's own density has to do with that (method.md,
section 21). On entry the scratch holds the pass that found the mode.
"""

from __future__ import annotations

from numpy import inf

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED

from .constrained_step import clear_multipliers, copy_nodes, factorise, linearise, solve_position
from .inner_mode import AT, inner_potential, simulate
from .jit import compiled
from .run import run
from .small import finite
from .thresholds import HELD
from .vectors import clear_idle, displace, draw_normals, newton_sums, position, setting, sums_of

PLUS, MINUS, FIBRE_POINTS = range(1, 4)  # rows of the table of points, after that of the mode


@compiled
def draw_tangent(m, point, vector, rng):
    """Draw a tangent vector at the mode, with the curvature there as its precision; return its square in that.

    The square is not finite if there is no such law.
    """
    layout = m.layout
    draw_normals(layout, vector, rng)
    for record in (at.SCRATCH_LANE_NORMALS, at.SCRATCH_SERIES_NORMALS):
        for i in range(layout[record], layout[record + at.END]):
            m.scratch[i] = rng.standard_normal()
    return make_tangent(m, point, vector)


@compiled
def make_tangent(m, point, vector):
    """Make a tangent vector of standard normals, in the vector and in scratch; return its square in the precision."""
    sums, squares, held = newton_sums(m), m.layout[at.SUMS_SQUARES], setting(m.layout, at.SETTINGS_HELD)
    sums[squares] = 0.0
    m.problem[held] = HELD
    run(m, plans.DRAW_TANGENT, point, vector)
    m.problem[held] = 0.0
    run(m, plans.LET_ENDS_GO, point, vector)
    clear_idle(m.layout, vector)
    return sums[squares]


@compiled
def mixed_log_det(m, origin, target):
    """log|det J(n) J(n*)^T| of a point of the fibre; not finite if the fibre was left behind a fold."""
    clear_multipliers(m)
    run(m, plans.JUST_SHOOT_AFRESH, origin, target)
    sums, log_det = newton_sums(m), m.layout[at.SUMS_LOG_DET]
    sums[log_det] = 0.0
    run(m, plans.MIXED_LOG_DET, origin, target)
    return sums[log_det]


@compiled
def onto_fibre(m, origin, target, tangent, sign):
    """Project the mode moved along the tangent, or against it, onto the fibre; return V + log|det| or infinity."""
    copy_nodes(m.layout, origin, target)
    displace(m, 1.0, origin, sign, tangent, target)
    if solve_position(m, origin, target, tangent[:0]) != CONVERGED:
        return inf
    log_det = mixed_log_det(m, origin, target)
    clear_idle(m.layout, position(m.layout, target))
    simulate(m, target)
    return inner_potential(m, target) + log_det


@compiled
def draw_pair(m, points, tangent, rng):
    """Draw two points of the fibre on either side of the mode, at points[PLUS] and points[MINUS].

    Returns the logs of their weights, by which their law becomes that of the fibre; -inf of one that was not reached.
    """
    origin = points[AT]
    potential = inner_potential(m, origin)
    squares = draw_tangent(m, origin, tangent, rng)
    linearise(m, origin)
    if not finite(squares) or factorise(m, origin) != CONVERGED:
        return -inf, -inf
    level = potential + 0.5 * squares + sums_of(m.layout, origin)[m.layout[at.SUMS_LOG_DET]]
    plus = level - onto_fibre(m, origin, points[PLUS], tangent, 1.0)
    minus = level - onto_fibre(m, origin, points[MINUS], tangent, -1.0)
    return plus if finite(plus) else -inf, minus if finite(minus) else -inf
