"""Momenta: standard normal on the cotangent space of a point (paper, section 4.2)."""

from __future__ import annotations

from .jit import compiled
from .point import project
from .sizes import CHUNKS, FIRST, SERIES, STEPS, VECTOR_U, VECTOR_V, VECTOR_W, L, V, W


@compiled
def draw_normals(layout, p, rng):
    """Standard normals for every component of a vector; zero in idle lanes, whatever a failed step left there."""
    for i in range(layout[VECTOR_U], layout[VECTOR_W]):
        p[i] = rng.standard_normal()
    intervals = layout[layout[FIRST] + layout[SERIES]]
    for c in range(layout[CHUNKS]):
        busy = min(L, intervals - c * L)
        for k in range(c * W, (c + 1) * W):
            for lane in range(L):
                p[layout[VECTOR_W] + k * L + lane] = rng.standard_normal() if lane < busy else 0.0
        for k in range(c * layout[STEPS] * V, (c + 1) * layout[STEPS] * V):
            for lane in range(L):
                p[layout[VECTOR_V] + k * L + lane] = rng.standard_normal() if lane < busy else 0.0


@compiled
def draw_momentum(layout, problem, point, p, rng, scratch):
    draw_normals(layout, p, rng)
    project(layout, problem, point, p, scratch)
