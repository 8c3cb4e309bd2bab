"""From kernel declarations to Python source for Numba: straight-line code inside two kinds of loop.

A kernel is a scan written as three small JAX functions of named arrays: `init` gives the carried quantities, `body` maps
them (and the fields of one step) to their next values (and new field values), `final` writes what is left over. Argument
names say what is read; the keys of the returned dictionary say what is written.

- `LaneScan` runs over the fine steps of one chunk of intervals, all lanes abreast: the lane loop is innermost, and LLVM
  vectorises it. What depends on shared quantities alone is computed once, what depends on the interval alone once a chunk.
- `NodeScan` runs over the nodes of one series, one after the other, with the carried quantities in registers.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pathfold.program.graph import Graph
from pathfold.program.layout import Use, size_of
from pathfold.program.trace import constants_of, trace

Function = Callable[..., dict]


@dataclass(frozen=True)
class LaneScan:
    name: str
    uses: Sequence[Use]
    body: Function | None = None
    init: Function | None = None
    final: Function | None = None
    reverse: bool = False
    fixes: tuple[str, ...] = ()  # fields whose constant entries every reader may rely on: this kernel alone writes them


@dataclass(frozen=True)
class NodeScan:
    name: str
    uses: Sequence[Use]
    body: Function | None = None
    init: Function | None = None
    final: Function | None = None
    reverse: bool = False
    fixes: tuple[str, ...] = ()


Kernel = LaneScan | NodeScan

SHARED, INTERVAL, STEP = 0, 1, 2  # how often a quantity changes


@dataclass
class _Carry:
    """Carried quantities: names, shapes and offsets, in the order `init` returned them."""

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def offset(self, name: str) -> int:
        at = 0
        for other, shape in self.shapes.items():
            if other == name:
                return at
            at += size_of(shape)
        raise KeyError(name)

    @property
    def size(self) -> int:
        return sum(size_of(s) for s in self.shapes.values())


class _Traced:
    """The three parts of a kernel as one graph with named inputs and outputs."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.graph = Graph()
        self.carry = _Carry()
        self.init = self._trace(kernel.init, carried=False) if kernel.init else {}
        self.carry.shapes = {name: nodes.shape for name, nodes in self.init.items()}
        self.body = self._trace(kernel.body, carried=True) if kernel.body else {}
        self.final = self._trace(kernel.final, carried=True) if kernel.final else {}
        for name in kernel.fixes:
            nodes = {**self.body, **self.final}[name]
            use = self.use_of(name)
            values = [self.graph.value(n) for n in nodes.ravel().tolist()]
            use.record.known[name] = np.array([math.nan if v is None else v for v in values]).reshape(nodes.shape)

    def use_of(self, name: str) -> Use:
        for use in self.kernel.uses:
            if use.has(name):
                return use
        raise KeyError(f"kernel {self.kernel.name}: no field '{name}'")

    def _trace(self, function: Function, *, carried: bool) -> dict[str, np.ndarray]:
        arguments = {name: self._argument(name, carried) for name in inspect.signature(function).parameters}
        out = trace(self.graph, lambda a: {k: _array(v) for k, v in function(**a).items()}, arguments)
        if carried:
            for name, nodes in out.items():
                expected = self.carry.shapes.get(name)
                if expected is None or function is self.kernel.final:
                    expected = self.use_of(name).shape(name)
                if nodes.shape != tuple(expected):
                    raise ValueError(f"kernel {self.kernel.name}: '{name}' has shape {nodes.shape}, expected {expected}")
        return out

    def _argument(self, name: str, carried: bool) -> np.ndarray:
        g = self.graph
        if name == "s":
            return np.asarray(g.input("s"), dtype=np.int64)
        if carried and name in self.carry.shapes:
            shape, kind, use, known = self.carry.shapes[name], "carry", None, None
        else:
            use = self.use_of(name)
            shape, kind, known = use.shape(name), "field", use.known(name)
        nodes = np.empty(size_of(shape), dtype=np.int64)
        for i in range(nodes.size):
            value = math.nan if known is None else float(known.ravel()[i])
            nodes[i] = g.input(kind, name, i) if math.isnan(value) else g.const(value)
        return nodes.reshape(shape)


def _array(value):
    import jax.numpy as jnp

    return jnp.asarray(value, dtype=float)


# --- straight-line code -----------------------------------------------------------------------------------------------

_INFIX = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "&", "or": "|"}


