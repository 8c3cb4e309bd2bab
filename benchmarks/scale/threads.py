"""How much faster more threads make a step of one chain: a long series and a panel.

Times are minima over repeats, means over momenta; numbers of threads take turns within the same repeat, so that other
work on the machine meets all of them. `--json` adds one last line of figures for machines, `--quick` leaves out what
takes minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.scale.problem import TO_CORES, panel
from benchmarks.step_cost import Case, series
from pathfold.doctor import compile_samplers
from pathfold.engine.helpers import helped
from pathfold.model import DiffusionModel

MOMENTA = 2
SETTLING = 10


class Timed:
    """A case with momenta whose steps succeed, and a step of it with so many helpers."""

    def __init__(self, model: DiffusionModel, data: Any, steps: int) -> None:
        self.case = Case(model, data, steps)
        self.case.settle(SETTLING)
        tried = [self.case.momentum() for _ in range(2 * MOMENTA)]
        self.momenta = [p for p in tried if self.case.step(p) == 0][:MOMENTA]
        if not self.momenta:
            raise RuntimeError("no step succeeded: there is nothing to time")

    def seconds(self, repeats: int, helpers: Sequence[int]) -> list[float]:
        """Of a step, by the number of helpers."""
        least = np.full((len(helpers), len(self.momenta)), np.inf)
        for _ in range(repeats):
            for i, count in enumerate(helpers):
                with helped(self.case.layout, count):
                    for j, p in enumerate(self.momenta):
                        begin = time.perf_counter()
                        self.case.step(p)
                        least[i, j] = min(least[i, j], time.perf_counter() - begin)
        return least.mean(axis=1).tolist()


def threads(sizes: Sequence[int], repeats: int) -> dict[str, float]:
    """Speed-up over one thread."""
    found: dict[str, float] = {}
    kinds: dict[str, tuple[Callable[[int], tuple[Any, Any]], int]] = {
        "series": (series, 25),
        "panel": (lambda size: panel(max(1, size // 20), 20), 5),
    }
    for kind, (make, steps) in kinds.items():
        print(f"one chain, {kind} of so many observations, {steps} fine steps an interval: speed-up by threads")
        for size in sizes:
            timed = Timed(*make(size), steps)
            turns = repeats * max(1, 2000 // size)
            times = timed.seconds(turns, [count - 1 for count in TO_CORES])
            gains = {count: times[0] / each for count, each in zip(TO_CORES, times, strict=True)}
            found |= {f"{kind} {size}, speed-up of {count} threads": gain for count, gain in gains.items()}
            text = "   ".join(f"{count} threads {gain:5.2f}" for count, gain in gains.items())
            print(f"  {size:7d}   {timed.case.engine.parts:2d} parts   {1e3 * times[0]:9.3f} ms   {text}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.threads", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one last line of figures for machines")
    parser.add_argument("--quick", action="store_true", help="small sizes alone")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    compile_samplers()
    found = threads((100, 2000) if options.quick else (100, 2000, 20_000), options.repeats)
    if options.json:
        print(json.dumps({name: round(value, 4) for name, value in found.items()}))


if __name__ == "__main__":
    main()
