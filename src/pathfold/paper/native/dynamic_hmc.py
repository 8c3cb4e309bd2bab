"""Dynamic Hamiltonian Monte Carlo: trajectories doubled until they turn back, states drawn by their weights.

Multinomial sampling along the trajectory and the generalised no-U-turn criterion of Betancourt (2017), with the further
checks across sub-trees that Stan has since 2.21 (method.md, section 10; paper, appendix on algorithmic parameters).
Sub-trees are merged from the bottom up: after every leaf, finished sub-trees of equal size are joined, like carries of
a binary counter.

Near walls (`static_hmc.py`) the step size that warm-up found may be too long both ways, so that no trajectory leads
there and none away. So for a share of the trajectories, drawn without looking at the state, steps are shorter: for any
step size the transition leaves the target alone, and so does one whose step size is drawn.
"""

from __future__ import annotations

from numpy import exp, inf, log1p

from pathfold.engine import table as at
from pathfold.engine.native import trajectory as rows
from pathfold.engine.native.dynamics import draw_momentum, hamiltonian, potential, step
from pathfold.engine.native.jit import compiled
from pathfold.engine.native.thresholds import DIVERGENCE_ENERGY
from pathfold.engine.native.tuning import record
from pathfold.engine.native.vectors import copy
from pathfold.engine.status import CONVERGED

# Shorter steps are at least this part of the usual ones, doubled so often at most (method.md, section 10). They lead
# out of corners, and cost at most 2**SHALLOW steps each.
SHORTEST_STEP, SHALLOW = 1.0 / 256.0, 5

# Rows of the table of points besides those of all samplers: the ends of a trajectory, and a candidate. Rows of momenta
# besides the moving one: the ends, the running sum; then three for each level of a tree: sum, first and last momentum
# of a finished sub-tree.
LEFT, RIGHT, CANDIDATE, DYNAMIC_POINTS = range(4, 8)
AT_LEFT, AT_RIGHT, TOTAL, LEVELS = range(1, 5)


def dynamic_momenta(max_depth: int) -> int:
    return LEVELS + 3 * (max_depth + 2)


TREE = record(
    energy=float,  # at its start
    log_weight=float,  # of the states that the last doubling added
    accepted=float,  # the sum of all states' acceptance probabilities
    taken=float,  # steps
    diverged=float,  # 1 if energy has
)

TURNED = -1  # the sub-tree turns back: a good end, unlike the codes of failed steps


