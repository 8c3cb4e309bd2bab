"""The layout of a chain's memory: rows of points and momenta, and the places of its statistics."""

from __future__ import annotations

# Rows of the table of points. The chain is at CURRENT between transitions; the search for its start has no other rows
# than the first three. Static trajectories also have the middle of a pair of steps.
CURRENT, NEXT, SPARE, BACK = range(4)
STARTING_POINTS = 3
MIDDLE, STATIC_POINTS = range(4, 6)

# Rows of the table of momenta: the moving one, and the one before a step.
MOVING, BEFORE, STATIC_MOMENTA = range(3)

# What is counted in a transition: iterations of Newton's method, linearisations, steps.
ITERATED, LINEARISED, STEPPED, COUNTS = range(4)

# What results call the statistics of one transition, in order, and the type that they have there.
STATISTIC_TYPES: dict[str, str] = {}


def _statistic(name: str, dtype: str = "float64") -> int:
    STATISTIC_TYPES[name] = dtype
    return len(STATISTIC_TYPES) - 1


ACCEPTANCE = _statistic("acceptance_rate")
STEPS_TAKEN = _statistic("n_steps", "int64")
STEP_SIZE = _statistic("step_size")
ENERGY = _statistic("energy")
LOG_DENSITY = _statistic("lp")
STATUS = _statistic("status", "int64")
ITERATIONS = _statistic("newton_iterations")
DEPTH = _statistic("tree_depth", "int64")
DIVERGING = _statistic("diverging", "bool")
STEPS_FAILED = _statistic("n_failed_steps", "int64")
STATISTICS = len(STATISTIC_TYPES)
