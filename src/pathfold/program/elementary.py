"""Exponential and logarithm in LLVM's assembly, without branches and calls: inlined into loops over lanes they are
vectorised, and nothing has to leave the registers for them.

    e^x = 2^k e^r,  k = rint(x / log 2),  |r| <= log(2) / 2,

with e^r by its series to r^13 (the remainder is below 4e-18). x - k log 2 takes log 2 in two parts, the first with
enough trailing zeros for k times it to be exact. Adding 1.5 2^52 rounds to an integer, and leaves it in the last bits.
2^k is applied in two halves, so that overflow and numbers below the normal range come out right.

    log x = k log 2 + log(1 + f),  x = 2^k (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2),
    log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + 2 s^2 / 3 + 2 s^4 / 5 + ...),  s = f / (2 + f),

with the series to s^22. NaN stays NaN. Nothing here may be reassociated, so these operations have no fast-math flags.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cache

LOG2_HIGH, LOG2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")  # fdlibm's, e_exp.c
LOWEST, HIGHEST = -746.0, 710.0  # below and above, the exponential is 0 and infinite
ROUNDING = 1.5 * 2.0**52
DEGREE = 13  # of the series of e^r, summed four terms at a time so that few operations wait for each other
TERMS = 11  # of the series in s^2
LEAST_NORMAL, LIFT = 2.0**-1022, 54  # smaller numbers are multiplied by 2^54 first


def literal(value: float) -> str:
    """Write a constant in hexadecimal, so that LLVM reads it to the last bit."""
    return "0x" + struct.pack(">d", value).hex().upper()


def name_of(function: str, width: int) -> str:
    return f"pathfold.{function}" if width == 1 else f"pathfold.{function}.v{width}"


def _bits(value: float) -> int:
    return struct.unpack(">q", struct.pack(">d", value))[0]


class _Text:
    """The text of a function of a vector of `width` numbers, or of one number if that is 1, as it grows."""

    def __init__(self, width: int) -> None:
        self.lines: list[str] = []
        self.wide = width > 1
        self.number, self.integer = (f"<{width} x double>", f"<{width} x i64>") if self.wide else ("double", "i64")
        self.suffix = f"v{width}f64" if self.wide else "f64"

    def value(self, text: str) -> str:
        self.lines.append(f"  %e{len(self.lines)} = {text}")
        return f"%e{len(self.lines) - 1}"

    def real(self, c: float) -> str:
        return f"splat (double {literal(c)})" if self.wide else literal(c)

    def of_reals(self, operation: str, a: str, b: str) -> str:
        return self.value(f"{operation} {self.number} {a}, {b}")

    def of_integers(self, operation: str, a: str, b: str | int) -> str:
        b = b if isinstance(b, str) else f"splat (i64 {b})" if self.wide else str(b)
        return self.value(f"{operation} {self.integer} {a}, {b}")

    def fused(self, a: str, b: str, c: str) -> str:
        n = self.number
        return self.value(f"call {n} @llvm.fmuladd.{self.suffix}({n} {a}, {n} {b}, {n} {c})")

    def called(self, name: str, a: str, b: str) -> str:
        return self.value(f"call {self.number} @llvm.{name}.{self.suffix}({self.number} {a}, {self.number} {b})")

    def bits_of(self, x: str) -> str:
        return self.value(f"bitcast {self.number} {x} to {self.integer}")

    def of_bits(self, bits: str) -> str:
        return self.value(f"bitcast {self.integer} {bits} to {self.number}")

    def power_of_two(self, k: str) -> str:
        return self.of_bits(self.of_integers("shl", self.of_integers("add", k, 1023), 52))

    def chosen(self, comparison: str, a: str, b: str, value: str, otherwise: str) -> str:
        truth = self.of_reals(f"fcmp {comparison}", a, b)
        kind = self.number.replace("double", "i1")
        return self.value(f"select {kind} {truth}, {self.number} {value}, {self.number} {otherwise}")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """c_0 + c_1 x + c_2 x^2 + ..., a multiple of four terms, four at a time."""
        square = self.of_reals("fmul", x, x)
        fourth = self.of_reals("fmul", square, square)
        pairs = [
            self.fused(x, self.real(b), self.real(a))
            for a, b in zip(coefficients[::2], coefficients[1::2], strict=True)
        ]
        quads = [self.fused(square, high, low) for low, high in zip(pairs[::2], pairs[1::2], strict=True)]
        total = quads[-1]
        for quad in reversed(quads[:-1]):
            total = self.fused(fourth, total, quad)
        return total


def _exponential(t: _Text) -> str:
    x = t.called("minimum", t.called("maximum", "%x", t.real(LOWEST)), t.real(HIGHEST))
    shifted = t.fused(x, t.real(1.0 / math.log(2.0)), t.real(ROUNDING))
    k = t.of_reals("fsub", shifted, t.real(ROUNDING))
    r = t.fused(k, t.real(-LOG2_LOW), t.fused(k, t.real(-LOG2_HIGH), x))
    total = t.polynomial(r, [1.0 / math.factorial(i) for i in range(2, DEGREE + 1)])
    beyond = t.fused(t.of_reals("fmul", r, r), total, r)
    series = t.of_reals("fadd", beyond, t.real(1.0))
    whole = t.of_integers("sub", t.bits_of(shifted), _bits(ROUNDING))
    half = t.of_integers("ashr", whole, 1)
    part = t.of_reals("fmul", series, t.power_of_two(half))
    return t.of_reals("fmul", part, t.power_of_two(t.of_integers("sub", whole, half)))


def _logarithm(t: _Text) -> str:
    lifted = t.of_reals("fmul", "%x", t.real(2.0**LIFT))
    bits = t.bits_of(t.chosen("olt", "%x", t.real(LEAST_NORMAL), lifted, "%x"))
    from_root = t.of_integers("sub", bits, _bits(math.sqrt(0.5)))
    above = t.of_integers("lshr", t.of_integers("add", from_root, -(2**63)), 52)  # k + 2048, which has no sign
    k = t.of_integers("sub", above, 2048)
    f = t.of_reals("fsub", t.of_bits(t.of_integers("sub", bits, t.of_integers("shl", k, 52))), t.real(1.0))
    counted = t.of_reals("fsub", t.of_bits(t.of_integers("add", k, _bits(ROUNDING))), t.real(ROUNDING))
    fewer = t.of_reals("fsub", counted, t.real(float(LIFT)))
    counted = t.chosen("olt", "%x", t.real(LEAST_NORMAL), fewer, counted)
    s = t.of_reals("fdiv", f, t.of_reals("fadd", f, t.real(2.0)))
    square = t.of_reals("fmul", s, s)
    series = t.polynomial(square, [0.0, *(2.0 / (2 * i + 1) for i in range(1, TERMS + 1))])
    half_square = t.of_reals("fmul", t.of_reals("fmul", f, f), t.real(0.5))
    small = t.fused(s, t.of_reals("fadd", half_square, series), t.of_reals("fmul", counted, t.real(LOG2_LOW)))
    rest = t.of_reals("fsub", t.of_reals("fsub", half_square, small), f)
    log = t.of_reals("fsub", t.of_reals("fmul", counted, t.real(LOG2_HIGH)), rest)
    log = t.chosen("oeq", "%x", t.real(math.inf), t.real(math.inf), log)
    none = t.chosen("oeq", "%x", t.real(0.0), t.real(-math.inf), t.real(math.nan))
    return t.chosen("ogt", "%x", t.real(0.0), log, none)


INLINED = {"exp": _exponential, "log": _logarithm}


@cache
def declarations(function: str, width: int) -> frozenset[str]:
    """Return the definition of an inlined function and the declarations of the functions that it calls."""
    t = _Text(width)
    result, n = INLINED[function](t), t.number
    head = f"define internal {n} @{name_of(function, width)}({n} %x) alwaysinline {{"
    called = [("fmuladd", 3), ("maximum", 2), ("minimum", 2)]
    declared = {f"declare {n} @llvm.{name}.{t.suffix}({', '.join([n] * count)})" for name, count in called}
    return frozenset({"\n".join([head, *t.lines, f"  ret {n} {result}", "}"]), *declared})
