"""Work in parts: kernels over the data by stages, and sums that the parts have of their own, done by a team or alone.

Work has stages, such as the kernels over chunks and then those over series. Where every part has whole series (a
panel), nothing of one part depends on another within the work: a part goes through all stages while it is in the
cache, and threads wait for each other once. Where parts have segments of a series, they wait where these are joined;
where a series goes through several parts as it is, after every stage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pathfold.engine import table as at

from .jit import address_of_function, call, compiled
from .small import larger
from .team import DESCRIBED, DESCRIPTION, count_done, next_work, post, take, wait_for_others
from .words import get, numbers_at, put

# A stage of the work: where the layout table lists what its parts begin with, and up to three kernels, by their places
# in the table, that are called one after the other on every chunk, group of series, run of nodes, share of a vector or
# series in segments; and whether the other block takes the place of the point there. A stage whose first kernel the
# model does not have is left out.
STAGES, WIDTH = 8, 5

# The work as the words of a team describe it: the first of its stages and the one after the last, ...
BEGIN, END, LAYOUT, PROBLEM, POINT, OTHER, SCRATCH, OWN_SUMS, STAGE = range(DESCRIBED, DESCRIBED + 9)
assert STAGE + STAGES * WIDTH <= DESCRIBED + DESCRIPTION

NO_STAGE = (at.BY_CHUNK, at.NOTHING, at.NOTHING, at.NOTHING, 0)

NONE = (0, 0)


class Sums(NamedTuple):
    """The sums that kernels add to or raise, those of all parts one after the other, and how they are joined.

    The parts after the first begin with what it has between the two places `read`, and with zeros where sums are
    written: between the two places `added` the results of the parts are added, between the two places `compared` the
    largest is kept. With none of these sums a part has no sums of its own.
    """

    address: Any
    size: Any  # of all of them
    read: Any
    added: Any
    compared: Any


NO_SUMS = Sums(0, 0, NONE, NONE, NONE)


class PartedWork(NamedTuple):
    """Work to be done in parts, by stages. The layout table and the blocks (problem, ..., scratch) are addresses."""

    stages: Any
    layout: Any
    blocks: Any
    sums: Any


NO_WORK = PartedWork(STAGES * (NO_STAGE,), 0, (0, 0, 0, 0), NO_SUMS)


@compiled
def do_stage(part, table, stage, layout, blocks):
    """Call the kernels of a stage on every chunk, group or run of a part; `table` is the address of that to go by."""
    bounds, first, second, third, at_other = stage
    one, then, last = get(layout, first), get(layout, second), get(layout, third)
    if one == 0:
        return
    problem, point, other, scratch = blocks
    given = problem, (other if at_other != 0 else point), other, scratch
    listed = get(layout, bounds) + part
    for i in range(get(layout, listed), get(layout, listed + 1)):
        call(one, (i, table, *given))
        if then != 0:
            call(then, (i, table, *given))
        if last != 0:
            call(last, (i, table, *given))


@compiled
def table_of(part, thread, own_sums, layout):
    """Return the table to go by: that of the part if it has its own sums, else of the thread; the first is the layout.

    The others are listed after it: those of threads, then those of parts.
    """
    number = thread
    if own_sums != 0:
        number = get(layout, at.PARTS) - 1 + part if part > 0 else 0
    return layout if number == 0 else layout + 8 * (get(layout, at.TABLES) + (number - 1) * at.LENGTH)


@compiled
def take_part(team, thread, posted):
    """Do a part of the posted work that nobody has taken; return whether there was one."""
    part = take(team, thread, posted)
    if part < 0:
        return False
    layout = get(team, LAYOUT)
    blocks = get(team, PROBLEM), get(team, POINT), get(team, OTHER), get(team, SCRATCH)
    table = table_of(part, thread, get(team, OWN_SUMS), layout)
    for i in range(get(team, BEGIN), get(team, END)):
        at_stage = STAGE + i * WIDTH
        kernels = get(team, at_stage + 1), get(team, at_stage + 2), get(team, at_stage + 3)
        do_stage(part, table, (get(team, at_stage), *kernels, get(team, at_stage + 4)), layout, blocks)
    count_done(team, thread)
    return True


def do_parts(work):
    """Do all parts of a piece of work. What is one part, as small problems are, takes no detours."""
    layout = work.layout
    if get(layout, at.PARTS) == 1:
        for stage in work.stages:
            do_stage(0, layout, stage, layout, work.blocks)
    else:
        do_several(work)


def address_of_do_parts() -> int:
    return address_of_function(do_parts, NO_WORK)


@compiled
def do_several(work):
    """Do several parts: each through all stages up to the next join, if they are apart, else all stage by stage."""
    parts, sums = get(work.layout, at.PARTS), work.sums
    if sums.size > 0:
        begin_sums(numbers_at(sums.address, sums.size), parts, sums)
    apart, begin = get(work.layout, at.APART) != 0, 0
    for i in range(STAGES):
        joins, there = work.stages[i][0] == at.BY_SEGMENT, get(work.layout, work.stages[i][1]) != 0
        if there and (joins or not apart):
            do_stages(begin, i, parts, work)
            do_stages(i, i + 1, parts, work)
            begin = i + 1
    do_stages(begin, STAGES, parts, work)
    if sums.size > 0:
        join(numbers_at(sums.address, sums.size), parts, sums)


@compiled
def do_stages(begin, end, parts, work):
    """Do some stages of the work, with a team if there is one and it can help: not if all is in the first part."""
    stages, layout, own_sums = work.stages, work.layout, 1 if work.sums.size > 0 else 0
    while begin < end and get(layout, stages[begin][1]) == 0:
        begin += 1
    if begin == end:
        return
    team, listed = get(layout, at.TEAM), get(layout, stages[begin][0])
    if team == 0 or get(layout, listed + 1) == get(layout, listed + parts):
        for part in range(parts):
            table = table_of(part, 0, own_sums, layout)
            for i in range(begin, end):
                do_stage(part, table, stages[i], layout, work.blocks)
        return
    described = (begin, end, layout, *work.blocks, own_sums)
    for i in range(len(described)):
        put(team, BEGIN + i, described[i])
    for i in range(begin, end):
        for j in range(WIDTH):
            put(team, STAGE + i * WIDTH + j, stages[i][j])
    posted = post(team, parts)
    while take_part(team, 0, posted):
        pass
    wait_for_others(team)


@compiled
def begin_sums(numbers, parts, sums):
    """Initialise the sums of the parts after the first."""
    size = sums.size // parts
    for part in range(1, parts):
        for i in range(sums.read[0], sums.read[1]):
            numbers[part * size + i] = numbers[i]
        for written in (sums.added, sums.compared):
            for i in range(written[0], written[1]):
                numbers[part * size + i] = 0.0


@compiled
def join(numbers, parts, sums):
    """Join the sums of all parts in the first, in order."""
    size = sums.size // parts
    for part in range(1, parts):
        for i in range(sums.added[0], sums.added[1]):
            numbers[i] += numbers[part * size + i]
        for i in range(sums.compared[0], sums.compared[1]):
            numbers[i] = larger(numbers[i], numbers[part * size + i])


@compiled
def help_along(team, thread):
    """Take parts, as a helper, until the team ends."""
    posted = next_work(team, 0)
    while posted != 0:
        while take_part(team, thread, posted):
            pass
        posted = next_work(team, posted)
