"""First guesses of the states at the nodes: moved towards the data, or where a path leads (method.md, section 12)."""

from __future__ import annotations

from numpy import fabs, inf

from pathfold.engine import plans
from pathfold.engine import table as at

from .jit import compiled
from .run import one, run
from .vectors import chunk_of, newton_sums, of_interval, of_series


@compiled
def guess_nodes(m, point, guesses):
    """Guess node states: the initial state of the series, moved towards the observations."""
    sums, change = newton_sums(m), m.layout[at.SUMS_CHANGE]
    run(m, plans.PLACE_NODES, point, point)
    known = False  # whether residuals are finite at every node: then observing will do, without the path between nodes
    for _ in range(guesses):
        sums[change] = 0.0
        if known:
            run(m, plans.IMPROVE_NODES, point, point)
        else:
            run(m, plans.LINEARISE_AND_IMPROVE, point, point)
        known = sums[change] < inf
    run(m, plans.KEEP_BEST, point, point)


@compiled
def follow(m, point, guesses):
    """Set node states in turn: where the path leads from the one before, moved `guesses` times towards the data.

    Where observations leave a choice (an angle seen as sine and cosine), the states so stay on one branch. Without
    guesses they are those of the simulated path, also where these are not finite.
    """
    layout, scratch = m.layout, m.scratch
    X, lanes = layout[at.X], layout[at.LANES]
    run(m, plans.HOLD_NODES, point, point)
    for k in range(layout[at.SERIES]):
        before, stride = of_series(layout, at.POINT_START, at.START_X0, k), layout[at.ABREAST]
        for n in range(layout[layout[at.FIRST] + k], layout[layout[at.FIRST] + k + 1]):
            start = of_interval(layout, at.POINT_NODE, at.NODE_X_START, n)
            node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
            gap = of_interval(layout, at.SCRATCH_NEWTON, at.NEWTON_GAP, n)
            for i in range(X):
                point[start + i * lanes] = point[before + i * stride]
                point[node + i * lanes] = 0.0
            one(m, plans.ONE_SIMULATE, chunk_of(layout, n), point, point)
            for i in range(X):
                led = scratch[gap + i * lanes]
                point[node + i * lanes] = led if guesses == 0 or fabs(led) < inf else point[before + i * stride]
                scratch[gap + i * lanes] = 0.0
            if guesses > 0:
                approach(m, point, n, guesses)
            before, stride = node, lanes


@compiled
def approach(m, point, n, guesses):
    """Move one node towards its observation; its state becomes the best that was met."""
    layout, scratch = m.layout, m.scratch
    X, lanes = layout[at.X], layout[at.LANES]
    node = of_interval(layout, at.POINT_NODE, at.NODE_X_NODE, n)
    best = of_interval(layout, at.SCRATCH_GUESS, at.GUESS_BEST, n)
    least = of_interval(layout, at.SCRATCH_GUESS, at.GUESS_LEAST, n)
    for i in range(X):
        scratch[best + i * lanes] = point[node + i * lanes]
    scratch[least] = inf
    for _ in range(guesses):
        one(m, plans.ONE_OBSERVE, chunk_of(layout, n), point, point)
        one(m, plans.ONE_IMPROVE, chunk_of(layout, n), point, point)
    for i in range(X):
        point[node + i * lanes] = scratch[best + i * lanes]
    scratch[least] = -inf
