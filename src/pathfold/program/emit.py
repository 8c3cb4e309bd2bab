"""From kernel declarations to LLVM code: straight-line arithmetic inside two kinds of loop.

A kernel is a scan written as three small JAX functions of named arrays: `init` gives the carried quantities, `body`
maps them (and the fields of one step) to their next values (and new field values), `final` writes what is left over.
Argument names say what is read; the keys of the returned dictionary say what is written.

- `LaneScan` runs over the fine steps of one chunk of intervals, all lanes abreast: the lane loop is innermost, and LLVM
  vectorises it. What depends on shared quantities alone is computed once, what depends on the interval alone once a
  chunk.
- `NodeScan` runs over the nodes of one series, one after the other, with the carried quantities in registers.

The code is LLVM's own assembly language rather than Python for Numba: a kernel has hundreds of operations, and Numba
spends milliseconds on each before LLVM sees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pathfold.program import exponential
from pathfold.program.exponential import literal
from pathfold.program.graph import Graph
from pathfold.program.kernel import (
    INTERVAL,
    LAYOUT_FIRST,
    LAYOUT_INTERVALS,
    LAYOUT_STEPS,
    SHARED,
    STEP,
    Kernel,
    LaneScan,
    Traced,
    flat,
    nodes_of,
)
from pathfold.program.layout import BLOCKS

# Fast arithmetic that still respects NaN and infinity: the status tests rely on them.
FAST = "reassoc nsz arcp contract afn"
_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul"}
_COMPARISON = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une"}
_OF_TRUTHS = {"lt": "ult", "le": "ule", "eq": "eq", "ne": "ne"}
_LOGICAL = {"and": "and", "or": "or"}
_INTRINSIC = {
    "max": "maximum",
    "min": "minimum",
    "abs": "fabs",
    "sqrt": "sqrt",
    "log": "log",
    "sin": "sin",
    "cos": "cos",
    "pow": "pow",
    "floor": "floor",
    "ceil": "ceil",
    "round": "rint",
}
_LIBRARY = {
    "rem": "fmod",
    "atan2": "atan2",
    "cbrt": "cbrt",
    "expm1": "expm1",
    "log1p": "log1p",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "erf": "erf",
    "erfc": "erfc",
    "lgamma": "lgamma",
}


def _literal(value: float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return literal(value)


class _Function:
    """The text of one function: numbered values, labelled blocks, and what it needs declared."""

    def __init__(self) -> None:
        self.lines: list[str] = ["entry:"]
        self.label = "entry"
        self.declared: set[str] = set()
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def value(self, text: str) -> str:
        """A new value, defined by the given instruction."""
        name = self.new()
        self.lines.append(f"  {name} = {text}")
        return name

    def call(self, function: str, arguments: Sequence[str]) -> str:
        self.declared.add(f"declare double @{function}({', '.join(['double'] * len(arguments))})")
        return self.value(f"call {FAST} double @{function}({', '.join(f'double {a}' for a in arguments)})")

    def integer(self, operation: str, a: str, b: str) -> str:
        return self.value(f"{operation} i64 {a}, {b}")

    def address(self, base: str, offset: str) -> str:
        return self.value(f"getelementptr inbounds double, ptr {base}, i64 {offset}")

    def load(self, address: str) -> str:
        return self.value(f"load double, ptr {address}, align 8")

    def store(self, value: str, address: str) -> None:
        self.lines.append(f"  store double {value}, ptr {address}, align 8")

    def number(self, value: str, kind: str) -> str:
        """A value as it is kept in memory."""
        return value if kind == "double" else self.value(f"uitofp i1 {value} to double")

    def of_kind(self, number: str, kind: str) -> str:
        """What was kept, as it was."""
        return number if kind == "double" else self.value(f"fcmp une double {number}, {_literal(0.0)}")

    def layout(self, at: int | str) -> str:
        place = self.value(f"getelementptr inbounds i64, ptr %layout, i64 {at}")
        return self.value(f"load i64, ptr {place}, align 8")

    @contextmanager
    def loop(self, count: str, carried: Sequence[str] = ()) -> Iterator[tuple[str, list[str], list[str]]]:
        """for i in range(count), count > 0. Yields i, the carried values, and a list for their next values."""
        before, label = self.label, f"loop{self._count}"
        index, following = self.new(), self.new()
        values = [self.new() for _ in carried]
        results: list[str] = []
        self.lines += [f"  br label %{label}", f"{label}:"]
        head = len(self.lines)
        self.label = label
        yield index, values, results
        end = self.label
        phis = [f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{end} ]"]
        for value, first, last in zip(values, carried, results, strict=True):
            phis.append(f"  {value} = phi double [ {first}, %{before} ], [ {last}, %{end} ]")
        self.lines[head:head] = phis
        self.lines.append(f"  {following} = add nuw nsw i64 {index}, 1")
        done = self.value(f"icmp eq i64 {following}, {count}")
        self.lines += [f"  br i1 {done}, label %{label}.end, label %{label}", f"{label}.end:"]
        self.label = f"{label}.end"

    def operation(self, name: str, kind: str, of: str, a: Sequence[str]) -> str:
        """An operation with a result of type `kind` on values `a`, the first of type `of`."""
        if name in _BINARY:
            return self.value(f"{_BINARY[name]} {FAST} double {a[0]}, {a[1]}")
        if name in _COMPARISON:
            compare = f"icmp {_OF_TRUTHS[name]}" if of == "i1" else f"fcmp {_COMPARISON[name]}"
            return self.value(f"{compare} {of} {a[0]}, {a[1]}")
        if name in _LOGICAL:
            return self.value(f"{_LOGICAL[name]} i1 {a[0]}, {a[1]}")
        if name == "not":
            return self.value(f"xor i1 {a[0]}, true")
        if name == "neg":
            return self.value(f"fneg {FAST} double {a[0]}")
        if name == "recip":
            return self.value(f"fdiv {FAST} double {_literal(1.0)}, {a[0]}")
        if name == "select":
            return self.value(f"select i1 {a[0]}, {kind} {a[1]}, {kind} {a[2]}")
        if name == "exp":
            self.declared |= exponential.DECLARATIONS
            return self.value(f"call double @{exponential.NAME}(double {a[0]})")
        if name in _INTRINSIC:
            return self.call(f"llvm.{_INTRINSIC[name]}.f64", a)
        return self.call(_LIBRARY[name], a)


class _Section:
    """Code of some of the graph's nodes at one place; knows which of them have a value there already."""

    def __init__(self, traced: Traced, f: _Function, scope: dict[int, str], load: Callable[[tuple], str]) -> None:
        self.graph, self.f, self.scope, self.load = traced.graph, f, dict(scope), load
        self.kinds = traced.kinds

    def compute(self, roots: Iterable[int]) -> list[str]:
        """The values of the given nodes, after computing all they need."""
        roots = list(roots)
        for n in sorted(_needed(self.graph, roots, self.scope)):
            op = self.graph.ops[n]
            if op[0] == "const":
                self.scope[n] = _literal(op[1])
            elif op[0] == "input":
                self.scope[n] = self.load(op)
            else:
                values = [self.scope[a] for a in op[1:]]
                self.scope[n] = self.f.operation(op[0], self.kinds[n], self.kinds[op[1]], values)
        return [self.scope[r] for r in roots]


