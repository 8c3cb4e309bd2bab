"""Several threads that share the work of one chain: it posts work in parts, and whoever is free takes the next part.

A team is a few words of memory that its threads share. The thread of the chain does parts like its helpers, so that it
never waits for one that sleeps or has no core: only for parts that were begun. The words that describe a part stay as
they are until it is done, since nothing else is posted before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pathfold.engine import table as at

from .jit import address_of_function, call, compiled
from .small import larger
from .words import count_down, get, give_way, look, numbers_at, put, sleep

# Places in the words of a team: what threads write is apart, so that they do not get in each other's way.
UNTAKEN, UNDONE, ENDED = 0, 16, 32  # parts nobody has taken, parts that are not done yet, whether helpers are to go
# The work that is posted, as `take_part` reads it.
COUNT, LISTED, KERNEL, THEN, LAST, LAYOUT, PROBLEM, POINT, OTHER, SCRATCH, JOINED, WORDS = range(48, 60)

# How the sums of parts are joined: all have the same, to read; or each its own, and these are added or compared.
ALIKE, ADDED, COMPARED = 0, 1, 2

NONE = (0, 0)


class Sums(NamedTuple):
    """The sums that kernels add to or raise, those of all parts one after the other, and how they are joined.

    The parts after the first begin with what it has between the two places `read`, and with zeros between the two
    places `written`, where their results are joined.
    """

    joined: Any
    address: Any
    size: Any  # of all of them
    read: Any
    written: Any


NO_SUMS = Sums(ALIKE, 0, 0, NONE, NONE)


class PartedWork(NamedTuple):
    """Work to be done in parts: up to three kernels, by their places in the layout table, on what it lists at `bounds`.

    The layout table and the blocks (problem, point, other, scratch) are addresses.
    """

    bounds: Any
    kernels: Any
    layout: Any
    blocks: Any
    sums: Any


NO_WORK = PartedWork(0, (0, 0, 0), 0, (0, 0, 0, 0), NO_SUMS)

SPINS, YIELDS, NAP = 2000, 4000, 50  # how often to look for work before giving way, and before naps of 50 microseconds


@compiled
def do_part(part, number, bounds, kernels, layout, blocks):
    """Call the kernels on every chunk or series of a part, one after the other on each.

    `layout` and the blocks are addresses, `bounds` is where the layout table lists what the parts begin with, `number`
    that of the table to go by.
    """
    begin, end = get(layout, bounds + part), get(layout, bounds + part + 1)
    table = layout if number == 0 else layout + 8 * (get(layout, at.TABLES) + (number - 1) * at.LENGTH)
    first, second, third = kernels
    for i in range(begin, end):
        call(first, (i, table, *blocks))
        if second != 0:
            call(second, (i, table, *blocks))
        if third != 0:
            call(third, (i, table, *blocks))


@compiled
def table_of(part, thread, parts, joined):
    """Return the number of the table to use: that of the thread or of the part; the first part uses the first table."""
    if joined == ALIKE:
        return thread
    return parts - 1 + part if part > 0 else 0


@compiled
def take_part(team, thread):
    """Do a part that nobody has taken; return whether there was one."""
    if look(team, UNTAKEN) <= 0:
        return False
    left = count_down(team, UNTAKEN)
    if left <= 0:
        return False
    part = get(team, COUNT) - left
    kernels = get(team, KERNEL), get(team, THEN), get(team, LAST)
    blocks = get(team, PROBLEM), get(team, POINT), get(team, OTHER), get(team, SCRATCH)
    number = table_of(part, thread, get(team, COUNT), get(team, JOINED))
    do_part(part, number, get(team, LISTED), kernels, get(team, LAYOUT), blocks)
    count_down(team, UNDONE)
    return True


@compiled
def wait(turn):
    """Wait before looking again for the nth time."""
    if turn > YIELDS:
        sleep(NAP)
    elif turn > SPINS:
        give_way()


@compiled
def together(team, work):
    """Do all parts of a piece of work, described by the numbers from COUNT on, with the helpers of the team."""
    for i in range(len(work)):
        put(team, COUNT + i, work[i])
    put(team, UNDONE, work[0])
    put(team, UNTAKEN, work[0])
    while take_part(team, 0):
        pass
    turn = 0
    while look(team, UNDONE) > 0:
        turn += 1
        wait(turn)


def do_parts(work):
    """Do all parts of a piece of work. One kernel on one part, as in small problems, takes no detours."""
    layout, blocks, (first, second, third) = work.layout, work.blocks, work.kernels
    listed = get(layout, work.bounds)
    if get(layout, at.PARTS) == 1 and second == at.NOTHING:
        function = get(layout, first)
        for i in range(get(layout, listed), get(layout, listed + 1)):
            call(function, (i, layout, *blocks))
    else:
        kernels = get(layout, first), get(layout, second), get(layout, third)
        do_several(listed, kernels, layout, blocks, work.sums)


def address_of_do_parts() -> int:
    return address_of_function(do_parts, NO_WORK)


@compiled
def do_several(bounds, kernels, layout, blocks, sums):
    """Do several parts, with a team if there is one and it can help: not if all work is in the first part."""
    team, parts, joined = get(layout, at.TEAM), get(layout, at.PARTS), sums.joined
    if joined != ALIKE:
        begin_sums(numbers_at(sums.address, sums.size), parts, sums.read, sums.written)
    if team != 0 and get(layout, bounds + 1) < get(layout, bounds + parts):
        together(team, (parts, bounds, *kernels, layout, *blocks, joined))
    else:
        for part in range(parts):
            do_part(part, table_of(part, 0, parts, joined), bounds, kernels, layout, blocks)
    if joined != ALIKE:
        join(numbers_at(sums.address, sums.size), parts, sums.written, joined)


@compiled
def begin_sums(sums, parts, read, written):
    """Initialise the sums of the parts after the first."""
    size = sums.size // parts
    for part in range(1, parts):
        for i in range(read[0], read[1]):
            sums[part * size + i] = sums[i]
        for i in range(written[0], written[1]):
            sums[part * size + i] = 0.0


@compiled
def join(sums, parts, written, joined):
    size = sums.size // parts
    for part in range(1, parts):
        for i in range(written[0], written[1]):
            of_part = sums[part * size + i]
            sums[i] = sums[i] + of_part if joined == ADDED else larger(sums[i], of_part)


@compiled
def help_along(team, thread):
    """Take parts, as a helper, until the team ends."""
    turn = 0
    while look(team, ENDED) == 0:
        turn = 0 if take_part(team, thread) else turn + 1
        wait(turn)
