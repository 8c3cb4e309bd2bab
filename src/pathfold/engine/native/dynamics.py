"""The dynamics of a chain, constrained to the manifold or not: the few functions that transitions are made of."""

from __future__ import annotations

from pathfold.engine import table as at
from pathfold.engine.status import CONVERGED

from . import constrained, manifold, unconstrained
from .jit import compiled
from .vector import squared_norm

OUTER = 0.21178  # the kick at either end of a pair of steps, as a share of all of them


@compiled
def prepare(layout, problem, point, scratch):
    """Everything a step needs at its start; returns a status."""
    if layout[at.METHOD] == at.CONSTRAINED:
        return constrained.prepare(layout, problem, point, scratch)
    return unconstrained.evaluate(layout, problem, point, scratch)


@compiled
def draw_momentum(layout, problem, point, p, rng, scratch):
    if layout[at.METHOD] == at.CONSTRAINED:
        constrained.draw_momentum(layout, problem, point, p, rng, scratch)
    else:
        unconstrained.draw_momentum(layout, p, rng)


@compiled
def kicked_step(layout, problem, origin, target, back, p, t, first, last, scratch, counts):
    """One step of size t between kicks of given lengths; returns a status. `back` is room for the way back."""
    if layout[at.METHOD] == at.CONSTRAINED:
        return constrained.constrained_step(layout, problem, origin, target, back, p, t, first, last, scratch, counts)
    return unconstrained.unconstrained_step(layout, problem, origin, target, p, t, first, last, scratch)


@compiled
def step(layout, problem, origin, target, back, p, t, scratch, counts):
    """One step of size t from (origin, p) to (target, p), with half of the kick before it and half after it."""
    return kicked_step(layout, problem, origin, target, back, p, t, 0.5 * t, 0.5 * t, scratch, counts)


@compiled
def two_steps(layout, problem, origin, middle, target, back, p, t, scratch, counts):
    """Two steps of size t from (origin, p) to (target, p), kicked most in the middle; returns a status.

    With this share of the kicks at their ends, errors of energy cancel more than in equal steps (Blanes, Casas and
    Sanz-Serna 2014; method.md, section 9).
    """
    first, last = 2.0 * OUTER * t, (1.0 - 2.0 * OUTER) * t
    status = CONVERGED
    for _ in range(2):
        if status == CONVERGED:
            status = kicked_step(layout, problem, origin, middle, back, p, t, first, last, scratch, counts)
            first, last = last, first
            origin, middle = middle, target
    return status


@compiled
def potential(layout, point):
    """Minus the log density of the position."""
    if layout[at.METHOD] == at.CONSTRAINED:
        return manifold.potential(layout, point)
    return unconstrained.potential(layout, point)


@compiled
def hamiltonian(layout, point, p):
    """h(q, p) = l(q) + 1/2 p.p: momenta are those for which the metric is the identity."""
    return potential(layout, point) + 0.5 * squared_norm(p)
