"""One row, in a process of its own: `python -m benchmarks.scale.row`, which the runner calls.

The last line that it prints is the row, in JSON.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict
from typing import Any

import pathfold as pf
from benchmarks.memory import MIB, peak
from benchmarks.scale.problem import SIZES, STEPS, Problem, Terms, problem
from experiments.runner import ENOUGH, Row, circumstances, far, measure, rounded
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.native.trajectory import STATIC_MOMENTA, STATIC_POINTS


def short_run(given: Problem) -> None:
    """Compiles the model, or finds it compiled, and loads all that a run needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so few draws nothing can be said
        pf.sample(*given.short(), steps_per_interval=STEPS, chains=1, warmup=1, draws=4, threads=1, progress=False)


def row(table: str, size: int, terms: Terms) -> Row:
    """Seconds per step and per draw are those of one core; `run_seconds` are by the clock on the wall."""
    made, given = circumstances(), problem(table, size)
    names = [*given.model.parameters.names]
    own = terms.of(table, size)
    sampler = pf.StaticHMC(integration_time=own.integration_time, integrate=False)
    short_run(given)
    before = peak()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = pf.sample(
            *given, steps_per_interval=STEPS, sampler=sampler, chains=own.chains, warmup=own.warmup, draws=own.draws,
            seed=own.seed, max_seconds=own.seconds, keep=names, keep_warmup=True, progress=False, threads=own.chains,
        )  # fmt: skip
    memory = {"before": before, "peak": peak(), "chain": of_a_chain(given) / MIB}
    said = [str(each.message) for each in caught]
    if any("the run was interrupted" in message for message in said):
        raise KeyboardInterrupt
    groups: list[Any] = [tree[name] for name in ("warmup_sample_stats", "sample_stats")]
    found = {
        "table": table,
        "size": size,
        "terms": asdict(own),
        "made": made,
        **far(tree),
        "run_seconds": rounded(tree.attrs["run_seconds"]),
        "integration_time": [rounded(value) for value in tree.attrs["integration_times"]],
        "steps": sum(int(group["n_steps"].sum()) for group in groups),
        "memory_mib": {name: rounded(value) for name, value in memory.items()},
        "warnings": said,
    }
    if tree.posterior.sizes["draw"] >= ENOUGH:
        found |= measure(tree, names)
    if tree.posterior.sizes["chain"] == 1:
        for each in found["parameters"].values():
            del each["rhat"]  # which takes several chains
    return found


def of_a_chain(given: Problem) -> int:
    """Bytes of the blocks that a static chain works in."""
    engine = Engine(given.model, TimeGrid.build(given.data, steps_per_interval=STEPS))
    number = {"point": STATIC_POINTS, "vector": STATIC_MOMENTA, "scratch": 1, "problem": 1}
    return 8 * sum(count * engine.block_sizes[name] for name, count in number.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("size", type=int)
    parser.add_argument("terms", type=json.loads)
    parser.add_argument("--compile", action="store_true", help="no row: see to it that the model is compiled")
    options = parser.parse_args()
    if options.compile:
        size = options.size if options.table == "states" else SIZES[options.table][0]  # the model of all sizes
        short_run(problem(options.table, size))
        return
    print(json.dumps(row(options.table, options.size, Terms(**options.terms))))


if __name__ == "__main__":
    main()
