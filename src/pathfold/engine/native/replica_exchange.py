"""Replica exchange: chains of the posterior with its likelihood to powers from 1 to 0 (method.md, section 22).

A rung is one of the powers, with its own problem, step size and integration time; a replica is what moves from rung to
rung. Row k of all tables belongs to rung k: the first is the posterior, the last the prior. A sweep is a transition on
every rung, a draw from the prior on the last one, and exchanges between neighbours, of even and odd pairs in turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import exp, inf, nan

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .chain_loop import adapt_pace, make_static, pace
from .dynamics import potential
from .jit import compiled
from .lanes import noise_of_interval, of_interval, setting
from .manifold import factorise, linearise, set_gradient
from .nodes import follow
from .recording import record_row
from .small import finite
from .step_size import ITERATION
from .thresholds import MOST_RUNGS
from .trajectory import ACCEPTANCE, CURRENT, LOG_DENSITY, NEXT, SPARE, STATISTICS
from .vector import copy, draw_normals, gradient, position, squared_norm

# Statistics of a draw besides those of all samplers: which replica it is of, round trips since warm-up, the weight of
# the draw from the prior; then of every rung the power, the log likelihood, and how likely the exchange with the next
# one is to be accepted.
REPLICA_STATISTICS = {"replica": "int64", "round_trips": "int64", "prior_weight": "float64"}
REPLICA, ROUND_TRIPS, PRIOR_WEIGHT, OF_RUNGS = range(STATISTICS, STATISTICS + 4)
RUNG_STATISTICS = ("power", "rung_log_likelihood", "exchange_rate")
POWERS, LIKELIHOODS, EXCHANGES, ALL_STATISTICS = range(OF_RUNGS, OF_RUNGS + 3 * MOST_RUNGS + 1, MOST_RUNGS)

# Rows of the table of places, a column for every rung: which replica is there, and how far it is on its way: it has
# been on the first rung, and on the last one after that.
LABEL, WAY, PLACES = range(3)
FROM_FIRST, FROM_LAST = 1.0, 2.0

SWEEPS, TRIPS, TALLY = range(3)  # sweeps made, round trips since warm-up


class Replicas(NamedTuple):
    """What replicas are besides what one chain works with."""

    points: Any  # where each rung is
    powers: Any
    losses: Any  # -log likelihood of each, up to a constant
    places: Any
    tally: Any


@compiled
def loss(layout, point):
    """Return -log p(y) at the point, up to a constant."""
    total = 0.0
    for n in range(layout[at.INTERVALS]):
        total += point[of_interval(layout, at.POINT_NODE, at.NODE_LOSS, n)]
    return total


@compiled
def meet(layout, problem, point, scratch):
    """Let the noise of observations be what the rows of this problem ask for, and prepare the point; return a status.

    Rows are affine in it with unit slopes, so that w -= o meets them; w of missing values stays. Nothing else depends
    on w.
    """
    lanes, q = layout[at.LANES], position(layout, point)
    linearise(layout, problem, point, scratch)
    for n in range(layout[at.INTERVALS]):
        o = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_O, n)
        w, _ = noise_of_interval(layout, n)[0]
        for j in range(layout[at.Y]):
            q[w + j * lanes] -= scratch[o + j * lanes]
    status = factorise(layout, problem, point, scratch)
    if status != CONVERGED:
        return status
    set_gradient(layout, problem, point, scratch)
    known = squared_norm(gradient(layout, point)) + squared_norm(q) + loss(layout, point)
    return CONVERGED if finite(known) else NON_FINITE


@compiled
def renew(layout, problem, points, rng, scratch):
    """Propose a draw of standard normals to points[CURRENT], on the rung of the prior; return its weight in the prior.

    The prior is e^-excess times standard normals, where the path is finite, and that is the weight: Metropolis'
    independence sampler accepts it by its ratio, and always where there is no excess.
    """
    draw_normals(layout, position(layout, points[NEXT]), rng)
    follow(layout, problem, points[NEXT], 0, scratch)
    status = meet(layout, problem, points[NEXT], scratch)
    proposed = excess(layout, points[NEXT]) if status == CONVERGED else inf
    if rng.random() < exp(min(0.0, excess(layout, points[CURRENT]) - proposed)):
        copy(points[NEXT], points[CURRENT])
    return exp(-proposed)


@compiled
def excess(layout, point):
    """Return what the potential has besides 1/2 |q|^2."""
    return potential(layout, point) - 0.5 * squared_norm(position(layout, point))


@compiled
def exchange_probability(replicas, k):
    """Return min(1, exp((b_k - b_l) (E_k - E_l))) for the rungs k and l = k + 1, with powers b and losses E."""
    powers, losses = replicas.powers, replicas.losses
    return exp(min(0.0, (powers[k] - powers[k + 1]) * (losses[k] - losses[k + 1])))


@compiled
def exchange(layout, problems, points, replicas, k, scratch):
    """Exchange the replicas of rungs k and k + 1, unless either cannot be where the other was."""
    copy(replicas.points[k], points[NEXT])
    copy(replicas.points[k + 1], points[SPARE])
    if meet(layout, problems[k + 1], points[NEXT], scratch) != CONVERGED:
        return
    if meet(layout, problems[k], points[SPARE], scratch) != CONVERGED:
        return
    copy(points[NEXT], replicas.points[k + 1])
    copy(points[SPARE], replicas.points[k])
    losses, places = replicas.losses, replicas.places
    losses[k], losses[k + 1] = losses[k + 1], losses[k]
    for i in range(PLACES):
        places[i, k], places[i, k + 1] = places[i, k + 1], places[i, k]


@compiled
def exchange_neighbours(layout, problems, points, replicas, rng, scratch, row):
    """Exchange every second pair of neighbours, the others in the next sweep, and write how likely all pairs were."""
    first = int(replicas.tally[SWEEPS]) % 2
    for k in range(replicas.powers.size - 1):
        row[EXCHANGES + k] = exchange_probability(replicas, k)
    for k in range(first, replicas.powers.size - 1, 2):
        if rng.random() < row[EXCHANGES + k]:
            exchange(layout, problems, points, replicas, k, scratch)


@compiled
def follow_trips(replicas):
    """Count the replicas that come from the first rung by way of the last one."""
    places, last = replicas.places, replicas.powers.size - 1
    if places[WAY, last] == FROM_FIRST:
        places[WAY, last] = FROM_LAST
    if places[WAY, 0] == FROM_LAST:
        replicas.tally[TRIPS] += 1.0
    places[WAY, 0] = FROM_FIRST


@compiled
def forget_trips(replicas):
    replicas.tally[TRIPS] = 0.0
    for k in range(replicas.powers.size):
        replicas.places[WAY, k] = 0.0


@compiled
def sweep(work, replicas, time, warmup, target, row):
    """Make a transition on every rung, the first one last, and exchange neighbours; write the statistics."""
    layout, problems, points, momenta, scratch, rng, states, searches, counts, _ = work
    last = replicas.powers.size - 1
    if states[0, ITERATION] == warmup:
        forget_trips(replicas)
    for i in range(OF_RUNGS, ALL_STATISTICS):
        row[i] = nan
    for k in range(last, -1, -1):
        problem, state, search = problems[k], states[k], searches[k]
        copy(replicas.points[k], points[CURRENT])
        t, share = pace(layout, problem, points, momenta, rng, scratch, counts, state, warmup)
        moved = points, momenta, t, share, rng, scratch, counts, state, search
        needed = make_static(layout, problem, *moved, time, warmup, row)
        adapt_pace(state, needed, row[ACCEPTANCE], target, warmup)
        state[ITERATION] += 1.0
        if k == last:
            row[PRIOR_WEIGHT] = renew(layout, problem, points, rng, scratch)
        copy(points[CURRENT], replicas.points[k])
        replicas.losses[k] = loss(layout, points[CURRENT])
        row[POWERS + k] = replicas.powers[k]
        row[LIKELIHOODS + k] = -replicas.losses[k]
    exchange_neighbours(layout, problems, points, replicas, rng, scratch, row)
    follow_trips(replicas)
    replicas.tally[SWEEPS] += 1.0
    row[REPLICA] = replicas.places[LABEL, 0]
    row[ROUND_TRIPS] = replicas.tally[TRIPS]
    row[LOG_DENSITY] = -potential(layout, replicas.points[0])


@compiled
def run_replicas(work, replicas, time, warmup, target, drawn, stop, done):
    """Make as many sweeps as the outputs have rows, unless `stop` is set; return how many were made.

    Problems, states and searches of the work have a row for every rung. The draws are those of the first one.
    """
    made = 0
    while made < drawn.statistics.shape[0] and stop[0] == 0:
        sweep(work, replicas, time, warmup, target, drawn.statistics[made])
        record_row(work.layout, replicas.points[0], drawn, made)
        made += 1
        done[0] += 1
    return made


@compiled
def set_coldness(layout, problem, power):
    """Let the rows of a problem be those of the likelihood to a power."""
    problem[setting(layout, at.SETTINGS_COLDNESS)] = power**0.5
