"""The guide of a segment of the path, backward, and the path that follows it, forward (method.md, section 19).

A segment runs from one observation to the next: a piece of steps without observations, which may be none, and the piece
after it, the step that ends at the observation. Segments are called by the first of their pieces. After the last one of
a series comes its tail, the steps that nothing is seen after, if there are any.
"""

from __future__ import annotations

from pathfold.engine import plans
from pathfold.engine import table as at

from .jit import compiled
from .run import one
from .small import finite
from .thresholds import SWEEPS
from .vectors import of_interval, of_series


@compiled
def begins(layout, piece):
    """Return the first step of a piece."""
    return layout[layout[at.FIRST] + piece]


@compiled
def first_piece(layout, k):
    """Return the first piece of a series; the piece before that of the next series is its tail."""
    return layout[layout[at.FIRST_PIECE] + k]


@compiled
def hand_over(layout, point, size, source, of_piece, target, to_piece):
    """Copy a field of one piece to a field of another."""
    a, b = of_series(layout, at.POINT_PIECE, source, of_piece), of_series(layout, at.POINT_PIECE, target, to_piece)
    for i in range(size):
        point[b + i] = point[a + i]


@compiled
def clear_steps(layout, point, record, field, size, first, end):
    """Set a field to zero at every step from one piece to another (exclusive)."""
    for n in range(begins(layout, first), begins(layout, end)):
        base = of_interval(layout, record, field, n)
        for i in range(size):
            point[base + i * layout[at.LANES]] = 0.0


@compiled
def draw_steps(layout, point, record, field, piece, rng):
    """Draw standard normals for omega, or for the noise, of the steps of a piece."""
    for n in range(begins(layout, piece), begins(layout, piece + 1)):
        base = of_interval(layout, record, field, n)
        for i in range(layout[at.V]):
            point[base + i * layout[at.LANES]] = rng.standard_normal()


@compiled
def clear_guide(layout, point, piece, end):
    """Set H = 0, F = 0 at every step from one piece to another (exclusive), for noise as it is without data."""
    X = layout[at.X]
    clear_steps(layout, point, at.POINT_GUIDE, at.GUIDE_H, X * X, piece, end)
    clear_steps(layout, point, at.POINT_GUIDE, at.GUIDE_F, X, piece, end)
    clear_outlook(layout, point, at.PIECE_H_BEGIN, at.PIECE_F_BEGIN, piece)


@compiled
def clear_outlook(layout, point, H, F, piece):
    X, H, F = layout[at.X], of_series(layout, at.POINT_PIECE, H, piece), of_series(layout, at.POINT_PIECE, F, piece)
    point[H : H + X * X] = 0.0
    point[F : F + X] = 0.0


@compiled
def outlook_is_finite(layout, point, piece):
    X, total = layout[at.X], 0.0
    H = of_series(layout, at.POINT_PIECE, at.PIECE_H_BEGIN, piece)
    F = of_series(layout, at.POINT_PIECE, at.PIECE_F_BEGIN, piece)
    for i in range(X * X):
        total += abs(point[H + i])
    for i in range(X):
        total += abs(point[F + i])
    return finite(total)


@compiled
def look_back(m, point, piece):
    """Compute the guide of a segment, along the path that the point has there, from what is ahead of its end.

    If it is not finite it is set to 0, so that noise can still be drawn.
    """
    X, node = m.layout[at.X], piece + 1
    one(m, plans.GUIDE_NODE, node, point, point)
    if begins(m.layout, node) > begins(m.layout, piece):
        hand_over(m.layout, point, X * X, at.PIECE_H_BEGIN, node, at.PIECE_H_END, piece)
        hand_over(m.layout, point, X, at.PIECE_F_BEGIN, node, at.PIECE_F_END, piece)
        one(m, plans.GUIDE, piece, point, point)
    else:
        hand_over(m.layout, point, X * X, at.PIECE_H_BEGIN, node, at.PIECE_H_BEGIN, piece)
        hand_over(m.layout, point, X, at.PIECE_F_BEGIN, node, at.PIECE_F_BEGIN, piece)
    if not outlook_is_finite(m.layout, point, piece):
        clear_guide(m.layout, point, piece, node + 1)


