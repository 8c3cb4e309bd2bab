"""Momenta of scaled coordinates: standard normal."""

from __future__ import annotations

from .jit import compiled
from .point import clear_idle


@compiled
def draw_momentum(layout, problem, point, p, rng, scratch):
    for i in range(p.size):
        p[i] = rng.standard_normal()
    clear_idle(layout, p)
