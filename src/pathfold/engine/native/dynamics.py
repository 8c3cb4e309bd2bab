"""The dynamics of a chain, with constraints or without: the few functions that transitions are made of."""

from __future__ import annotations

from pathfold.engine import table as at

from .constrained import constrained_step, prepare_constrained
from .jit import compiled
from .manifold import constrained_potential, project
from .unconstrained import prepare_unconstrained, unconstrained_potential, unconstrained_step
from .vector import draw_normals, squared_norm


@compiled
def prepare(layout, problem, point, scratch):
    """Compute everything a step needs at its start; return a status."""
    if layout[at.METHOD] == at.CONSTRAINED:
        return prepare_constrained(layout, problem, point, scratch)
    return prepare_unconstrained(layout, problem, point, scratch)


@compiled
def draw_momentum(layout, problem, point, p, rng, scratch):
    """Draw a standard normal momentum: of q / scale, or on the cotangent space of the point (paper, section 4.2)."""
    draw_normals(layout, p, rng)
    become_momentum(layout, problem, point, p, scratch)


@compiled
def become_momentum(layout, problem, point, p, scratch):
    """Turn standard normals p into a momentum at the point."""
    if layout[at.METHOD] == at.CONSTRAINED:
        project(layout, problem, point, p, scratch)


@compiled
def step(layout, problem, origin, target, back, p, t, first, last, scratch, counts):
    """Make one step of size t from (origin, p) to (target, p), between kicks of given lengths; return a status.

    `back` is room for the way back.
    """
    if layout[at.METHOD] == at.CONSTRAINED:
        return constrained_step(layout, problem, origin, target, back, p, t, first, last, scratch, counts)
    return unconstrained_step(layout, problem, origin, target, p, t, first, last, scratch)


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
