"""Several threads at the work of one chain: it posts what is to be done in parts, and whoever is free takes the next.

A team is a few words of memory that its threads share. The thread of the chain does parts like its helpers, so that it
never waits for one that sleeps or has no core: only for parts that were begun. The words that describe a part stay as
they are until it is done, since nothing else is posted before.
"""

from __future__ import annotations

from pathfold.engine import table as at

from .jit import call, compiled
from .small import larger
from .words import count_down, get, give_way, numbers_at, put, sleep

# Places in the words of a team: what threads write is apart, so that they do not get in each other's way.
LEFT, UNDONE, ENDED = 0, 16, 32  # parts nobody has taken, parts that are not done yet, whether helpers are to go
PARTS, LIST, FIRST, SECOND, THIRD, LAYOUT, PROBLEM, POINT, OTHER, SCRATCH, JOINED, WORDS = range(48, 60)

# How the sums of parts are joined: all have the same, to read; or each its own, and these are added or compared.
ALIKE, ADDED, LARGEST = 0, 1, 2

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
def take_part(team, thread):
    """Do a part that nobody has taken; whether there was one."""
    if get(team, LEFT) <= 0:
        return False
    left = count_down(team, LEFT)
    if left <= 0:
        return False
    part = get(team, PARTS) - left
    kernels = get(team, FIRST), get(team, SECOND), get(team, THIRD)
    blocks = get(team, PROBLEM), get(team, POINT), get(team, OTHER), get(team, SCRATCH)
    number = thread if get(team, JOINED) == ALIKE else part
    do_part(part, number, get(team, LIST), kernels, get(team, LAYOUT), blocks)
    count_down(team, UNDONE)
    return True


@compiled
def wait(turn):
    """Before looking again, for the nth time."""
    if turn > YIELDS:
        sleep(NAP)
    elif turn > SPINS:
        give_way()


@compiled
def together(team, work):
    """Do all parts of a work, the numbers from PARTS on, with the helpers of the team."""
    for i in range(len(work)):
        put(team, PARTS + i, work[i])
    put(team, UNDONE, work[0])
    put(team, LEFT, work[0])
    while take_part(team, 0):
        pass
    turn = 0
    while get(team, UNDONE) > 0:
        turn += 1
        wait(turn)


def do_parts(
    team, parts, bounds, first, second, third, layout, problem, point, other, scratch, joined, sums, begin, end, size
):
    """Do all parts of a work, with a team if there is one and it can help: not where all is in the first part.

    `sums` is where the sums of the first part are; those of the next begin `size` further.
    """
    kernels, blocks = (first, second, third), (problem, point, other, scratch)
    if joined != ALIKE:
        clear(numbers_at(sums, parts * size), parts, begin, end, size)
    if team != 0 and get(layout, bounds + 1) < get(layout, bounds + parts):
        together(team, (parts, bounds, *kernels, layout, *blocks, joined))
    else:
        for part in range(parts):
            do_part(part, 0 if joined == ALIKE else part, bounds, kernels, layout, blocks)
    if joined != ALIKE:
        join(numbers_at(sums, parts * size), parts, begin, end, size, joined)


@compiled
def clear(sums, parts, begin, end, size):
    for part in range(1, parts):
        for i in range(begin, end):
            sums[part * size + i] = 0.0


@compiled
def join(sums, parts, begin, end, size, joined):
    for part in range(1, parts):
        for i in range(begin, end):
            of_part = sums[part * size + i]
            sums[i] = sums[i] + of_part if joined == ADDED else larger(sums[i], of_part)


@compiled
def help_along(team, thread):
    """What a helper does until the team ends."""
    turn = 0
    while get(team, ENDED) == 0:
        turn = 0 if take_part(team, thread) else turn + 1
        wait(turn)
