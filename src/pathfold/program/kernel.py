"""Kernels: scans written as small JAX functions of named arrays, traced into one scalar graph.

`init` gives the carried quantities, `body` maps them (and the fields of one step) to their next values (and new field
values), `final` writes what is left over. Argument names say what is read; the keys of the returned dictionary say what
is written.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from pathfold.program.graph import Graph
from pathfold.program.layout import Use, size_of
from pathfold.program.trace import trace

Function = Callable[..., dict]


@dataclass(frozen=True)
class Kernel:
    """A scan by name, with the records it uses and its three functions."""

    name: str
    uses: Sequence[Use]
    body: Function | None = None
    init: Function | None = None
    final: Function | None = None
    reverse: bool = False
    fixes: tuple[str, ...] = ()  # fields whose constant entries every reader may rely on: this kernel alone writes them


class LaneScan(Kernel):
    """Over the fine steps of one chunk of intervals, all lanes abreast."""


class NodeScan(Kernel):
    """Over the nodes of one series, one after the other."""


SHARED, INTERVAL, STEP = 0, 1, 2  # how often a quantity changes

# The layout table begins with these: steps an interval, chunks, series, where the first interval of each series is
# listed.
LAYOUT_STEPS, LAYOUT_CHUNKS, LAYOUT_SERIES, LAYOUT_FIRST, LAYOUT_HEAD = range(5)


@dataclass
class Carry:
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


class Traced:
    """The three parts of a kernel as one graph with named inputs and outputs."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.graph = Graph()
        self.carry = Carry()
        self.init = self._trace(kernel.init, carried=False) if kernel.init else {}
        self.carry.shapes = {name: nodes.shape for name, nodes in self.init.items()}
        self.body = self._trace(kernel.body, carried=True) if kernel.body else {}
        self.final = self._trace(kernel.final, carried=True) if kernel.final else {}
        for name in kernel.fixes:
            nodes = {**self.body, **self.final}[name]
            use = self.use_of(name)
            values = [self.graph.value(n) for n in nodes.ravel().tolist()]
            use.record.known[name.removesuffix(use.suffix)] = np.array(
                [math.nan if v is None else v for v in values]
            ).reshape(nodes.shape)

        self.kinds = self._kinds()

    def _kinds(self) -> list[str]:
        """The LLVM type of every node."""
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
        """What one turn of the body writes: (name, index, node), without carried quantities that stay as they are."""
        return [(name, i, n) for name, i, n in flat(self.body) if self.graph.ops[n] != ("input", "carry", name, i)]

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
                    raise ValueError(
                        f"kernel {self.kernel.name}: '{name}' has shape {nodes.shape}, expected {expected}"
                    )
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
    return jnp.asarray(value, dtype=float)


def flat(outputs: dict[str, np.ndarray]) -> list[tuple[str, int, int]]:
    return [(name, i, int(n)) for name, nodes in outputs.items() for i, n in enumerate(nodes.ravel())]


def nodes_of(outputs: dict[str, np.ndarray]) -> list[int]:
    return [n for _, _, n in flat(outputs)]