def _needed(graph: Graph, roots: Iterable[int], scope) -> set[int]:
    """The nodes that have to be computed for the roots, given those in scope."""
    seen: set[int] = set()
    stack = [r for r in roots if r not in scope]
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        op = graph.ops[n]
        if op[0] not in ("const", "input"):
            stack.extend(a for a in op[1:] if a not in scope)
    return seen


def _levels(traced: Traced) -> list[int]:
    """How often each node changes: with nothing, with the interval, with the step."""
    kind_level = {"shared": SHARED, "series": SHARED, "lane": INTERVAL, "step": STEP}
    levels: list[int] = []
    for op in traced.graph.ops:
        if op[0] == "const":
            levels.append(SHARED)
        elif op[0] == "input":
            levels.append(kind_level[traced.use_of(op[2]).record.kind] if op[1] == "field" else STEP)
        else:
            levels.append(max(levels[a] for a in op[1:]))
    return levels


def _frontier(graph: Graph, levels: list[int], needed: set[int], level: int) -> list[int]:
    """The nodes of a level that faster-changing nodes use: what has to be kept of that level."""
    faster = {
        a for n in needed if levels[n] > level and graph.ops[n][0] not in ("const", "input") for a in graph.ops[n][1:]
    }
    return sorted(n for n in faster if levels[n] == level and graph.ops[n][0] != "const")


