"""The layout of a chain's memory: rows of points and momenta, and the places of its statistics."""

from __future__ import annotations

# Rows of the table of points. The chain is at CURRENT between transitions. Static trajectories also have the middle of
# a pair of steps, dynamic ones their two ends and a candidate.
CURRENT, NEXT, SPARE, BACK = range(4)
MIDDLE, STATIC_POINTS = range(4, 6)
LEFT, RIGHT, CANDIDATE, DYNAMIC_POINTS = range(4, 8)

# Rows of the table of momenta: the moving one, the one before a step, the ends of a trajectory, the running sum; then
# three rows for each level of a tree: sum, first and last momentum of a finished sub-tree.
MOVING, BEFORE, AT_LEFT, AT_RIGHT, TOTAL, LEVELS = range(6)
STATIC_MOMENTA = 2


def dynamic_momenta(max_depth: int) -> int:
    return LEVELS + 3 * (max_depth + 2)


# What is counted in a transition: iterations of Newton's method, linearisations, steps.
ITERATED, LINEARISED, STEPS, COUNTS = range(4)

# Statistics of one transition.
(
    ACCEPTANCE,
    STEPS_TAKEN,
    STEP_SIZE,
    ENERGY,
    LOG_DENSITY,
    STATUS,
    ITERATIONS,
    DEPTH,
    DIVERGING,
    STEPS_FAILED,
    STATISTICS,
) = range(11)

# An energy error beyond this ends the trajectory (paper, appendix on algorithmic parameters).
DIVERGENCE_ENERGY = 1000.0
