"""The loop of one chain: transitions with adaptation, and draws written to arrays of the host."""

from __future__ import annotations

from typing import Any, NamedTuple

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED

from .dynamic_hmc import dynamic_transition
from .dynamics import prepare
from .integration_time import after_transition, before_transition, integration_time
from .jit import compiled
from .lanes import of_interval
from .metric import adapt_metric
from .recording import record_row
from .static_hmc import draw_chances, static_transition
from .step_size import FIRST_STEP, ITERATION, SHORTENED, adapt_step_size, first_step_size, start_adaptation, step_size
from .thresholds import CAREFUL, CONFIDENT
from .trajectory import ACCEPTANCE, CURRENT, MOVING, STEPS_TAKEN


class Work(NamedTuple):
    """What a chain works with: problems, points and momenta are tables of blocks.

    `state`, `search` and `rng` carry the chain from call to call: cutting a run into pieces changes nothing.
    """

    layout: Any
    problems: Any
    points: Any
    momenta: Any
    scratch: Any
    rng: Any
    state: Any  # of the adaptation of the step size
    search: Any  # for an integration time
    counts: Any  # of a transition
    result: Any  # of an extension of a dynamic trajectory


@compiled
def hold_states(layout, problem, point, scratch):
    """Let the problem condition on the node states of the point, where its mask says so; return a status.

    Blocking (method.md, section 15) holds the states at some nodes, and at others in the next transition.
    """
    X, lanes = layout[at.X], layout[at.LANES]
    for n in range(layout[at.INTERVALS]):
        held = of_interval(layout, at.PROBLEM_GRID, at.GRID_Y, n) + (layout[at.Y] - X) * lanes
        node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
        for i in range(X):
            problem[held + i * lanes] = point[node + i * lanes]
    return prepare(layout, problem, point, scratch)


@compiled
def seek_pace(layout, problem, points, momenta, rng, scratch, counts, state):
    """Seek a step size at points[CURRENT] and begin to adapt it."""
    start_adaptation(state, first_step_size(layout, problem, points, momenta, rng, scratch, counts))


@compiled
def pace(state, warmup):
    """Return the step size, and the share of trajectories with shorter steps."""
    warming_up = state[ITERATION] < warmup
    return step_size(state, warming_up), CAREFUL if warming_up or state[SHORTENED] > 0.0 else CONFIDENT


@compiled
def make_static(layout, problem, points, momenta, chances, scratch, counts, state, search, time, warmup, row):
    """Make a static transition, of the integration time that is given or searched for; return whether steps had to be
    shortened."""
    iteration = int(state[ITERATION])
    t, share = pace(state, warmup)
    length = time if time > 0.0 else integration_time(search, iteration, warmup)
    before_transition(layout, points[CURRENT], search)
    needed = static_transition(layout, problem, points, momenta, t, length, share, chances, scratch, counts, row)
    after_transition(layout, points[CURRENT], search, iteration, warmup, row[STEPS_TAKEN])
    return needed


@compiled
def adapt_pace(state, needed, acceptance, target, warmup):
    """Adapt the step size in warm-up, and count how often steps had to be shortened; return whether it is warm-up."""
    warming_up = state[ITERATION] < warmup
    if warming_up and needed:
        state[SHORTENED] += 1.0
    if warming_up:
        adapt_step_size(state, acceptance, target)
    return warming_up


@compiled
def run_hamiltonian(work, dynamic, adapted, time, warmup, target, drawn, stop, done):
    """Make as many transitions as the outputs have rows, unless `stop` is set; return how many were made.

    Of several problems the second and third hold the states of some nodes, and take turns; a negative number is
    returned when the states cannot be held (the noise before a node does not move all of its state). `done` counts for
    the host to read. `dynamic` is None for static trajectories: Numba then leaves out what the others need. `adapted`
    is whether warm-up adapts a metric (without constraints), `time` the integration time of static trajectories, 0 when
    it is to be searched for.
    """
    layout, problems, points, momenta, scratch, rng, state, search, counts, result = work
    statistics = drawn.statistics
    made = 0
    while made < statistics.shape[0] and stop[0] == 0:
        problem = problems[0]
        if problems.shape[0] > 1:
            problem = problems[1 + int(state[ITERATION]) % 2]
            if hold_states(layout, problem, points[CURRENT], scratch) != CONVERGED:
                return -1
        if state[FIRST_STEP] == 0.0:
            seek_pace(layout, problem, points, momenta, rng, scratch, counts, state)
        row = statistics[made]
        if dynamic is None:
            chances = draw_chances(layout, momenta[MOVING], rng)
            moved = points, momenta, chances, scratch, counts, state, search
            needed = make_static(layout, problem, *moved, time, warmup, row)
        else:
            t, share = pace(state, warmup)
            needed = dynamic_transition(layout, problem, points, momenta, t, share, rng, scratch, counts, result, row)
        warming_up = adapt_pace(state, needed, row[ACCEPTANCE], target, warmup)
        iteration = int(state[ITERATION])
        if warming_up and adapted and adapt_metric(layout, problem, points[CURRENT], iteration, warmup):
            seek_pace(layout, problem, points, momenta, rng, scratch, counts, state)
        record_row(layout, points[CURRENT], drawn, made)
        state[ITERATION] += 1.0
        made += 1
        done[0] += 1
    return made