@dataclass(frozen=True)
class Code:
    """A kernel's function in assembly, the external functions it needs, and how many scalars a lane it has to carry.

    Every kernel takes the chunk or series, the layout table, and the blocks of `layout.BLOCKS`.
    """

    name: str

    text: str
    declared: frozenset[str]
    carried: int


def emit(traced: Traced, lanes: int) -> Code:
    kernel, f = traced.kernel, _Function()
    carried = _emit_lane_scan(traced, f, lanes) if isinstance(kernel, LaneScan) else _emit_node_scan(traced, f, lanes)
    arguments = ", ".join(["i64 %i", "ptr noalias %layout", *(f"ptr noalias %{use.array}" for use in kernel.uses)])
    body = [f'define internal void @"{kernel.name}.records"({arguments}) noinline {{', *f.lines, "  ret void", "}"]
    return Code(kernel.name, "\n".join([*body, *_entry(kernel)]), frozenset(f.declared), carried)


def _entry(kernel: Kernel) -> list[str]:
    """The function that is called: finds the records in their blocks. Records do not overlap, which LLVM is told."""
    f = _Function()
    records = [f.address(f"%{use.block}", f.layout(use.at)) for use in kernel.uses]
    given = ", ".join(["i64 %i", "ptr %layout", *(f"ptr %{block}" for block in BLOCKS)])
    passed = ", ".join(["i64 %i", "ptr %layout", *(f"ptr {record}" for record in records)])
    call = f'  call void @"{kernel.name}.records"({passed})'
    return [f'define void @"{kernel.name}"({given}) {{', *f.lines, call, "  ret void", "}"]


ABREAST = 4  # lanes in use are rounded up to a multiple of this, where L is one: vectors have no remainder


def _lanes_in_use(f: _Function, lanes: int) -> str:
    """min(L, intervals of this chunk), rounded up so that LLVM sees of what it is a multiple."""
    unit = math.gcd(ABREAST, lanes)
    begun = f.integer("mul nuw nsw", "%i", str(lanes))
    left = f.integer("sub", f.layout(LAYOUT_INTERVALS), begun)
    rounded = f.integer("and", f.integer("add nuw nsw", left, str(unit - 1)), str(-unit))
    f.declared.add("declare i64 @llvm.umin.i64(i64, i64)")
    return f.value(f"call i64 @llvm.umin.i64(i64 {rounded}, i64 {lanes})")


