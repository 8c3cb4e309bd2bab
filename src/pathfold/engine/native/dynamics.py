"""The dynamics of a chain, with constraints or without: the few functions that transitions are made of."""

from __future__ import annotations

from pathfold.engine import table as at

from .constrained_step import constrained_potential, constrained_step, prepare_constrained, project
from .jit import compiled
from .unconstrained import prepare_unconstrained, unconstrained_potential, unconstrained_step
from .vectors import draw_normals, squared_norm


@compiled
def prepare(m, point):
    """Compute everything a step needs at its start; return a status."""
    if m.layout[at.METHOD] == at.CONSTRAINED:
        return prepare_constrained(m, point)
    return prepare_unconstrained(m, point)


@compiled
def draw_momentum(m, point, p, rng):
    """Draw a standard normal momentum: of q / scale, or on the cotangent space of the point (paper, section 4.2)."""
    draw_normals(m.layout, p, rng)
    become_momentum(m, point, p)


@compiled
def become_momentum(m, point, p):
    """Turn standard normals p into a momentum at the point."""
    if m.layout[at.METHOD] == at.CONSTRAINED:
        project(m, point, p)


@compiled
def step(m, origin, target, back, p, t, first, last):
    """Make one step of size t from (origin, p) to (target, p), between kicks of given lengths; return a status.

    `back` is room for the way back.
    """
    if m.layout[at.METHOD] == at.CONSTRAINED:
        return constrained_step(m, origin, target, back, p, t, first, last)
    return unconstrained_step(m, origin, target, p, t, first, last)


@compiled
def potential(layout, point):
    """Return minus the log density of the position."""
    if layout[at.METHOD] == at.CONSTRAINED:
        return constrained_potential(layout, point)
    return unconstrained_potential(layout, point)


@compiled
def hamiltonian(layout, point, p):
    """h(q, p) = l(q) + 1/2 p.p: momenta are those for which the metric is the identity."""
    return potential(layout, point) + 0.5 * squared_norm(p)
