"""pf.sample: from a model and data to draws of its posterior."""

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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pathfold.engine import Engine
from pathfold.errors import DataError
from pathfold.model import DiffusionModel, Observations, TimeGrid
from pathfold.sampling.chain import ChainTask, Draws, Monitor, run_chain
from pathfold.sampling.checkpoint import claim_folder
from pathfold.sampling.initialise import Start
from pathfold.sampling.progress import Progress
from pathfold.sampling.run import Run
from pathfold.sampling.samplers import Sampler, StaticHMC

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
    splitting: Splitting,
    keep_path: KeepPath,
    progress: bool,
    checkpoint: str | os.PathLike | None,
    executor: Executor | None,
    threads: int | None,
) -> Run:
    """Compile, start, warm up and run the chains; what they drew, and all that it depended on."""
    _check_counts(chains=chains, draws=draws)
    if warmup < 0:
        raise DataError(f"warmup must not be negative, but is {warmup}")
    if keep_path not in ("nodes", "all", "none"):
        raise DataError(f"keep_path must be 'nodes', 'all' or 'none', not {keep_path!r}")
    if splitting not in ("gaussian", "stormer-verlet"):
        raise DataError(f"splitting must be 'gaussian' or 'stormer-verlet', not {splitting!r}")
    series = [data] if isinstance(data, Observations) else list(data)
    for observations in series:
        model.check_data(observations)
    sampler = sampler or StaticHMC()
    grid = TimeGrid.build(series, steps_per_interval=steps_per_interval, max_step=max_step)
    begin = time.perf_counter()
    engine = Engine(model, grid, splitting=splitting)
    compile_seconds = time.perf_counter() - begin

    observed = np.concatenate([np.ravel(s.values) for s in series])
    spread = float(np.nanvar(observed)) if np.isfinite(observed).sum() > 1 else 1.0
    task = ChainTask(
        index=0,
        seed=seed,
        package=str(Path(engine.native.__file__ or "").parent),
        layout=engine.layout,
        problem=engine.problem,
        block_sizes=engine.block_sizes,
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
        "keep_path": keep_path,
        "steps_per_interval": grid.steps,
        "sampler": type(sampler).__name__,
        **asdict(sampler),
    }
    if checkpoint is not None:
        claim_folder(Path(checkpoint), _fingerprint(task, settings))
    tasks = [replace(task, index=i) for i in range(chains)]
    begin = time.perf_counter()
    results, interrupted = _execute(tasks, executor, threads, progress)
    made = min(d.made for d in results)
    if interrupted:
        warnings.warn(
            f"the run was interrupted: {max(0, made - warmup)} of {draws} draws a chain are kept", stacklevel=3
        )
    seconds = {"compile_seconds": compile_seconds, "run_seconds": time.perf_counter() - begin}
    return Run(model, grid, settings, [d.first(made) for d in results], seconds)


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise DataError(f"{name} must be a positive whole number, not {value!r}")


def _fingerprint(task: ChainTask, settings: dict[str, Any]) -> str:
    """What must be the same for a run to be taken up again."""
    digest = hashlib.sha256()
    for array in (task.layout, task.problem):
        digest.update(np.ascontiguousarray(array).tobytes())
    return json.dumps({**settings, "model": Path(task.package).name, "data": digest.hexdigest()}, sort_keys=True)


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
        if failed:
            for future in futures:
                future.cancel()
        results = [future.result() for future in futures if not future.cancelled()]
    finally:
        bar.close()
        if own:
            pool.shutdown(wait=True, cancel_futures=True)
    return results, interrupted
