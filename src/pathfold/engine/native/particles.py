"""A particle filter whose particles are guided to the next observation (method.md, section 19)."""

from __future__ import annotations

from numpy import exp, inf, log

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED, NON_FINITE, NOT_AFFINE

from .guided import aim, clear_guide, draw_omega, follow
from .jit import compiled, kernel
from .lanes import of_series
from .small import finite

MET = 1e-6  # by how much an exact observation may be missed, in units of what was to be met
ENOUGH = 0.5  # effective share of the particles below which they are drawn anew


@compiled
def exchange(layout, point, place, piece, state, write):
    """A particle's state to a field of a piece, or from it."""
    base = of_series(layout, at.POINT_PIECE, place, piece)
    for i in range(state.size):
        if write:
            point[base + i] = state[i]
        else:
            state[i] = point[base + i]


@compiled
def draw_starts(layout, problem, point, scratch, rng, piece, states, log_weights):
    """Initial states, guided to the first observation along the path without noise, and their log weights."""
    base = of_series(layout, at.POINT_V0, at.V0_V0, piece)
    for i in range(layout[at.V0]):
        point[base + i] = 0.0
    clear_guide(layout, point, piece)
    kernel(at.GUIDED_START, piece, layout, problem, point, point, scratch)
    aim(layout, problem, point, scratch, piece)
    for p in range(states.shape[0]):
        for i in range(layout[at.V0]):
            point[base + i] = rng.standard_normal()
        kernel(at.GUIDED_START, piece, layout, problem, point, point, scratch)
        exchange(layout, point, at.PIECE_X_BEGIN, piece, states[p], False)
        log_weights[p] = point[of_series(layout, at.POINT_PIECE, at.PIECE_LOG_WEIGHT, piece)] - log(states.shape[0])


@compiled
def normalise(log_weights):
    """The log of the sum of the weights, which then sum to one; -inf if all vanish."""
    highest = -inf
    for p in range(log_weights.size):
        if not log_weights[p] < inf:  # no number: a path that was lost
            log_weights[p] = -inf
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
    """Systematic: particle p is copied about as often as its weight times their number."""
    count, used, cumulative = log_weights.size, 0, 0.0
    offset = rng.random()
    for p in range(count):
        cumulative += count * exp(log_weights[p])
        while used < count and (used + offset < cumulative or p == count - 1):
            for i in range(states.shape[1]):
                spare[used, i] = states[p, i]
            used += 1
    for p in range(count):
        log_weights[p] = -log(count)
        for i in range(states.shape[1]):
            states[p, i] = spare[p, i]


@compiled
def filter_particles(layout, problem, point, scratch, rng, pieces, starts, states, spare, log_weights, ahead):
    """Estimates of log p(y_n | y_1, ..., y_{n-1}, z) for the observation that ends each segment; returns a status.

    The product of the densities is an unbiased estimate of p(y | z). Missing are factors that depend on the data alone.
    """
    for g in range(pieces.size):
        piece = pieces[g]
        if starts[g] != 0:
            draw_starts(layout, problem, point, scratch, rng, piece, states, log_weights)
        for p in range(states.shape[0]):
            exchange(layout, point, at.PIECE_X_BEGIN, piece, states[p], True)
            aim(layout, problem, point, scratch, piece)
            draw_omega(layout, point, piece, rng)
            log_weights[p] += follow(layout, problem, point, scratch, piece)
            exchange(layout, point, at.PIECE_X_END, piece + 1, states[p], False)
            if finite(log_weights[p]) and point[of_series(layout, at.POINT_PIECE, at.PIECE_MISSED, piece + 1)] > MET:
                return NOT_AFFINE
        ahead[g] = normalise(log_weights)
        if ahead[g] == -inf:
            return NON_FINITE
        squares = 0.0
        for p in range(log_weights.size):
            squares += exp(2.0 * log_weights[p])
        if squares * log_weights.size * ENOUGH > 1.0:
            resample(rng, states, spare, log_weights)
    return CONVERGED
