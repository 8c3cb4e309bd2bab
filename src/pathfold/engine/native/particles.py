"""A particle filter whose particles are guided to the next observation (method.md, section 19)."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import exp, fabs, inf, log

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE, NOT_AFFINE

from .guided_paths import aim, clear_guide, draw_steps, follow_node, follow_segment, follow_steps
from .jit import compiled
from .run import one
from .small import finite
from .thresholds import APPROACHES, ENOUGH, MET, PLAIN, SPARSE
from .vectors import of_series


class Particles(NamedTuple):
    """Particles: their states and log weights; the kinds of normals that their next observations are taken for."""

    states: Any
    log_weights: Any
    kinds: Any  # by particle and column with heavy tails
    chances: Any  # of the kinds, by column and kind
    to_do: Any  # by particle
    spare: Any  # states


class Filtered(NamedTuple):
    """What a filter finds: log p(y_n | y_1, ..., y_{n-1}, z) of every observation; unless they are empty, the states
    that particles would have at each observation without it (observation, particle, X), and their weights."""

    ahead: Any
    expected: Any
    weights: Any


@compiled
def exchange(layout, point, place, piece, state, write):
    """Copy a particle's state to a field of a piece, or from it."""
    base = of_series(layout, at.POINT_PIECE, place, piece)
    for i in range(state.size):
        if write:
            point[base + i] = state[i]
        else:
            state[i] = point[base + i]


@compiled
def mixed(log_ratio):
    """Return the log of phi over the density of noise that follows the guide or, rarely, does not; given the log of phi
    over the density of noise that does.

    It is at most -log(PLAIN): a guide that is too sure of itself does not make for huge weights.
    """
    if not log_ratio < inf:  # far from what the guide would draw
        return -log(PLAIN)
    return -log((1.0 - PLAIN) * exp(-log_ratio) + PLAIN)


@compiled
def move(m, point, rng, piece):
    """Move a particle from where the piece begins to the next observation; return its log weight."""
    draw_steps(m.layout, point, at.POINT_V, at.V_V, piece + 1, rng)
    if rng.random() < PLAIN:
        draw_steps(m.layout, point, at.POINT_NODE, at.NODE_NOISE, piece, rng)
        log_ratio = follow_steps(m, plans.INNOVATIONS_PATH, point, piece)
    else:
        draw_steps(m.layout, point, at.POINT_V, at.V_V, piece, rng)
        log_ratio = follow_steps(m, plans.GUIDED_PATH, point, piece)
    return mixed(log_ratio) + follow_node(m, plans.GUIDED_NODE, point, piece)


@compiled
def set_kinds(layout, point, piece, columns, kinds):
    """Say by normals of which kinds a guide takes the observation that ends a segment, in columns with heavy tails."""
    base = of_series(layout, at.POINT_PIECE, at.PIECE_KIND, piece + 1)
    for h in range(columns.size):
        if columns[h] >= 0:
            point[base + columns[h]] = kinds[h]


@compiled
def approach(m, point, piece):
    """Compute the guide of the first segment of a series, and of its start, along paths that come closer to the data.

    Returns the log weight of the last of the starts.
    """
    layout = m.layout
    omega = of_series(layout, at.POINT_V0, at.V0_V0, piece)
    for i in range(layout[at.V0]):
        point[omega + i] = 0.0
    clear_guide(layout, point, piece, piece + 2)
    for _ in range(APPROACHES):
        one(m, plans.GUIDED_START, piece, point, point)
        aim(m, point, piece)
    log_ratio = of_series(layout, at.POINT_PIECE, at.PIECE_LOG_RATIO, piece)
    return point[log_ratio] - point[of_series(layout, at.POINT_PIECE, at.PIECE_EXCESS, piece)]


