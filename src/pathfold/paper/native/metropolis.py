"""Guided proposals (method.md, section 20): Metropolis moves of (u, omega_0, omega), of which guides make a path.

An iteration moves the normals of the path, series by series, by a step of Crank and Nicolson; then each of u, and each
of omega_0 of every series, by a random walk, with all other normals as they are. Guides are linearised along a
reference path that knows nothing of where the chain is. Between moves the point NEXT is the same as CURRENT.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import exp, sqrt

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.native import trajectory as rows
from pathfold.engine.native.guided_paths import begins, first_piece, follow_series, guide_series
from pathfold.engine.native.jit import compiled
from pathfold.engine.native.recording import record_row
from pathfold.engine.native.run import run
from pathfold.engine.native.small import finite
from pathfold.engine.native.tuning import record
from pathfold.engine.native.vectors import copy, of_interval, of_series, position, slot_of, squared_norm
from pathfold.engine.status import CONVERGED, NON_FINITE

# How fast the chain mixes.
FIRST_SHARE, FIRST_WIDTH = 0.1, 0.5  # of 1 - rho; of the random walks
SHORT_MOVES, DECADES = 0.5, 2.0  # this share of the moves of a path is shorter, 1 - rho by up to so many powers of ten
EVERY = 100  # iterations: how often warm-up adapts
PATH_TARGET, COORDINATE_TARGET = 0.234, 0.44  # acceptance
SETTLED = 100.0  # adaptations after which they become smaller
RENEWALS = (0.05, 0.1, 0.2, 0.5)  # of warm-up: when the reference becomes the mean of the paths since the last time

# Rows of the table of points besides these two: the path that guides are linearised along, the sum of those drawn.
REFERENCE, SUM, GUIDED_POINTS = 2, 3, 4

# Statistics of a draw besides those of all samplers, and what results call them: acceptance of the path, rho; then of
# every coordinate of u and of omega_0 the acceptance, and of all the width.
GUIDED_STATISTICS = ("path_acceptance", "rho")
PATH_ACCEPTANCE, RHO, OF_COORDINATES = range(rows.STATISTICS, rows.STATISTICS + 3)

MOVES = record(
    made=int,  # draws
    thin=int,  # iterations a draw
    renews=int,  # whether the reference is renewed
    summed=float,  # paths in the sum that will renew it
    log_share=float,  # log(1 - rho)
    adaptations=float,
    long=float,  # long moves of the path since the last adaptation ...
    long_accepted=float,  # ... and how likely these were to be accepted
    tried=float,  # all moves of a draw ...
    lost=float,  # ... and those whose path was not finite
)


class Search(NamedTuple):
    """What adapts moves: a record of MOVES, and of every coordinate that walks by itself, those of u and, shared by all
    series, of omega_0, the log width of its moves and how likely these were to be accepted since the last adaptation.
    """

    moves: Any
    log_width: Any
    accepted: Any

    @classmethod
    def of(cls, coordinates: int, thin: int, renews: bool) -> Search:
        """Return the beginning of a search."""
        moves = np.zeros(1, MOVES)
        moves[0] = (0, thin, renews, 0.0, np.log(FIRST_SHARE), *(5 * [0.0]))
        return cls(moves, np.full(coordinates, np.log(FIRST_WIDTH)), np.zeros(coordinates))


@compiled
def copy_path(layout, source, target):
    """Copy the path of one point to another, for guides to be linearised along, but not its noise."""
    for n in range(layout[at.INTERVALS]):
        for field in (at.NODE_X_START, at.NODE_X_NODE):
            base = of_interval(layout, at.POINT_NODE, field, n)
            for i in range(layout[at.X]):
                target[base + i * layout[at.LANES]] = source[base + i * layout[at.LANES]]


@compiled
def copy_steps(layout, place, first, end, source, target):
    """Copy a record of some of the steps."""
    lanes, size = layout[at.LANES], layout[place + at.SIZE]
    for n in range(first, end):
        slot = slot_of(layout, n)
        base = layout[place] + (slot // lanes) * size * lanes + slot % lanes
        for i in range(size):
            target[base + i * lanes] = source[base + i * lanes]


@compiled
def copy_series(layout, source, target, k):
    """Copy all of a series that a move of its noise changes."""
    first, end = first_piece(layout, k), first_piece(layout, k + 1)
    for by_piece in (at.POINT_V0, at.POINT_PIECE):
        size = layout[by_piece + at.SIZE]
        a, b = layout[by_piece] + first * size, layout[by_piece] + end * size
        copy(source[a:b], target[a:b])
    for by_step in (at.POINT_V, at.POINT_NODE):
        copy_steps(layout, by_step, begins(layout, first), begins(layout, end), source, target)


@compiled
def log_series(layout, point, k):
    """Return the log weight of a series, as it was computed last."""
    return point[of_series(layout, at.POINT_PIECE, at.PIECE_LOG_SERIES, first_piece(layout, k))]


@compiled
def log_target(layout, point):
    """Return the log density of u given omega: that of the prior, and the log weights of all series."""
    total = -point[layout[at.POINT_THETA] + layout[at.THETA_EXCESS_U]]
    for j in range(layout[at.U]):
        total -= 0.5 * point[layout[at.POINT_U] + j] ** 2
    for k in range(layout[at.WHOLE_SERIES]):
        total += log_series(layout, point, k)
    return total


@compiled
def log_density(layout, point):
    """Return the log density of (u, omega_0, omega), up to a constant."""
    of_u = 0.0
    for j in range(layout[at.U]):
        of_u += point[layout[at.POINT_U] + j] ** 2
    return log_target(layout, point) - 0.5 * (squared_norm(position(layout, point)) - of_u)


@compiled
def remake_paths(m, reference, point, inverse):
    """Compute z from u, guides along the reference, and the path from omega or, `inverse`, omega from the noise."""
    layout = m.layout
    run(m, plans.PARAMETERS, point, point)
    copy_path(layout, reference, point)
    for k in range(layout[at.WHOLE_SERIES]):
        guide_series(m, point, k)
        follow_series(m, point, k, inverse)


@compiled
def exchange(point, own, vector, of_vector, count, stride, write):
    """Copy numbers that lie a stride apart from the point to the vector or, with `write`, from the vector."""
    for i in range(0, count * stride, stride):
        if write:
            point[own + i] = vector[of_vector + i]
        else:
            vector[of_vector + i] = point[own + i]


@compiled
def exchange_noise(layout, point, vector, write):
    """Copy the noise of starts and steps, with u, to a vector or, with `write`, from the vector to the point."""
    if write:
        copy(vector[: layout[at.U]], point[: layout[at.U]])
    else:
        copy(point[: layout[at.U]], vector[: layout[at.U]])
    for k in range(layout[at.WHOLE_SERIES]):
        piece = first_piece(layout, k)
        own = of_series(layout, at.POINT_PIECE, at.PIECE_NOISE0, piece)
        of_vector = of_series(layout, at.VECTOR_V0, at.V0_V0, piece)
        exchange(point, own, vector, of_vector, layout[at.V0], 1, write)
    for n in range(layout[at.INTERVALS]):
        own = of_interval(layout, at.POINT_NODE, at.NODE_NOISE, n)
        of_vector = of_interval(layout, at.VECTOR_V, at.V_V, n)
        exchange(point, own, vector, of_vector, layout[at.V], layout[at.LANES], write)


@compiled
def begin(m, points, vector, nodes):
    """Start from the noise in the vector, with guides along the path that this record of nodes has; return a status."""
    copy(nodes, node_record(m.layout, points[REFERENCE]))
    exchange_noise(m.layout, points[rows.CURRENT], vector, True)
    remake_paths(m, points[REFERENCE], points[rows.CURRENT], True)
    return CONVERGED if finite(log_density(m.layout, points[rows.CURRENT])) else NON_FINITE


@compiled
def chance(moves, log_ratio):
    """Return the probability that a move is accepted: zero where its path is not finite."""
    moves.tried += 1.0
    if not finite(log_ratio):
        moves.lost += 1.0
        return 0.0
    return exp(min(0.0, log_ratio))


@compiled
def try_series(m, points, rng, search, k, log_prior):
    """Follow the moved noise of a series, and accept or reject it; return the probability of acceptance."""
    before = log_series(m.layout, points[rows.CURRENT], k)
    after = follow_series(m, points[rows.NEXT], k, False)
    probability = chance(search.moves[0], after - before + log_prior)
    if rng.random() < probability:
        copy_series(m.layout, points[rows.NEXT], points[rows.CURRENT], k)
    else:
        copy_series(m.layout, points[rows.CURRENT], points[rows.NEXT], k)
    return probability


@compiled
def turn_series(layout, point, rng, k, share):
    """Propose sqrt(1 - share) omega + sqrt(share) xi, for start and steps of a series, with xi standard normal."""
    keep, renew, first = sqrt(1.0 - share), sqrt(share), first_piece(layout, k)
    base = of_series(layout, at.POINT_V0, at.V0_V0, first)
    for i in range(layout[at.V0]):
        point[base + i] = keep * point[base + i] + renew * rng.standard_normal()
    for n in range(begins(layout, first), begins(layout, first_piece(layout, k + 1))):
        base = of_interval(layout, at.POINT_V, at.V_V, n)
        for j in range(layout[at.V]):
            i = base + j * layout[at.LANES]
            point[i] = keep * point[i] + renew * rng.standard_normal()


@compiled
def move_paths(m, points, rng, search, row):
    """Move omega by preconditioned Crank-Nicolson steps, which leave its prior invariant, with rho or, half of the
    time, a larger one.

    Without the shorter moves a chain can stay for thousands of iterations where its weight happens to be large.
    """
    layout = m.layout
    moves = search.moves[0]
    for k in range(layout[at.WHOLE_SERIES]):
        share, long = min(1.0, exp(moves.log_share)), rng.random() >= SHORT_MOVES  # fast exponentials may exceed 1
        if not long:
            share *= 10.0 ** (-DECADES * rng.random())
        turn_series(layout, points[rows.NEXT], rng, k, share)
        probability = try_series(m, points, rng, search, k, 0.0)
        row[PATH_ACCEPTANCE] += probability / layout[at.WHOLE_SERIES]
        if long:
            moves.long += 1.0
            moves.long_accepted += probability


@compiled
def step_of(search, rng, c):
    """Draw a move of a coordinate, uniform within its width either way."""
    return (2.0 * rng.random() - 1.0) * exp(search.log_width[c])


@compiled
def move_parameters(m, points, rng, search, row):
    """Move the parameters one after the other; the path moves with them, since omega stays."""
    layout = m.layout
    for j in range(layout[at.U]):
        points[rows.NEXT, layout[at.POINT_U] + j] += step_of(search, rng, j)
        remake_paths(m, points[REFERENCE], points[rows.NEXT], False)
        probability = chance(
            search.moves[0], log_target(layout, points[rows.NEXT]) - log_target(layout, points[rows.CURRENT])
        )
        if rng.random() < probability:
            copy(points[rows.NEXT], points[rows.CURRENT])
        else:
            copy(points[rows.CURRENT], points[rows.NEXT])
        count(search, row, j, probability)


@compiled
def move_starts(m, points, rng, search, row):
    """Move the normals of every series' start one after the other: their law is far from the guide's."""
    layout = m.layout
    for k in range(layout[at.WHOLE_SERIES]):
        base = of_series(layout, at.POINT_V0, at.V0_V0, first_piece(layout, k))
        for i in range(layout[at.V0]):
            c, before = layout[at.U] + i, points[rows.CURRENT, base + i]
            after = before + step_of(search, rng, c)
            points[rows.NEXT, base + i] = after
            log_prior = 0.5 * (before**2 - after**2)
            probability = try_series(m, points, rng, search, k, log_prior)
            count(search, row, c, probability / layout[at.WHOLE_SERIES])


@compiled
def count(search, row, c, probability):
    search.accepted[c] += probability
    row[OF_COORDINATES + c] += probability


@compiled
def adapt_moves(search):
    """Adapt widths and 1 - rho to how likely moves were to be accepted, more cautiously in the long run."""
    moves = search.moves[0]
    moves.adaptations += 1.0
    rate = min(1.0, sqrt(SETTLED / moves.adaptations))
    if moves.long > 0.0:
        moves.log_share += 2.0 * rate * (moves.long_accepted / moves.long - PATH_TARGET)
        moves.log_share = min(0.0, moves.log_share)
    moves.long = 0.0
    moves.long_accepted = 0.0
    for c in range(search.accepted.size):
        search.log_width[c] += rate * (search.accepted[c] / EVERY - COORDINATE_TARGET)
        search.accepted[c] = 0.0


@compiled
def node_record(layout, point):
    return point[layout[at.POINT_NODE] : layout[at.POINT_NODE + at.END]]


@compiled
def add_path(layout, points, moves):
    total, path = node_record(layout, points[SUM]), node_record(layout, points[rows.CURRENT])
    moves.summed += 1.0
    for i in range(path.size):
        total[i] += path[i]


@compiled
def renew_reference(m, points, moves):
    """Linearise guides along the mean of the paths in the sum from now on; the noise of the chain stays the same."""
    mean = node_record(m.layout, points[SUM])
    for i in range(mean.size):
        mean[i] /= moves.summed
    remake_paths(m, points[SUM], points[rows.NEXT], True)
    if finite(log_density(m.layout, points[rows.NEXT])):
        copy(mean, node_record(m.layout, points[REFERENCE]))
        copy(points[rows.NEXT], points[rows.CURRENT])
    else:
        copy(points[rows.CURRENT], points[rows.NEXT])
    moves.summed = 0.0
    for i in range(mean.size):
        mean[i] = 0.0


@compiled
def warm_up(m, points, search, made, last):
    """Adapt what is due after `made` iterations of a warm-up of `last`."""
    if made % EVERY == 0:
        adapt_moves(search)
    moves = search.moves[0]
    if moves.renews and made <= int(RENEWALS[-1] * last):
        add_path(m.layout, points, moves)
        for share in RENEWALS:
            if made == int(share * last):
                renew_reference(m, points, moves)


@compiled
def transition(m, points, rng, search, warmup, row):
    """Make the iterations of one draw, and its statistics, which are means over them."""
    moves = search.moves[0]
    draw, thin, moved = moves.made, moves.thin, search.log_width.size
    copy(points[rows.CURRENT], points[rows.NEXT])
    moves.tried = 0.0
    moves.lost = 0.0
    row[:] = 0.0
    for i in range(thin):
        move_paths(m, points, rng, search, row)
        move_parameters(m, points, rng, search, row)
        move_starts(m, points, rng, search, row)
        if draw < warmup:
            warm_up(m, points, search, draw * thin + i + 1, warmup * thin)
    row[PATH_ACCEPTANCE] /= thin
    row[rows.ACCEPTANCE] = row[PATH_ACCEPTANCE]
    for c in range(moved):
        row[OF_COORDINATES + c] /= thin
        row[OF_COORDINATES + moved + c] = exp(search.log_width[c])
        row[rows.ACCEPTANCE] += row[OF_COORDINATES + c]
    row[rows.ACCEPTANCE] /= 1.0 + moved
    row[RHO] = 1.0 - exp(moves.log_share)
    row[rows.STEP_SIZE] = exp(0.5 * moves.log_share)
    row[rows.STEPS_TAKEN] = moves.tried
    row[rows.STEPS_FAILED] = moves.lost
    row[rows.STATUS] = CONVERGED if moves.lost < moves.tried else NON_FINITE
    row[rows.LOG_DENSITY] = log_density(m.layout, points[rows.CURRENT])
    row[rows.ENERGY] = -row[rows.LOG_DENSITY]
    moves.made += 1


@compiled
def run_guided(m, points, rng, search, warmup, drawn, stop, done):
    """Make as many draws as the outputs have rows, unless `stop` is set; return how many were made.

    Points, `search` and `rng` carry the chain from call to call: cutting a run into pieces changes nothing. `done`
    counts for the host to read.
    """
    layout = m.layout
    statistics = drawn.statistics
    made = 0
    while made < statistics.shape[0] and stop[0] == 0:
        transition(m, points, rng, search, warmup, statistics[made])
        record_row(layout, points[rows.CURRENT], drawn, made)
        made += 1
        done[0] += 1
    return made
