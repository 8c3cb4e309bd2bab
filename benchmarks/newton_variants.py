"""Which Newton's method projects a step onto the manifold: FitzHugh-Nagumo, noiseless, T = 100, S = 25, R = 5.

The same steps, Gaussian splitting, from points of the posterior with the states of every fifth node held, by

    paper       full steps from the unconstrained end, the path of every block simulated from its beginning
    lifted      the same with the states of all nodes as unknowns: every interval is simulated from its own node
    guess       lifted, from the first-order guess of the solution
    chords      the same, keeping a linearisation that contracts well
    engine      the same, and from the origin in pieces where that fails: what pathfold does

`--json` adds one last line of figures for machines.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from step_cost import Case, series

from pathfold.engine import Solver, plans
from pathfold.engine import table as at
from pathfold.engine.native import constrained_step
from pathfold.engine.native.dynamics import prepare
from pathfold.engine.native.run import run
from pathfold.engine.native.thresholds import DIVERGENCE
from pathfold.engine.native.trajectory import ITERATED, LINEARISED
from pathfold.engine.native.vectors import newton_sums
from pathfold.engine.status import CONVERGED, DIVERGED, NOT_CONVERGED
from pathfold.paper.blocks import held

T, S, R = 100, 25, 5
STEP_SIZES = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6)


class Steps(Case):
    """Position updates of blocks: the target holds the unconstrained end of a step and its displacement."""

    def __init__(self, seed: int) -> None:
        super().__init__(*series(T), S, seed, conditioned=True)
        self.held = np.arange(R - 1, T - 1, R)

    def release(self) -> None:
        self._hold(self.held[:0])
        prepare(self.machine, self.point)

    def hold(self) -> None:
        self._hold(self.held)
        prepare(self.machine, self.point)

    def _hold(self, nodes: np.ndarray) -> None:
        states = self.engine.get("point", self.point, "node", "x_node")
        self.problem[:] = held(self.engine, nodes, states[nodes])

    def begin(self, p: np.ndarray, t: float) -> None:
        """Half a kick, then the flow without the constraint."""
        e, size = self.engine, p.size
        q = self.point[:size]
        self.target[:size] = np.cos(t) * q + np.sin(t) * (p - 0.5 * t * e.gradient(self.point))
        e.gradient(self.target)[:] = self.target[:size] - q
        self.counts[:] = 0

    def iterate(self, *, chords: bool) -> int:
        return constrained_step.iterate(self.machine, self.point, self.target, self.point[:0], chords)

    def from_origin(self) -> None:
        constrained_step.copy_nodes(self.layout, self.point, self.target)
        constrained_step.clear_multipliers(self.machine)

    def guess(self) -> None:
        displacement = self.engine.gradient(self.target)
        constrained_step.predict(self.machine, plans.SOLVE_ON_MANIFOLD, self.point, self.target, displacement)

    def simulate_blocks(self) -> None:
        """Node states as the noise has them, from the states that are held."""
        e = self.engine
        values = e.get("problem", self.problem, "grid", "y")[self.held, -e.sizes.X :]
        for _ in range(R):
            constrained_step.linearise(self.machine, self.target)
            states = e.get("point", self.target, "node", "x_node") + e.get("scratch", self.scratch, "newton", "gap")
            states[self.held] = values
            e.set("point", self.target, "node", "x_node", states)

    def paper(self) -> int:
        m, solver = self.machine, Solver()
        self.from_origin()
        change = np.inf
        for _ in range(solver.max_iterations):
            run(m, plans.JUST_SHOOT, self.point, self.target)  # moves the noise; then no change is left to apply
            constrained_step.clear_multipliers(m)
            self.simulate_blocks()
            run(m, plans.SHOOT_AFRESH, self.point, self.target)
            residual = newton_sums(m)[self.layout[at.SUMS_RESIDUAL]]
            self.counts[[ITERATED, LINEARISED]] += 1
            if not residual < DIVERGENCE:
                return DIVERGED
            if residual < solver.constraint_tolerance and change < solver.position_tolerance:
                return CONVERGED
            run(m, plans.CROSS_SMOOTH, self.point, self.target)
            change = newton_sums(m)[self.layout[at.SUMS_CHANGE]]
        return NOT_CONVERGED

    def lifted(self) -> int:
        self.from_origin()
        return self.iterate(chords=False)

    def guessed(self) -> int:
        self.guess()
        return self.iterate(chords=False)

    def chords(self) -> int:
        self.guess()
        return self.iterate(chords=True)

    def whole(self) -> int:
        return constrained_step.solve_position(self.machine, self.point, self.target, self.point[:0])


def measure(points: int, momenta: int) -> list[dict[str, Any]]:
    steps = Steps(seed=1)
    variants: dict[str, Callable[[], int]] = {
        "paper": steps.paper,
        "lifted": steps.lifted,
        "guess": steps.guessed,
        "chords": steps.chords,
        "engine": steps.whole,
    }
    found = {(name, t): [] for t in STEP_SIZES for name in variants}
    steps.settle(100)
    for _ in range(points):
        steps.release()
        steps.settle(20)
        steps.hold()
        for p in [steps.momentum() for _ in range(momenta)]:
            for name, t in found:
                steps.begin(p, t)
                begin = time.thread_time()
                status = variants[name]()
                found[name, t].append(
                    [status != CONVERGED, *steps.counts[[ITERATED, LINEARISED]], 1e6 * (time.thread_time() - begin)]
                )
    rows = []
    for (name, t), each in found.items():
        failed, iterations, linearisations, microseconds = np.mean(each, axis=0)
        if name == "paper":
            microseconds = None  # not native
        rows.append(
            {
                "step_size": t,
                "solver": name,
                "failed": failed,
                "iterations": iterations,
                "linearisations": linearisations,
                "microseconds": microseconds,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Which Newton's method projects a step onto the manifold.")
    parser.add_argument("--points", type=int, default=40)
    parser.add_argument("--momenta", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.points, options.momenta)
    print(f"{options.points * options.momenta} steps of each size")
    print("step size  solver   failed  iterations  linearisations  us per solve")
    for row in rows:
        cost = "" if row["microseconds"] is None else f"{row['microseconds']:10.0f}"
        print(
            f"{row['step_size']:9.2f}  {row['solver']:7s} {100 * row['failed']:5.1f} %  {row['iterations']:10.2f}  "
            f"{row['linearisations']:14.2f}  {cost}"
        )
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