@compiled
def weigh_kinds(m, point, piece, start, columns, chances):
    """Compute the chances of the kinds (column, kind), column by column, the others being of their likeliest kinds.

    They are weights of paths without noise: of the `start`, or from where the piece begins.
    """
    layout = m.layout
    base = of_series(layout, at.POINT_PIECE, at.PIECE_KIND, piece + 1)
    for h in range(columns.size):
        if columns[h] >= 0:
            point[base + columns[h]] = 0.0
    for h in range(columns.size):
        if columns[h] < 0:
            continue
        best, highest, total = 0, -inf, 0.0
        for k in range(chances.shape[1]):
            point[base + columns[h]] = k
            if start:
                chances[h, k] = approach(m, point, piece)
            else:
                aim(m, point, piece)
                chances[h, k] = 0.0
            chances[h, k] += follow_segment(m, point, piece)
            if not finite(chances[h, k]):
                chances[h, k] = -inf
            if chances[h, k] > highest:
                best, highest = k, chances[h, k]
        for k in range(chances.shape[1]):
            chances[h, k] = exp(chances[h, k] - highest) if highest > -inf else 1.0
            total += chances[h, k]
        for k in range(chances.shape[1]):
            chances[h, k] = (1.0 - PLAIN) * chances[h, k] / total + PLAIN / chances.shape[1]
        point[base + columns[h]] = best


@compiled
def draw_kinds(rng, columns, chances, kinds):
    """Draw the kinds of a particle by their chances; return the log of that of what is drawn."""
    total = 0.0
    for h in range(columns.size):
        if columns[h] >= 0:
            left, k = rng.random() - chances[h, 0], 0
            while left > 0.0 and k < chances.shape[1] - 1:
                k += 1
                left -= chances[h, k]
            kinds[h] = k
            total += log(chances[h, k])
    return total


@compiled
def differ(kinds, others):
    """Count the columns in which particles are of other kinds."""
    count = 0
    for h in range(kinds.size):
        count += kinds[h] != others[h]
    return count


@compiled
def draw_starts(m, point, rng, piece, particles, columns):
    """Draw initial states, guided to the first observation, with log weights; particles of the same kinds at once."""
    layout, states, log_weights = m.layout, particles.states, particles.log_weights
    kinds, to_do = particles.kinds, particles.to_do
    omega = of_series(layout, at.POINT_V0, at.V0_V0, piece)
    noise = of_series(layout, at.POINT_PIECE, at.PIECE_NOISE0, piece)
    log_ratio = of_series(layout, at.POINT_PIECE, at.PIECE_LOG_RATIO, piece)
    excess = of_series(layout, at.POINT_PIECE, at.PIECE_EXCESS, piece)
    to_do[:] = 1
    for first in range(states.shape[0]):
        if to_do[first] == 0:
            continue
        set_kinds(layout, point, piece, columns, kinds[first])
        approach(m, point, piece)
        for p in range(first, states.shape[0]):
            if to_do[p] == 0 or differ(kinds[first], kinds[p]):
                continue
            to_do[p] = 0
            plain = rng.random() < PLAIN
            for i in range(layout[at.V0]):
                point[(noise if plain else omega) + i] = rng.standard_normal()
            one(m, plans.INNOVATIONS_START if plain else plans.GUIDED_START, piece, point, point)
            exchange(layout, point, at.PIECE_X_BEGIN, piece, states[p], False)
            log_weights[p] += mixed(point[log_ratio]) - point[excess] - log(states.shape[0])


@compiled
def average(states, log_weights, mean):
    """Compute the weighted mean of the particles, without those that are lost."""
    highest, total = -inf, 0.0
    for p in range(log_weights.size):
        if finite(log_weights[p]):
            highest = max(highest, log_weights[p])
    for i in range(mean.size):
        mean[i] = 0.0
    for p in range(log_weights.size):
        if finite(log_weights[p]):
            weight = exp(log_weights[p] - highest)
            total += weight
            for i in range(mean.size):
                mean[i] += weight * states[p, i]
    for i in range(mean.size):
        mean[i] /= total


@compiled
def is_lost(state, log_weight):
    """Return whether a particle's path is no longer finite, so that it has no weight."""
    total = 0.0
    for i in range(state.size):
        total += fabs(state[i])
    return not (finite(total) and log_weight < inf)


@compiled
def normalise(log_weights):
    """Normalise the weights, so that they sum to one; return the log of their sum before, -inf if all vanish."""
    highest = -inf
    for p in range(log_weights.size):
        highest = max(highest, log_weights[p])
    if highest == -inf:
        return highest
    total = 0.0
    for p in range(log_weights.size):
        total += exp(log_weights[p] - highest)
    total = highest + log(total)
    for p in range(log_weights.size):
        log_weights[p] -= total
    return total


