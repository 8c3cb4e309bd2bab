"""The step size: a first guess by doubling, then dual averaging (Hoffman and Gelman 2014, section 3.2)."""

from __future__ import annotations

from numpy import exp, fabs, log, sqrt

from pathfold.engine.status import CONVERGED

from .dynamics import draw_momentum, hamiltonian, step
from .jit import compiled
from .thresholds import EXPONENT, FLOOR, LONGEST_STEP, OFFSET, REGULARISATION
from .trajectory import BACK, CURRENT, MOVING, NEXT

# Places in a chain's state.
LOG_STEP, LOG_STEP_MEAN, ERROR_MEAN, FIRST_STEP, UPDATES, ITERATION, SHORTENED, STATE = range(8)


@compiled
def first_step_size(m, points, momenta, rng, counts):
    """Double or halve until the change of energy over one step crosses log 2, either way.

    A step that loses much energy is as wrong as one that gains it, though it would be accepted.
    """
    layout = m.layout
    t = 0.5
    p = momenta[MOVING]
    direction = 0.0
    for _ in range(30):
        draw_momentum(m, points[CURRENT], p, rng)
        before = hamiltonian(layout, points[CURRENT], p)
        status = step(m, points[CURRENT], points[NEXT], points[BACK], p, t, 0.5 * t, 0.5 * t, counts)
        accepted = status == CONVERGED and fabs(hamiltonian(layout, points[NEXT], p) - before) < log(2.0)
        if direction == 0.0:
            direction = 1.0 if accepted else -1.0
        elif accepted != (direction > 0.0):
            break
        if t * 2.0**direction > LONGEST_STEP:
            break
        t *= 2.0**direction
    return t


@compiled
def start_adaptation(state, t):
    state[FIRST_STEP] = t
    state[LOG_STEP] = log(t)
    state[LOG_STEP_MEAN] = log(t)
    state[ERROR_MEAN] = 0.0
    state[UPDATES] = 0.0


@compiled
def adapt_step_size(state, acceptance, target):
    """Make one update of dual averaging to the target acceptance statistic, shrinking to ten times the first step."""
    state[UPDATES] += 1.0
    m = state[UPDATES]
    weight = 1.0 / (m + OFFSET)
    state[ERROR_MEAN] += weight * (target - acceptance - state[ERROR_MEAN])
    log_step = log(10.0 * state[FIRST_STEP]) - sqrt(m) / REGULARISATION * state[ERROR_MEAN]
    log_step = min(log(LONGEST_STEP), max(log(FLOOR * state[FIRST_STEP]), log_step))
    state[LOG_STEP] = log_step
    decay = m**-EXPONENT
    state[LOG_STEP_MEAN] += decay * (log_step - state[LOG_STEP_MEAN])


@compiled
def step_size(state, warming_up):
    return exp(state[LOG_STEP] if warming_up else state[LOG_STEP_MEAN])
