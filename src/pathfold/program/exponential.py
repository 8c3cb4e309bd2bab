"""The exponential in LLVM's assembly, without branches and calls: inlined into loops over lanes it is vectorised.

    e^x = 2^k e^r,  k = rint(x / log 2),  |r| <= log(2) / 2,

with e^r by its series to r^13 (the remainder is below 4e-18). x - k log 2 takes log 2 in two parts, the first with
enough trailing zeros for k times it to be exact. Adding 1.5 2^52 rounds to an integer, and leaves it in the last bits.
2^k is applied in two halves, so that overflow and numbers below the normal range come out right. NaN stays NaN. Nothing
here may be reassociated, so these operations have no fast-math flags.
"""

from __future__ import annotations

import math
import struct
from functools import cache

NAME = "pathfold.exp"
LOG2_HIGH, LOG2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")  # fdlibm's, e_exp.c
LOWEST, HIGHEST = -746.0, 710.0  # below and above, the exponential is 0 and infinite
ROUNDING = 1.5 * 2.0**52
DEGREE = 13  # of the series, summed four terms at a time so that few operations wait for each other


def literal(value: float) -> str:
    """Write a constant in hexadecimal, so that LLVM reads it to the last bit."""
    return "0x" + struct.pack(">d", value).hex().upper()


def name_of(width: int) -> str:
    return NAME if width == 1 else f"{NAME}.v{width}"


def _definition(width: int) -> str:
    """Return the assembly of the exponential of a vector of `width` numbers, or of one number if that is 1."""
    lines: list[str] = []
    number, integer = ("double", "i64") if width == 1 else (f"<{width} x double>", f"<{width} x i64>")
    suffix = "f64" if width == 1 else f"v{width}f64"

    def value(text: str) -> str:
        lines.append(f"  %e{len(lines)} = {text}")
        return f"%e{len(lines) - 1}"

    def real(c: float) -> str:
        return literal(c) if width == 1 else f"splat (double {literal(c)})"

    def whole_number(c: int) -> str:
        return str(c) if width == 1 else f"splat (i64 {c})"

    def fused(a: str, b: str, c: str) -> str:
        return value(f"call {number} @llvm.fmuladd.{suffix}({number} {a}, {number} {b}, {number} {c})")

    def called(name: str, a: str, b: str) -> str:
        return value(f"call {number} @llvm.{name}.{suffix}({number} {a}, {number} {b})")

    def power_of_two(k: str) -> str:
        biased = value(f"add {integer} {k}, {whole_number(1023)}")
        return value(f"bitcast {integer} {value(f'shl {integer} {biased}, {whole_number(52)}')} to {number}")

    x = called("minimum", called("maximum", "%x", real(LOWEST)), real(HIGHEST))
    shifted = fused(x, real(1.0 / math.log(2.0)), real(ROUNDING))
    k = value(f"fsub {number} {shifted}, {real(ROUNDING)}")
    r = fused(k, real(-LOG2_LOW), fused(k, real(-LOG2_HIGH), x))
    square = value(f"fmul {number} {r}, {r}")
    fourth = value(f"fmul {number} {square}, {square}")
    pairs = [fused(r, real(1.0 / math.factorial(i + 1)), real(1.0 / math.factorial(i))) for i in range(2, DEGREE, 2)]
    quads = [fused(square, high, low) for low, high in zip(pairs[::2], pairs[1::2], strict=True)]
    total = quads[-1]
    for quad in reversed(quads[:-1]):
        total = fused(fourth, total, quad)
    beyond = fused(square, total, r)
    series = value(f"fadd {number} {beyond}, {real(1.0)}")
    bits = value(f"bitcast {number} {shifted} to {integer}")
    rounding = struct.unpack(">q", struct.pack(">d", ROUNDING))[0]
    whole = value(f"sub {integer} {bits}, {whole_number(rounding)}")
    half = value(f"ashr {integer} {whole}, {whole_number(1)}")
    part = value(f"fmul {number} {series}, {power_of_two(half)}")
    result = value(f"fmul {number} {part}, {power_of_two(value(f'sub {integer} {whole}, {half}'))}")
    head = f"define internal {number} @{name_of(width)}({number} %x) alwaysinline {{"
    return "\n".join([head, *lines, f"  ret {number} {result}", "}"])


@cache
def declarations(width: int) -> frozenset[str]:
    """Return the definition of the exponential and the declarations of the functions that it calls."""
    number, suffix = ("double", "f64") if width == 1 else (f"<{width} x double>", f"v{width}f64")
    called = {
        f"declare {number} @llvm.fmuladd.{suffix}({number}, {number}, {number})",
        f"declare {number} @llvm.maximum.{suffix}({number}, {number})",
        f"declare {number} @llvm.minimum.{suffix}({number}, {number})",
    }
    return frozenset({_definition(width), *called})
