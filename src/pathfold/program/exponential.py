"""The exponential in LLVM's assembly, without branches and calls: inlined into loops over lanes it is vectorised.

    e^x = 2^k e^r,  k = rint(x / log 2),  |r| <= log(2) / 2,

with e^r by its series to r^13 (what is left out is below 4e-18). x - k log 2 takes log 2 in two parts, the first with
enough trailing zeros for k times it to be exact. Adding 1.5 2^52 rounds to an integer, and leaves it in the last bits.
2^k is applied in two halves, so that overflow and numbers below the normal range come out right. NaN stays NaN. Nothing
here may be reassociated, so these operations have no fast-math flags.
"""

from __future__ import annotations

import math
import struct

NAME = "pathfold.exp"
LOG2_HIGH, LOG2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")  # fdlibm's, e_exp.c
LOWEST, HIGHEST = -746.0, 710.0  # beyond these it is 0 and infinite
ROUNDING = 1.5 * 2.0**52
DEGREE = 13  # four terms at a time, so that few operations wait for each other


def literal(value: float) -> str:
    """A constant, to the bit."""
    return "0x" + struct.pack(">d", value).hex().upper()


def definition() -> str:
    lines: list[str] = []

    def value(text: str) -> str:
        lines.append(f"  %e{len(lines)} = {text}")
        return f"%e{len(lines) - 1}"

    def fused(a: str, b: str, c: str) -> str:
        return value(f"call double @llvm.fmuladd.f64(double {a}, double {b}, double {c})")

    def called(name: str, a: str, b: str) -> str:
        return value(f"call double @llvm.{name}.f64(double {a}, double {b})")

    def power_of_two(k: str) -> str:
        biased = value(f"add i64 {k}, 1023")
        return value(f"bitcast i64 {value(f'shl i64 {biased}, 52')} to double")

    x = called("minimum", called("maximum", "%x", literal(LOWEST)), literal(HIGHEST))
    shifted = fused(x, literal(1.0 / math.log(2.0)), literal(ROUNDING))
    k = value(f"fsub double {shifted}, {literal(ROUNDING)}")
    r = fused(k, literal(-LOG2_LOW), fused(k, literal(-LOG2_HIGH), x))
    square = value(f"fmul double {r}, {r}")
    fourth = value(f"fmul double {square}, {square}")
    pairs = [
        fused(r, literal(1.0 / math.factorial(i + 1)), literal(1.0 / math.factorial(i))) for i in range(2, DEGREE, 2)
    ]
    quads = [fused(square, high, low) for low, high in zip(pairs[::2], pairs[1::2], strict=True)]
    total = quads[-1]
    for quad in reversed(quads[:-1]):
        total = fused(fourth, total, quad)
    beyond = fused(square, total, r)
    series = value(f"fadd double {beyond}, {literal(1.0)}")
    bits = value(f"bitcast double {shifted} to i64")
    whole = value(f"sub i64 {bits}, {struct.unpack('>q', struct.pack('>d', ROUNDING))[0]}")
    half = value(f"ashr i64 {whole}, 1")
    part = value(f"fmul double {series}, {power_of_two(half)}")
    result = value(f"fmul double {part}, {power_of_two(value(f'sub i64 {whole}, {half}'))}")
    head = f"define internal double @{NAME}(double %x) alwaysinline {{"
    return "\n".join([head, *lines, f"  ret double {result}", "}"])


DECLARATIONS = frozenset(
    {
        definition(),
        "declare double @llvm.fmuladd.f64(double, double, double)",
        "declare double @llvm.maximum.f64(double, double)",
        "declare double @llvm.minimum.f64(double, double)",
    }
)
