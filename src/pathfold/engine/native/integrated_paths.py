"""The density of the parameters where paths are integrated out, and the noise of a draw (method.md, section 25)."""

from __future__ import annotations

from numpy import cos, exp, fabs, inf, sin

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
    DEPTH,
    DIVERGING,
    ENERGY,
    ITERATIONS,
    LOG_DENSITY,
    STATUS,
    STEP_SIZE,
    STEPS_FAILED,
    STEPS_TAKEN,
)
from .two_stage import OUTER
from .vectors import clear_idle, copy, draw_normals, gradient, position, squared_norm, sums_of

FIRST = 0.5  # the step size that adaptation begins with, in coordinates in which the posterior is nearly standard

# Rows of the table of parameters, which has a column more: the momentum, position and gradient before a trajectory, and
# h_1, one number.
MOMENTUM, POSITION, SLOPE, VALUE, ROWS = range(5)


@compiled
def coordinates(layout, block):
    """Return the parameters of a vector, or of a point's position: what moves."""
    return block[layout[at.VECTOR_U] : layout[at.VECTOR_U + at.END]]


@compiled
def integrate(m, point):
    """Compute the factor at the point's parameters; return minus the log of their density, but for 1/2 q.q."""
    sums, misfit = sums_of(m.layout, point), m.layout[at.SUMS_MISFIT]
    sums[misfit] = 0.0
    run(m, plans.INTEGRATE, point, point)
    return 0.5 * sums[misfit] + point[m.layout[at.POINT_THETA] + m.layout[at.THETA_EXCESS_U]]


@compiled
def integrate_with_gradient(m, point):
    """Do the same, and compute the gradient by the coordinates."""
    value = integrate(m, point)
    sums, gz = sums_of(m.layout, point), m.layout[at.SUMS_GZ]
    for i in range(m.layout[at.Z]):
        sums[gz + i] = 0.0
    run(m, plans.INTEGRATED_GRADIENT, point, gradient(m.layout, point))
    return value


@compiled
def draw_noise(m, point, saved, rng):
    """Draw all noise given the parameters, whose factor is at the point, and the data; compute the path.

    Standard normal noise is moved by the least change that meets the data, -J^T G^{-1} c: an exact draw (Matheron).
    """
    q, own = position(m.layout, point), coordinates(m.layout, point)
    copy(own, saved)
    draw_normals(m.layout, q, rng)
    copy(saved[: own.size], own)
    run(m, plans.CONDITION, point, point)
    clear_idle(m.layout, q)


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
def transition(m, point, room, t, time, rng, statistics):
    """Make one static trajectory from the point, which is evaluated; accept its end or come back.

    It is that of section 9, but for what a step that fails does: it ends the trajectory, which is rejected.
    """
    q, g = coordinates(m.layout, point), coordinates(m.layout, gradient(m.layout, point))
    p, h = room[MOMENTUM, : q.size], room[VALUE]
    copy(q, room[POSITION])
    copy(g, room[SLOPE])
    for i in range(p.size):
        p[i] = rng.standard_normal()
    of_length, of_acceptance = rng.random(), rng.random()
    before = h[0] + 0.5 * (squared_norm(q) + squared_norm(p))
    pairs, size = length_of(time, t, of_length)
    value, made = h[0], 0
    while made < pairs and value < inf:
        value = take_pair(m, point, p, size)
        made += 1
    after = value + 0.5 * (squared_norm(q) + squared_norm(p)) if value < inf else inf
    probability = exp(min(0.0, before - after)) if after < inf else 0.0
    if of_acceptance < probability:
        h[0] = value
    else:
        copy(room[POSITION, : q.size], q)
        integrate(m, point)
        copy(room[SLOPE, : q.size], g)
    statistics[ACCEPTANCE] = probability
    statistics[STEPS_TAKEN] = 2.0 * made
    statistics[STEP_SIZE] = t
    statistics[ENERGY] = before
    statistics[LOG_DENSITY] = -(h[0] + 0.5 * squared_norm(q))
    statistics[STATUS] = CONVERGED if value < inf else NON_FINITE
    statistics[ITERATIONS] = 0.0
    statistics[DEPTH] = 0.0
    statistics[DIVERGING] = 1.0 if value < inf and not (after - before < DIVERGENCE_ENERGY) else 0.0
    statistics[STEPS_FAILED] = 0.0 if value < inf else 1.0


@compiled
def run_integrated(work, rng, room, time, warmup, target, drawn, stop, done):
    """Make as many transitions as the outputs have rows, each with a draw of the noise, unless `stop` is set.

    It is `chain_loop.run_static` for the parameters alone.
    """
    m, state = machine_of(work, 0), work.tuning.state[0]
    point, statistics, made = work.points[CURRENT], drawn.statistics, 0
    while made < statistics.shape[0] and stop[0] == 0:
        if state.first_step == 0.0:
            start_adaptation(state, FIRST)
            room[VALUE, 0] = integrate_with_gradient(m, point)
        t, _ = pace(state, warmup)
        transition(m, point, room, t, time, rng, statistics[made])
        draw_noise(m, point, room[POSITION], rng)
        adapt_pace(state, False, statistics[made, ACCEPTANCE], target, warmup)
        record_row(m.layout, point, drawn, made)
        state.iteration += 1
        made += 1
        done[0] += 1
    return made
