"""Writes a function in LLVM's assembly language: numbered values, labelled blocks, loops.

A value is a number, a truth value, or a vector of these: within `abreast(w)` every operation works on vectors of w.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from pathfold.program.elementary import INLINED, declarations, literal, name_of

# Fast arithmetic that still respects NaN and infinity: the status tests rely on them.
FAST = "reassoc nsz arcp contract afn"
AS_WRITTEN = '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.vectorize.enable", i1 false}'
_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul"}
_COMPARISON = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une"}
_OF_TRUTHS = {"lt": "ult", "le": "ule", "eq": "eq", "ne": "ne"}
_LOGICAL = {"and": "and", "or": "or"}
_INTRINSIC = {
    "max": "maximum",
    "min": "minimum",
    "abs": "fabs",
    "sqrt": "sqrt",
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


# These have forms that work on vectors; every other function is called for one number at a time.
_OF_VECTORS = {"maximum", "minimum", "fabs", "sqrt", "floor", "ceil", "rint"}


def constant(value: float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return literal(value)


class Function:
    """The text of one function as it grows, and the declarations that it needs."""

    def __init__(self) -> None:
        self.lines: list[str] = ["entry:"]
        self.label = "entry"
        self.declared: set[str] = set()
        self.width = 1  # numbers abreast
        self.vectorised = True  # whether LLVM is to look for vectors in the loops
        self._count = 0
        self._ends: list[str] = []  # of the loops that are open

    def new(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def value(self, text: str) -> str:
        """Define a new value by an instruction and return its name."""
        name = self.new()
        self.lines.append(f"  {name} = {text}")
        return name

    @contextmanager
    def abreast(self, width: int) -> Iterator[None]:
        """Let the operations within this context work on vectors of `width` numbers; with width 1, on plain numbers."""
        before, self.width = self.width, width
        yield
        self.width = before

    def type(self, kind: str = "double") -> str:
        return kind if self.width == 1 else f"<{self.width} x {kind}>"

    def constant(self, value: float | bool) -> str:
        kind = "i1" if isinstance(value, bool) else "double"
        return constant(value) if self.width == 1 else f"splat ({kind} {constant(value)})"

    def spread(self, value: str, kind: str = "double") -> str:
        """Copy one value into every entry of a vector."""
        if self.width == 1:
            return value
        vector = self.type(kind)
        first = self.value(f"insertelement {vector} poison, {kind} {value}, i64 0")
        return self.value(f"shufflevector {vector} {first}, {vector} poison, <{self.width} x i32> zeroinitializer")

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Call a function of numbers, once for each entry of the vectors."""
        if self.width > 1:
            return self._one_by_one(function, arguments)
        self.declared.add(f"declare double @{function}({', '.join(['double'] * len(arguments))})")
        return self.value(f"call {FAST} double @{function}({', '.join(f'double {a}' for a in arguments)})")

    def _one_by_one(self, function: str, arguments: Sequence[str]) -> str:
        vector, result = self.type(), "poison"
        for k in range(self.width):
            parts = [self.value(f"extractelement {vector} {a}, i64 {k}") for a in arguments]
            with self.abreast(1):
                called = self.call(function, parts)
            result = self.value(f"insertelement {vector} {result}, double {called}, i64 {k}")
        return result

    def intrinsic(self, name: str, a: Sequence[str]) -> str:
        if self.width == 1 or name not in _OF_VECTORS:
            return self.call(f"llvm.{name}.f64", a)
        vector, function = self.type(), f"llvm.{name}.v{self.width}f64"
        self.declared.add(f"declare {vector} @{function}({', '.join([vector] * len(a))})")
        return self.value(f"call {FAST} {vector} @{function}({', '.join(f'{vector} {x}' for x in a)})")

    def integer(self, operation: str, a: str, b: str) -> str:
        return self.value(f"{operation} i64 {a}, {b}")

    def least(self, a: str, b: str) -> str:
        """Return the smaller of two numbers that are not negative."""
        return self._chosen_integer("umin", a, b)

    def most(self, a: str, b: str) -> str:
        """Return the larger of two numbers that are not negative."""
        return self._chosen_integer("umax", a, b)

    def _chosen_integer(self, which: str, a: str, b: str) -> str:
        self.declared.add(f"declare i64 @llvm.{which}.i64(i64, i64)")
        return self.value(f"call i64 @llvm.{which}.i64(i64 {a}, i64 {b})")

    def address(self, base: str, offset: str) -> str:
        return self.value(f"getelementptr inbounds double, ptr {base}, i64 {offset}")

    def record(self, base: str, offset: str) -> str:
        """Return the address where a record begins, as a thing of its own: LLVM would look for a better way to count to
        each of its fields, in every loop, which takes it a third of its time and finds nothing.
        """
        self.declared.add("declare ptr @llvm.launder.invariant.group.p0(ptr)")
        return self.value(f"call ptr @llvm.launder.invariant.group.p0(ptr {self.address(base, offset)})")

    def load(self, address: str) -> str:
        return self.value(f"load {self.type()}, ptr {address}, align 8")

    def load_again(self, address: str) -> str:
        """Load what was stored before; LLVM would keep the value in a register until then."""
        return self.value(f"load volatile {self.type()}, ptr {address}, align 8")

    def store(self, value: str, address: str) -> None:
        self.lines.append(f"  store {self.type()} {value}, ptr {address}, align 8")

    def number(self, value: str, kind: str) -> str:
        """Convert a value of this kind to the number that stands for it in memory."""
        return value if kind == "double" else self.value(f"uitofp {self.type('i1')} {value} to {self.type()}")

    def of_kind(self, number: str, kind: str) -> str:
        """Convert a number from memory back to a value of this kind."""
        return number if kind == "double" else self.value(f"fcmp une {self.type()} {number}, {self.constant(0.0)}")

    def layout(self, at: int | str) -> str:
        place = self.value(f"getelementptr inbounds i64, ptr %layout, i64 {at}")
        return self.value(f"load i64, ptr {place}, align 8")

    @contextmanager
    def loop(self, count: str, carried: Sequence[str] = ()) -> Iterator[tuple[str, list[str], list[str]]]:
        """Open a loop `for i in range(count)`, count > 0; yield i, the carried values, a list for their next values."""
        before, label = self.label, f"loop{self._count}"
        index, following = self.new(), self.new()
        values = [self.new() for _ in carried]
        results: list[str] = []
        self.lines += [f"  br label %{label}", f"{label}:"]
        head = len(self.lines)
        self.label = label
        self._ends.append(f"{label}.end")
        yield index, values, results
        self._ends.pop()
        end = self.label
        phis = [f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{end} ]"]
        for value, first, last in zip(values, carried, results, strict=True):
            phis.append(f"  {value} = phi {self.type()} [ {first}, %{before} ], [ {last}, %{end} ]")
        self.lines[head:head] = phis
        self.lines.append(f"  {following} = add nuw nsw i64 {index}, 1")
        done = self.value(f"icmp eq i64 {following}, {count}")
        hint = "" if self.vectorised else ", !llvm.loop !0"
        self.declared |= set() if self.vectorised else {AS_WRITTEN}
        self.lines += [f"  br i1 {done}, label %{label}.end, label %{label}{hint}", f"{label}.end:"]
        self.label = f"{label}.end"

    def leave_unless(self, condition: str) -> None:
        """Leave the innermost loop, of which no value is used any more, unless the condition holds."""
        label = f"stay{self.new().removeprefix('%')}"
        self.lines += [f"  br i1 {condition}, label %{label}, label %{self._ends[-1]}", f"{label}:"]
        self.label = label

    @contextmanager
    def when(self, condition: str, values: Sequence[str] = ()) -> Iterator[list[str]]:
        """Open a block that is run only if the condition holds; yield a list for values that take the place of these.

        After the block the list holds the values as they are in either case.
        """
        before, label, results = self.label, f"when{self.new().removeprefix('%')}", []
        self.lines += [f"  br i1 {condition}, label %{label}, label %{label}.end", f"{label}:"]
        self.label = label
        yield results
        self.lines += [f"  br label %{label}.end", f"{label}.end:"]
        inside, self.label = self.label, f"{label}.end"
        for i, (value, changed) in enumerate(zip(values, list(results), strict=True)):
            results[i] = self.value(f"phi {self.type()} [ {changed}, %{inside} ], [ {value}, %{before} ]")

    def any(self, truths: str) -> str:
        """Return whether one of the truth values of a vector holds."""
        if self.width == 1:
            return truths
        vector, function = self.type("i1"), f"llvm.vector.reduce.or.v{self.width}i1"
        self.declared.add(f"declare i1 @{function}({vector})")
        return self.value(f"call i1 @{function}({vector} {truths})")

    def lanes_below(self, count: str) -> str:
        """Return the vector of truth values that says which lanes have a number below `count`."""
        numbers = ", ".join(f"i64 {k}" for k in range(self.width))
        return self.value(f"icmp ult {self.type('i64')} <{numbers}>, {self.spread(count, 'i64')}")

    def chosen(self, where: str, value: str, otherwise: str | None = None) -> str:
        """Choose between two vectors of numbers, lane by lane; the second is zero if it is not given."""
        return self.operation("select", "double", "i1", (where, value, otherwise or self.constant(0.0)))

    def in_first_lane(self, value: str) -> str:
        """Return a vector with a number in its first lane, and zeros in the others."""
        return self.value(f"insertelement {self.type()} {self.constant(0.0)}, double {value}, i64 0")

    def joined(self, operation: str, vector: str) -> str:
        """Apply an operation of two numbers to all lanes of a vector, in order."""
        lanes = [self.value(f"extractelement {self.type()} {vector}, i64 {k}") for k in range(self.width)]
        with self.abreast(1):
            return reduce(lambda a, b: self.operation(operation, "double", "double", (a, b)), lanes)

    def operation(self, name: str, kind: str, of: str, a: Sequence[str]) -> str:
        """Apply an operation to the values `a`, the first of type `of`; the result has type `kind`."""
        number = self.type()
        if name in _BINARY:
            return self.value(f"{_BINARY[name]} {FAST} {number} {a[0]}, {a[1]}")
        if name in _COMPARISON:
            compare = f"icmp {_OF_TRUTHS[name]}" if of == "i1" else f"fcmp {_COMPARISON[name]}"
            return self.value(f"{compare} {self.type(of)} {a[0]}, {a[1]}")
        if name in _LOGICAL:
            return self.value(f"{_LOGICAL[name]} {self.type('i1')} {a[0]}, {a[1]}")
        if name == "not":
            return self.value(f"xor {self.type('i1')} {a[0]}, {self.constant(True)}")
        if name == "neg":
            return self.value(f"fneg {FAST} {number} {a[0]}")
        if name == "recip":
            return self.value(f"fdiv {FAST} {number} {self.constant(1.0)}, {a[0]}")
        if name == "select":
            return self.value(f"select {self.type('i1')} {a[0]}, {self.type(kind)} {a[1]}, {self.type(kind)} {a[2]}")
        if name in INLINED:
            self.declared |= declarations(name, self.width)
            return self.value(f"call {number} @{name_of(name, self.width)}({number} {a[0]})")
        if name in _INTRINSIC:
            return self.intrinsic(_INTRINSIC[name], a)
        return self.call(_LIBRARY[name], a)
