"""What an effective draw costs in time and memory as data, models and chains grow: rows that are missing, and tables.

A row is one size, run in a process of its own. Rows are saved as they are made, so that a call that was stopped goes on
where it was; to make a row again, delete its line. Rows with different numbers of chains at once are made one by one
after all others, and want a machine without other work. `--draw` writes tables and figure of docs/scaling.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.rows import Results
from benchmarks.scale.page import tables
from benchmarks.scale.problem import SIZES, Terms
from benchmarks.scale.runner import complete
from experiments.page import with_tables
from experiments.runner import ROOT

RESULTS = Path(__file__).parent / "results.json"
DOCS = ROOT.parent / "docs"
KEY = ("table", "size")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=SIZES, default=[*SIZES], help="those to make")
    parser.add_argument("--at-most", type=int, default=max(map(max, SIZES.values())), help="no size above this")
    parser.add_argument("--at-a-time", type=int, default=1, help="rows at a time, each with a core for every chain")
    parser.add_argument("--seconds", type=float, default=Terms.seconds, help="of its core for each chain")
    parser.add_argument("--warmup", type=int, default=Terms.warmup, help="iterations")
    parser.add_argument("--draws", type=int, default=Terms.draws, help="of each chain after warm-up, if there is time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of rows")
    parser.add_argument("--draw", action="store_true", help="make no row: tables and figure of what there is")
    options = parser.parse_args(arguments)
    results, failed = Results(options.results, KEY), []
    if not options.draw:
        # Not here: the peak of memory of a process is at least that of the one that starts it.
        subprocess.run([sys.executable, "-m", "pathfold.cli", "compile"], check=True)
        wanted = [(name, size) for name in options.tables for size in SIZES[name] if size <= options.at_most]
        terms = Terms(warmup=options.warmup, draws=options.draws, seconds=options.seconds)
        failed = complete(results, wanted, terms, options.at_a_time)
    written = tables(results)
    for name, text in written.items():
        print(f"\n{name}\n\n{text}")
    if options.draw and options.results == RESULTS:
        from benchmarks.scale.figure import figure  # machines that make rows may be without Matplotlib
        from experiments.drawing import save

        page = DOCS / "scaling.md"
        page.write_text(with_tables(page.read_text(), written))
        save(figure(results), DOCS / "figures", "scale")
    if failed:
        sys.exit(f"not made: {', '.join(f'{name} {size}' for name, size in failed)}")


if __name__ == "__main__":
    main()