def _literal(value: float | bool) -> str:
    if isinstance(value, bool):
        return repr(value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return repr(value) if value >= 0 and math.copysign(1.0, value) > 0 else f"({value!r})"


def _expression(op: tuple, names: Sequence[str]) -> str:
    kind = op[0]
    if kind in _INFIX:
        return f"{names[0]} {_INFIX[kind]} {names[1]}"
    if kind == "neg":
        return f"-{names[0]}"
    if kind == "recip":
        return f"1.0 / {names[0]}"
    if kind == "pow":
        return f"{names[0]} ** {names[1]}"
    if kind == "not":
        return f"not {names[0]}"
    if kind == "select":
        return f"{names[1]} if {names[0]} else {names[2]}"
    return f"{_FUNCTION.get(kind, kind)}({', '.join(names)})"


_FUNCTION = {
    "max": "maximum",
    "min": "minimum",
    "abs": "fabs",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "round": "rint",
    "rem": "fmod",
    "is_finite": "isfinite",
}


class _Block:
    """Lines of one indentation level; knows which nodes already have a name in scope."""

    def __init__(self, graph: Graph, indent: int, scope: dict[int, str], load: Callable[[tuple], str]) -> None:
        self.graph, self.indent, self.scope, self.load = graph, indent, dict(scope), load
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self, node: int) -> str:
        """The name of a node, after making sure it is computed."""
        for n in sorted(_needed(self.graph, [node], self.scope)):
            op = self.graph.ops[n]
            if op[0] == "const":
                self.scope[n] = _literal(op[1])
                continue
            if op[0] == "input":
                text = self.load(op)
            else:
                text = _expression(op, [self.scope[a] for a in op[1:]])
            self.scope[n] = f"g{n}"
            self.line(f"g{n} = {text}")
        return self.scope[node]


def _needed(graph: Graph, roots: Iterable[int], scope) -> set[int]:
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


def _flat(outputs: dict[str, np.ndarray]) -> list[tuple[str, int, int]]:
    return [(name, i, int(n)) for name, nodes in outputs.items() for i, n in enumerate(nodes.ravel())]


def emit(kernel: Kernel, lanes: int) -> tuple[str, int]:
    """Source of the kernel, and the number of carried scalars a lane that it needs room for."""
    traced = _Traced(kernel)
    return _emit_lane_scan(traced, lanes) if isinstance(kernel, LaneScan) else (_emit_node_scan(traced, lanes), 0)


def operation_count(kernel: Kernel) -> int:
    """Arithmetic operations of one turn of the body."""
    traced = _Traced(kernel)
    needed = _needed(traced.graph, [n for _, _, n in _flat(traced.body)], {})
    return sum(traced.graph.ops[n][0] not in ("const", "input") for n in needed)


def _levels(traced: _Traced) -> list[int]:
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


