"""Kernels over all chunks, series or nodes, in parts that several threads can share.

Into how many parts the work is cut depends on the size of the problem alone, and every part has sums of its own, which
are joined in order: draws are the same, to the bit, whoever did which part.
"""

from __future__ import annotations

from numba.extending import overload

from pathfold.engine import table as at

from .jit import address_of, call, compiled
from .team import ADDED, ALIKE, LARGEST, do_parts

__all__ = ["ADDED", "LARGEST", "each_chunk", "over_chunks", "over_series", "share", "summed"]


@compiled
def in_parts(bounds, first, second, third, layout, problem, point, other, scratch, joined, sums, begin, end, size):
    """Kernels on every chunk, series or run of nodes, one after the other on each; `bounds` lists what parts have."""
    kernels = layout[first], layout[second], layout[third]
    blocks = address_of(layout), address_of(problem), address_of(point), address_of(other), address_of(scratch)
    work = layout[at.PARTS], layout[bounds], *kernels, *blocks, joined
    go_through(layout[at.DO_PARTS], (layout[at.TEAM], *work, sums, begin, end, size))


def go_through(address, work):
    """Do the parts of a work: by the compiled function at the address, which is not compiled within all its callers."""
    do_parts(*work)


@overload(go_through)
def _native_go_through(address, work):
    return lambda address, work: call(address, work)


@compiled
def each_chunk(first, second, third, layout, problem, point, other, scratch):
    """Up to three kernels on a chunk, while it is in the cache, before the next."""
    in_parts(at.BY_CHUNK, first, second, third, layout, problem, point, other, scratch, ALIKE, 0, 0, 0, 0)


@compiled
def over_chunks(place, layout, problem, point, other, scratch):
    each_chunk(place, at.NOTHING, at.NOTHING, layout, problem, point, other, scratch)


@compiled
def over_series(place, layout, problem, point, other, scratch):
    nothing = at.NOTHING
    in_parts(at.BY_SERIES, place, nothing, nothing, layout, problem, point, other, scratch, ALIKE, 0, 0, 0, 0)


@compiled
def summed(bounds, joined, sums, entries, place, layout, problem, point, other, scratch):
    """The same with a kernel that adds to some entries of the sums, or makes them larger.

    Other parts than the first begin with zeros; what they have is then ADDED, or the LARGEST is kept.
    """
    nothing, (begin, end), size = at.NOTHING, entries, sums.size // layout[at.PARTS]
    sums_at = address_of(sums)
    in_parts(bounds, place, nothing, nothing, layout, problem, point, other, scratch, joined, sums_at, begin, end, size)


@compiled
def share(layout, sums, begin, end):
    """Give every part the entries that the first part's sums have from begin to end."""
    size = sums.size // layout[at.PARTS]
    for part in range(1, layout[at.PARTS]):
        for i in range(begin, end):
            sums[part * size + i] = sums[i]
