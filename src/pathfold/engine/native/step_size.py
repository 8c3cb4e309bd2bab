"""The step size: a first guess by doubling, then dual averaging (Hoffman and Gelman 2014, section 3.2)."""

from __future__ import annotations

from numpy import exp, fabs, log, sqrt

from pathfold.engine.status import CONVERGED

from .dynamics import draw_momentum, hamiltonian, step
from .jit import compiled
from .thresholds import EXPONENT, FLOOR, LONGEST_STEP, OFFSET, REGULARISATION
from .trajectory import BACK, CURRENT, MOVING, NEXT


@compiled
def first_step_size(m, points, momenta, rng):
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
        status = step(m, points[CURRENT], points[NEXT], points[BACK], p, t, 0.5 * t, 0.5 * t)
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
    state.first_step = t
    state.log_step = log(t)
    state.log_step_mean = log(t)
    state.error_mean = 0.0
    state.updates = 0.0


@compiled
def adapt_step_size(state, acceptance, target):
    """Make one update of dual averaging to the target acceptance statistic, shrinking to ten times the first step."""
    state.updates += 1.0
    m = state.updates
    weight = 1.0 / (m + OFFSET)
    state.error_mean += weight * (target - acceptance - state.error_mean)
    log_step = log(10.0 * state.first_step) - sqrt(m) / REGULARISATION * state.error_mean
    log_step = min(log(LONGEST_STEP), max(log(FLOOR * state.first_step), log_step))
    state.log_step = log_step
    decay = m**-EXPONENT
    state.log_step_mean += decay * (log_step - state.log_step_mean)


@compiled
def step_size(state, warming_up):
    return exp(state.log_step if warming_up else state.log_step_mean)