def _emit_lane_scan(traced: _Traced, lanes: int) -> tuple[str, int]:
    kernel, graph = traced.kernel, traced.graph
    levels = _levels(traced)
    uses = kernel.uses

    def load(op: tuple) -> str:
        if op[1] == "s":
            return "float(s)"
        if op[1] == "carry":
            return f"carry[{(traced.carry.offset(op[2]) + op[3]) * lanes} + l]"
        return place(op[2], op[3])

    def place(name: str, i: int) -> str:
        use = traced.use_of(name)
        at = use.offset(name) + i
        if use.record.kind == "shared":
            return f"{use.argument}[{at}]"
        return f"{use.argument}_[{at * lanes} + l]"

    everything = [n for part in (traced.init, traced.body, traced.final) for _, _, n in _flat(part)]
    needed = _needed(graph, everything, {})
    top = _Block(graph, 1, {}, load)
    for n in sorted(needed):
        if levels[n] == SHARED:
            top.name(n)
    for use in uses:
        if use.record.kind == "lane":
            width = use.record.size * lanes
            top.line(f"{use.argument}_ = {use.argument}[c * {width} : (c + 1) * {width}]")
    lines = top.lines

    # Once a chunk: the first carried values, and what the steps need of the interval.
    in_body = _needed(graph, [n for _, _, n in _flat(traced.body)], top.scope)
    hoisted = sorted(
        {a for n in in_body if levels[n] == STEP and graph.ops[n][0] != "input" for a in graph.ops[n][1:]}
        | {n for _, _, n in _flat(traced.body)}
    )
    hoisted = [n for n in hoisted if levels[n] == INTERVAL]
    size = traced.carry.size
    before = _Block(graph, 2, top.scope, load)
    stores = [(traced.carry.offset(name) + i, before.name(n)) for name, i, n in _flat(traced.init)]
    stores += [(size + k, before.name(n)) for k, n in enumerate(hoisted)]
    for at, value in stores:
        before.line(f"carry[{at * lanes} + l] = {value}")
    lines += _lane_loop(before, lanes, 1)

    if traced.body:
        scope = dict(top.scope)
        turn = _Block(graph, 3, scope, load)
        for k, n in enumerate(hoisted):
            turn.line(f"g{n} = carry[{(size + k) * lanes} + l]")
            turn.scope[n] = f"g{n}"
        stores = []
        for name, i, n in _flat(traced.body):
            if name in traced.carry.shapes:
                if graph.ops[n] != ("input", "carry", name, i):
                    stores.append((f"carry[{(traced.carry.offset(name) + i) * lanes} + l]", turn.name(n)))
            else:
                stores.append((place(name, i), turn.name(n)))
        for target, value in stores:
            turn.line(f"{target} = {value}")
        lines.append("    for i in range(S):")
        lines.append("        s = S - 1 - i" if kernel.reverse else "        s = i")
        for use in uses:
            if use.record.kind == "step":
                width = use.record.size * lanes
                lines.append(f"        {use.argument}_ = {use.argument}[(c * S + s) * {width} : (c * S + s + 1) * {width}]")
        lines += _lane_loop(turn, lanes, 2)

    if traced.final:
        after = _Block(graph, 2, top.scope, load)
        stores = [(place(name, i), after.name(n)) for name, i, n in _flat(traced.final)]
        for target, value in stores:
            after.line(f"{target} = {value}")
        lines += _lane_loop(after, lanes, 1)
    arguments = ", ".join(["c", "S", *(u.argument for u in uses), "carry"])
    return f"@compiled\ndef {kernel.name}({arguments}):\n" + "\n".join(lines) + "\n", size + len(hoisted)


def _lane_loop(block: _Block, lanes: int, indent: int) -> list[str]:
    if not block.lines:
        return []
    return ["    " * indent + f"for l in range({lanes}):", *block.lines]


def _emit_node_scan(traced: _Traced, lanes: int) -> str:
    kernel, graph = traced.kernel, traced.graph

    def carried(name: str, i: int) -> str:
        return f"{name}_{i}"

    def load(op: tuple) -> str:
        return carried(op[2], op[3]) if op[1] == "carry" else place(op[2], op[3])

    def place(name: str, i: int) -> str:
        use = traced.use_of(name)
        at = use.offset(name) + i
        if use.record.kind == "shared":
            return f"{use.argument}[{at}]"
        if use.record.kind == "series":
            return f"{use.argument}[k * {use.record.size} + {at}]"
        return f"{use.argument}[{use.argument}_at + {at * lanes}]"

    levels = _levels(traced)
    top = _Block(graph, 1, {}, load)
    starts = [(carried(name, i), top.name(n)) for name, i, n in _flat(traced.init)]
    for n in sorted(_needed(graph, [n for _, _, n in _flat(traced.body)], {})):
        if levels[n] == SHARED:
            top.name(n)
    for target, value in starts:
        top.line(f"{target} = {value}")
    lines = top.lines
    if traced.body:
        turn = _Block(graph, 2, top.scope, load)
        fields, updates = [], []
        for name, i, n in _flat(traced.body):
            if name in traced.carry.shapes:
                if graph.ops[n] != ("input", "carry", name, i):
                    updates.append((carried(name, i), turn.name(n)))
            else:
                fields.append((place(name, i), turn.name(n)))
        for target, value in fields:
            turn.line(f"{target} = {value}")
        for target, value in updates:
            turn.line(f"{target} = {value}")
        lines.append("    for i in range(n1 - n0):")
        lines.append("        n = n1 - 1 - i" if kernel.reverse else "        n = n0 + i")
        for use in kernel.uses:
            if use.record.kind == "lane":
                lines.append(f"        {use.argument}_at = (n // {lanes}) * {use.record.size * lanes} + n % {lanes}")
        lines += turn.lines
    if traced.final:
        after = _Block(graph, 1, {}, load)
        stores = [(place(name, i), after.name(n)) for name, i, n in _flat(traced.final)]
        for target, value in stores:
            after.line(f"{target} = {value}")
        lines += after.lines
    arguments = ", ".join(["k", "n0", "n1", *(u.argument for u in kernel.uses)])
    return f"@compiled\ndef {kernel.name}({arguments}):\n" + "\n".join(lines) + "\n"
