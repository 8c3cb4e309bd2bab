"""The loop of one chain: transitions with adaptation, and draws written to arrays of the host."""

from __future__ import annotations

from typing import Any, NamedTuple

from .integration_time import after_transition, before_transition, integration_time
from .jit import compiled
from .recording import record_row
from .run import Machine
from .static_hmc import draw_chances, static_transition
from .step_size import adapt_step_size, first_step_size, start_adaptation, step_size
from .thresholds import CAREFUL, CONFIDENT
from .trajectory import ACCEPTANCE, CURRENT, MOVING, STEPS_TAKEN
from .tuning import of_rung


class Work(NamedTuple):
    """What a chain works with: problems, points and momenta are tables of blocks.

    `tuning` and a random stream carry the chain from call to call: cutting a run into pieces changes nothing. The
    stream is an argument by itself, since Numba takes 150 microseconds a call to find the type of a tuple with one.
    """

    layout: Any
    problems: Any
    points: Any
    momenta: Any
    scratch: Any
    tuning: Any  # a row for every rung
    counts: Any  # of a transition


@compiled
def machine_of(work, k):
    """Return the machine of the kth problem."""
    return Machine(work.layout, work.problems[k], work.scratch, work.counts)


@compiled
def seek_pace(m, points, momenta, rng, state):
    """Find a first step size at points[CURRENT], and start dual averaging from it."""
    start_adaptation(state, first_step_size(m, points, momenta, rng))


@compiled
def pace(state, warmup):
    """Return the step size, averaged once warm-up is over, and the share of trajectories with shorter steps."""
    warming_up = state.iteration < warmup
    return step_size(state, warming_up), CAREFUL if warming_up or state.shortened > 0 else CONFIDENT


@compiled
def make_static(m, points, momenta, chances, tuning, time, warmup, row):
    """Make a static transition, of the integration time that is given or searched for; return whether steps had to be
    shortened."""
    state = tuning.state[0]
    t, share = pace(state, warmup)
    length = time if time > 0.0 else integration_time(state.time, state.iteration, warmup)
    before_transition(m.layout, points[CURRENT], tuning)
    needed = static_transition(m, points, momenta, t, length, share, chances, row)
    after_transition(m.layout, points[CURRENT], tuning, warmup, row[STEPS_TAKEN])
    return needed


@compiled
def adapt_pace(state, needed, acceptance, target, warmup):
    """Adapt the step size in warm-up, and count how often steps had to be shortened; return whether it is warm-up."""
    warming_up = state.iteration < warmup
    if warming_up and needed:
        state.shortened += 1
    if warming_up:
        adapt_step_size(state, acceptance, target)
    return warming_up


@compiled
def run_static(work, rng, time, warmup, target, drawn, stop, done):
    """Make as many transitions as the outputs have rows, unless `stop` is set; return how many were made.

    `done` counts for the host to read; `time` is the integration time, 0 when it is to be searched for.
    """
    m, tuning, points, momenta = machine_of(work, 0), of_rung(work.tuning, 0), work.points, work.momenta
    state = tuning.state[0]
    statistics, made = drawn.statistics, 0
    while made < statistics.shape[0] and stop[0] == 0:
        if state.first_step == 0.0:
            seek_pace(m, points, momenta, rng, state)
        row = statistics[made]
        chances = draw_chances(m.layout, momenta[MOVING], rng)
        needed = make_static(m, points, momenta, chances, tuning, time, warmup, row)
        adapt_pace(state, needed, row[ACCEPTANCE], target, warmup)
        record_row(m.layout, points[CURRENT], drawn, made)
        state.iteration += 1
        made += 1
        done[0] += 1
    return made