def _emit_lane_scan(traced: Traced, f: _Function, lanes: int) -> int:
    kernel, graph, levels = traced.kernel, traced.graph, _levels(traced)
    bases = {use.array: f"%{use.array}" for use in kernel.uses}
    in_use = _lanes_in_use(f, lanes)

    def place(name: str, i: int, lane: str) -> str:
        use = traced.use_of(name)
        at = use.offset(name) + i
        if use.record.kind == "shared":
            return f.address(bases[use.array], str(at))
        return f.address(bases[use.array], f.integer("add nuw nsw", lane, str(at * lanes)))

    def carried(at: int, lane: str) -> str:
        return f.address("%carry", f.integer("add nuw nsw", lane, str(at * lanes)))

    def loader(lane: str, s: str = "") -> Callable[[tuple], str]:
        def load(op: tuple) -> str:
            if op[1] == "s":
                return f.value(f"sitofp i64 {s} to double")
            if op[1] == "carry":
                return f.load(carried(traced.carry.offset(op[2]) + op[3], lane))
            return f.load(place(op[2], op[3], lane))

        return load

    outputs = nodes_of(traced.init) + nodes_of(traced.body) + nodes_of(traced.final)
    top = _Section(traced, f, {}, loader(""))
    top.compute(_frontier(graph, levels, _needed(graph, outputs, {}), SHARED))
    for use in kernel.uses:
        if use.record.kind == "lane":
            bases[use.array] = f.address(f"%{use.array}", f.integer("mul", "%i", str(use.record.size * lanes)))

    # Once a chunk: the first carried values, and what the steps need of the interval.
    hoisted = _frontier(graph, levels, _needed(graph, nodes_of(traced.body), top.scope), INTERVAL)
    size = traced.carry.size
    first = [(traced.carry.offset(name) + i, n) for name, i, n in flat(traced.init)]
    first += [(size + k, n) for k, n in enumerate(hoisted)]
    if first:
        with f.loop(in_use) as (lane, _, _):
            values = _Section(traced, f, top.scope, loader(lane)).compute(n for _, n in first)
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
            with f.loop(in_use) as (lane, _, _):
                section = _Section(traced, f, top.scope, loader(lane, s))
                for k, n in enumerate(hoisted):
                    section.scope[n] = f.of_kind(f.load(carried(size + k, lane)), traced.kinds[n])
                changed = traced.changes()
                for (name, i, _), value in zip(changed, section.compute(n for _, _, n in changed), strict=True):
                    is_carried = name in traced.carry.shapes
                    f.store(value, carried(traced.carry.offset(name) + i, lane) if is_carried else place(name, i, lane))

    if traced.final:
        with f.loop(in_use) as (lane, _, _):
            values = _Section(traced, f, top.scope, loader(lane)).compute(nodes_of(traced.final))
            for (name, i, _), value in zip(flat(traced.final), values, strict=True):
                f.store(value, place(name, i, lane))
    return size + len(hoisted)


def _emit_node_scan(traced: Traced, f: _Function, lanes: int) -> int:
    kernel, graph, levels = traced.kernel, traced.graph, _levels(traced)
    bases = {use.array: f"%{use.array}" for use in kernel.uses}
    for use in kernel.uses:
        if use.record.kind == "series":
            bases[use.array] = f.address(f"%{use.array}", f.integer("mul", "%i", str(use.record.size)))
    state: dict[tuple[str, int], str] = {}  # the carried values where we are

    def place(name: str, i: int) -> str:
        use = traced.use_of(name)
        stride = lanes if use.record.kind == "lane" else 1
        return f.address(bases[use.array], str((use.offset(name) + i) * stride))

    def load(op: tuple) -> str:
        return state[op[2], op[3]] if op[1] == "carry" else f.load(place(op[2], op[3]))

    top = _Section(traced, f, {}, load)
    top.compute(_frontier(graph, levels, _needed(graph, nodes_of(traced.body), {}), SHARED))
    names = [(name, i) for name, i, _ in flat(traced.init)]
    first = top.compute(nodes_of(traced.init))
    state.update(zip(names, first, strict=True))

    if traced.body:
        table = f.integer("add", f.layout(LAYOUT_FIRST), "%i")
        begin, end = f.layout(table), f.layout(f.integer("add", table, "1"))
        with f.loop(f.integer("sub", end, begin), first) as (turn, values, results):
            state.update(zip(names, values, strict=True))
            last = f.integer("sub", end, "1")
            n = f.integer("sub", last, turn) if kernel.reverse else f.integer("add", begin, turn)
            chunk, lane = f.integer("udiv", n, str(lanes)), f.integer("urem", n, str(lanes))
            for use in kernel.uses:
                if use.record.kind == "lane":
                    row = f.integer("mul", chunk, str(use.record.size * lanes))
                    bases[use.array] = f.address(f"%{use.array}", f.integer("add", row, lane))
            section = _Section(traced, f, top.scope, load)
            changed = traced.changes()
            for (name, i, _), value in zip(changed, section.compute(n for _, _, n in changed), strict=True):
                if name in traced.carry.shapes:
                    state[name, i] = value
                else:
                    f.store(value, place(name, i))
            results += [state[name] for name in names]

    values = _Section(traced, f, {}, load).compute(nodes_of(traced.final))
    for (name, i, _), value in zip(flat(traced.final), values, strict=True):
        f.store(value, place(name, i))
    return 0
