"""Runs the tutorials from top to bottom and draws their pictures: `python scripts/tutorials.py [neuron.md ...]`.

Every block of Python of a page runs, in one namespace a page. A picture below a block is the `figure` of that block.
"""

import re
import sys
import time
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"
BLOCK, PICTURE = r"^```python\n(?P<code>.*?)^```", r"^!\[[^\]]*\]\((?P<picture>\S+)\)"
RESOLUTION = 90  # dots an inch: readable on a page, and a small file


def run(page: Path, pictures: Path) -> dict[str, Any]:
    """What a page has named by its end; its pictures go into a folder."""
    text = page.read_text()
    names: dict[str, Any] = {}
    for found in re.finditer(f"{BLOCK}|{PICTURE}", text, re.DOTALL | re.MULTILINE):
        if code := found["code"]:
            line = text.count("\n", 0, found.start("code"))
            exec(compile("\n" * line + code, str(page), "exec"), names)  # errors name the line of the page
        else:
            target = pictures / found["picture"]
            target.parent.mkdir(exist_ok=True)
            names.pop("figure").savefig(target, dpi=RESOLUTION)
    return names


def main() -> None:
    for page in [PAGES / name for name in sys.argv[1:]] or sorted(PAGES.glob("*.md")):
        begin, used = time.perf_counter(), time.process_time()
        run(page, PAGES)
        wall, core = time.perf_counter() - begin, time.process_time() - used
        print(f"{page.name}: {wall:.1f} s, {core:.1f} s of core", flush=True)


if __name__ == "__main__":
    main()
