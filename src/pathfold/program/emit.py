"""Emits the LLVM code of kernels: straight-line arithmetic inside two kinds of loop.

A kernel is a scan written as three small JAX functions of named arrays: `init` gives the carried quantities, `body`
maps them (and the fields of one step) to their next values (and new field values), `final` writes the last results.
Argument names say what is read; the keys of the returned dictionary say what is written.

- `LaneScan` runs over the fine steps of one chunk of intervals, all lanes abreast: the lane loop is innermost, and LLVM
  vectorises it. Nodes that depend on shared quantities alone are computed once, those that depend on the interval
  alone, or on carried quantities that no step changes, once a chunk.
- `NodeScan` runs over the nodes of a series, one after the other, with the carried quantities in registers. Of a group
  of series abreast, every quantity is a vector.

The code is LLVM's own assembly language rather than Python for Numba: a kernel has hundreds of operations, and Numba
spends milliseconds on each before LLVM sees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pathfold.program.assembly import Function
from pathfold.program.emit_loops import emit_loops
from pathfold.program.group import Group
from pathfold.program.kernel import LAYOUT_STEPS, OUTER, SHARED, Kernel, LaneScan, Traced, flat, nodes_of
from pathfold.program.layout import BLOCKS
from pathfold.program.sections import ABREAST, Section, frontier, lanes_in_use, levels_of, needed


@dataclass(frozen=True)
class Code:
    """Kernels in assembly, with the external functions that they need and the number of scalars a lane they carry.

    Every kernel takes the chunk or series, the layout table, and the blocks of `layout.BLOCKS`.
    """

    name: str  # of the kernel; of several, with blanks between them
    text: str
    declared: frozenset[str]
    carried: int

    def __add__(self, other: Code) -> Code:
        """Join two pieces of code, to be assembled together."""
        text, carried = f"{self.text}\n\n{other.text}", max(self.carried, other.carried)
        return Code(f"{self.name} {other.name}", text, self.declared | other.declared, carried)


def emit(traced: Traced, lanes: int) -> Code:
    kernel, f = traced.kernel, Function()
    arrays: dict[str, int] = {}
    if traced.is_large():
        arrays, carried = emit_loops(traced, f, lanes)
    elif isinstance(kernel, LaneScan):
        carried = _emit_lane_scan(traced, f, lanes)
    else:
        carried = _emit_node_scan(traced, f, lanes)
    names = [*(use.array for use in kernel.uses), *arrays]
    arguments = ", ".join(["i64 %i", "ptr noalias %layout", *(f"ptr noalias %{name}" for name in names)])
    body = [f'define internal void @"{kernel.name}.records"({arguments}) noinline {{', *f.lines, "  ret void", "}"]
    text = "\n".join([*body, *_entry(kernel, arrays)])
    return Code(kernel.name, text, frozenset(f.declared), carried)


def _entry(kernel: Kernel, arrays: dict[str, int]) -> list[str]:
    """Return the lines of the function that is called from outside.

    It finds the records in their blocks and the arrays in the lane buffer, and hands them on as arguments `noalias`, so
    that LLVM knows that they do not overlap.
    """
    f = Function()
    places = {use.array: f.address(f"%{use.block}", f.layout(use.at)) for use in kernel.uses}
    records = [*places.values(), *(f.address(places["carry"], str(at)) for at in arrays.values())]
    given = ", ".join(["i64 %i", "ptr %layout", *(f"ptr %{block}" for block in BLOCKS)])
    passed = ", ".join(["i64 %i", "ptr %layout", *(f"ptr {record}" for record in records)])
    call = f'  call void @"{kernel.name}.records"({passed})'
    return [f'define void @"{kernel.name}"({given}) {{', *f.lines, call, "  ret void", "}"]


def _emit_lane_scan(traced: Traced, f: Function, lanes: int) -> int:
    kernel, graph, levels = traced.kernel, traced.graph, levels_of(traced)
    bases = {use.array: f"%{use.array}" for use in kernel.uses}
    width = math.gcd(ABREAST, lanes)
    groups = f.integer("udiv exact", lanes_in_use(f, lanes), str(width))

    @contextmanager
    def lane_loop() -> Iterator[str]:
        with f.abreast(width), f.loop(groups) as (group, _, _):
            yield f.integer("mul nuw nsw", group, str(width))

    def place(name: str, i: int, lane: str) -> str:
        use = traced.use_of(name)
        at = use.offset(name) + i
        if use.record.kind == "shared":
            return f.address(bases[use.array], str(at))
        return f.address(in_lane(bases[use.array], lane), str(at * lanes))

    def carried(at: int, lane: str) -> str:
        return f.address(in_lane("%carry", lane), str(at * lanes))

    def in_lane(base: str, lane: str) -> str:
        if (base, lane) not in begun:
            begun[base, lane] = f.record(base, lane)
        return begun[base, lane]

    begun: dict[tuple[str, str], str] = {}  # where records of a lane begin

    def loader(lane: str, s: str = "") -> Callable[[tuple], str]:
        def load(op: tuple) -> str:
            if op[1] == "s":
                with f.abreast(1):
                    number = f.value(f"sitofp i64 {s} to double")
                return f.spread(number)
            if op[1] == "carry":
                return f.load(carried(traced.carry.offset(op[2]) + op[3], lane))
            if traced.use_of(op[2]).record.kind != "shared":
                return f.load(place(op[2], op[3], lane))
            with f.abreast(1):
                number = f.load(place(op[2], op[3], lane))
            return f.spread(number)

        return load

    outputs = nodes_of(traced.init) + nodes_of(traced.body) + nodes_of(traced.final)
    top = Section(traced, f, {}, loader(""))
    top.compute(frontier(graph, levels, needed(graph, outputs, {}), SHARED))
    with f.abreast(width):
        top.scope = {n: f.spread(value, traced.kinds[n]) for n, value in top.scope.items()}
    for use in kernel.uses:
        if use.record.kind == "lane":
            bases[use.array] = f.address(f"%{use.array}", f.integer("mul", "%i", str(use.record.size * lanes)))

    # Once a chunk: the first carried values, and the nodes of the interval that the steps use.
    hoisted = frontier(graph, levels, needed(graph, nodes_of(traced.body), top.scope), OUTER)
    size = traced.carry.size
    first = [(traced.carry.offset(name) + i, n) for name, i, n in flat(traced.init)]
    first += [(size + k, n) for k, n in enumerate(hoisted)]
    if first:
        with lane_loop() as lane:
            section = Section(traced, f, top.scope, loader(lane))
            section.compute(nodes_of(traced.init))
            section.scope |= {n: section.scope[value] for n, value in traced.held().items()}
            values = section.compute(n for _, n in first)
            for (at, n), value in zip(first, values, strict=True):
                f.store(f.number(value, traced.kinds[n]), carried(at, lane))

    if traced.body:
        steps = f.layout(LAYOUT_STEPS)
        begin = f.integer("mul", "%i", steps)
        with f.loop(steps) as (turn, _, _):
            s = f.integer("sub", f.integer("sub", steps, "1"), turn) if kernel.reverse else turn
            at = f.integer("add", begin, s)
            for use in kernel.uses:
                if use.record.kind == "step":
                    bases[use.array] = f.address(f"%{use.array}", f.integer("mul", at, str(use.record.size * lanes)))
            with lane_loop() as lane:
                section = Section(traced, f, top.scope, loader(lane, s))
                for k, n in enumerate(hoisted):
                    section.scope[n] = f.of_kind(f.load(carried(size + k, lane)), traced.kinds[n])
                changed = traced.changes()
                for (name, i, n), value in zip(changed, section.compute(n for _, _, n in changed), strict=True):
                    if name in traced.carry.shapes:
                        f.store(value, carried(traced.carry.offset(name) + i, lane))
                    elif traced.is_needed(name, i, n):
                        f.store(value, place(name, i, lane))

    if traced.final:
        with lane_loop() as lane:
            values = Section(traced, f, top.scope, loader(lane)).compute(nodes_of(traced.final))
            for (name, i, n), value in zip(flat(traced.final), values, strict=True):
                if traced.is_needed(name, i, n):
                    f.store(value, place(name, i, lane))
    return size + len(hoisted)


def _emit_node_scan(traced: Traced, f: Function, lanes: int) -> int:
    kernel, graph, levels = traced.kernel, traced.graph, levels_of(traced)
    group = Group(traced, f, lanes)
    bases = {use.array: group.base(use) for use in kernel.uses}
    state: dict[tuple[str, int], str] = {}  # the carried values at the current node of the series

    def place(name: str, i: int) -> str:
        use = traced.use_of(name)
        return f.address(bases[use.array], str((use.offset(name) + i) * group.apart(use)))

    def load(op: tuple) -> str:
        if op[1] == "carry":
            return state[op[2], op[3]]
        if traced.use_of(op[2]).record.kind != "shared" or f.width == 1:
            return f.load(place(op[2], op[3]))
        with f.abreast(1):
            number = f.load(place(op[2], op[3]))
        return f.in_first_lane(number) if traced.is_sum(op[2]) else f.spread(number)

    outputs = nodes_of(traced.init) + nodes_of(traced.body) + nodes_of(traced.final)
    top = Section(traced, f, {}, load)
    kept = frontier(graph, levels, needed(graph, outputs, {}), SHARED)
    top.compute(kept)
    with f.abreast(traced.abreast):
        outside = Section(traced, f, {n: f.spread(top.scope[n], traced.kinds[n]) for n in kept}, load)
        outside.compute(frontier(graph, levels, needed(graph, nodes_of(traced.body), outside.scope), OUTER))
        names = [(name, i) for name, i, _ in flat(traced.init)]
        last = first = outside.compute(nodes_of(traced.init))
        state.update(zip(names, first, strict=True))
        if traced.body:
            with f.loop(group.rows, first) as (turn, values, results):
                state.update(zip(names, values, strict=True))
                row = group.row(turn)
                bases |= {use.array: group.base_in(use, row) for use in kernel.uses if use.record.kind == "lane"}
                if traced.abreast > 1:
                    group.keep(row, values)
                changed = traced.changes()
                section = Section(traced, f, outside.scope, load)
                for (name, i, _), value in zip(changed, section.compute(n for _, _, n in changed), strict=True):
                    if name in traced.carry.shapes:
                        state[name, i] = value
                    else:
                        f.store(value, place(name, i))
                new = [state[name] for name in names]
                if traced.abreast > 1:
                    fields = {name: n.size for name, n in traced.body.items() if name not in traced.carry.shapes}
                    written = [(place(name, 0), size) for name, size in fields.items() if size]
                    new = group.without_ended(row, written, new)
                results += new
                last = results
        state.update(zip(names, last, strict=True))
        bases |= {use.array: group.base(use) for use in kernel.uses}
        _write_results(traced, f, group, place, Section(traced, f, outside.scope, load))
    return -(-traced.abreast * len(names) // lanes) if traced.abreast > 1 else 0


def _write_results(
    traced: Traced, f: Function, group: Group, place: Callable[[str, int], str], section: Section
) -> None:
    """Write the outputs of `final`; the lanes of a group are joined in what series share, idle ones are left out."""
    values = section.compute(nodes_of(traced.final))
    here = group.has_series()
    joined: dict[tuple[int, str], str] = {}
    for (name, i, n), value in zip(flat(traced.final), values, strict=True):
        value = value if here is None else f.chosen(here, value)
        if traced.abreast == 1 or not traced.is_sum(name):
            f.store(value, place(name, i))
            continue
        how = group.joined_by(name)
        if (n, how) not in joined:
            joined[n, how] = f.joined(how, value)
        with f.abreast(1):
            f.store(joined[n, how], place(name, i))
