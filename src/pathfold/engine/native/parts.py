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
from .parted_work import NO_STAGE, NO_SUMS, NO_WORK, NONE, STAGES, PartedWork, Sums, do_parts

__all__ = ["NONE", "NO_STAGE", "NO_SUMS", "by_chunk", "by_node", "by_series"]
__all__ += ["by_share", "joined", "over_chunks", "over_series", "starts", "starts_of_other", "sums_in", "sweep"]


SPARE = (STAGES - 1) * (NO_STAGE,)


@compiled
def by_chunk(first, second=at.NOTHING, third=at.NOTHING):
    """Return a stage: up to three kernels, one after the other on every chunk."""
    return at.BY_CHUNK, first, second, third, 0


@compiled
def by_series(first, second=at.NOTHING):
    """Return a stage: a kernel or two, one after the other on every group of series, or of segments."""
    return at.BY_SERIES, first, second, at.NOTHING, 0


@compiled
def starts():
    """Return a stage: initial states, and where intervals begin."""
    return at.BY_SERIES, at.START_STATES, at.HAND_STATES, at.LINK, 0


@compiled
def starts_of_other():
    """Return the same stage for a point that a sweep has as the other block."""
    return at.BY_SERIES, at.START_STATES, at.HAND_STATES, at.LINK, 1


@compiled
def joined(first, second=at.NOTHING):
    """Return a stage: a kernel or two over the segments of every series, once all before it is done."""
    return at.BY_SEGMENT, first, second, at.NOTHING, 0


@compiled
def by_node(kernel):
    """Return a stage: a kernel over nodes that needs nothing of their series."""
    return at.BY_NODE, kernel, at.NOTHING, at.NOTHING, 0


@compiled
def by_share(kernel):
    """Return a stage: a kernel over vectors, called once for every part."""
    return at.BY_SHARE, kernel, at.NOTHING, at.NOTHING, 0


@compiled
def sums_in(sums, read, added, compared):
    """Return the sums that kernels of a sweep read and write, each between two places (`parted_work.Sums`)."""
    return Sums(address_of(sums), sums.size, read, added, compared)


@compiled
def sweep(layout, problem, point, other, scratch, sums, *stages):
    """Go through the data in parts, by up to eight stages of kernels."""
    blocks = address_of(problem), address_of(point), address_of(other), address_of(scratch)
    padded = stages + SPARE
    every = padded[0], padded[1], padded[2], padded[3], padded[4], padded[5], padded[6], padded[7]
    go_through(layout[at.DO_PARTS], PartedWork(every, address_of(layout), blocks, sums))


def go_through(address, work):
    """Do all parts of a piece of work, by the compiled function at the address.

    Were it a function that Numba links, it would be compiled within each of its many callers.
    """
    do_parts(work)


@overload(go_through)
def _native_go_through(address, work):
    assert work == typeof(NO_WORK), work
    hand_over: Any = call_with_one
    return lambda address, work: hand_over(address, work)


@compiled
def over_chunks(kernel, layout, problem, point, other, scratch):
    sweep(layout, problem, point, other, scratch, NO_SUMS, by_chunk(kernel))


@compiled
def over_series(kernel, layout, problem, point, other, scratch):
    sweep(layout, problem, point, other, scratch, NO_SUMS, by_series(kernel))
