"""The dynamics of a chain, with constraints or without: the few functions that transitions are made of."""

from __future__ import annotations

from pathfold.engine import table as at

from . import constrained, manifold, unconstrained
from .jit import compiled
from .vector import squared_norm


@compiled
def prepare(layout, problem, point, scratch):
    """Compute everything a step needs at its start; return a status."""
    if layout[at.METHOD] == at.CONSTRAINED:
        return constrained.evaluate(layout, problem, point, scratch)
    return unconstrained.evaluate(layout, problem, point, scratch)


@compiled
def draw_momentum(layout, problem, point, p, rng, scratch):
    if layout[at.METHOD] == at.CONSTRAINED:
        constrained.draw_momentum(layout, problem, point, p, rng, scratch)
    else:
        unconstrained.draw_momentum(layout, p, rng)


@compiled
def step(layout, problem, origin, target, back, p, t, first, last, scratch, counts):
    """Make one step of size t from (origin, p) to (target, p), between kicks of given lengths; return a status.

    `back` is room for the way back.
    """
    if layout[at.METHOD] == at.CONSTRAINED:
        return constrained.constrained_step(layout, problem, origin, target, back, p, t, first, last, scratch, counts)
    return unconstrained.unconstrained_step(layout, problem, origin, target, p, t, first, last, scratch)


@compiled
def potential(layout, point):
    """Return minus the log density of the position."""
    if layout[at.METHOD] == at.CONSTRAINED:
        return manifold.potential(layout, point)
    return unconstrained.potential(layout, point)


@compiled
def hamiltonian(layout, point, p):
    """h(q, p) = l(q) + 1/2 p.p: momenta are those for which the metric is the identity."""
    return potential(layout, point) + 0.5 * squared_norm(p)
