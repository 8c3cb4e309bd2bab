"""The loop of a chain with dynamic trajectories, on the manifold or without constraints, in blocks or not."""

from __future__ import annotations

from pathfold.engine import table as at
from pathfold.engine.native.chain_loop import adapt_pace, machine_of, pace, seek_pace
from pathfold.engine.native.dynamics import prepare
from pathfold.engine.native.jit import compiled
from pathfold.engine.native.recording import record_row
from pathfold.engine.native.trajectory import ACCEPTANCE, CURRENT
from pathfold.engine.native.vectors import of_interval
from pathfold.engine.status import CONVERGED

from .dynamic_hmc import dynamic_transition
from .metric import adapt_metric


@compiled
def hold_states(m, point):
    """Let the problem condition on the node states of the point, where its mask says so; return a status.

    Blocking (method.md, section 15) holds the states at some nodes, and at others in the next transition.
    """
    layout, problem = m.layout, m.problem
    X, lanes = layout[at.X], layout[at.LANES]
    for n in range(layout[at.INTERVALS]):
        held = of_interval(layout, at.PROBLEM_GRID, at.GRID_Y, n) + (layout[at.Y] - X) * lanes
        node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
        for i in range(X):
            problem[held + i * lanes] = point[node + i * lanes]
    return prepare(m, point)


@compiled
def run_dynamic(work, rng, trees, scaled, warmup, target, drawn, stop, done):
    """Make as many transitions as the outputs have rows, unless `stop` is set; return how many were made.

    Of several problems the second and third hold the states of some nodes, and take turns; a negative number is
    returned when the states cannot be held (the noise before a node does not move all of its state). `done` counts for
    the host to read; `scaled` is whether warm-up adapts a scale for everything (without constraints).
    """
    layout, points, momenta = work.layout, work.points, work.momenta
    state = work.tuning.state[0]
    tree = trees[0]
    statistics, made = drawn.statistics, 0
    while made < statistics.shape[0] and stop[0] == 0:
        m = machine_of(work, 0)
        if work.problems.shape[0] > 1:
            m = machine_of(work, 1 + state.iteration % 2)
            if hold_states(m, points[CURRENT]) != CONVERGED:
                return -1
        if state.first_step == 0.0:
            seek_pace(m, points, momenta, rng, state)
        row = statistics[made]
        t, share = pace(state, warmup)
        needed = dynamic_transition(m, points, momenta, t, share, rng, tree, row)
        warming_up = adapt_pace(state, needed, row[ACCEPTANCE], target, warmup)
        if warming_up and scaled and adapt_metric(m, points[CURRENT], state.iteration, warmup):
            seek_pace(m, points, momenta, rng, state)
        record_row(layout, points[CURRENT], drawn, made)
        state.iteration += 1
        made += 1
        done[0] += 1
    return made
