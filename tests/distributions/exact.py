"""Likelihoods and distribution functions by their textbook formulas, in decimals of a hundred digits.

So many that differences give three derivatives, and that the smaller of two probabilities comes out as 1 - the larger.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import comb

DIGITS = 100
STEP = Decimal("1e-15")  # what differences leave out is its square
PI = Decimal(
    "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679821480865132823"
)


def derivatives(f: Callable[[Decimal], tuple[Decimal, ...]], t: float) -> list[list[Decimal]]:
    """For each number that f returns, it and its first three derivatives at t."""
    with localcontext(prec=DIGITS):
        points = [f(Decimal(t) + i * STEP) for i in range(-2, 3)]
        return [_differences(*values) for values in zip(*points, strict=True)]


def _differences(far_left: Decimal, left: Decimal, here: Decimal, right: Decimal, far_right: Decimal) -> list[Decimal]:
    first = (right - left) / (2 * STEP)
    second = (right - 2 * here + left) / STEP**2
    third = (far_right - 2 * right + 2 * left - far_left) / (2 * STEP**3)
    return [here, first, second, third]


def sign(x: Decimal) -> int:
    return 1 if x > 0 else -1


def xlog(x: Decimal, y: Decimal) -> Decimal:
    return x * y.ln() if x else Decimal(0)


@cache
def bernoulli(n: int) -> Fraction:
    """The Bernoulli number B_n."""
    return Fraction(1) if n == 0 else -sum((comb(n + 1, k) * bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


@cache
def stirling_coefficients() -> list[Decimal]:
    with localcontext(prec=DIGITS):
        return [Decimal(bernoulli(n).numerator) / (bernoulli(n).denominator * n * (n - 1)) for n in range(2, 76, 2)]


def log_gamma(x: Decimal) -> Decimal:
    """By Stirling's series, at forty or above: to seventy digits, with an error that is smooth."""
    product = Decimal(1)
    while x < 40:
        product *= x
        x += 1
    total, square = Decimal(0), 1 / (x * x)
    for c in reversed(stirling_coefficients()):
        total = total * square + c
    return (x - Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2 + total / x - product.ln()


def series(ratio: Callable[[int], Decimal]) -> Decimal:
    """1 + r(0) + r(0) r(1) + ..."""
    total = term = Decimal(1)
    n = 0
    while term > total * Decimal(10) ** -DIGITS:
        term *= ratio(n)
        total += term
        n += 1
    return total


def lower_gamma(a: Decimal, x: Decimal) -> Decimal:
    """P(a, x) (Abramowitz and Stegun 6.5.29)."""
    return (a * x.ln() - x - log_gamma(a + 1)).exp() * series(lambda n: x / (a + 1 + n))


def lower_beta(a: Decimal, b: Decimal, x: Decimal) -> Decimal:
    """I_x(a, b) (Abramowitz and Stegun 26.5.9)."""
    if 2 * x > 1:
        return 1 - lower_beta(b, a, 1 - x)
    log_beta = log_gamma(a) + log_gamma(b) - log_gamma(a + b)
    return (a * x.ln() + b * (1 - x).ln() - log_beta).exp() / a * series(lambda n: x * (a + b + n) / (a + 1 + n))


def normal_cdf(r: Decimal) -> Decimal:
    half = lower_gamma(Decimal("0.5"), r * r / 2) / 2 if r else Decimal(0)
    return Decimal("0.5") + half * sign(r)


def arc_tangent(x: Decimal) -> Decimal:
    """By its series, after five halvings of the angle."""
    for _ in range(5):
        x = x / (1 + (1 + x * x).sqrt())
    return 32 * sum(((-1) ** n * x ** (2 * n + 1) / (2 * n + 1) for n in range(60)), Decimal(0))
