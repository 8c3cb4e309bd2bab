"""The numbers that someone chose: where the sampler's algorithms change course, with what that does to cost and draws.

Draws are from the posterior of the discretised model whatever these are, unless it is said here that exactness rests
on one. What a user can set stands in `engine.Solver` and with the samplers.
"""

from __future__ import annotations

from numpy import pi

# Newton's method (constrained_step.py; method.md, section 8). The solution does not depend on these, only how it is
# found and whether it is: a solve that fails is a step that fails, forward or backward alike.
DIVERGENCE = 1e10  # a residual beyond this, in units of the scales, cannot be mended: the attempt ends at once
NEAR = 0.3  # changes below this leave the linearisation in place; larger: cheaper iterations, but more of them ...
CONTRACTION = 0.2  # ... as long as they shrink by this factor from one iteration to the next
PIECES = (1, 4, 16)  # of the way, when the first guess fails: with more, steps near walls succeed, at a cost

# The way back (constrained_step.py; method.md, section 8). Exactness rests on both: they say when a step is
# taken to be undone by the step back. Smaller means more iterations, and steps that are refused for rounding alone.
RETURNING = 1e-4  # a way back that is so near its goal, and was further away by CONTRACTION, will reach it
RETURN_TOLERANCE = 2.0  # in units of the position tolerance: how far from its goal a whole way back may end

# Corrections of the parameters' multipliers a, from zero (common_kernels.py; method.md, section 5): the plain solve and
# up to two refinements while the relative error of a may be larger than this. Each costs a pass over the nodes; without
# them the projection is wrong if the path has little noise of its own. An iteration of Newton's method may err by more,
# since the next one mends it.
CORRECTIONS = 3
ACCURATE, ACCURATE_IN_ITERATION = 1e-12, 1e-8

# An energy error beyond this ends the trajectory (paper, appendix on algorithmic parameters). In dynamic ones it is the
# one limit that is not symmetric (method.md, section 10); hardly any draw meets it.
DIVERGENCE_ENERGY = 1000.0

# Static trajectories (static_hmc.py; method.md, section 9).
LENGTH_SPREAD = 0.4  # the length of trajectories varies by this fraction about the integration time: no resonances
MAX_PAIRS = 511  # of steps in a trajectory: what one draw may cost
FAILED_WEIGHT = 1.0 / 3.0  # how much less a pair of steps counts for the step size when it failed
SHORTER, MOST_SHORTENED = 0.25, 4  # steps are shortened by this factor, at most so many times ...
CAREFUL, CONFIDENT = 0.1, 0.01  # ... and for this share of trajectories once more; where it was never needed

# Dual averaging in warm-up (step_size.py): Hoffman and Gelman's numbers, and two limits.
REGULARISATION, EXPONENT, OFFSET = 0.1, 0.75, 10.0
LONGEST_STEP = 1.5  # the Gaussian splitting turns by this angle; a half turn would lose the momentum
FLOOR = 0.02  # many failures in a row do not bring the step below this fraction of the first one

# The search for an integration time in warm-up (integration_time.py; method.md, section 11).
TIMES = (0.5 * pi, 1.5 * pi)  # a quarter or three quarters of a turn
TRIALS_BEGIN, TRIALS_END = 0.3, 0.85  # of warm-up: in between the two are tried
SLOW = 0.25  # longer trajectories are considered when fewer of the slowest coordinate's draws are effective ...
FAVOUR = 0.5  # ... and win unless an effective draw costs twice as much: they are fewer draws to keep, and mix better

# Replica exchange (replica_exchange.py; method.md, section 22): how many rungs there is room for, and the most pairs of
# steps of a trajectory on other rungs than the first.
MOST_RUNGS = 48
HOT_PAIRS = 4

# The search for a starting point (start_search.py, descent.py; method.md, section 12): whether one is found, and how
# soon, never what is sampled.
GUESSES = 20  # steps of the node states towards their observations
START_ITERATIONS = 100  # of the iterated smoother, before another start is tried
SHRINK = 0.2  # of its relaxation, with every iteration: smaller is faster, and fails more often
EXACT = 1e-6  # relaxations below this fraction of the first one are zero
SHORTEST_PROJECTION = 1.0 / 64.0  # a step of it that does not help is halved down to this
CALMINGS = 12  # halvings of the noise of a path that is not finite; from the middle on, of the parameters too
STEEPER, NEARLY = 0.1, 3e-4  # on the way down the relaxation shrinks by this, and ends there: a projection follows
ABSORPTIONS = 4  # of misfits by the noise of observations: one would do where rows are affine in it
COARSE = 1e-4  # tolerance of projections on the way
DESCENTS = 60  # evaluations of a path on the way down, steps along the manifold
SHORTEN, SHORTEST_SEARCH = 0.25, 1.0 / 300.0  # a step down that does not help is shortened, down to this
# Steps that promise to gain less log density, times the root of the number of series, or so many that do, are the last.
LEAST_GAIN, IDLE = 0.05, 3

# The particle filter (particles.py; method.md, section 19): its estimate is unbiased for every choice but MET's.
SWEEPS = 2  # of the guide: the path without noise is what it is linearised along first
MET = 1e-6  # by how much an exact observation may be missed, in units of what was to be met; else it is refused
PLAIN = 0.1  # of the particles do not follow the guide: no weight exceeds 1 / PLAIN
APPROACHES = 4  # of the start that a guide is computed from
SPARSE = 0.1  # effective share below which each particle has a guide of its own on the way to the next observation
ENOUGH = 0.5  # effective share of the particles below which they are drawn anew

# The inner mode of the Laplace approximation (laplace.py; method.md, section 21).
INNER_ITERATIONS, WARM_ITERATIONS = 60, 20  # passes before a solve is given up; from a mode of other parameters
INNER_TOLERANCE = 1e-8  # largest change of the noise, in prior standard deviations, at which the mode is found ...
STALLED = 1e-6  # ... or, where rounding keeps changes from shrinking any more, this
TRUSTED = 1e-5  # steps shorter than this are taken without looking at the merit, which has no digits left for them
# The precision that is added to the state at the ends of intervals while their noise is drawn, relative to its own.
HELD = 1000.0
