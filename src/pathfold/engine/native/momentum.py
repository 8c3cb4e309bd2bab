"""Momenta: standard normal on the cotangent space of a point (paper, section 4.2)."""

from __future__ import annotations

from .jit import compiled
from .point import clear_idle, project


@compiled
def draw_normals(layout, p, rng):
    """Standard normals for every component of a vector, whatever a failed step left there."""
    for i in range(p.size):
        p[i] = rng.standard_normal()
    clear_idle(layout, p)


@compiled
def draw_momentum(layout, problem, point, p, rng, scratch):
    draw_normals(layout, p, rng)
    project(layout, problem, point, p, scratch)