@compiled
def log_add(a, b):
    """Return log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a if b == -inf else a + log1p(exp(b - a))


@compiled
def going_on(first, last, total_a, total_b):
    """Return whether the ends of a trajectory with this sum of momenta still move apart: first . (a + b) > 0 and
    last . (a + b) > 0."""
    at_first = 0.0
    at_last = 0.0
    for i in range(first.size):
        total = total_a[i] + total_b[i]
        at_first += first[i] * total
        at_last += last[i] * total
    return at_first > 0.0 and at_last > 0.0


@compiled
def joins(total_a, first_a, last_a, total_b, first_b, last_b):
    """Return whether two adjoining parts pass the no-U-turn criterion: as a whole, and each part with the nearest state
    of the other."""
    return (
        going_on(first_a, last_b, total_a, total_b)
        and going_on(first_a, first_b, total_a, first_b)
        and going_on(last_a, last_b, total_b, last_a)
    )


@compiled
def merge(momenta, level):
    """Join the sub-trees on two adjoining levels into the lower one; return False if the union turns back."""
    a, b = LEVELS + 3 * level, LEVELS + 3 * (level + 1)
    going = joins(momenta[a], momenta[a + 1], momenta[a + 2], momenta[b], momenta[b + 1], momenta[b + 2])
    for i in range(momenta.shape[1]):
        momenta[a, i] += momenta[b, i]
        momenta[a + 2, i] = momenta[b + 2, i]
    return going


@compiled
def extend(m, points, momenta, end, t, leaves, rng, tree):
    """Add `leaves` states beyond one end of the trajectory; return a status.

    Their log weight, acceptance probabilities, steps and divergence go to the tree. One of them, drawn by weight, is
    left in points[CANDIDATE]; the sum of their momenta and the outermost ones on the lowest level.
    """
    layout = m.layout
    p = momenta[rows.MOVING]
    height = 0  # finished sub-trees waiting to be joined
    for leaf in range(leaves):
        blocks = points[end], points[rows.NEXT], points[rows.BACK]
        status = step(m, *blocks, p, t, 0.5 * t, 0.5 * t)
        tree.taken += 1.0
        if status != CONVERGED:
            return status
        error = hamiltonian(layout, points[rows.NEXT], p) - tree.energy
        if not (error < DIVERGENCE_ENERGY):
            tree.diverged = 1.0
            return TURNED
        tree.accepted += min(1.0, exp(-error))
        tree.log_weight = log_add(tree.log_weight, -error)
        if rng.random() < exp(-error - tree.log_weight):
            copy(points[rows.NEXT], points[CANDIDATE])
        copy(points[rows.NEXT], points[end])
        for row in range(3):
            copy(p, momenta[LEVELS + 3 * height + row])
        height += 1
        merges = leaf + 1
        while merges % 2 == 0:
            height -= 1
            if not merge(momenta, height - 1):
                return TURNED
            merges //= 2
    return CONVERGED


@compiled
def draw_step_size(t, most, share, rng):
    """Draw the step size of a trajectory: t or, for a share of them, a shorter one, log-uniformly. Return it, and how
    often the trajectory may be doubled: less with short steps, which lead round a corner, not through the posterior."""
    if rng.random() < share:
        return t * SHORTEST_STEP ** rng.random(), min(most, SHALLOW)
    return t, most


@compiled
def dynamic_transition(m, points, momenta, t, share, rng, tree, statistics):
    """Make one transition from points[CURRENT]; return whether its first step failed. `share` is that of trajectories
    with shorter steps; the step size among the statistics is the one before it is shortened.

    Where a step fails, or energy diverges, the doubling that it belongs to is given up and the state drawn before it is
    kept: from any state of the trajectory as it was then, the same doublings lead to the same trajectory and fail at
    the same step, so the target is left alone. The acceptance statistic is zero, to make steps smaller.
    """
    p = momenta[rows.MOVING]
    draw_momentum(m, points[rows.CURRENT], p, rng)
    tree.energy = hamiltonian(m.layout, points[rows.CURRENT], p)
    size, most = draw_step_size(t, m.layout[at.MAX_DEPTH], share, rng)
    copy(points[rows.CURRENT], points[LEFT])
    copy(points[rows.CURRENT], points[RIGHT])
    for row in (AT_LEFT, AT_RIGHT, TOTAL):
        copy(p, momenta[row])
    chosen = False
    weight = 0.0  # log of the sum of exp(-energy error) over the trajectory; its start has error 0
    m.counts[rows.ITERATED] = 0
    tree.accepted = 0.0
    tree.taken = 0.0
    tree.diverged = 0.0
    depth = 0
    status = CONVERGED
    while status == CONVERGED and depth < most:
        forward = rng.random() < 0.5
        end, row, sign = (RIGHT, AT_RIGHT, 1.0) if forward else (LEFT, AT_LEFT, -1.0)
        copy(momenta[row], p)
        tree.log_weight = -inf
        leaves = 1 << depth
        status = extend(m, points, momenta, end, sign * size, leaves, rng, tree)
        depth += 1
        if status != CONVERGED:
            break
        if rng.random() < exp(min(0.0, tree.log_weight - weight)):
            # points[LEFT] and points[RIGHT] are still needed as ends: the choice waits in SPARE.
            copy(points[CANDIDATE], points[rows.SPARE])
            chosen = True
        weight = log_add(weight, tree.log_weight)
        # In the order of integration: the old trajectory from its far end to its near one, then the new part.
        far = AT_LEFT if forward else AT_RIGHT
        new, first, last = momenta[LEVELS], momenta[LEVELS + 1], momenta[LEVELS + 2]
        going = joins(momenta[TOTAL], momenta[far], momenta[row], new, first, last)
        copy(p, momenta[row])
        for i in range(p.size):
            momenta[TOTAL, i] += new[i]
        if not going:
            status = TURNED
    failed = status > CONVERGED or tree.diverged > 0.0
    if chosen:
        copy(points[rows.SPARE], points[rows.CURRENT])
    statistics[rows.ACCEPTANCE] = 0.0 if failed else tree.accepted / tree.taken
    statistics[rows.STEPS_TAKEN] = tree.taken
    statistics[rows.STEP_SIZE] = t
    statistics[rows.ENERGY] = tree.energy
    statistics[rows.LOG_DENSITY] = -potential(m.layout, points[rows.CURRENT])
    statistics[rows.STATUS] = max(status, CONVERGED)
    statistics[rows.ITERATIONS] = m.counts[rows.ITERATED] / (2.0 * tree.taken)
    statistics[rows.DEPTH] = depth
    statistics[rows.DIVERGING] = tree.diverged
    statistics[rows.STEPS_FAILED] = 1.0 if status > CONVERGED else 0.0
    return failed and depth == 1
