"""Emits the code of scans with arrays in memory.

They are built like the scans without arrays, with two differences. Carried quantities are in memory, and so are sums
of series abreast. And a scan over lanes takes a few lanes at a time through all steps, as vectors, so that their
carried quantities stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from pathfold.program.arrays import (
    Box,
    Fill,
    Memory,
    Outcome,
    Product,
    Statement,
    Turning,
    View,
    arguments,
    leaves,
    needs,
)
from pathfold.program.assembly import Function
from pathfold.program.group import Group
from pathfold.program.kernel import LAYOUT_STEPS, OUTER, SHARED, LaneScan, Traced
from pathfold.program.layout import Use
from pathfold.program.roll import fill_all
from pathfold.program.sections import ABREAST, array_levels, frontier, lanes_in_use, levels_of, needed
from pathfold.program.statements import Loops, Place

Outputs = list[tuple[Memory, Fill]]


def emit_loops(traced: Traced, f: Function, lanes: int) -> tuple[dict[str, int], int]:
    """Emit a scan; return where each array lies in the lane buffer, by name, and how many scalars a lane that holds."""
    width = math.gcd(ABREAST, lanes) if isinstance(traced.kernel, LaneScan) else traced.abreast
    outputs = {part: _outputs(traced, part) for part in ("init", "body", "final")}
    arrays = {("carry", name): int(np.prod(shape, dtype=int)) for name, shape in traced.carry.shapes.items()}
    if traced.abreast > 1:
        arrays |= {("before", memory[1]): filling.size for memory, filling in outputs["body"] if memory[0] == "carry"}
        arrays |= {("sum", name): filling.size for (_, name), filling in outputs["final"] if traced.is_sum(name)}
    arrays |= {("array", k): statement.size for k, statement in enumerate(traced.graph.statements)}
    levels = levels_of(traced)
    shared = {("array", k) for k, level in array_levels(traced, levels).items() if level == SHARED and width > 1}
    places = {
        memory: Place(f"%{'.'.join(map(str, memory))}", apart=1 if memory in shared else width, shared=memory in shared)
        for memory in arrays
    }
    fillings = [filling for part in outputs.values() for _, filling in part]
    top = Loops(traced, f, places, _live(traced, fillings), _triangles(traced, fillings))
    if isinstance(traced.kernel, LaneScan):
        _lane_scan(top, lanes, width, outputs)
    else:
        _node_scan(top, lanes, outputs)
    offsets, total = {}, 0
    for memory, size in arrays.items():
        if memory[0] != "array" or memory[1] in top.stored:
            offsets[places[memory].base.removeprefix("%")] = total
            total += size * places[memory].apart
    return offsets, -(-total // lanes)


def _outputs(traced: Traced, part: str) -> Outputs:
    """Return how each output of a part is filled."""
    g, written = traced.graph, {}
    for name, nodes in getattr(traced, part).items():
        carried = part == "init" or (part == "body" and name in traced.carry.shapes)
        memory = ("carry" if carried else "field", name)
        if nodes.ravel().tolist() != [g.input(*memory, i) for i in range(nodes.size)]:
            written[memory] = nodes
    return fill_all(g, written)


def _roots(traced: Traced, outputs: Outputs) -> list[int]:
    return [node for _, filling in outputs for node in needs(traced.graph, filling)]


def _live(traced: Traced, fillings: Iterable[Fill]) -> dict[int, set[int]]:
    """Return which entries of arrays are read, by number; of what loops carry, those that these come from as well.

    An array that no loop carries is computed as a whole: its first entry stands for all.
    """
    g = traced.graph
    ends = {s.memory: k for k, s in enumerate(g.statements) if isinstance(s, Outcome) and s.memory[0] == "array"}
    live: dict[int, set[int]] = {}
    stack: list[int] = []
    viewed: set[int] = set()

    def reads(statement: Statement) -> None:
        stack.extend(statement.nodes())
        for kind, number in (view.memory for view in statement.views()):
            if kind == "array" and number not in viewed:
                viewed.add(number)
                by_entry = isinstance(g.statements[number], Turning | Outcome)
                stack.extend(g.input("array", number, i) for i in range(g.statements[number].size if by_entry else 1))

    for filling in fillings:
        reads(filling)
    seen: set[int] = set()
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if g.ops[n][:2] != ("input", "array"):
            stack.extend(arguments(g, n))
            continue
        number, i = g.ops[n][2:]
        statement = g.statements[number]
        if number not in live:
            live[number] = set()
            reads(statement)
        live[number].add(i)
        if isinstance(statement, Outcome):
            loop = statement.loop
            filling = dict((*loop.following, *loop.results))[statement.memory]
            reads(filling.part({i}) if statement.memory in dict(loop.following) else filling)
            stack.extend([] if loop.condition is None else [loop.condition])
        elif ("array", number) in ends:
            stack.append(g.input("array", ends["array", number], i))
    return live


def _triangles(traced: Traced, outputs: Iterable[Fill]) -> set[int]:
    """Return the numbers of the products of which no entry above the diagonal is read."""
    g = traced.graph
    fillings = list(outputs)
    live = needed(g, [node for filling in fillings for node in needs(g, filling)], {})
    entries = [g.ops[n][2:] for n in live if g.ops[n][:2] == ("input", "array")]
    statements = {k: g.statements[k] for k, _ in entries}
    orders = {k: s.shape[0] for k, s in statements.items() if isinstance(s, Product) and s.shape[0] == s.shape[1]}
    whole = {k for k, i in entries if k in orders and i % orders[k] > i // orders[k]}
    for statement in [*fillings, *statements.values()]:
        for memory, start, strides, mirrored in _readings(statement):
            if not (mirrored and start == 0 and strides == (orders.get(memory[1]), 1)):
                whole.add(memory[1])
    return orders.keys() - whole


def _readings(statement: Statement) -> Iterator[tuple[Memory, int, tuple[int, ...], bool]]:
    """Yield the views that a statement reads, each with whether it reads no entry above the diagonal."""
    if isinstance(statement, Fill):
        for box in statement.boxes:
            for leaf in leaves(box.term):
                if isinstance(leaf, View):
                    yield leaf.memory, leaf.start, leaf.strides, box.mirror is not None
    else:
        yield from ((view.memory, view.start, view.strides, False) for view in statement.views())


def _write(section: Loops, outputs: Outputs) -> None:
    """Compute all outputs, then write them; an array of which a field is a copy is computed in the field itself."""
    copies = []
    for memory, filling in outputs:
        array = _copied(section.traced, memory, filling)
        if array is None or array in section.ready or array in copies:
            continue
        section.places["array", array] = section.places[memory]
        copies.append(array)
    section.compute(_roots(section.traced, outputs))
    for memory, filling in outputs:
        if section.places[memory] != section.places.get(("array", _copied(section.traced, memory, filling))):
            section.fill(filling, section.places[memory])


def _copied(traced: Traced, memory: Memory, filling: Fill) -> int | None:
    """Return the number of the array of which a field that is not read is a copy, if there is one.

    With lanes abreast alone: otherwise statements may store neighbours as vectors, and a field's entries may be apart.
    """
    if memory[0] != "field" or memory in traced.graph.sizes or not traced.graph.abreast or filling.entries:
        return None
    match filling.boxes:
        case [Box(start=0, strides=strides, term=View(memory=("array", number), start=0, strides=same), mirror=None)]:
            return number if strides == same and traced.graph.statements[number].size == filling.size else None
    return None


def _fields(uses: Iterable[Use], bases: dict[str, str], lanes: int, group: Group | None = None) -> dict[Memory, Place]:
    """Return the places of the fields of those records whose base address is given."""
    return {
        ("field", name + use.suffix): Place(bases[use.array], first, apart, use.record.kind == "shared")
        for use in uses
        if use.array in bases
        for apart in [group.apart(use) if group else lanes if use.record.kind in ("lane", "step") else 1]
        for name, first in use.record.offsets.items()
    }


def _lane_scan(outside: Loops, lanes: int, width: int, outputs: dict[str, Outputs]) -> None:
    traced, f = outside.traced, outside.f
    kernel, graph, levels = traced.kernel, traced.graph, levels_of(traced)
    of_kind = {kind: [use for use in kernel.uses if use.record.kind == kind] for kind in ("shared", "lane", "step")}
    shared = _fields(of_kind["shared"], {use.array: f"%{use.array}" for use in of_kind["shared"]}, lanes)
    groups = f.integer("udiv exact", lanes_in_use(f, lanes), str(width))
    top = outside.inside(shared)
    roots = [node for part in outputs.values() for node in _roots(traced, part)]
    kept = frontier(graph, levels, needed(graph, roots, {}), SHARED)
    f.vectorised = not graph.abreast
    top.compute(kept)
    f.vectorised, top.alone = True, not graph.abreast

    def at(use: Use, number: str, lane: str) -> str:
        begin = f.integer("mul", number, str(use.record.size * lanes))
        return f.address(f"%{use.array}", f.integer("add", begin, lane))

    with f.abreast(width):
        top.scope = {n: f.spread(top.scope[n], traced.kinds[n]) for n in kept}
        with f.loop(groups) as (group, _, _):
            lane = f.integer("mul", group, str(width))
            interval = _fields(of_kind["lane"], {use.array: at(use, "%i", lane) for use in of_kind["lane"]}, lanes)
            _write(top.inside(interval), outputs["init"])
            if outputs["body"]:
                hoisted = top.inside(interval)
                roots = _roots(traced, outputs["body"])
                hoisted.compute(frontier(graph, levels, needed(graph, roots, hoisted.scope), OUTER))
                steps = f.layout(LAYOUT_STEPS)
                begin = f.integer("mul", "%i", steps)
                with f.loop(steps) as (turn, _, _):
                    s = f.integer("sub", f.integer("sub", steps, "1"), turn) if kernel.reverse else turn
                    number = f.integer("add", begin, s)
                    step = _fields(
                        of_kind["step"], {use.array: at(use, number, lane) for use in of_kind["step"]}, lanes
                    )
                    _write(hoisted.inside(step, s), outputs["body"])
            _write(top.inside(interval), outputs["final"])


def _node_scan(outside: Loops, lanes: int, outputs: dict[str, Outputs]) -> None:
    traced, f, places = outside.traced, outside.f, outside.places
    kernel, graph, levels = traced.kernel, traced.graph, levels_of(traced)
    group = Group(traced, f, lanes)
    bases = {use.array: group.base(use) for use in kernel.uses if use.record.kind in ("shared", "series")}
    fields = _fields(kernel.uses, bases, lanes, group)
    sums = {memory: fields[memory] for memory, _ in outputs["final"] if ("sum", memory[1]) in places}
    series = fields | {memory: places["sum", memory[1]] for memory in sums}
    top = outside.inside(fields)
    roots = [node for part in outputs.values() for node in _roots(traced, part)]
    kept = frontier(graph, levels, needed(graph, roots, {}), SHARED)
    f.vectorised = not graph.abreast
    top.compute(kept)
    f.vectorised, top.alone = True, not graph.abreast
    for memory, place in sums.items():
        if memory in graph.sizes:
            _begin_sum(top, place, series[memory], graph.sizes[memory], traced.abreast)
    with f.abreast(traced.abreast):
        top = top.inside(series)
        top.scope = {n: f.spread(top.scope[n], traced.kinds[n]) for n in kept}
        first = top.inside({})
        first.compute(frontier(graph, levels, needed(graph, _roots(traced, outputs["body"]), top.scope), OUTER))
        _write(first, outputs["init"])
        if outputs["body"]:
            with f.loop(group.rows) as (turn, _, _):
                row = group.row(turn)
                bases = {use.array: group.base_in(use, row) for use in kernel.uses if use.record.kind == "lane"}
                section = first.inside(_fields(kernel.uses, bases, lanes, group))
                if traced.abreast == 1:
                    _write(section, outputs["body"])
                else:
                    _write_active(section, outputs["body"], group, row)
        _write(top, outputs["final"])
        here = group.has_series()
        for memory, filling in outputs["final"]:
            if here is not None:
                _clear(top, series[memory], filling.size, here)
            if memory in sums:
                _join(top, series[memory], sums[memory], filling.size, group.joined_by(memory[1]))


def _write_active(section: Loops, outputs: Outputs, group: Group, row: str) -> None:
    """Write the outputs of a row's nodes; series without one keep what they carry, and zeros stand in their place."""
    f, places = section.f, section.places
    carried = {memory: filling.size for memory, filling in outputs if memory[0] == "carry"}
    some_ended = group.some_ended(row)
    with f.when(some_ended):
        for memory, size in carried.items():
            with f.loop(str(size)) as (i, _, _):
                f.store(f.load(section.entry(places[memory], i)), section.entry(places["before", memory[1]], i))
    _write(section, outputs)
    with f.when(some_ended):
        here = group.active(row)
        for memory, filling in outputs:
            _clear(section, places[memory], filling.size, here, places.get(("before", memory[1])))


def _clear(section: Loops, place: Place, size: int, here: str, before: Place | None = None) -> None:
    """Set the entries of the lanes that are not here to zero, or to what they were before."""
    f = section.f
    with f.loop(str(size)) as (i, _, _):
        at = section.entry(place, i)
        f.store(f.chosen(here, f.load(at), f.load(section.entry(before, i)) if before else None), at)


def _begin_sum(section: Loops, shared: Place, own: Place, size: int, width: int) -> None:
    """Let the first lane begin with a sum, the others with zeros."""
    f = section.f
    with f.loop(str(size)) as (i, _, _):
        number = f.load(section.entry(shared, i))
        with f.abreast(width):
            f.store(f.in_first_lane(number), section.entry(own, i))


def _join(section: Loops, own: Place, shared: Place, size: int, operation: str) -> None:
    """Join the lanes of a sum."""
    f = section.f
    with f.loop(str(size)) as (i, _, _):
        number = f.joined(operation, f.load(section.entry(own, i)))
        with f.abreast(1):
            f.store(number, section.entry(shared, i))
