"""How long one waits for the first draw: a new model, a known one in a new process, the same one with other data.

Every figure is the time from the call of `pf.sample` to the first draw of one chain, imports not counted, in a process
of its own; of several runs the least. "Cold" is an empty cache of models, with the sampler itself compiled by the
installation. The parts are seconds of work: LLVM runs while the next kernel is traced, so that they add up to more
than the whole. `--json` adds one last line of figures for machines, `--quick` leaves the largest models and the
installation out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pathfold as pf
from pathfold.engine import compile as compiling
from pathfold.example_models import EXAMPLES, lorenz96
from pathfold.sampling import execution

# Seconds: at most, and what is hoped for.
ASKED = {
    "fitzhugh_nagumo, cold": (4.0, 2.5),
    "autoregulation, cold": (12.0, 6.0),
    "lorenz96 with 12 states, cold": (20.0, 10.0),
    "lorenz96 with 40 states, cold": (90.0, 40.0),
    "jansen_rit, cold": (12.0, 6.0),
    "doses, cold": (12.0, 6.0),  # a panel with effects
    "spike_counts, cold": (12.0, 6.0),  # likelihoods
    "fitzhugh_nagumo, warm": (0.7, 0.4),
    "autoregulation, warm": (0.7, 0.4),
    "lorenz96 with 12 states, warm": (0.7, 0.4),
    "lorenz96 with 40 states, warm": (0.7, 0.4),
    "fitzhugh_nagumo, other data": (0.05, 0.02),
    "autoregulation, other data": (0.05, 0.02),
    "the installation": (60.0, 60.0),
}
LARGE = ("lorenz96 with 40 states",)


def model_and_data(name: str) -> tuple[pf.DiffusionModel, Any, int]:
    """A model, data for it, and the fine steps of an interval."""
    if name.startswith("lorenz96 with"):
        states = int(name.split()[2])
        return lorenz96.noisy(states), lorenz96.data(states, observations=20), 5
    example = EXAMPLES[name]
    return example.model(), example.data(), example.steps_per_interval


def longer(data: Any) -> Any:
    """The same series with one observation more."""
    series = data if isinstance(data, list) else [data]
    more = [
        pf.Observations(
            [*s.times, 2.0 * s.times[-1] - s.times[-2]], [*s.values, s.values[-1]], s.initial_time, s.inputs,
            events=s.events, covariates=s.covariates,
        )
        for s in series
    ]  # fmt: skip
    return more if isinstance(data, list) else more[0]


@contextmanager
def timed(parts: dict[str, float]) -> Iterator[None]:
    """Count the seconds spent in each part of compiling."""

    def counted(name: str, function: Callable) -> Callable:
        def call(*arguments: Any, **settings: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*arguments, **settings)
            finally:
                parts[name] = parts.get(name, 0.0) + time.perf_counter() - begin

        return call

    places = [
        (execution, "compile_sampler", "sampler"),
        (compiling.CompiledModel, "_key", "key"),
        (compiling.Tracing, "__call__", "tracing"),
        (compiling, "emit", "emission"),
        (compiling, "assemble", "LLVM"),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    try:
        for owner, name, part in places:
            setattr(owner, name, counted(part, getattr(owner, name)))
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def first_draw(model: pf.DiffusionModel, data: Any, steps: int) -> dict[str, float]:
    """Seconds from the call to the first draw of one chain; how much of it was compiling."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one draw has not converged
        tree = pf.sample(
            model, data, steps_per_interval=steps, chains=1, warmup=0, draws=1, progress=False, keep_path="none"
        )
    compile_seconds, run_seconds = tree.attrs["compile_seconds"], tree.attrs["run_seconds"]
    return {"seconds": compile_seconds + run_seconds, "compile": compile_seconds, "start and draw": run_seconds}


def child(name: str) -> None:
    """In a process of its own: the first call, and the same model with a longer series."""
    model, data, steps = model_and_data(name)
    parts: dict[str, float] = {}
    with timed(parts):
        first = first_draw(model, data, steps)
    again = first_draw(model, longer(data), steps)
    print(json.dumps({"first": first | parts, "again": again}))


def measure(name: str, repeats: int) -> dict[str, dict[str, float]]:
    """Cold, warm, and with other data: each the run with the least seconds."""
    found: dict[str, list[dict[str, float]]] = {"cold": [], "warm": [], "other data": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("cold", "warm"):
                done = subprocess.run(
                    [sys.executable, __file__, "--child", name],
                    env=os.environ | {"PATHFOLD_CACHE": folder},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                result = json.loads(done.stdout.splitlines()[-1])
                found[kind].append(result["first"])
                found["other data"].append(result["again"])
    return {kind: min(runs, key=lambda run: run["seconds"]) for kind, runs in found.items()}


def installation() -> dict[str, float]:
    """The sampler's own compilation, with an empty cache of Numba."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "from pathfold import StaticHMC; from pathfold.engine.installation import compile_sampler; "
            "print(compile_sampler(StaticHMC.native, announce=False))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return {"seconds": float(done.stdout.split()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description="How long one waits for the first draw.")
    parser.add_argument("--json", action="store_true", help="one last line of figures for machines")
    parser.add_argument("--quick", action="store_true", help="without the largest models and the installation")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", metavar="MODEL", help="measure one model in this process")
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    names = list(dict.fromkeys(row.rsplit(", ", 1)[0] for row in ASKED if ", " in row))
    results: dict[str, dict[str, float]] = {}
    for name in names:
        if not (options.quick and name in LARGE):
            for kind, found in measure(name, options.repeats).items():
                results[f"{name}, {kind}"] = found
    if not options.quick:
        results["the installation"] = installation()
    print(f"{'':38s} {'seconds':>8s} {'asked':>6s} {'aim':>6s}")
    for row, found in results.items():
        asked = "".join(f" {limit:6.2f}" for limit in ASKED.get(row, ()))
        parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in found.items() if part != "seconds")
        print(f"{row:38s} {found['seconds']:8.3f}{asked:14s}   {parts}")
    if options.json:
        print(json.dumps({row: {k: round(v, 4) for k, v in found.items()} for row, found in results.items()}))


if __name__ == "__main__":
    main()
