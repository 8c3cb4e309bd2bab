"""The density of the parameters where paths are integrated out, and the noise of a draw (method.md, section 25)."""

from __future__ import annotations

from numpy import cos, exp, fabs, inf, log, sin, sqrt

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE

from .chain_loop import adapt_pace, machine_of, pace
from .jit import compiled
from .recording import record_row
from .run import run
from .small import finite
from .static_hmc import length_of
from .step_size import start_adaptation
from .thresholds import DIVERGENCE_ENERGY
from .trajectory import (
    ACCEPTANCE,
    CURRENT,
    DIVERGING,
    ENERGY,
    LOG_DENSITY,
    STATUS,
    STEP_SIZE,
    STEPS_FAILED,
    STEPS_TAKEN,
)
from .two_stage import OUTER
from .vectors import clear_idle, copy, draw_normals, gradient, position, squared_norm, sums_of

FIRST = 0.5  # the step size that adaptation begins with, in coordinates in which the posterior is nearly standard
FREEDOM, PROPOSALS = 5, 3  # of Student's t that proposals are drawn from; how many of them a draw of these has
PERIOD, PAYS = 3, 0.4  # every so many draws one is a trajectory, if proposals are accepted more often than that

# Rows of the table of parameters: momentum, position and gradient before a transition, and numbers: h_1, whether its
# gradient is that of the point, the proposals that warm-up accepted, and of how many.
MOMENTUM, POSITION, SLOPE, NUMBERS, ROWS = range(5)
VALUE, KNOWN, ACCEPTED, PROPOSED, COLUMNS = range(5)


@compiled
def coordinates(layout, block):
    """Return the parameters of a vector, or of a point's position: what moves."""
    return block[layout[at.VECTOR_U] : layout[at.VECTOR_U + at.END]]


@compiled
def innovate(m, point):
    """Compute innovations and factor at the z that the point has; return minus the log of the density of the data."""
    sums, misfit = sums_of(m.layout, point), m.layout[at.SUMS_MISFIT]
    sums[misfit] = 0.0
    run(m, plans.INTEGRATE, point, point)
    return 0.5 * sums[misfit]


@compiled
def integrate(m, point):
    """Do it at the point's parameters; return minus the log of their density, but for 1/2 q.q."""
    run(m, plans.PARAMETERS, point, point)
    return innovate(m, point) + point[m.layout[at.POINT_THETA] + m.layout[at.THETA_EXCESS_U]]


@compiled
def differentiate(m, point):
    """Compute the gradient by the coordinates, of the factor that is at the point."""
    sums, gz = sums_of(m.layout, point), m.layout[at.SUMS_GZ]
    for i in range(m.layout[at.Z]):
        sums[gz + i] = 0.0
    run(m, plans.INTEGRATED_GRADIENT, point, gradient(m.layout, point))


@compiled
def integrate_with_gradient(m, point):
    """Do both; return what `integrate` does."""
    value = integrate(m, point)
    differentiate(m, point)
    return value


@compiled
def condition(m, point):
    """Move the noise at the point by the least change that meets the data, -J^T G^{-1} c; compute the path.

    The factor of the parameters is there. Standard normal noise becomes an exact draw (Matheron), none the mean.
    """
    run(m, plans.CONDITION, point, point)
    clear_idle(m.layout, position(m.layout, point))


@compiled
def draw_noise(m, point, saved, rng):
    """Draw all noise given the parameters, whose factor is at the point, and the data; compute the path."""
    q, own = position(m.layout, point), coordinates(m.layout, point)
    copy(own, saved)
    draw_normals(m.layout, q, rng)
    copy(saved[: own.size], own)
    condition(m, point)


@compiled
def kick(layout, point, p, t):
    """p <- p - t grad h_1; return whether it is finite."""
    g, total = coordinates(layout, gradient(layout, point)), 0.0
    for i in range(p.size):
        p[i] -= t * g[i]
        total += fabs(p[i])
    return finite(total)


@compiled
def turn(q, p, t):
    """The flow of h_2 = 1/2 q.q + 1/2 p.p for the time t."""
    c, s = cos(t), sin(t)
    for i in range(p.size):
        q[i], p[i] = c * q[i] + s * p[i], c * p[i] - s * q[i]


@compiled
def take_pair(m, point, p, t):
    """Two steps of size t with the kicks of `two_stage`; return h_1 at the end, infinite if a step fails."""
    outer, inner = 2.0 * OUTER * t, 2.0 * (1.0 - 2.0 * OUTER) * t
    q, value = coordinates(m.layout, point), inf
    good = kick(m.layout, point, p, outer)
    for last in (inner, outer):
        if good:
            turn(q, p, t)
            value = integrate_with_gradient(m, point)
            good = finite(value) and kick(m.layout, point, p, last)
    return value if good else inf


