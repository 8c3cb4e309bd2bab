"""The loop of one chain: transitions with adaptation, and draws written to arrays of the host."""

from __future__ import annotations

from pathfold.engine.status import CONVERGED

from .dynamic_hmc import dynamic_transition
from .held_states import hold_states
from .integration_time import after_transition, before_transition, integration_time
from .jit import compiled
from .metric import adapt_metric
from .recording import record
from .static_hmc import static_transition
from .step_size import FIRST_STEP, ITERATION, SHORTENED, adapt, first_step_size, start_adaptation, step_size
from .thresholds import CAREFUL, CONFIDENT
from .trajectory import ACCEPTANCE, CURRENT, STEPS_TAKEN


@compiled
def run(
    layout,
    problems,
    points,
    momenta,
    scratch,
    rng,
    state,
    search,
    counts,
    result,
    dynamic,
    adapted,
    time,
    warmup,
    target,
    z,
    x0,
    nodes,
    path,
    statistics,
    stop,
    done,
):
    """Make as many transitions as the outputs have rows, unless `stop` is set; return how many were made.

    Of several problems the second and third hold the states of some nodes, and take turns; a negative number is
    returned when the states cannot be held (the noise before a node does not move all of its state).
    `state`, `search` and `rng` carry the chain from call to call: cutting a run into pieces changes nothing. `done`
    counts for the host to read. `dynamic` is None for static trajectories: Numba then leaves out what the others need.
    `adapted` is whether warm-up adapts a metric (without constraints), `time` the integration time of static
    trajectories, 0 when it is to be searched for.
    """
    made = 0
    while made < statistics.shape[0] and stop[0] == 0:
        problem = problems[0]
        if problems.shape[0] > 1:
            problem = problems[1 + int(state[ITERATION]) % 2]
            if hold_states(layout, problem, points[CURRENT], scratch) != CONVERGED:
                return -1
        if state[FIRST_STEP] == 0.0:
            start_adaptation(state, first_step_size(layout, problem, points, momenta, rng, scratch, counts))
        warming_up = state[ITERATION] < warmup
        t = step_size(state, warming_up)
        share = CAREFUL if warming_up or state[SHORTENED] > 0.0 else CONFIDENT
        row = statistics[made]
        if dynamic is None:
            iteration = int(state[ITERATION])
            length = time if time > 0.0 else integration_time(search, iteration, warmup)
            before_transition(layout, points[CURRENT], search)
            needed = static_transition(layout, problem, points, momenta, t, length, share, rng, scratch, counts, row)
            after_transition(layout, points[CURRENT], search, iteration, warmup, row[STEPS_TAKEN])
        else:
            needed = dynamic_transition(layout, problem, points, momenta, t, share, rng, scratch, counts, result, row)
        if warming_up and needed:
            state[SHORTENED] += 1.0
        if warming_up:
            adapt(state, row[ACCEPTANCE], target)
            if adapted and adapt_metric(layout, problem, points[CURRENT], int(state[ITERATION]), warmup):
                start_adaptation(state, first_step_size(layout, problem, points, momenta, rng, scratch, counts))
        record(layout, points[CURRENT], z[made], x0[made], nodes[made], path[made])
        state[ITERATION] += 1.0
        made += 1
        done[0] += 1
    return made
