"""pathfold beside what people would use instead: the rows that are missing, then tables and figure of docs/peers.md.

A row is one sampler with one problem, in a process of its own that has one core. It ends when its budget is spent, or
when it has effective draws enough; whatever it drew counts. Rows are saved as they are made, so that a call that was
stopped goes on where it was.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers.page import figure, tables
from benchmarks.peers.problem import PROBLEMS
from benchmarks.peers.rows import Results
from benchmarks.peers.runner import Terms, complete
from benchmarks.peers.sampler import SAMPLERS
from experiments.__main__ import DOCS
from experiments.drawing import save
from experiments.page import with_tables

RESULTS = Path(__file__).parent / "results.json"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=[*SAMPLERS], metavar="SAMPLER",
                        help=f"some of: {', '.join(SAMPLERS)}")  # fmt: skip
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=[*PROBLEMS], metavar="PROBLEM",
                        help=f"some of: {', '.join(PROBLEMS)}")  # fmt: skip
    parser.add_argument("--budget", type=int, default=Terms.budget, help="seconds of one core for a row")
    parser.add_argument("--enough", type=int, default=Terms.enough, help="effective draws that end a row early")
    parser.add_argument("--memory", type=int, default=Terms.memory, help="GiB of address space of a row")
    parser.add_argument("--at-a-time", type=int, default=1, help="rows at a time, each on a core of its own")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of rows")
    parser.add_argument("--draw", action="store_true", help="make no row: tables and figure of what there is")
    options = parser.parse_args(arguments)
    results = Results(options.results)
    if not options.draw:
        wanted = [(sampler, problem) for problem in options.problems for sampler in options.samplers]
        terms = Terms(budget=options.budget, enough=options.enough, memory=options.memory)
        complete(results, wanted, SAMPLERS, terms, options.at_a_time)
    made = tables(results)
    for name, table in made.items():
        print(f"\n{name}\n\n{table}")
    if options.results == RESULTS:
        page = DOCS / "peers.md"
        page.write_text(with_tables(page.read_text(), made))
        save(figure(results), DOCS / "figures", "peers")


if __name__ == "__main__":
    main()
