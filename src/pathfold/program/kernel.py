"""Kernels: scans written as small NumPy functions of named arrays, traced into one scalar graph.

`init` gives the carried quantities, `body` maps them (and the fields of one step) to their next values (and new field
values), `final` writes the last results. Argument names say what is read; the keys of the returned dictionary say what
is written.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

import numpy as np

from pathfold.program.graph import WRITTEN_OUT, Graph
from pathfold.program.layout import Use, size_of
from pathfold.program.node_arrays import NodeArray, nodes_in

KernelPart = Callable[..., dict]


@dataclass(frozen=True)
class Kernel:
    """A named scan, with the records that it uses and its three functions."""

    name: str
    uses: Sequence[Use]
    body: KernelPart | None = None
    init: KernelPart | None = None
    final: KernelPart | None = None
    reverse: bool = False
    fixes: tuple[str, ...] = ()  # fields whose constant entries every reader may rely on: this kernel alone writes them

    def use_of(self, name: str) -> Use:
        for use in self.uses:
            if use.has(name):
                return use
        raise KeyError(f"kernel {self.name}: no field '{name}'")


class LaneScan(Kernel):
    """A scan over the fine steps of one chunk of intervals, all lanes abreast."""


@dataclass(frozen=True)
class NodeScan(Kernel):
    """A scan over the nodes of a series, one after the other; of a group of series abreast, where there are several.

    A shared quantity that it writes is a sum over series, to which each adds, or the `largest` over them. A scan may go
    through the first nodes alone, `most` of them.
    """

    largest: tuple[str, ...] = ()
    most: int | None = None

    @property
    def by_series(self) -> bool:
        """Whether it has anything of series or nodes, and not of what all share alone."""
        return any(use.record.kind in ("series", "lane") for use in self.uses)


class SegmentScan(NodeScan):
    """A scan over the segments of a series, one after the other: their records are lanes of groups that they fill."""

    @property
    def by_series(self) -> bool:
        return False


MANY = 100  # an output with more entries is written by loops

# How often a quantity changes: never, with the interval or its step; in a scan over nodes, with the series or its node.
SHARED, OUTER, INNER = 0, 1, 2

# The layout table begins with the sizes that kernels need: steps an interval, the number of slots for intervals, where
# the table lists the first row of each group of series (and, after the last, the number of all rows), and where the
# number of series that have an interval in each row.
LAYOUT_STEPS, LAYOUT_SLOTS, LAYOUT_ROWS, LAYOUT_ACTIVE, LAYOUT_HEAD = range(5)


@dataclass
class Carry:
    """The carried quantities with their shapes and offsets, in the order in which `init` returned them."""

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


Known = Callable[[Use, str], np.ndarray | None]  # entries of a field that are constants, NaN for the others


class Traced:
    """The three parts of a kernel as one graph with named inputs and outputs.

    `abreast` is the number of series in a group: a scan over nodes takes so many at a time. `inside` are the fields
    (record, name) that kernels alone read.
    """

    def __init__(
        self,
        kernel: Kernel,
        known: Known = Use.known,
        *,
        largest: int | None = None,
        abreast: int = 1,
        inside: Container[tuple[str, str]] = (),
    ) -> None:
        self.kernel, self._known, self._inside = kernel, known, inside
        self.abreast = abreast if isinstance(kernel, NodeScan) and kernel.by_series else 1
        in_lanes = isinstance(kernel, LaneScan) or self.abreast > 1
        self._new_graph = lambda: Graph(_largest(kernel) if largest is None else largest, abreast=in_lanes)
        self.carry = Carry()
        self._trace_scan(kernel)
        self.final = self._trace(kernel.final, carried=True) if kernel.final else {}
        self.kinds = self._kinds()

    def _trace_scan(self, kernel: Kernel) -> None:
        """Trace `init` and `body`; if the kernel fixes fields, with carried entries that stay at a constant as such.

        The Jacobian of states that never move is an example. First all entries that begin as constants are taken for
        such; as long as the body makes something else of some, it is traced again without these.
        """
        self._lasting: dict[str, np.ndarray] = {}
        while True:
            self.graph = self._new_graph()
            self.init = self._trace(kernel.init, carried=False) if kernel.init else {}
            self.carry.shapes = {name: nodes.shape for name, nodes in self.init.items()}
            if kernel.fixes and not self._lasting:
                self._lasting = {name: self._constants(nodes) for name, nodes in self.init.items()}
            begun = self._lasting
            self.body = self._trace(kernel.body, carried=True) if kernel.body else {}
            self._lasting = {
                name: np.where(self._constants(self.body[name]) == value, value, math.nan)
                for name, value in begun.items()
                if name in self.body
            }
            if all(np.array_equal(self._lasting[name], begun[name], equal_nan=True) for name in self._lasting):
                break
        for name, value in self._lasting.items():
            for i in np.flatnonzero(~np.isnan(value)).tolist():
                self.body[name].flat[i] = self.graph.input("carry", name, i)

    def fixed(self, name: str) -> np.ndarray:
        """Return the entries of a field that the kernel fixes: their values where they are constants, NaN elsewhere."""
        return self._constants({**self.body, **self.final}[name])

    def _constants(self, nodes: np.ndarray) -> np.ndarray:
        """Return the values of nodes that are constants, NaN for the others."""
        values = [self.graph.value(n) for n in nodes.ravel().tolist()]
        return np.array([math.nan if v is None else v for v in values]).reshape(nodes.shape)

    def is_needed(self, name: str, i: int, node: int) -> bool:
        """Tell whether an output is to be written: not a constant that all readers know."""
        use = self.use_of(name)
        if self.graph.value(node) is None or (use.record.name, name.removesuffix(use.suffix)) not in self._inside:
            return True
        known = self.fixed(name) if name in self.kernel.fixes else self._known(use, name)
        return known is None or math.isnan(float(known.ravel()[i]))

    def is_sum(self, name: str) -> bool:
        """Tell whether a field is one that series share and this kernel adds to, or raises."""
        return name in self.final and self.use_of(name).record.kind == "shared"

    def _kinds(self) -> list[str]:
        """Return the LLVM type of every node."""
        truths = {"eq", "ne", "lt", "le", "and", "or", "not"}
        kinds: list[str] = []
        for op in self.graph.ops:
            if op[0] == "const":
                kinds.append("i1" if isinstance(op[1], bool) else "double")
            elif op[0] == "select":
                kinds.append(kinds[op[2]])
            else:
                kinds.append("i1" if op[0] in truths else "double")
        return kinds

    def changes(self) -> list[tuple[str, int, int]]:
        """List (name, index, node) of all that one turn of the body writes, save carried entries that stay the same."""
        return [(name, i, n) for name, i, n in flat(self.body) if self.graph.ops[n] != ("input", "carry", name, i)]

    def held(self) -> dict[int, int]:
        """Return the carried entries that no turn of the body changes, as node -> node of their first value."""
        first = {("input", "carry", name, i): n for name, i, n in flat(self.init)}
        ops = ((n, self.graph.ops[n], name, i) for name, i, n in flat(self.body))
        return {n: first[op] for n, op, name, i in ops if op == ("input", "carry", name, i)}

    def is_large(self) -> bool:
        """Tell whether the scan needs further loops inside, since it has arrays in memory or a large output."""
        outputs = [*self.init.values(), *self.body.values(), *self.final.values()]
        return bool(self.graph.statements) or any(nodes.size > MANY for nodes in outputs)

    def use_of(self, name: str) -> Use:
        return self.kernel.use_of(name)

    def _trace(self, function: KernelPart, *, carried: bool) -> dict[str, np.ndarray]:
        arguments = {name: self._argument(name, carried) for name in inspect.signature(function).parameters}
        written = function(**{name: NodeArray(self.graph, nodes) for name, nodes in arguments.items()})
        out = {name: nodes_in(self.graph, value).copy() for name, value in written.items()}
        if carried:
            for name, nodes in out.items():
                expected = self.carry.shapes.get(name)
                if expected is None or function is self.kernel.final:
                    expected = self.use_of(name).shape(name)
                if nodes.shape != tuple(expected):
                    raise ValueError(
                        f"kernel {self.kernel.name}: '{name}' has shape {nodes.shape}, expected {expected}"
                    )
        return out

    def _argument(self, name: str, carried: bool) -> np.ndarray:
        g = self.graph
        if name == "s":
            return np.asarray(g.input("s"), dtype=np.int64)
        if carried and name in self.carry.shapes:
            shape, kind, use, known = self.carry.shapes[name], "carry", None, self._lasting.get(name)
        else:
            use = self.use_of(name)
            shape, kind, known = use.shape(name), "field", self._known(use, name)
        nodes = np.empty(size_of(shape), dtype=np.int64)
        g.sizes[kind, name] = nodes.size
        if use is not None and use.record.kind == "lane":
            g.scattered.add((kind, name))
        for i in range(nodes.size):
            value = math.nan if known is None else float(known.ravel()[i])
            nodes[i] = g.input(kind, name, i) if math.isnan(value) else g.const(value)
        return nodes.reshape(shape)


def _largest(kernel: Kernel) -> int:
    """Return the largest number of multiplications of a product that is written out.

    Measured on models of 3 to 12 states: over nodes, where LLVM takes longest, loops cost little from 6 states on; with
    lanes abreast they cost a tenth of the time up to 7 states, and from 8 on save some.
    """
    by_interval = [use.record.fields.values() for use in kernel.uses if use.record.kind in ("lane", "step")]
    entries = max((size_of(shape) for shapes in by_interval for shape in shapes), default=0)
    return 2 * WRITTEN_OUT if isinstance(kernel, LaneScan) and entries < 64 else WRITTEN_OUT


class Tracing:
    """Traces kernels that work on the same records; entries that one of them fixes are constants in all the others.

    Nobody writes such a constant if its field (record, name) is `inside`, read by kernels alone.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        *,
        largest: int | None = None,
        abreast: int = 1,
        inside: Container[tuple[str, str]] = (),
    ) -> None:
        self._largest, self._abreast, self._inside = largest, abreast, inside
        self._writers: dict[tuple[str, str], tuple[Kernel, str]] = {}
        self._done: dict[str, Traced] = {}
        for kernel in kernels:
            for name in kernel.fixes:
                use = kernel.use_of(name)
                self._writers[use.record.name, name.removesuffix(use.suffix)] = kernel, name

    def __call__(self, kernel: Kernel) -> Traced:
        if kernel.name not in self._done:
            self._done[kernel.name] = Traced(
                kernel, self._known, largest=self._largest, abreast=self._abreast, inside=self._inside
            )
        return self._done[kernel.name]

    def _known(self, use: Use, name: str) -> np.ndarray | None:
        writer = self._writers.get((use.record.name, name.removesuffix(use.suffix)))
        if writer is None:
            return use.known(name)
        kernel, written = writer
        return self(kernel).fixed(written)


def flat(outputs: dict[str, np.ndarray]) -> list[tuple[str, int, int]]:
    return [(name, i, int(n)) for name, nodes in outputs.items() for i, n in enumerate(nodes.ravel())]


def nodes_of(outputs: dict[str, np.ndarray]) -> list[int]:
    return [n for _, _, n in flat(outputs)]
