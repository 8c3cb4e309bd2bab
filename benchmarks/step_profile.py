"""Where the time of a constrained step goes, kernel by kernel: each is timed alone, as often as a step calls it.

Every kernel of the step's plans runs as a plan of its own at a typical point of the posterior; its time, a minimum of
repeats, is multiplied by the number of its calls in a step; likewise every plan. What plans take beyond their kernels
is the reading of plans and of data, which a kernel that runs alone finds in the cache; what the step takes beyond its
plans is control flow. `--cases` names what to look at.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from step_cost import MOMENTA, ROWS, Case, _seconds, native_microseconds, oscillators, series  # beside this file

from pathfold.engine import plans
from pathfold.engine import table as at
from pathfold.engine.native.run import run_on
from pathfold.engine.native.trajectory import ITERATED, LINEARISED


def alone() -> dict[tuple[str, int], plans.Plan]:
    """Return a plan for every kernel and what it goes over, made before a model is bound."""
    stages = {(name, stage.over): stage for each in plans.PLANS[:] for stage in each.stages for name in stage.kernels}
    return {key: plans.plan(stage._replace(kernels=key[:1])) for key, stage in stages.items()}


def of_step(iterations: float, linearisations: float) -> dict[plans.Plan, float]:
    """Return how often a step runs each plan, of two solves that take these iterations and linearisations together."""
    return {
        plans.ADD: 2,
        plans.DISPLACE: 2,
        plans.COMBINE: 1,
        plans.COMPARE: iterations / 2,
        plans.SOLVE_ON_MANIFOLD: 2,
        plans.MOVE_NODES: 2,
        plans.SHOOT_AFRESH: linearisations,
        plans.SHOOT: iterations - linearisations,
        plans.CROSS_SMOOTH: iterations - 1.5,
        plans.LINEARISE_AND_FACTOR: 1,
        plans.PROJECT: 1,
        plans.GRADIENT: 1,
    }


def profile(case: Case, singles: dict[tuple[str, int], plans.Plan], repeats: int) -> tuple[float, list, list]:
    """Return microseconds of a step; name, calls and microseconds of the plans that it runs, and of their kernels."""
    case.settle(50)
    momenta = [case.momentum() for _ in range(MOMENTA)]
    case.counts[:] = 0
    good = [p for p in momenta if case.step(p) == 0]
    iterations, linearisations = case.counts[[ITERATED, LINEARISED]] / len(momenta)
    step = 1e6 * float(np.mean([min(_seconds(case.step, p) for _ in range(repeats)) for p in good]))
    m, calls = case.machine, defaultdict[tuple[str, int], float](float)

    def cost(plan: plans.Plan) -> float:
        of_vectors = plan.stages[0].over == at.BY_SHARE
        blocks = (case.point, case.p, case.target) if of_vectors else (m.problem, case.point, case.target)
        return native_microseconds(run_on, (m, int(plan), *blocks), repeats)

    names = {plan: name for name, plan in vars(plans).items() if isinstance(plan, plans.Plan)}
    runs = of_step(iterations, linearisations)
    whole = [(names[plan], times, cost(plan)) for plan, times in runs.items()]
    for plan, times in runs.items():
        for stage in (stage for stage in plan.stages if not stage.refines):
            for name in stage.kernels:
                calls[name, stage.over] += times
    return step, whole, [(key[0], count, cost(singles[key])) for key, count in calls.items()]


def cases(names: Iterable[str]) -> Iterator[tuple[str, Case]]:
    for name in names:
        kind, _, numbers = name.partition(":")
        first, _, second = numbers.partition(",")
        if kind == "fhn":
            yield name, Case(*series(int(first)), int(second))
        elif kind == "panel":
            yield name, Case(*oscillators(int(first), int(second or 2)), 3)
        else:
            yield name, Case(*series(int(first), ROWS[kind]), int(second))


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the time of a constrained step goes.")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--most", type=int, default=14, help="kernels to print")
    parser.add_argument(
        "--cases", nargs="+", default=["fhn:25,5", "fhn:100,25", "Poisson:100,25", "panel:12", "panel:256"]
    )
    options = parser.parse_args()
    singles = alone()
    for name, case in cases(options.cases):
        step, whole, kernels = profile(case, singles, options.repeats)
        print(f"{name}: step {step:.1f} us")
        for what, rows in (("plans", whole), ("kernels", kernels)):
            total = sum(count * each for _, count, each in rows)
            print(f"  {what} {total:.1f} us ({total / step:.0%})")
            for each, count, microseconds in sorted(rows, key=lambda row: -row[1] * row[2])[: options.most]:
                share = count * microseconds / step
                print(f"    {each:22s} {count:5.1f} calls of {microseconds:9.2f} us  {share:6.1%}", flush=True)


if __name__ == "__main__":
    main()
