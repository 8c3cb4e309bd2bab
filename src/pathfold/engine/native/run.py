"""Running plans (`engine/plans.py`): kernels over the data by stages, in parts that several threads can share.

The number of parts depends on the size of the problem alone, and the sums of parts are added in the order of parts:
results are the same, bit for bit, for every number of threads. Where parts have whole series (a panel), a part goes
through all stages of a leg while it is in the cache, and threads wait for each other once a leg; else after each stage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from pathfold.engine import table as at

from .jit import address_of, address_of_kernel, call, compiled
from .small import larger
from .team import DESCRIBED, DESCRIPTION, count_done, next_work, post, take, wait_for_others
from .trajectory import COUNTS
from .words import get, numbers_at, put

READ, ADDED, RAISED = 0, 1, 2  # what is done to sums
ONCE = 0  # stands where a stage has the place of its bounds in the table

# The words of a bound plan (`plans.bind`), of its legs, stages and spans.
LEGS = 0
BEGUN, BEGINS, JOINED, JOINS, OWN_SUMS, REFINES, STAGES, FIRST_STAGE = range(8)
OVER, OF_OTHER, KERNEL = range(3)
MOST = 4  # kernels of a stage
WIDTH = KERNEL + MOST
WHAT, BLOCK, RECORD, BEGIN, END, SPAN = range(6)

# A leg as the words of a team describe it.
LEG, LAYOUT, PROBLEM, POINT, OTHER, SCRATCH = range(DESCRIBED, DESCRIBED + DESCRIPTION)


class Machine(NamedTuple):
    """What native code is always given: the layout table of a model and its data, their problem, memory to work in,
    and what is counted (trajectory.py).

    Take names before a loop: a named tuple is unpacked at every access.
    """

    layout: Any
    problem: Any
    scratch: Any
    counts: Any

    @classmethod
    def of(cls, layout: np.ndarray, problem: np.ndarray, scratch: np.ndarray) -> Machine:
        return cls(layout, problem, scratch, np.zeros(COUNTS, dtype=np.int64))


@compiled
def run(m, plan, point, other):
    """Do all stages of a plan, for a point and what stands beside it: a vector, the gradient or the moving point."""
    run_on(m, plan, m.problem, point, other)


@compiled
def run_on(m, plan, first, second, third):
    """Do all stages of a plan, for vectors, say."""
    blocks = address_of(first), address_of(second), address_of(third), address_of(m.scratch)
    go_through(m.layout[at.RUN], (plan, address_of(m.layout), *blocks))


@compiled
def one(m, plan, index, point, other):
    """Call the one kernel of a plan on one chunk, node or piece."""
    blocks = address_of(m.problem), address_of(point), address_of(other), address_of(m.scratch)
    leg = m.layout[m.layout[m.layout[at.PLANS] + plan] + 1]
    call(m.layout[leg + FIRST_STAGE + KERNEL], (index, address_of(m.layout), *blocks))


def go_through(address, numbers):
    """Run a plan by the compiled function at the address.

    Were it a function that Numba links, it would be compiled within each of its many callers.
    """
    run_plan(*numbers)


@overload(go_through)
def _native_go_through(address, numbers):
    return lambda address, numbers: call(address, numbers)


def run_plan(plan, layout, problem, point, other, scratch):
    """Run a plan, given as kernels are: a number and addresses. What is one part takes no detours."""
    blocks, words = (problem, point, other, scratch), layout + 8 * get(layout, get(layout, at.PLANS) + plan)
    alone, error_at = get(layout, at.PARTS) == 1, get(layout, at.SCRATCH_NEWTON_SUMS) + get(layout, at.SUMS_A_ERROR)
    for i in range(get(words, LEGS)):
        leg = layout + 8 * get(words, 1 + i)
        if get(leg, REFINES) != 0 and get(scratch, error_at) == 0:  # the bits of 0.0
            continue
        if alone or get(leg, FIRST_STAGE + OVER) == ONCE:
            do_leg(0, layout, leg, layout, blocks)
        else:
            do_parts(leg, layout, blocks)


def address_of_run() -> int:
    return address_of_kernel(run_plan)


@compiled
def do_leg(part, table, leg, layout, blocks):
    """Do all stages of a leg for a part; `table` is the address of that to go by."""
    stage = leg + 8 * FIRST_STAGE
    for _ in range(get(leg, STAGES)):
        do_stage(part, table, stage, layout, blocks)
        stage += 8 * WIDTH


@compiled
def do_stage(part, table, stage, layout, blocks):
    """Call the kernels of a stage on every chunk, group or run of a part; on nothing, if it is to be done once."""
    problem, point, other, scratch = blocks
    given = problem, (other if get(stage, OF_OTHER) != 0 else point), other, scratch
    begin, end, bounds = 0, 1, get(stage, OVER)
    if bounds != ONCE:
        listed = get(layout, bounds) + part
        begin, end = get(layout, listed), get(layout, listed + 1)
    for i in range(begin, end):
        for k in range(KERNEL, WIDTH):
            kernel = get(stage, k)
            if kernel == 0:
                break
            call(kernel, (i, table, *given))


@compiled
def do_parts(leg, layout, blocks):
    """Do a leg in several parts, with the team if there is one, unless all of the work is in the first part."""
    parts = get(layout, at.PARTS)
    begin_sums(leg, parts, layout, blocks)
    team, listed = get(layout, at.TEAM), get(layout, get(leg, FIRST_STAGE + OVER))
    if team == 0 or get(layout, listed + 1) == get(layout, listed + parts):
        for part in range(parts):
            do_leg(part, table_of(part, 0, leg, layout), leg, layout, blocks)
    else:
        described = (leg, layout, *blocks)
        for i in range(len(described)):
            put(team, LEG + i, described[i])
        posted = post(team, parts)
        while take_part(team, 0, posted):
            pass
        wait_for_others(team)
    join_sums(leg, parts, layout, blocks)


@compiled
def take_part(team, thread, posted):
    """Do a part of the posted work that nobody has taken; return whether there was one."""
    part = take(team, thread, posted)
    if part < 0:
        return False
    leg, layout = get(team, LEG), get(team, LAYOUT)
    blocks = get(team, PROBLEM), get(team, POINT), get(team, OTHER), get(team, SCRATCH)
    do_leg(part, table_of(part, thread, leg, layout), leg, layout, blocks)
    count_done(team, thread)
    return True


@compiled
def table_of(part, thread, leg, layout):
    """Return the table to go by: that of the part if it has its own sums, else of the thread; the first is the layout.

    The others are listed after it: those of threads, then those of parts.
    """
    number = thread
    if get(leg, OWN_SUMS) != 0:
        number = get(layout, at.PARTS) - 1 + part if part > 0 else 0
    return layout if number == 0 else layout + 8 * (get(layout, at.TABLES) + (number - 1) * at.LENGTH)


@compiled
def span_at(listed, i, layout, blocks):
    """Return a span of sums: where it begins, how many numbers it has, how far apart parts have them, what is done."""
    span = layout + 8 * (listed + i * SPAN)
    record, begin = get(span, RECORD), get(span, BEGIN)
    address = blocks[get(span, BLOCK)] + 8 * (get(layout, record) + begin)
    return address, get(span, END) - begin, get(layout, record + at.SIZE), get(span, WHAT)


@compiled
def begin_sums(leg, parts, layout, blocks):
    """Initialise the sums of the parts after the first: what is read is as it is there, what is written zero."""
    for i in range(get(leg, BEGINS)):
        address, count, size, what = span_at(get(leg, BEGUN), i, layout, blocks)
        numbers = numbers_at(address, (parts - 1) * size + count)
        for part in range(1, parts):
            for k in range(count):
                numbers[part * size + k] = numbers[k] if what == READ else 0.0


@compiled
def join_sums(leg, parts, layout, blocks):
    """Join the sums of all parts in the first, in order."""
    for i in range(get(leg, JOINS)):
        address, count, size, what = span_at(get(leg, JOINED), i, layout, blocks)
        numbers = numbers_at(address, (parts - 1) * size + count)
        for part in range(1, parts):
            for k in range(count):
                other = numbers[part * size + k]
                numbers[k] = numbers[k] + other if what == ADDED else larger(numbers[k], other)


@compiled
def help_along(team, thread):
    """Take parts, as a helper, until the team ends."""
    posted = next_work(team, 0)
    while posted != 0:
        while take_part(team, thread, posted):
            pass
        posted = next_work(team, posted)