@compiled
def resample(rng, states, spare, log_weights):
    """Resample systematically: copy particle p about as often as its weight times their number says."""
    count, used, cumulative = log_weights.size, 0, 0.0
    offset, last = rng.random(), log_weights.size - 1
    while log_weights[last] == -inf:
        last -= 1
    for p in range(last + 1):
        cumulative += count * exp(log_weights[p])
        while used < count and (used + offset < cumulative or p == last):
            for i in range(states.shape[1]):
                spare[used, i] = states[p, i]
            used += 1
    for p in range(count):
        log_weights[p] = -log(count)
        for i in range(states.shape[1]):
            states[p, i] = spare[p, i]


@compiled
def look_ahead(m, point, rng, piece, states, expected):
    """Simulate where each particle would be at the next observation, with noise that is not guided."""
    layout = m.layout
    for p in range(states.shape[0]):
        exchange(layout, point, at.PIECE_X_BEGIN, piece, states[p], True)
        for part in (piece, piece + 1):
            draw_steps(layout, point, at.POINT_NODE, at.NODE_NOISE, part, rng)
        follow_steps(m, plans.INNOVATIONS_PATH, point, piece)
        follow_node(m, plans.INNOVATIONS_PATH, point, piece)
        exchange(layout, point, at.PIECE_X_END, piece + 1, expected[p], False)


@compiled
def filter_particles(m, point, rng, pieces, starts, heavy, particles, found):
    """Estimate log p(y_n | y_1, ..., y_{n-1}, z) for the observation that ends each segment; return a status.

    All particles follow one guide, that of a path from their mean, which costs less than one each; but at the start of
    a series, where they may be far apart, and after an observation that few of them explained, each has its own. Guides
    are known before noise is drawn, and so the product of the densities is an unbiased estimate of p(y | z). Missing
    are factors that depend on the data alone.

    `heavy` (observation, columns) are the columns that have heavy tails, -1 where nothing is seen in them. They are
    taken for mixtures of normals, each of a kind that is drawn anew for every particle.
    """
    layout = m.layout
    states, log_weights, kinds, chances, to_do, spare = particles
    ahead, expected, weights = found
    share = 1.0
    for g in range(pieces.size):
        piece = pieces[g]
        start, columns = starts[g] != 0, heavy[g]
        if start:
            weigh_kinds(m, point, piece, True, columns, chances)
            for p in range(log_weights.size):
                log_weights[p] = -draw_kinds(rng, columns, chances, kinds[p])
            draw_starts(m, point, rng, piece, particles, columns)
        if weights.size > 0:
            look_ahead(m, point, rng, piece, states, expected[g])
            for p in range(log_weights.size):
                weights[g, p] = exp(log_weights[p])
        average(states, log_weights, spare[0])
        if not start:
            exchange(layout, point, at.PIECE_X_BEGIN, piece, spare[0], True)
            weigh_kinds(m, point, piece, False, columns, chances)
            for p in range(log_weights.size):
                log_weights[p] -= draw_kinds(rng, columns, chances, kinds[p])
        own = start or share < SPARSE
        to_do[:] = 1
        for first in range(states.shape[0]):
            if to_do[first] == 0:
                continue
            set_kinds(layout, point, piece, columns, kinds[first])
            exchange(layout, point, at.PIECE_X_BEGIN, piece, spare[0], True)
            aim(m, point, piece)
            for p in range(first, states.shape[0]):
                if to_do[p] == 0 or differ(kinds[first], kinds[p]):
                    continue
                to_do[p] = 0
                exchange(layout, point, at.PIECE_X_BEGIN, piece, states[p], True)
                if own:
                    aim(m, point, piece)
                log_weights[p] += move(m, point, rng, piece)
                exchange(layout, point, at.PIECE_X_END, piece + 1, states[p], False)
                if is_lost(states[p], log_weights[p]):
                    log_weights[p] = -inf
                missed = point[of_series(layout, at.POINT_PIECE, at.PIECE_MISSED, piece + 1)]
                if finite(log_weights[p]) and missed > MET:
                    return NOT_AFFINE
        ahead[g] = normalise(log_weights)
        if ahead[g] == -inf:
            return NON_FINITE
        squares = 0.0
        for p in range(log_weights.size):
            squares += exp(2.0 * log_weights[p])
        share = 1.0 / (squares * log_weights.size)
        if share < ENOUGH:
            resample(rng, states, spare, log_weights)
    return CONVERGED
