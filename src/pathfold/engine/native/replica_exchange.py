"""Replica exchange: chains of the posterior with its likelihood to powers from 1 to 0 (method.md, section 22).

A rung is one of the powers, with its own problem, step size and integration time; a replica is what moves from rung to
rung. Row k of all tables belongs to rung k: the first is the posterior, the last the prior. A sweep is a transition on
every rung, a draw from the prior on the last one, and exchanges between neighbours, of even and odd pairs in turn.

All that chance decides in a sweep is drawn by the chain's own thread, in order: before the transitions, and after them
which pairs are exchanged. What then is to be done for a rung or a pair depends on nobody else, and the threads of a
team (`team.py`) share these tasks: draws are the same, to the bit, whoever did which.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import exp, inf, nan

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .chain_loop import adapt_pace, machine_of, make_static, pace, seek_pace
from .constrained_step import factorise, linearise, set_gradient
from .dynamics import potential
from .jit import compiled
from .nodes import follow
from .recording import record_row
from .run import run
from .small import finite
from .static_hmc import draw_chances
from .team import DESCRIBED, count_done, next_work, post, take, wait_for_others
from .thresholds import HOT_PAIRS, MOST_RUNGS, TIMES
from .trajectory import ACCEPTANCE, CURRENT, LOG_DENSITY, MOVING, NEXT, SPARE, STATISTICS
from .tuning import of_rung, record
from .vectors import clear_idle, copy, draw_normals, gradient, of_interval, position, setting, squared_norm
from .words import get, put

# Statistics of a draw besides those of all samplers: which replica it is of, round trips since warm-up, the weight of
# the draw from the prior; then of every rung the power, the log likelihood, and how likely the exchange with the next
# one is to be accepted.
REPLICA_STATISTICS = {"replica": "int64", "round_trips": "int64", "prior_weight": "float64"}
REPLICA, ROUND_TRIPS, PRIOR_WEIGHT, OF_RUNGS = range(STATISTICS, STATISTICS + 4)
RUNG_STATISTICS = ("power", "rung_log_likelihood", "exchange_rate")
POWERS, LIKELIHOODS, EXCHANGES, ALL_STATISTICS = range(OF_RUNGS, OF_RUNGS + 3 * MOST_RUNGS + 1, MOST_RUNGS)

# How far a replica is on its way: it has been on the first rung, and on the last one after that.
FROM_FIRST, FROM_LAST = 1, 2

PACING = record(
    time=float,  # the integration time, 0 if it is searched for
    warmup=int,  # sweeps
    target=float,  # the acceptance that steps are adapted to
    sweeps=int,  # made
    trips=float,  # round trips since warm-up
)

CHANCES = 3  # numbers that decide on a transition, besides its normals

KIND = DESCRIBED  # the place in the words of a team that tells what its tasks are: ...
TRANSITIONS, PAIRS = range(2)  # ... of rungs, or exchanges


class Replicas(NamedTuple):
    """The state of all rungs. The last one has two rows of random numbers: for its transition, and for its draw from
    the prior."""

    points: Any  # where each rung is
    powers: Any
    losses: Any  # -log likelihood of each, up to a constant
    labels: Any  # which replica is there, ...
    ways: Any  # ... and how far it is on its way
    normals: Any  # of the transitions of this sweep ...
    chances: Any  # ... and what else decides on them
    rows: Any  # their statistics
    pairs: Any  # the first rungs of those that are exchanged in this sweep
    pacing: Any  # one record


@compiled
def loss(layout, point):
    """Return -log p(y) at the point, up to a constant."""
    total = 0.0
    for n in range(layout[at.INTERVALS]):
        total += point[of_interval(layout, at.POINT_NODE, at.NODE_LOSS, n)]
    return total


@compiled
def meet(m, point):
    """Set the noise of observations so that the constraint rows vanish at the power of this problem; prepare the point.

    Rows are affine in that noise with unit slopes: w -= o. That of missing values stays. Nothing else depends on w.
    Returns a status.
    """
    layout, q = m.layout, position(m.layout, point)
    linearise(m, point)
    run(m, plans.ABSORB, point, point)
    clear_idle(layout, q)
    status = factorise(m, point)
    if status != CONVERGED:
        return status
    set_gradient(m, point)
    known = squared_norm(gradient(layout, point)) + squared_norm(q) + loss(layout, point)
    return CONVERGED if finite(known) else NON_FINITE


@compiled
def renew(m, points, normals, chance):
    """Propose a draw of standard normals to points[CURRENT], on the rung of the prior; return its weight in the prior.

    The prior is e^-excess times standard normals, where the path is finite, and that is the weight: Metropolis'
    independence sampler accepts it by its ratio, and always where there is no excess.
    """
    copy(normals, position(m.layout, points[NEXT]))
    follow(m, points[NEXT], 0)
    status = meet(m, points[NEXT])
    proposed = excess(m.layout, points[NEXT]) if status == CONVERGED else inf
    if chance < exp(min(0.0, excess(m.layout, points[CURRENT]) - proposed)):
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
def exchange(work, replicas, k):
    """Exchange the replicas of rungs k and k + 1, unless either cannot be where the other was."""
    points = work.points
    copy(replicas.points[k], points[NEXT])
    copy(replicas.points[k + 1], points[SPARE])
    if (
        meet(machine_of(work, k + 1), points[NEXT]) != CONVERGED
        or meet(machine_of(work, k), points[SPARE]) != CONVERGED
    ):
        return
    copy(points[NEXT], replicas.points[k + 1])
    copy(points[SPARE], replicas.points[k])
    losses, labels, ways = replicas.losses, replicas.labels, replicas.ways
    losses[k], losses[k + 1] = losses[k + 1], losses[k]
    labels[k], labels[k + 1] = labels[k + 1], labels[k]
    ways[k], ways[k + 1] = ways[k + 1], ways[k]


@compiled
def draw_pairs(replicas, rng, row):
    """Draw which pairs of neighbours are exchanged, of every second one, the others in the next sweep; return how many
    are, and write how likely all pairs were."""
    first, count = replicas.pacing[0].sweeps % 2, 0
    for k in range(replicas.powers.size - 1):
        row[EXCHANGES + k] = exchange_probability(replicas, k)
    for k in range(first, replicas.powers.size - 1, 2):
        if rng.random() < row[EXCHANGES + k]:
            replicas.pairs[count] = k
            count += 1
    return count


@compiled
def follow_trips(replicas):
    """Count the replicas that come from the first rung by way of the last one."""
    pacing = replicas.pacing[0]
    ways, last = replicas.ways, replicas.powers.size - 1
    if ways[last] == FROM_FIRST:
        ways[last] = FROM_LAST
    if ways[0] == FROM_LAST:
        pacing.trips += 1.0
    ways[0] = FROM_FIRST


@compiled
def draw_transitions(work, rng, replicas):
    """Draw what decides on the transitions of all rungs; seek step sizes where there are none yet."""
    layout, points, states = work.layout, work.points, work.tuning.state
    normals, chances, last = replicas.normals, replicas.chances, replicas.powers.size - 1
    for k in range(last, -1, -1):
        if states[k].first_step == 0.0:
            copy(replicas.points[k], points[CURRENT])
            seek_pace(machine_of(work, k), points, work.momenta, rng, states[k])
        chances[k, 0], chances[k, 1], chances[k, 2] = draw_chances(layout, normals[k], rng)
        if k == last:
            draw_normals(layout, normals[k + 1], rng)
            chances[k + 1, 0] = rng.random()


@compiled
def time_of(k, time, state, warmup):
    """Return the integration time of rung k, 0 if it is to be searched for.

    Draws are taken from the first rung alone. The others hand replicas on, and what comes by exchange has moved
    further than any trajectory would: they have short ones, above all where steps are short.
    """
    t, _ = pace(state, warmup)
    return time if k == 0 or time > 0.0 else min(TIMES[0], 2.0 * HOT_PAIRS * t)


@compiled
def move(k, work, replicas):
    """Make the transition of rung k, and let the prior be drawn from on the last one."""
    m, tuning, points, momenta = machine_of(work, k), of_rung(work.tuning, k), work.points, work.momenta
    state = tuning.state[0]
    pacing = replicas.pacing[0]
    row, chances = replicas.rows[k], replicas.chances
    copy(replicas.points[k], points[CURRENT])
    copy(replicas.normals[k], momenta[MOVING])
    decided = chances[k, 0], chances[k, 1], chances[k, 2]
    time = time_of(k, pacing.time, state, pacing.warmup)
    needed = make_static(m, points, momenta, decided, tuning, time, pacing.warmup, row)
    adapt_pace(state, needed, row[ACCEPTANCE], pacing.target, pacing.warmup)
    state.iteration += 1
    if k == replicas.powers.size - 1:
        row[PRIOR_WEIGHT] = renew(m, points, replicas.normals[k + 1], chances[k + 1, 0])
    copy(points[CURRENT], replicas.points[k])
    replicas.losses[k] = loss(m.layout, points[CURRENT])


@compiled
def do_task(kind, i, work, replicas):
    """Do task i of a kind. Cold rungs come first: their steps are shorter, and what takes longest must not be last."""
    if kind == TRANSITIONS:
        move(i, work, replicas)
    else:
        exchange(work, replicas, replicas.pairs[i])


@compiled
def take_task(team, thread, posted, work, replicas):
    """Do a posted task that nobody has taken; return whether there was one."""
    i = take(team, thread, posted)
    if i < 0:
        return False
    do_task(get(team, KIND), i, work, replicas)
    count_done(team, thread)
    return True


@compiled
def do_tasks(kind, count, team, work, replicas):
    """Do all tasks of a kind, with the helpers of a team if there is one."""
    if team == 0:
        for i in range(count):
            do_task(kind, i, work, replicas)
        return
    put(team, KIND, kind)
    posted = post(team, count)
    while take_task(team, 0, posted, work, replicas):
        pass
    wait_for_others(team)


@compiled
def sweep(work, rng, replicas, team, row):
    """Make a transition on every rung, and exchange neighbours; write the statistics."""
    last = replicas.powers.size - 1
    pacing = replicas.pacing[0]
    if work.tuning.state[0].iteration == pacing.warmup:
        pacing.trips = 0.0
        replicas.ways[:] = 0
    draw_transitions(work, rng, replicas)
    do_tasks(TRANSITIONS, last + 1, team, work, replicas)
    for i in range(OF_RUNGS, ALL_STATISTICS):
        row[i] = nan
    copy(replicas.rows[0], row)
    row[PRIOR_WEIGHT] = replicas.rows[last, PRIOR_WEIGHT]
    for k in range(last + 1):
        row[POWERS + k] = replicas.powers[k]
        row[LIKELIHOODS + k] = -replicas.losses[k]
    do_tasks(PAIRS, draw_pairs(replicas, rng, row), team, work, replicas)
    follow_trips(replicas)
    pacing.sweeps += 1
    row[REPLICA] = replicas.labels[0]
    row[ROUND_TRIPS] = pacing.trips
    row[LOG_DENSITY] = -potential(work.layout, replicas.points[0])


@compiled
def run_replicas(work, rng, replicas, team, thread, drawn, stop, done):
    """Make as many sweeps as the outputs have rows, unless `stop` is set; return how many were made.

    Problems and tuning of the work have a row for every rung. The draws are those of the first one. Threads
    after the first, which is 0, make no sweeps, but do tasks until the team ends; each works with points, momenta,
    scratch and counts of its own. The address of the team is 0 if there is none.
    """
    made, posted = 0, next_work(team, 0) if thread > 0 else 0
    while posted != 0:
        while take_task(team, thread, posted, work, replicas):
            pass
        posted = next_work(team, posted)
    while thread == 0 and made < drawn.statistics.shape[0] and stop[0] == 0:
        sweep(work, rng, replicas, team, drawn.statistics[made])
        record_row(work.layout, replicas.points[0], drawn, made)
        made += 1
        done[0] += 1
    return made


@compiled
def set_coldness(m, power):
    """Let the rows of a problem be those of the likelihood to a power."""
    m.problem[setting(m.layout, at.SETTINGS_COLDNESS)] = power**0.5
