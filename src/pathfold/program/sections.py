"""Sections of code, and the one that each node belongs to: outside all loops, in that over intervals or over steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable
from functools import cache

from pathfold.program.arrays import Outcome, arguments
from pathfold.program.assembly import Function
from pathfold.program.graph import Graph
from pathfold.program.kernel import INNER, LAYOUT_SLOTS, OUTER, SHARED, LaneScan, Traced


class Section:
    """Emits the code of nodes at one place of a function, and keeps the values that nodes already have there."""

    def __init__(self, traced: Traced, f: Function, scope: dict[int, str], load: Callable[[tuple], str]) -> None:
        self.graph, self.f, self.scope, self.load = traced.graph, f, dict(scope), load
        self.traced, self.kinds = traced, traced.kinds
        self.ready: set[int] = set()  # arrays that have been computed

    def compute(self, roots: Iterable[int]) -> list[str]:
        """Emit the code of the given nodes and of all that they need, and return their values."""
        roots = list(roots)
        for n in sorted(needed(self.graph, roots, self.scope, self.ready)):
            op = self.graph.ops[n]
            if op[0] == "const":
                self.scope[n] = self.f.constant(op[1])
            elif op[0] == "input":
                self.scope[n] = self.load(op)
            else:
                values = [self.scope[a] for a in op[1:]]
                self.scope[n] = self.f.operation(op[0], self.kinds[n], self.kinds[op[1]], values)
        return [self.scope[r] for r in roots]


def needed(graph: Graph, roots: Iterable[int], scope, ready: Container[int] = ()) -> set[int]:
    """Return the nodes that the roots need, without those that are in scope or belong to arrays that are ready."""
    seen: set[int] = set()
    stack = [r for r in roots if r not in scope]
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        op = graph.ops[n]
        if not (op[:2] == ("input", "array") and op[2] in ready):
            stack.extend(a for a in arguments(graph, n) if a not in scope)
    return seen


def levels_of(traced: Traced) -> list[int]:
    """Return how often each node changes: never (SHARED), with the outer or with the inner loop."""
    graph, held = traced.graph, traced.held() if isinstance(traced.kernel, LaneScan) else {}
    levels: list[int] = []
    of_memory = cache(lambda memory: _level(traced, memory))
    for n, op in enumerate(graph.ops):
        if op[0] == "input" and op[1] != "array" and n not in held:
            levels.append(of_memory(op[1:3]))
            continue
        level = max((levels[a] for a in arguments(graph, n)), default=SHARED)
        if op[:2] == ("input", "array") and op[3] == 0:
            level = max(level, *(of_memory(view.memory) for view in graph.statements[op[2]].views()), SHARED)
        elif n in held:
            level = OUTER
        levels.append(level)
    return levels


def array_levels(traced: Traced, levels: list[int]) -> dict[int, int]:
    """Return how often each array changes, by number; those inside a loop change with what the loop computes."""
    ops = enumerate(traced.graph.ops)
    found = {op[2]: levels[n] for n, op in ops if op[:2] == ("input", "array") and op[3] == 0}
    for number in sorted(found, reverse=True):
        statement = traced.graph.statements[number]
        if isinstance(statement, Outcome):
            found |= {k: max(found[k], found[number]) for k in statement.loop.inner}
    return found


def _level(traced: Traced, memory: tuple) -> int:
    """Return how often a part of memory changes by itself; an array changes only with the nodes it is computed from."""
    if memory[0] == "field":
        kind = traced.use_of(memory[1]).record.kind
        if isinstance(traced.kernel, LaneScan):
            return {"shared": SHARED, "lane": OUTER, "step": INNER}[kind]
        return OUTER if traced.is_sum(memory[1]) else {"shared": SHARED, "series": OUTER, "lane": INNER}[kind]
    return SHARED if memory[0] == "array" else INNER


def frontier(graph: Graph, levels: list[int], needed: set[int], level: int) -> list[int]:
    """Return the nodes of a level that faster-changing nodes use, whose values have to be kept for these.

    Of an array it is the first entry, which stands for all: the others are read where they are used.
    """
    arrays = {n for n in needed if graph.ops[n][:2] == ("input", "array")}
    used = {a for n in needed if levels[n] > level for a in arguments(graph, n)} - arrays
    used |= {graph.input("array", graph.ops[n][2], 0) for n in arrays}
    return sorted(n for n in used if levels[n] == level and graph.ops[n][0] != "const")


ABREAST = 4  # where L is a multiple of this, so is the number of lanes in use: vectors have no remainder


def lanes_in_use(f: Function, lanes: int) -> str:
    """Emit min(L, slots of this chunk), rounded up to a multiple of gcd(ABREAST, L).

    LLVM sees that it is such a multiple, and not 0: it writes loops of vectors alone, none of what would remain.
    """
    unit = math.gcd(ABREAST, lanes)
    begun = f.integer("mul nuw nsw", "%i", str(lanes))
    left = f.integer("sub", f.layout(LAYOUT_SLOTS), begun)
    rounded = f.integer("and", f.integer("add nuw nsw", left, str(unit - 1)), str(-unit))
    return f.most(f.least(rounded, str(lanes)), str(unit))
