"""Kernels over all chunks, series or nodes, in parts that several threads can share.

Into how many parts the work is cut depends on the size of the problem alone, and every part has sums of its own, which
are joined in order: draws are the same, to the bit, whoever did which part.
"""

from __future__ import annotations

from typing import Any

from numba import typeof
from numba.extending import overload

from pathfold.engine import table as at

from .jit import address_of, call_with_one, compiled
from .team import ADDED, COMPARED, NO_SUMS, NO_WORK, NONE, PartedWork, Sums, do_parts

__all__ = ["ADDED", "COMPARED", "NONE", "each_chunk", "over_chunks", "over_series", "summed"]


@compiled
def in_parts(bounds, first, second, third, layout, problem, point, other, scratch, sums):
    """Call kernels on every chunk, series or run of nodes, one after the other on each, in parts listed at `bounds`."""
    blocks = address_of(problem), address_of(point), address_of(other), address_of(scratch)
    work = PartedWork(bounds, (first, second, third), address_of(layout), blocks, sums)
    go_through(layout[at.DO_PARTS], work)


def go_through(address, work):
    """Do all parts of a piece of work, by the compiled function at the address.

    Were it a function that Numba links, it would be compiled within each of its many callers; and since that might
    raise, for all that Numba knows, these would count references to the blocks.
    """
    do_parts(work)


@overload(go_through)
def _native_go_through(address, work):
    assert work == typeof(NO_WORK), work
    hand_over: Any = call_with_one
    return lambda address, work: hand_over(address, work)


@compiled
def each_chunk(first, second, third, layout, problem, point, other, scratch):
    """Call up to three kernels on a chunk, while it is in the cache, before the next chunk."""
    in_parts(at.BY_CHUNK, first, second, third, layout, problem, point, other, scratch, NO_SUMS)


@compiled
def over_chunks(place, layout, problem, point, other, scratch):
    each_chunk(place, at.NOTHING, at.NOTHING, layout, problem, point, other, scratch)


@compiled
def over_series(place, layout, problem, point, other, scratch):
    in_parts(at.BY_SERIES, place, at.NOTHING, at.NOTHING, layout, problem, point, other, scratch, NO_SUMS)


@compiled
def summed(bounds, joined, sums, read, written, place, layout, problem, point, other, scratch):
    """Call a kernel, in parts, that adds to the sums or raises them, between the two places `written`.

    The other parts begin with what the first has where it is `read`, and with zeros where it is written. In the end
    their results are ADDED, or COMPARED and the largest is kept.
    """
    of_parts = Sums(joined, address_of(sums), sums.size, read, written)
    in_parts(bounds, place, at.NOTHING, at.NOTHING, layout, problem, point, other, scratch, of_parts)
