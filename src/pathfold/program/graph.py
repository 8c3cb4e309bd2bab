"""Scalar expression graphs: every node is one floating-point (or truth-valued) operation on earlier nodes.

Nodes are numbered in the order they are made, so a node's arguments always precede it. Building a node folds constants,
drops zeros and ones, writes divisions as products with reciprocals (which are shared, and hoisted out of loops when
they are invariant), and returns the existing node when the same operation on the same arguments was built before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.special

Node = int

_COMMUTATIVE = {"add", "mul", "max", "min", "eq", "ne", "and", "or"}

# The value of an operation whose arguments are all constants.
_VALUE: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "recip": lambda a: np.divide(1.0, a),
    "pow": np.power,
    "rem": np.fmod,
    "atan2": np.arctan2,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "lgamma": scipy.special.gammaln,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "not": lambda a: not a,
    "select": lambda c, a, b: a if c else b,
}

WRITTEN_OUT = 200  # multiplications of a product that is written out; a larger one is a loop


class Graph:
    """A growing set of scalar operations with sharing; `ops[i]` is (operation, *arguments) of node i."""

    def __init__(self, largest: int = WRITTEN_OUT, *, abreast: bool = True) -> None:
        self.ops: list[tuple] = []
        self._known: dict[tuple, Node] = {}
        self.applied: dict[tuple, Any] = {}  # programs with the nodes that were substituted (programs.py)
        # Arrays in memory (arrays.py).
        self.largest = largest
        self.abreast = abreast  # lanes stand side by side in memory; otherwise the entries of arrays do, ...
        self.scattered: set[tuple] = set()  # ... except those of these fields
        self.statements: list = []  # one for each array, which it computes
        self.sizes: dict[tuple, int] = {}  # of arrays, and of the fields and carried quantities that are read
        # Kept by roll.py: the array that holds given nodes, the number of the form of each node, and these numbers.
        self.filled: dict[tuple, int] = {}
        self.signatures: list[int] = []
        self.forms: dict[tuple, int] = {}

    def _intern(self, key: tuple) -> Node:
        node = self._known.get(key)
        if node is None:
            node = len(self.ops)
            self.ops.append(key)
            self._known[key] = node
        return node

    def const(self, value: float | bool) -> Node:
        if isinstance(value, (bool, np.bool_)):
            return self._intern(("const", bool(value)))
        value = float(value)
        # 0.0 == -0.0 and nan != nan as dictionary keys: the textual form tells them apart.
        return self._intern(("const", value, repr(value)))

    def input(self, *name) -> Node:
        """Return the node of a scalar that is given from outside, known by `name`."""
        return self._intern(("input", *name))

    def value(self, node: Node) -> float | bool | None:
        """Return the value of a constant node, None for any other."""
        op = self.ops[node]
        return op[1] if op[0] == "const" else None

    def op(self, name: str, *args: Node) -> Node:
        """Return the node of an operation, simplified."""
        values = [self.value(a) for a in args]
        if all(v is not None for v in values):
            with np.errstate(all="ignore"):
                return self.const(_VALUE[name](*values))
        simpler = _SIMPLIFY.get(name)
        if simpler is not None:
            node = simpler(self, args, values)
            if node is not None:
                return node
        if name in _COMMUTATIVE:
            args = tuple(sorted(args))
        return self._intern((name, *args))

    def div(self, a: Node, b: Node) -> Node:
        va, vb = self.value(a), self.value(b)
        if va is not None and vb is not None:
            with np.errstate(all="ignore"):
                return self.const(np.divide(va, vb))
        return self.op("mul", a, self.op("recip", b))

    def sum(self, nodes: Iterable[Node]) -> Node:
        total = self.const(0.0)
        for node in nodes:
            total = self.op("add", total, node)
        return total

    def integer_power(self, base: Node, exponent: int) -> Node:
        """Return the node of base ** exponent, by repeated squaring."""
        if exponent < 0:
            return self.op("recip", self.integer_power(base, -exponent))
        result, square = None, base
        while exponent:
            if exponent & 1:
                result = square if result is None else self.op("mul", result, square)
            exponent >>= 1
            if exponent:
                square = self.op("mul", square, square)
        return self.const(1.0) if result is None else result

    def _negated(self, node: Node) -> Node | None:
        """Return a if the node is -a, otherwise None."""
        op = self.ops[node]
        return op[1] if op[0] == "neg" else None


def _add(g: Graph, args, values):
    (a, b), (va, vb) = args, values
    if va == 0.0:
        return b
    if vb == 0.0:
        return a
    if (nb := g._negated(b)) is not None:
        return g.op("sub", a, nb)
    if (na := g._negated(a)) is not None:
        return g.op("sub", b, na)
    return None


def _sub(g: Graph, args, values):
    (a, b), (va, vb) = args, values
    if vb == 0.0:
        return a
    if va == 0.0:
        return g.op("neg", b)
    if a == b:
        return g.const(0.0)
    if (nb := g._negated(b)) is not None:
        return g.op("add", a, nb)
    return None


def _mul(g: Graph, args, values):
    (a, b), (va, vb) = args, values
    if va is None and vb is not None:
        a, b, va, vb = b, a, vb, va
    if va is not None:
        if va == 0.0:
            return g.const(0.0)
        if va == 1.0:
            return b
        if va == -1.0:
            return g.op("neg", b)
        op = g.ops[b]
        if op[0] == "neg":
            return g.op("mul", g.const(-va), op[1])
        if op[0] == "mul":
            for inner, other in ((op[1], op[2]), (op[2], op[1])):
                if (vi := g.value(inner)) is not None:
                    return g.op("mul", g.const(va * vi), other)
        return None
    na, nb = g._negated(a), g._negated(b)
    if na is not None or nb is not None:
        product = g.op("mul", a if na is None else na, b if nb is None else nb)
        return product if na is not None and nb is not None else g.op("neg", product)
    return None


def _neg(g: Graph, args, values):
    op = g.ops[args[0]]
    if op[0] == "neg":
        return op[1]
    if op[0] == "sub":
        return g.op("sub", op[2], op[1])
    return None


def _recip(g: Graph, args, values):
    op = g.ops[args[0]]
    return op[1] if op[0] == "recip" else None


def _pow(g: Graph, args, values):
    exponent = values[1]
    if exponent is None:
        return None
    if exponent == 0.5:
        return g.op("sqrt", args[0])
    if exponent == -0.5:
        return g.op("recip", g.op("sqrt", args[0]))
    if math.isfinite(exponent) and exponent == int(exponent) and abs(exponent) <= 16:
        return g.integer_power(args[0], int(exponent))
    return None


def _select(g: Graph, args, values):
    _, a, b = args
    if values[0] is not None:
        return a if values[0] else b
    return a if a == b else None


def _ne(g: Graph, args, values):
    """Return the truth value of which a number is 1 or 0, where it is compared with 0."""
    for value, other in ((values[0], args[1]), (values[1], args[0])):
        op = g.ops[other]
        if value == 0.0 and op[0] == "select" and (g.value(op[2]), g.value(op[3])) == (1.0, 0.0):
            return op[1]
    return None


def _same(g: Graph, args, values):
    return args[0] if args[0] == args[1] else None


def _and(g: Graph, args, values):
    for value, other in ((values[0], args[1]), (values[1], args[0])):
        if value is not None:
            return other if value else g.const(False)
    return _same(g, args, values)


def _or(g: Graph, args, values):
    for value, other in ((values[0], args[1]), (values[1], args[0])):
        if value is not None:
            return g.const(True) if value else other
    return _same(g, args, values)


_SIMPLIFY = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "neg": _neg,
    "recip": _recip,
    "pow": _pow,
    "select": _select,
    "max": _same,
    "min": _same,
    "ne": _ne,
    "and": _and,
    "or": _or,
}
