"""From a model and data to the draws of all chains: compile, start, warm up, run."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from pathfold.engine import Engine, UnconstrainedEngine
from pathfold.engine import table as at
from pathfold.engine.installation import compile_sampler
from pathfold.engine.native.trajectory import CURRENT, STATIC_POINTS
from pathfold.errors import DataError
from pathfold.model import DiffusionModel, GaussianNoise, Observations, TimeGrid
from pathfold.sampling.blocks import blocked_problems, partitions
from pathfold.sampling.chain import ChainTask, Draws, Monitor, run_chain
from pathfold.sampling.checkpoint import Checkpoint, claim_folder
from pathfold.sampling.heuristics import Heuristic, guess_starts
from pathfold.sampling.initialise import Start, find_start
from pathfold.sampling.progress import Progress
from pathfold.sampling.run import Run
from pathfold.sampling.samplers import Sampler, StaticHMC, UnconstrainedHMC

if TYPE_CHECKING:
    from pathfold.engine.engine import Splitting

KeepPath = Literal["nodes", "all", "none"]


def run_chains(
    model: DiffusionModel,
    data: Observations | Sequence[Observations],
    *,
    steps_per_interval: int | None,
    max_step: float | None,
    chains: int,
    warmup: int,
    draws: int,
    seed: int,
    sampler: Sampler | None,
    splitting: Splitting | None,
    observations_per_block: int | None,
    initial_states: Literal["projection"] | Heuristic | None,
    keep_path: KeepPath,
    progress: bool,
    checkpoint: str | os.PathLike | None,
    executor: Executor | None,
    threads: int | None,
) -> Run:
    """Compile, start, warm up and run the chains; what they drew, and all that it depended on."""
    chains, draws = _whole("chains", chains, least=1), _whole("draws", draws, least=1)
    warmup, seed = _whole("warmup", warmup, least=0), _whole("seed", seed, least=0)
    if keep_path not in ("nodes", "all", "none"):
        raise DataError(f"keep_path must be 'nodes', 'all' or 'none', not {keep_path!r}")
    sampler = StaticHMC() if sampler is None else sampler
    if not isinstance(sampler, Sampler):
        raise DataError(f"sampler must be pf.StaticHMC(), pf.DynamicHMC() or pf.UnconstrainedHMC(), not {sampler!r}")
    threads = None if threads is None else _whole("threads", threads, least=1)
    unconstrained = isinstance(sampler, UnconstrainedHMC)
    splitting = splitting or ("stormer-verlet" if unconstrained else "gaussian")
    if splitting not in ("gaussian", "stormer-verlet"):
        raise DataError(f"splitting must be 'gaussian' or 'stormer-verlet', not {splitting!r}")
    initial_states = initial_states or "projection"
    if initial_states not in (choices := ("projection", *get_args(Heuristic))):
        raise DataError(f"initial_states must be one of {', '.join(map(repr, choices))}, not {initial_states!r}")
    series = list(data) if isinstance(data, Sequence) else [data]
    grid = TimeGrid.build(series, steps_per_interval=steps_per_interval, max_step=max_step)
    for observations in series:
        model.check_data(observations)
    held = [] if observations_per_block is None else partitions(model, grid, observations_per_block)
    if unconstrained:
        _check_unconstrained(model, observations_per_block)
    begin = time.perf_counter()
    compile_sampler(announce=progress)
    engine = Engine(model, grid, splitting=splitting, conditioned=bool(held))
    sampled = UnconstrainedEngine(model, grid, splitting=splitting) if unconstrained else engine
    compile_seconds = time.perf_counter() - begin

    observed = np.concatenate([np.ravel(s.values) for s in series])
    spread = float(np.nanvar(observed)) if np.isfinite(observed).sum() > 1 else 1.0
    task = ChainTask(
        index=0,
        seed=seed,
        program=sampled.program,
        layout=sampled.layout,
        problems=blocked_problems(sampled, held),
        block_sizes=sampled.block_sizes,
        start=Start(relaxation=spread or 1.0),
        sampler=sampler,
        warmup=warmup,
        draws=draws,
        z_size=engine.sizes.Z,
        series=engine.series,
        state_dim=engine.sizes.X,
        steps=grid.steps,
        intervals=engine.intervals,
        keep_path=keep_path,
        checkpoint=None if checkpoint is None else str(Path(checkpoint)),
    )
    settings = {
        "chains": chains,
        "warmup": warmup,
        "draws": draws,
        "seed": seed,
        "splitting": splitting,
        "observations_per_block": int(observations_per_block or 0),
        "initial_states": initial_states,
        "keep_path": keep_path,
        "steps_per_interval": grid.steps,
        "sampler": type(sampler).__name__,
        **{name: "adapted" if value is None else value for name, value in asdict(sampler).items()},
    }
    if checkpoint is not None:
        claim_folder(Path(checkpoint), _fingerprint(task, settings))
    begin = time.perf_counter()
    tasks = [replace(task, index=i) for i in range(chains)]
    new = [i for i in range(chains) if checkpoint is None or not Checkpoint(Path(checkpoint), i).file.exists()]
    if initial_states != "projection":
        guesses = guess_starts(engine, initial_states, seed, new)
        tasks = [replace(task, start=replace(task.start, guess=guesses.get(task.index))) for task in tasks]
    if isinstance(sampled, UnconstrainedEngine):
        starts = {i: _without_constraint(engine, sampled, tasks[i]) for i in new}
        tasks = [replace(task, start=Start(position=starts.get(task.index))) for task in tasks]
    results, interrupted = _execute(tasks, executor, threads, progress)
    if interrupted:
        results = _worth_keeping(results, warmup)
    made = min(d.made for d in results)
    if interrupted:
        warnings.warn(
            f"the run was interrupted: {max(0, made - warmup)} of {draws} draws are kept, of {len(results)} of "
            f"{chains} chains",
            stacklevel=3,
        )
    seconds = {"compile_seconds": compile_seconds, "run_seconds": time.perf_counter() - begin}
    return Run(model, grid, settings, [d.first(made) for d in results], seconds)


def _whole(name: str, value: Any, *, least: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise DataError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def _check_unconstrained(model: DiffusionModel, observations_per_block: int | None) -> None:
    if not isinstance(model.observation, GaussianNoise) or model.exactly_observed.any():
        raise DataError(
            "pf.UnconstrainedHMC() needs additive noise in every component, pf.GaussianNoise(mean, scale): without it "
            "(u, v0, v) have no density; use pf.StaticHMC() or pf.DynamicHMC()"
        )
    if observations_per_block is not None:
        raise DataError("observations_per_block has no meaning for pf.UnconstrainedHMC(): leave it out")


def _without_constraint(engine: Engine, target: UnconstrainedEngine, task: ChainTask) -> np.ndarray:
    """A start on the manifold, without its observation noise, as a position of the unconstrained sampler."""
    rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(task.index, 1)))
    points, momenta = np.zeros((STATIC_POINTS, engine.block_sizes["point"])), engine.block("vector")[None]
    find_start(engine.layout, engine.problem, points, momenta, engine.block("scratch"), rng, task.start)
    u, v0, _, v = engine.get_vector(points[CURRENT])
    position = target.block("vector")
    target.set_vector(position, u, v0, np.zeros((target.intervals, 0)), v.reshape(target.intervals, -1))
    return position


def _worth_keeping(results: list[Draws], warmup: int) -> list[Draws]:
    """Of chains that were interrupted, those that together give the most draws when cut to the same length."""
    lengths = sorted((max(0, d.made - warmup) for d in results), reverse=True)
    most = max(range(len(lengths)), key=lambda i: (i + 1) * lengths[i])
    return [d for d in results if max(0, d.made - warmup) >= lengths[most]]


def _fingerprint(task: ChainTask, settings: dict[str, Any]) -> str:
    """What must be the same for a run to be taken up again."""
    digest = hashlib.sha256()
    without_addresses = np.delete(task.layout, np.s_[at.KERNELS : at.LENGTH])
    for array in (without_addresses, task.problems):
        digest.update(np.ascontiguousarray(array).tobytes())
    return json.dumps({**settings, "model": task.program.key, "data": digest.hexdigest()}, sort_keys=True)


def _execute(
    tasks: list[ChainTask], executor: Executor | None, threads: int | None, progress: bool
) -> tuple[list[Draws], bool]:
    """Run the chains, in threads unless an executor is given; on Ctrl-C let them end and keep what they have."""
    monitors = [Monitor() for _ in tasks]
    own = executor is None
    pool = ThreadPoolExecutor(threads or min(len(tasks), os.cpu_count() or 1)) if executor is None else executor
    shared = isinstance(pool, ThreadPoolExecutor)
    bar = Progress(monitors, tasks[0].warmup + tasks[0].draws, show=progress and shared)
    interrupted = False
    futures: list[Future[Draws]] = []
    try:
        futures = [
            pool.submit(run_chain, task, monitor) if shared else pool.submit(run_chain, task)
            for task, monitor in zip(tasks, monitors, strict=True)
        ]
        try:
            while wait(futures, timeout=0.2).not_done:
                bar.update()
                if any(f.done() and f.exception() for f in futures):
                    break
        except KeyboardInterrupt:
            if not shared or threading.current_thread() is not threading.main_thread():
                raise
            interrupted = True
        failed = next((f for f in futures if f.done() and f.exception()), None)
        if interrupted or failed:
            for monitor in monitors:
                monitor.stop[0] = 1
            for future in futures:
                future.cancel()
        if failed:
            failed.result()
        results = [future.result() for future in futures if not future.cancelled()]
        if not results:
            raise KeyboardInterrupt
    finally:
        for monitor in monitors:
            monitor.stop[0] = 1
        bar.close()
        if own:
            pool.shutdown(wait=True, cancel_futures=True)
    return results, interrupted
