"""Addresses of numbers in their blocks (the layouts of `program/layout.py`)."""

from __future__ import annotations

from pathfold.engine import table as at

from .jit import compiled


@compiled
def slot_of(layout, n):
    return layout[layout[at.SLOT] + n]


@compiled
def chunk_of(layout, n):
    """Return the chunk that interval n is in."""
    return slot_of(layout, n) // layout[at.LANES]


@compiled
def of_interval(layout, record, field, n):
    """Return where a field of interval n begins in its block; its entries follow at strides of layout[LANES]."""
    lanes, slot = layout[at.LANES], slot_of(layout, n)
    return layout[record] + ((slot // lanes) * layout[record + at.SIZE] + layout[field]) * lanes + slot % lanes


@compiled
def of_step(layout, record, field, n, s):
    """Return where a field of fine step s of interval n begins in its block, with the strides of `of_interval`."""
    lanes, slot = layout[at.LANES], slot_of(layout, n)
    row = (slot // lanes) * layout[at.STEPS] + s
    return layout[record] + (row * layout[record + at.SIZE] + layout[field]) * lanes + slot % lanes


@compiled
def of_series(layout, record, field, k):
    """Return where a field of series k begins in its block; its entries follow at strides of layout[ABREAST]."""
    return of_place(layout, record, field, layout[layout[at.PLACE] + k])


@compiled
def places_of(layout, k):
    """Return the first place of series k and the end of its places: if it is cut, its segments follow each other."""
    first = layout[layout[at.PLACE] + k]
    end = first + 1
    while layout[layout[at.BEFORE] + end] >= 0:
        end += 1
    return first, end


@compiled
def of_place(layout, record, field, place):
    """Return the same for the place of a series, or of a segment of one."""
    abreast = layout[at.ABREAST]
    return layout[record] + ((place // abreast) * layout[record + at.SIZE] + layout[field]) * abreast + place % abreast


@compiled
def setting(layout, field):
    """Return where a setting lies in the problem."""
    return layout[at.PROBLEM_SETTINGS] + layout[field]
