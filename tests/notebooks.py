"""Tutorials are notebooks in Markdown (MyST): their code, and running it."""

import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"
OPTIONS = r"(?:---\n.*?^---\n)?"
CELL = re.compile(rf"^```\{{code-cell\}} python\n{OPTIONS}(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)


def run(page: Path) -> dict[str, Any]:
    """Run a page from top to bottom, and return what it has named by its end; errors name the line of the page."""
    text = page.read_text()
    names: dict[str, Any] = {}
    for cell in CELL.finditer(text):
        line = text.count("\n", 0, cell.start("code"))
        exec(compile("\n" * line + cell["code"], str(page), "exec"), names)
    return names
