"""The tables of a page, between marks: the words are written by hand, the numbers by machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

NOTHING = "Nothing was run yet."


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with each table between the marks of its name."""
    for name, table in tables.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        page, found = re.subn(f"{begin}.*?{end}", lambda _, t=table: f"{begin}\n{t}\n{end}", page, flags=re.DOTALL)  # noqa: B023
        if found != 1:
            raise ValueError(f"the page needs the marks {begin} and {end} once, for the table of {name}")
    return page


def table(head: list[str], rows: Iterable[list[Any]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def seconds(value: float) -> str:
    """With two digits, in a unit that needs no exponent."""
    return f"{1e3 * value:.2g} ms" if value < 0.0995 else f"{value:.2g} s" if value < 99.5 else f"{value:.0f} s"


def made(rows: Iterable[dict[str, Any]], terms: Callable[[list[dict[str, Any]]], str]) -> str:
    """Where, when and with what the rows were made: the versions of all packages, and the terms of the rows."""
    rows = [*rows]
    if not rows:
        return NOTHING
    versions: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row["made"].items():
            if name not in ("at", "load", "machine", "commit"):
                versions.setdefault(name, set()).add(value)
    said = {name: sorted({str(row["made"][name]) for row in rows}) for name in ("machine", "commit")}
    dates = sorted({row["made"]["at"][:10] for row in rows})
    loads = [row["made"]["load"] for row in rows]
    return "\n".join(
        [
            f"- {len(rows)} rows, {' and '.join(dates)}, on {'; '.join(said['machine'])}; load of the machine "
            f"{min(loads):.1f} to {max(loads):.1f}; commit {', '.join(said['commit'])}.",
            f"- {terms(rows)}",
            "- " + ", ".join(f"{name} {', '.join(sorted(each))}" for name, each in sorted(versions.items())) + ".",
        ]
    )
