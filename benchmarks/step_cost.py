"""What a constrained step costs, and how the cost grows: FitzHugh-Nagumo, noiseless, strong order 1.5; and panels.

Parts of a step are timed in native loops, whole solves and steps over a fixed set of momenta; every figure is a minimum
over repeats. Compiling is counted up to the first draw, by its parts (`start_up.py` has the other models). `--json`
adds one last line of figures for machines, `--quick` leaves the growth tables out, `--panels` measures panels alone: an
oscillator in many series of eight observations, and a drug in many subjects.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Data, Observations, TimeGrid
from pathfold.engine import Engine
from pathfold.engine.native.constrained_step import factorise, linearise, position_step, project, set_gradient
from pathfold.engine.native.dynamics import prepare, step
from pathfold.engine.native.pieces import HostFunction
from pathfold.engine.native.trajectory import ITERATED, LINEARISED, STATIC_POINTS
from pathfold.example_models import fitzhugh_nagumo
from pathfold.model import DiffusionModel, GaussianNoise, Likelihood, Observation, Varying, simulate
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.starts import find_starts

INTERVAL = 0.2
STEP_SIZE = 0.3
POINTS, MOMENTA = 6, 8
ROWS = {
    "Gaussian": GaussianNoise(lambda x, z: x[:1], 0.2),
    "Poisson": Likelihood(lambda x, z: dist.Poisson(jnp.exp(x[0] + 3.0))),
}


class Case:
    """An engine for a model and its data with S fine steps an interval, at a point of the manifold."""

    def __init__(self, model: DiffusionModel, data: Data, S: int, seed: int = 1, **settings: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.engine = engine = Engine(model, TimeGrid.build(data, steps_per_interval=S), **settings)
        self.layout, self.problem = engine.layout, engine.problem
        self.p, self.scratch = engine.block("vector"), engine.block("scratch")
        points = np.zeros((STATIC_POINTS, engine.block_sizes["point"]))
        if engine.series > 1:
            set_scales(engine)
        relaxation = relative_spread(engine) if engine.series > 1 else 1.0
        start = find_starts(engine, [0], seed=seed, threads=1, relaxation=relaxation).point(0)
        points[0, : start.position.size] = start.position
        engine.record("point", points[0], "node")[:] = start.nodes
        self.machine = engine.machine(self.scratch)
        self.counts = self.machine.counts
        prepare(self.machine, points[0])
        self.point, self.target, self.back = points[:3]

    def momentum(self) -> np.ndarray:
        """A momentum drawn from its distribution on the cotangent space."""
        e, n, rng = self.engine, self.engine.sizes, self.rng
        p = e.block("vector")
        noise = rng.standard_normal((e.intervals, e.grid.steps, n.V))
        w = rng.standard_normal((e.intervals, n.W))
        e.set_vector(p, rng.standard_normal(n.U), rng.standard_normal((e.series, n.V0)), w, noise)
        project(self.machine, self.point, p)
        return p

    def step(self, p: np.ndarray) -> int:
        self.p[:] = p
        lengths = STEP_SIZE, 0.5 * STEP_SIZE, 0.5 * STEP_SIZE
        return step(self.machine, self.point, self.target, self.back, self.p, *lengths)

    def solve(self, p: np.ndarray) -> int:
        self.p[:] = p
        arguments = (self.point, self.target, self.point[:0], self.p, STEP_SIZE)
        return position_step(self.machine, *arguments)

    def settle(self, steps: int) -> None:
        """Move from the simulated path to a typical point of the posterior."""
        for _ in range(steps):
            if self.step(self.momentum()) == 0:
                self.point, self.target = self.target, self.point


def native_microseconds(function: Any, arguments: tuple, repeats: int, turns: int = 10) -> float:
    """Time of one call inside native code."""

    def turn(turns, arguments):
        for _ in range(turns):
            function(*arguments)

    run = HostFunction(turn)  # what Numba compiles by itself finds no machine code of native functions
    run(1, arguments)
    return min(_seconds(run, turns, arguments) / turns for _ in range(repeats)) * 1e6


def _seconds(function: Any, *arguments: Any) -> float:
    """Seconds of this thread: of a core, whatever else runs on it."""
    start = time.thread_time()
    function(*arguments)
    return time.thread_time() - start


def series(T: int, observation: Observation | None = None) -> tuple[DiffusionModel, Observations]:
    """FitzHugh-Nagumo, seen without noise or in another way, and T observations."""
    model = fitzhugh_nagumo.observed_by(observation) if observation else fitzhugh_nagumo.noiseless()
    truth, start = fitzhugh_nagumo.TRUTH, fitzhugh_nagumo.INITIAL_STATE
    times = INTERVAL * np.arange(1, T + 1)
    return model, simulate(model, truth, times, initial_state=start, steps_per_interval=25, seed=1)


def oscillators(count: int, varying: int, extra: int = 0) -> tuple[DiffusionModel, list[Observations]]:
    """A linear oscillator in series of eight observations, some of whose four parameters vary between them.

    Further parameters move the level about which it swings.
    """
    priors = {"stiffness": (0.0, 0.3), "friction": (-1.0, 0.3), "sigma": (-1.0, 0.3), "tau": (-1.5, 0.3)}
    levels = {f"level{k}": dist.Normal(0.0, 0.3) for k in range(extra)}

    def prior(k: int, name: str):
        return Varying(dist.LogNormal(*priors[name])) if k < varying else dist.LogNormal(*priors[name])

    def drift(x, z):
        force = sum(z[name] * jnp.cos(k * x[0]) for k, name in enumerate(levels))
        return jnp.array([x[1], force - z["stiffness"] * x[0] - z["friction"] * x[1]])

    model = DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={name: prior(k, name) for k, name in enumerate(priors)} | levels,
        initial_state=[dist.Normal(0.0, 1.0), dist.Normal(0.0, 1.0)],
        observation=GaussianNoise(lambda x, z: x[:1], "tau"),
    )
    times, rng = 0.5 * np.arange(1, 9), np.random.default_rng(2)
    amplitude, phase = rng.normal(1.0, 0.2, count), rng.uniform(0.0, 2.0 * np.pi, count)
    values = amplitude[:, None] * np.sin(times + phase[:, None]) + 0.2 * rng.normal(size=(count, len(times)))
    return model, [Observations(times, y) for y in values]


def panels() -> Iterator[tuple[str, DiffusionModel, list[Observations], int]]:
    """Yield name, model, data and fine steps of the panels."""
    from starts import one_compartment  # beside this file, when it is run

    for count, varying, extra in ((30, 0, 0), (30, 0, 5), (30, 2, 0), (30, 2, 5), (256, 2, 0)):
        name = f"{count} oscillators, {varying} of {4 + extra} parameters varying"
        yield name, *oscillators(count, varying, extra), 3
    for count in (30, 1000):
        model, data, _ = one_compartment(count)
        yield f"{count} subjects, one-compartment drug", model, data, 6


def measure(
    model: DiffusionModel, data: Data, S: int, *, parts: bool, repeats: int, settle: int = 50
) -> dict[str, float]:
    """Costs in microseconds; of the solve and the step the mean over points and momenta of minima over repeats."""
    case = Case(model, data, S)
    case.settle(settle)
    results: dict[str, float] = {}
    if parts:
        machine, point = case.machine, case.point
        results["linearise_us"] = native_microseconds(linearise, (machine, point), repeats)
        factor = native_microseconds(factorise, (machine, point), repeats)
        projected = native_microseconds(project, (machine, point, case.p), repeats)
        results["factor_project_us"] = factor + projected
        results["gradient_us"] = native_microseconds(set_gradient, (machine, point), repeats)
        results["all_parts_us"] = sum(results.values())
    times: dict[str, list[float]] = {"newton_solve_us": [], "step_us": []}
    counts, tried = np.zeros(2), 0
    for _ in range(POINTS):
        case.settle(20)
        momenta = [case.momentum() for _ in range(MOMENTA)]
        case.counts[:] = 0
        succeeded = [p for p in momenta if case.step(p) == 0]
        counts += case.counts[[ITERATED, LINEARISED]]
        tried += len(momenta)
        for name, function in (("newton_solve_us", case.solve), ("step_us", case.step)):
            times[name] += [1e6 * min(_seconds(function, p) for _ in range(repeats)) for p in succeeded]
    results["newton_iterations"], results["linearisations"] = counts / (2 * tried)
    results["failed_steps"] = tried - len(times["step_us"])
    results |= {name: float(np.mean(each)) for name, each in times.items()}
    e = case.engine
    blocks = 3 * e.block("point").nbytes + 2 * e.block("vector").nbytes + e.block("scratch").nbytes + e.problem.nbytes
    results["bytes_a_fine_step"] = blocks / (e.intervals * S)
    return results


def measure_panels(repeats: int) -> None:
    for name, model, data, S in panels():
        r = measure(model, data, S, parts=True, repeats=repeats, settle=10)
        nodes = sum(len(each.times) for each in data)
        of_parts = ("linearise", "factor_project", "gradient")
        parts = ", ".join(f"{part} {r[f'{part}_us'] / nodes:5.2f}" for part in of_parts)
        print(
            f"  {name:50s} step {r['step_us'] / 1000:8.3f} ms, us a node: {r['step_us'] / nodes:5.2f}, {parts}   "
            f"iterations {r['newton_iterations']:.2f}, {r['failed_steps']:.0f} failed",
            flush=True,
        )


def main() -> None:
    import start_up  # beside this file, when it is run; others import what stands above

    parser = argparse.ArgumentParser(description="What a constrained step costs.")
    parser.add_argument("--json", action="store_true", help="one last line of figures for machines")
    parser.add_argument("--quick", action="store_true", help="without the growth tables")
    parser.add_argument("--panels", action="store_true", help="panels alone")
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    if options.panels:
        measure_panels(options.repeats)
        return
    base = measure(*series(100), 25, parts=True, repeats=options.repeats)
    for kind, found in start_up.measure("fitzhugh_nagumo", repeats=1).items():
        base |= {f"{kind}, {part}, s": seconds for part, seconds in found.items()}
    limits = {
        "linearise_us": 60,
        "factor_project_us": 25,
        "gradient_us": 130,
        "newton_solve_us": 220,
        "step_us": 510,
        "cold, seconds, s": 4,
        "warm, seconds, s": 0.7,
        "bytes_a_fine_step": 4096,
    }
    print(
        f"FitzHugh-Nagumo, noiseless, strong order 1.5, T = 100, S = 25, step size {STEP_SIZE}; jax {jax.__version__}"
    )
    for name, value in base.items():
        print(f"  {name:28s} {value:10.2f}" + (f"   (at most {limits[name]})" if name in limits else ""))
    if not options.quick:
        print("growth: cost of a step as a multiple of T = 100, S = 25")
        for T, S in ((25, 25), (400, 25), (1600, 25), (100, 100), (100, 400)):
            r = measure(*series(T), S, parts=False, repeats=max(3, options.repeats // 6))
            print(
                f"  T = {T:5d}  S = {S:4d}   step {r['step_us']:9.0f} us = {r['step_us'] / base['step_us']:6.2f} x   "
                f"iterations {r['newton_iterations']:.2f}, "
                f"{r['newton_iterations'] / base['newton_iterations']:.2f} x   "
                f"{r['bytes_a_fine_step']:.0f} bytes a fine step"
            )
    print("rows: the first state seen with noise or in counts, T = 100")
    for S in (1, 25):
        found = {
            name: measure(*series(100, each), S, parts=True, repeats=options.repeats) for name, each in ROWS.items()
        }
        for name, r in found.items():
            of_gaussian = r["step_us"] / found["Gaussian"]["step_us"]
            of_parts = r["all_parts_us"] / found["Gaussian"]["all_parts_us"]
            print(
                f"  S = {S:2d}  {name:10s} step {r['step_us']:7.1f} us = {of_gaussian:.2f} x   "
                f"linearise, factor, solve, gradient {of_parts:.2f} x   iterations {r['newton_iterations']:.2f}"
            )
            base[f"S = {S}, {name}, step_us"] = r["step_us"]
    if options.json:
        print(json.dumps({name: round(value, 4) for name, value in base.items()}))


if __name__ == "__main__":
    main()