@compiled
def follow_steps(m, place, point, piece):
    """Make the path up to the last step of a segment, from omega or noise, by a kernel; return its log weight."""
    X, node = m.layout[at.X], piece + 1
    if begins(m.layout, node) == begins(m.layout, piece):
        hand_over(m.layout, point, X, at.PIECE_X_BEGIN, piece, at.PIECE_X_BEGIN, node)
        return 0.0
    one(m, place, piece, point, point)
    hand_over(m.layout, point, X, at.PIECE_X_END, piece, at.PIECE_X_BEGIN, node)
    return point[of_series(m.layout, at.POINT_PIECE, at.PIECE_LOG_WEIGHT, piece)]


@compiled
def follow_node(m, place, point, piece):
    """Make the last step of a segment, to its observation, by a kernel; return its log weight."""
    one(m, place, piece + 1, point, point)
    return point[of_series(m.layout, at.POINT_PIECE, at.PIECE_LOG_WEIGHT, piece + 1)]


@compiled
def follow_segment(m, point, piece):
    """Make the path of a segment from omega by its guide, from where the piece begins; return its log weight."""
    log_weight = follow_steps(m, plans.GUIDED_PATH, point, piece)
    return log_weight + follow_node(m, plans.GUIDED_NODE, point, piece)


@compiled
def aim(m, point, piece):
    """Compute the guide of a segment towards its own observation alone, from where the piece begins."""
    clear_steps(m.layout, point, at.POINT_V, at.V_V, m.layout[at.V], piece, piece + 2)
    clear_guide(m.layout, point, piece, piece + 2)
    clear_outlook(m.layout, point, at.PIECE_H_END, at.PIECE_F_END, piece + 1)
    for _ in range(SWEEPS):
        follow_segment(m, point, piece)
        look_back(m, point, piece)


@compiled
def guide_series(m, point, k):
    """Compute the guides of all segments of a series, from the last to the first, along the path that the point has."""
    layout = m.layout
    X, first, tail = layout[at.X], first_piece(layout, k), first_piece(layout, k + 1) - 1
    clear_guide(layout, point, tail, tail + 1)
    for piece in range(tail - 2, first - 1, -2):
        hand_over(layout, point, X * X, at.PIECE_H_BEGIN, piece + 2, at.PIECE_H_END, piece + 1)
        hand_over(layout, point, X, at.PIECE_F_BEGIN, piece + 2, at.PIECE_F_END, piece + 1)
        look_back(m, point, piece)


@compiled
def follow_series(m, point, k, inverse):
    """Make the whole path of a series from omega by its guides or, `inverse`, omega and the path from the noise.

    Returns its log weight, kept with its first piece, which has log p(y | z) of the series as that of its mean.
    """
    layout = m.layout
    X, first, tail = layout[at.X], first_piece(layout, k), first_piece(layout, k + 1) - 1
    start = plans.INNOVATIONS_START if inverse else plans.GUIDED_START
    steps = plans.INNOVATIONS_PATH if inverse else plans.GUIDED_PATH
    node = plans.INNOVATIONS_NODE if inverse else plans.GUIDED_NODE
    one(m, start, first, point, point)
    total = point[of_series(layout, at.POINT_PIECE, at.PIECE_LOG_RATIO, first)]
    total -= point[of_series(layout, at.POINT_PIECE, at.PIECE_EXCESS, first)]
    for piece in range(first, tail, 2):
        total += follow_steps(m, steps, point, piece)
        total += follow_node(m, node, point, piece)
        hand_over(layout, point, X, at.PIECE_X_END, piece + 1, at.PIECE_X_BEGIN, piece + 2)
    if begins(layout, tail + 1) > begins(layout, tail):
        one(m, steps, tail, point, point)
    point[of_series(layout, at.POINT_PIECE, at.PIECE_LOG_SERIES, first)] = total
    return total
