"""How time and memory of a constrained step grow with the data, the model and the threads.

Times are minima over repeats, means over momenta; variants that are compared take turns within the same repeat, so that
other work on the machine meets all of them. Memory is that of the blocks of one chain. The exponent of a table is the
slope of log time over log size. `--json` adds one last line of figures for machines, `--quick` leaves out what takes
minutes, `--only` makes some of the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from step_cost import Case, series

from pathfold.engine.helpers import helped
from pathfold.engine.installation import compile_sampler
from pathfold.example_models import lorenz96, ornstein_uhlenbeck
from pathfold.model import DiffusionModel, Observations, simulate

MOMENTA = 2
SETTLING = 10
CORES = os.cpu_count() or 1


class Timed:
    """A case with momenta whose steps succeed, and a step of it with so many helpers."""

    def __init__(self, model: DiffusionModel, data: Any, steps: int) -> None:
        self.case = Case(model, data, steps)
        self.case.settle(SETTLING)
        tried = [self.case.momentum() for _ in range(2 * MOMENTA)]
        self.momenta = [p for p in tried if self.case.step(p) == 0][:MOMENTA]
        if not self.momenta:
            raise RuntimeError("no step succeeded: there is nothing to time")

    def seconds(self, repeats: int, helpers: Sequence[int] = (0,)) -> list[float]:
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

    @property
    def megabytes(self) -> float:
        """Of the blocks of a static chain: four points, two vectors, scratch and the problem."""
        sizes = self.case.engine.block_sizes
        return 8e-6 * (4 * sizes["point"] + 2 * sizes["vector"] + sizes["scratch"] + sizes["problem"])


def panel(count: int, observations: int = 20) -> tuple[DiffusionModel, list[Observations]]:
    """Ornstein-Uhlenbeck, seen through noise: so many series."""
    model = ornstein_uhlenbeck.noisy()
    times = 0.5 * np.arange(1, observations + 1)
    few = [simulate(model, ornstein_uhlenbeck.TRUTH, times, steps_per_interval=20, seed=i) for i in range(10)]
    return model, [few[i % len(few)] for i in range(count)]


def states(count: int) -> tuple[DiffusionModel, Observations]:
    """Lorenz-96 in so many variables, half of them seen at 25 times."""
    return lorenz96.noisy(count), lorenz96.data(count, observations=25)


def growth(
    name: str, sizes: Sequence[int], make: Callable[[int], tuple[Any, Any]], steps: int, repeats: int
) -> dict[str, float]:
    """A table over sizes, with its exponents."""
    print(f"{name}, {steps} fine steps an interval")
    found, rows = {}, []
    for size in sizes:
        timed = Timed(*make(size), steps)
        (seconds,) = timed.seconds(repeats)
        rows.append((size, seconds, timed.megabytes))
        found |= {f"{name} {size}, step_ms": 1e3 * seconds, f"{name} {size}, MB": timed.megabytes}
        print(f"  {size:7d}   step {1e3 * seconds:10.3f} ms   {timed.megabytes:9.2f} MB", flush=True)
    if len(rows) > 1:
        logs = np.log(rows)
        for column, what in ((1, "time"), (2, "memory")):
            found[f"{name}, exponent of {what}"] = float(np.polyfit(logs[:, 0], logs[:, column], 1)[0])
            print(f"  exponent of {what}: {found[f'{name}, exponent of {what}']:.2f}")
    return found


def threads(sizes: Sequence[int], repeats: int) -> dict[str, float]:
    """Speed-up of one chain by more threads: a long series and a panel."""
    found: dict[str, float] = {}
    counts = sorted({1, 2, CORES} | {2**k for k in range(1, CORES.bit_length()) if 2**k <= CORES})
    kinds: dict[str, tuple[Callable[[int], tuple[Any, Any]], int]] = {
        "series": (series, 25),
        "panel": (lambda size: panel(max(1, size // 20)), 5),
    }
    for kind, (make, steps) in kinds.items():
        print(f"one chain, {kind} of so many observations, {steps} fine steps an interval: speed-up by threads")
        for size in sizes:
            timed = Timed(*make(size), steps)
            turns = repeats * max(1, 2000 // size)
            times = timed.seconds(turns, [count - 1 for count in counts])
            gains = {count: times[0] / each for count, each in zip(counts, times, strict=True)}
            found |= {f"{kind} {size}, speed-up of {count} threads": gain for count, gain in gains.items()}
            text = "   ".join(f"{count} threads {gain:5.2f}" for count, gain in gains.items())
            print(f"  {size:7d}   {timed.case.engine.parts:2d} parts   {1e3 * times[0]:9.3f} ms   {text}", flush=True)
    return found


def chains(observations: int, repeats: int) -> dict[str, float]:
    """What several chains at once, with one thread each, get done in the time of one."""
    print(f"chains at once, a series of {observations} observations: steps in the time of one chain's")
    found = {}
    several = [Timed(*series(observations), 25) for _ in range(CORES)]
    alone = several[0].seconds(repeats)[0]
    for count in range(1, CORES + 1):
        least = np.inf
        for _ in range(repeats):
            begin = time.perf_counter()
            running = [threading.Thread(target=each.case.step, args=(each.momenta[0],)) for each in several[:count]]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            least = min(least, time.perf_counter() - begin)
        found[f"{count} chains, {observations} observations"] = count * alone / least
        print(f"  {count:3d} chains   {count * alone / least:6.2f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="How the cost of a step grows.")
    parser.add_argument("--json", action="store_true", help="one last line of figures for machines")
    parser.add_argument("--quick", action="store_true", help="small sizes alone")
    parser.add_argument("--repeats", type=int, default=7)
    tables = ("observations", "series", "states", "threads", "chains")
    parser.add_argument("--only", nargs="+", choices=tables, default=tables, help="tables to make")
    options = parser.parse_args()
    quick, repeats = options.quick, options.repeats
    compile_sampler(announce=True)
    made: dict[str, Callable[[], dict[str, float]]] = {
        "observations": lambda: growth(
            "observations", (100, 1000) if quick else (100, 1000, 10_000, 100_000), series, 5, repeats
        ),
        "series": lambda: growth("series", (1, 100) if quick else (1, 10, 100, 1000, 3000), panel, 5, repeats),
        "states": lambda: growth("states", (4, 8) if quick else (4, 10, 20, 40), states, 5, repeats),
        "threads": lambda: threads((100, 2000) if quick else (100, 2000, 20_000), repeats),
        "chains": lambda: chains(1000, repeats),
    }
    found = {name: value for table in options.only for name, value in made[table]().items()}
    if options.json:
        print(json.dumps({name: round(value, 4) for name, value in found.items()}))


if __name__ == "__main__":
    main()
