"""Addresses of numbers in their blocks (the layouts of `program/layout.py`)."""

from __future__ import annotations

from pathfold.engine import table as at

from .jit import compiled


@compiled
def of_interval(layout, record, field, n):
    """Return where a field of interval n begins in its block; its entries follow at strides of layout[LANES]."""
    lanes = layout[at.LANES]
    return layout[record] + ((n // lanes) * layout[record + at.SIZE] + layout[field]) * lanes + n % lanes


@compiled
def of_step(layout, record, field, n, s):
    """Return where a field of fine step s of interval n begins in its block, with the strides of `of_interval`."""
    lanes = layout[at.LANES]
    row = (n // lanes) * layout[at.STEPS] + s
    return layout[record] + (row * layout[record + at.SIZE] + layout[field]) * lanes + n % lanes


@compiled
def of_series(layout, record, field, k):
    """Return where a field of series k begins in its block."""
    return layout[record] + k * layout[record + at.SIZE] + layout[field]


@compiled
def setting(layout, field):
    """Return where a setting lies in the problem."""
    return layout[at.PROBLEM_SETTINGS] + layout[field]


@compiled
def noise_of_interval(layout, n):
    """Return where the noise of interval n begins in a vector, and how many numbers it has: w_n, then all v_{n,s}.

    They follow at strides of layout[LANES].
    """
    lanes = layout[at.LANES]
    w_size, v_size = layout[at.VECTOR_W + at.SIZE], layout[at.VECTOR_V + at.SIZE] * layout[at.STEPS]
    w, v = layout[at.VECTOR_W] + (n // lanes) * w_size * lanes, layout[at.VECTOR_V] + (n // lanes) * v_size * lanes
    return (w + n % lanes, w_size), (v + n % lanes, v_size)
