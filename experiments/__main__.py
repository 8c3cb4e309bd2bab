"""`python -m experiments`: make the runs that are missing, draw the figures, write the tables of docs/results.md."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from experiments import (
    fitzhugh_nagumo_effective_draws,
    fitzhugh_nagumo_noise,
    fitzhugh_nagumo_step_size,
    fitzhugh_nagumo_steps,
    sir_marginals,
    sir_noise_levels,
    sir_pairs,
)
from experiments.drawing import measured, save
from experiments.page import with_tables
from experiments.runner import ROOT, Results, complete
from experiments.setting import FULL, QUICK

FIGURES: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        fitzhugh_nagumo_steps,
        fitzhugh_nagumo_effective_draws,
        fitzhugh_nagumo_step_size,
        fitzhugh_nagumo_noise,
        sir_marginals,
        sir_pairs,
        sir_noise_levels,
    )
}
DOCS = ROOT.parent / "docs"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(FIGURES)}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, in a folder of their own")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--draw", action="store_true", help="make no run: draw what there is")
    either.add_argument("--run", action="store_true", help="draw nothing: make the runs that are missing")
    parser.add_argument("--folder", type=Path, default=Path("build/experiments"), help="of quick and unfinished runs")
    parser.add_argument("--results", type=Path, help="the folder that rows are read from and saved in")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at once, each with a thread per chain")
    parser.add_argument("--minutes", type=float, help="stop after so many; the next call goes on")
    parser.add_argument("--budget", type=float, help="seconds of its core for each chain of what is slow by nature")
    options = parser.parse_args(arguments)
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(f"there is no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    chosen = {name: FIGURES[name] for name in options.figures or FIGURES}
    scale = QUICK if options.quick else FULL
    scale = scale if options.budget is None else replace(scale, budget=options.budget)
    until = None if options.minutes is None else time.time() + 60.0 * options.minutes
    results = Results(options.results or (options.folder / "results" if options.quick else ROOT / "results"))
    if not options.draw:
        wanted = [setting for module in chosen.values() for setting in module.settings(scale)]
        complete(results, wanted, options.folder / "unfinished", jobs=options.jobs, until=until)
    if options.run:
        return
    tables = {}
    for name, module in chosen.items():
        rows = results.of(module.settings(scale))
        if not measured(rows):
            print(f"{name}: no run with draws yet")
            continue
        save(module.draw(rows, scale), options.folder / "figures" if options.quick else DOCS / "figures", name)
        tables[name] = module.describe(rows, scale)
        print(f"\n{name}\n\n{tables[name]}")
    if not options.quick:
        page = DOCS / "results.md"
        page.write_text(with_tables(page.read_text(), tables))


if __name__ == "__main__":
    main()
