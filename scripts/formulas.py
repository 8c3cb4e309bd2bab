"""Typesets the equations of docstrings, which are written as plain text, as LaTeX for the pages of the gallery."""

from __future__ import annotations

import re
from dataclasses import dataclass

GREEK = "alpha beta gamma delta epsilon eta theta kappa lambda mu nu xi pi rho sigma tau phi omega Gamma Omega".split()
FUNCTIONS = "exp log sin cos sum".split()
RELATION = re.compile(r" (?=(?:=|~|->) )")
NAME = re.compile(r"([A-Za-z][A-Za-z0-9]*)(?:_(\{[^}]*\}|\w+))?('*)")
NUMBER = re.compile(r"[0-9.]*[0-9]")
SIGNS = {"->": "\\to", "~": "\\sim"}


def typeset(text: str) -> str:
    """Return a block of Markdown with the equations of a text, each on a line of its own, aligned at its relation.

    Equations are separated by the end of a line or by two spaces; a space between two factors is their product.
    """
    lines = [_aligned(each) for each in re.split(r"\n| {2,}", text.strip()) if each]
    joined = " \\\\\n".join(lines)
    return f"```math\n\\begin{{aligned}}\n{joined}\n\\end{{aligned}}\n```\n"


def _aligned(equation: str) -> str:
    left, *right = RELATION.split(equation, maxsplit=1)
    return f"{latex(left)} &{latex(right[0])}" if right else f"& {latex(left)}"


@dataclass
class _Factor:
    """A factor or sign in LaTeX; a word has room beside it, and what stands in parentheses loses them in a fraction."""

    text: str
    word: bool = False
    within: str | None = None
    sign: bool = False


def latex(text: str) -> str:
    found, end = _sequence(text, 0)
    assert end == len(text), f"parentheses do not match: {text}"
    return found


def _sequence(text: str, place: int) -> tuple[str, int]:
    """Translate up to the end, or to a parenthesis that closes what was opened before."""
    factors: list[_Factor] = []
    divides = False
    while place < len(text) and text[place] != ")":
        if text[place] == " ":
            place += 1
        elif text[place] == "/":
            divides, place = True, place + 1
        else:
            factor, place = _factor(text, place)
            if place < len(text) and text[place] == "^":
                power, place = _factor(text, place + 1)
                factor = _Factor(f"{factor.text}^{{{power.text}}}")
            if divides:
                above, below = ((each.within or each.text) for each in (factors.pop(), factor))
                factor, divides = _Factor(f"\\frac{{{above}}}{{{below}}}"), False
            factors.append(factor)
    return _joined(factors), place


def _factor(text: str, place: int) -> tuple[_Factor, int]:
    """Translate a number, a name with what it is applied to, what stands in parentheses, or a sign."""
    if number := NUMBER.match(text, place):
        return _Factor(number[0]), number.end()
    if name := NAME.match(text, place):
        place = name.end()
        symbol = "\\sqrt" if name[1] == "sqrt" else _symbol(*name.groups())
        word = symbol.startswith(f"\\mathrm{{{name[1]}}}")
        if place < len(text) and text[place] == "(":
            within, place = _sequence(text, place + 1)
            applied = f"{{{within}}}" if name[1] == "sqrt" else _parentheses(within)
            return _Factor(symbol + applied, word), place + 1
        return _Factor(symbol, word), place
    if text[place] == "(":
        within, place = _sequence(text, place + 1)
        return _Factor(_parentheses(within), within=within), place + 1
    sign = "->" if text.startswith("->", place) else text[place]
    return _Factor(SIGNS.get(sign, sign), sign=True), place + len(sign)


def _parentheses(within: str) -> str:
    tall = "\\frac" in within or "\\sum" in within
    return f"\\left({within}\\right)" if tall else f"({within})"


def _joined(factors: list[_Factor]) -> str:
    """Put factors beside each other, with room between words and before the rate of a reaction, none before a comma."""
    text, reaction = "", any(factor.text == SIGNS["->"] for factor in factors)
    for before, factor in zip([None, *factors], factors, strict=False):
        close = before is None or factor.text in (",", ".", ";") or before.text == "."
        rate = reaction and factor.within is not None
        words = before is not None and not before.sign and not factor.sign and (before.word or factor.word)
        text += factor.text if close else ("\\quad " if rate else "\\, " if words else " ") + factor.text
    return text


def _symbol(name: str, below: str | None, primes: str) -> str:
    if name in ("dt", "dW"):
        symbol = f"\\,\\mathrm{{d}}{name[1]}"
    elif re.fullmatch(r"d[A-Za-z]", name):
        symbol = f"\\mathrm{{d}}{name[1]}"
    elif name in GREEK or name in FUNCTIONS:
        symbol = f"\\{name}"
    else:
        symbol = name if len(name) == 1 else f"\\mathrm{{{name}}}"
    if below is None:
        return symbol + primes
    index = below.strip("{}")
    return f"{symbol}{primes}_{{{f'\\mathrm{{{index}}}' if index.isalpha() and len(index) > 1 else index}}}"