@compiled
def follow(m, point, room, t, time, rng, statistics):
    """Make one static trajectory from the point; accept its end or come back.

    It is that of section 9, but for what a step that fails does: it ends the trajectory, which is rejected.
    """
    q, g = coordinates(m.layout, point), coordinates(m.layout, gradient(m.layout, point))
    p, numbers = room[MOMENTUM, : q.size], room[NUMBERS]
    if numbers[KNOWN] == 0.0:
        differentiate(m, point)
        numbers[KNOWN] = 1.0
    copy(q, room[POSITION])
    copy(g, room[SLOPE])
    pairs, size = length_of(time, t, rng.random())
    value, made = numbers[VALUE], 0
    while made < pairs and value < inf:
        value = take_pair(m, point, p, size)
        made += 1
    gain = value + 0.5 * (squared_norm(q) + squared_norm(p)) - statistics[ENERGY] if value < inf else inf
    probability = exp(min(0.0, -gain))
    if rng.random() < probability:
        numbers[VALUE] = value
    else:
        copy(room[POSITION, : q.size], q)
        integrate(m, point)
        copy(room[SLOPE, : q.size], g)
    statistics[ACCEPTANCE] = probability
    statistics[STEPS_TAKEN] = 2.0 * made
    statistics[STATUS] = CONVERGED if value < inf else NON_FINITE
    statistics[DIVERGING] = 1.0 if value < inf and not gain < DIVERGENCE_ENERGY else 0.0
    statistics[STEPS_FAILED] = 0.0 if value < inf else 1.0


@compiled
def draw_student(q, rng):
    """Draw from Student's t with the identity as its scale."""
    squares = 0.0
    for _ in range(FREEDOM):
        squares += rng.standard_normal() ** 2
    scale = sqrt(FREEDOM / squares)
    for i in range(q.size):
        q[i] = scale * rng.standard_normal()


@compiled
def log_weight(value, q):
    """Return the log of the posterior of the coordinates over Student's t, but for a constant, where h_1 is `value`."""
    squares = squared_norm(q)
    return 0.5 * (FREEDOM + q.size) * log(1.0 + squares / FREEDOM) - 0.5 * squares - value


@compiled
def propose(m, point, room, rng, statistics):
    """Propose draws of Student's t, whatever the point is, and accept or reject each (Tierney 1994)."""
    q, numbers = coordinates(m.layout, point), room[NUMBERS]
    weight, accepted, probability = log_weight(numbers[VALUE], q), True, 0.0
    for _ in range(PROPOSALS):
        copy(q, room[POSITION])
        draw_student(q, rng)
        value = integrate(m, point)
        proposed = log_weight(value, q)
        chance = exp(min(0.0, proposed - weight)) if finite(value) else 0.0
        probability += chance / PROPOSALS
        accepted = rng.random() < chance
        if accepted:
            weight, numbers[VALUE], numbers[KNOWN] = proposed, value, 0.0
        else:
            copy(room[POSITION, : q.size], q)
    if not accepted:
        integrate(m, point)
    statistics[ACCEPTANCE] = probability


@compiled
def transition(m, point, room, t, time, independent, rng, statistics):
    """Make a transition of the parameters from the point, whose factor is there, and write its statistics."""
    q = coordinates(m.layout, point)
    p = room[MOMENTUM, : q.size]
    for i in range(p.size):
        p[i] = rng.standard_normal()
    statistics[:] = 0.0
    statistics[STEP_SIZE] = t
    statistics[ENERGY] = room[NUMBERS, VALUE] + 0.5 * (squared_norm(q) + squared_norm(p))
    if independent:
        propose(m, point, room, rng, statistics)
    else:
        follow(m, point, room, t, time, rng, statistics)
    statistics[LOG_DENSITY] = -(room[NUMBERS, VALUE] + 0.5 * squared_norm(q))


@compiled
def is_independent(iteration, warmup, numbers):
    """Return whether a draw is one of proposals: every second one in warm-up, and then most, if it accepted enough."""
    if iteration < warmup:
        return iteration % 2 == 1
    return iteration % PERIOD > 0 and numbers[ACCEPTED] > PAYS * numbers[PROPOSED]


@compiled
def run_integrated(work, rng, room, warmup, target, drawn, stop, done):
    """Make as many transitions as the outputs have rows, each with a draw of the noise, unless `stop` is set.

    It is `chain_loop.run_static` for the parameters alone.
    """
    m, state, numbers = machine_of(work, 0), work.tuning.state[0], room[NUMBERS]
    point, statistics, made = work.points[CURRENT], drawn.statistics, 0
    while made < statistics.shape[0] and stop[0] == 0:
        if state.first_step == 0.0:
            start_adaptation(state, FIRST)
            numbers[VALUE], numbers[KNOWN] = integrate_with_gradient(m, point), 1.0
        t, _ = pace(state, warmup)
        independent = is_independent(state.iteration, warmup, numbers)
        transition(m, point, room, t, state.time, independent, rng, statistics[made])
        if not independent:
            adapt_pace(state, False, statistics[made, ACCEPTANCE], target, warmup)
        elif state.iteration < warmup:
            numbers[ACCEPTED] += statistics[made, ACCEPTANCE]
            numbers[PROPOSED] += 1.0
        draw_noise(m, point, room[POSITION], rng)
        record_row(m.layout, point, drawn, made)
        state.iteration += 1
        made += 1
        done[0] += 1
    return made
