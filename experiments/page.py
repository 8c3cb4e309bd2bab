"""The tables of a page, between marks: the words are written by hand, the numbers by machine."""

from __future__ import annotations

import re


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with each table between the marks of its name."""
    for name, table in tables.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        page, found = re.subn(f"{begin}.*?{end}", lambda _, t=table: f"{begin}\n{t}\n{end}", page, flags=re.DOTALL)  # noqa: B023
        if found != 1:
            raise ValueError(f"the page needs the marks {begin} and {end} once, for the table of {name}")
    return page
