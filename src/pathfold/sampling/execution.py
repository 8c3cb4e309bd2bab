"""Running all chains of a model and its data: compile, start, warm up, run."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pathfold.data import Data, TimeGrid
from pathfold.data.checks import cores
from pathfold.data.time_grid import warn_of_skipped_values
from pathfold.engine import Engine, IntegratedEngine
from pathfold.engine.installation import announced, compile_sampler
from pathfold.engine.native.trajectory import STATISTICS
from pathfold.errors import InitialisationError, say, warn
from pathfold.model import DiffusionModel
from pathfold.model.check_data import check_panel
from pathfold.model.identity import identity
from pathfold.model.memory import check_disk, check_memory
from pathfold.model.reactions import ENDS
from pathfold.sampling.alone import chain_ended, only_chain
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.checkpoint import Checkpoint, claim_folder, make_folder, sole_use
from pathfold.sampling.contradictions import contradiction_at
from pathfold.sampling.diagnosis import why_no_start
from pathfold.sampling.draws import Draws, Shape, spared
from pathfold.sampling.half_steps import Shift, half_step_shift
from pathfold.sampling.held_noise import Noise, noise_of
from pathfold.sampling.integrated_modes import find_modes
from pathfold.sampling.sampler import Statistic
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.selection import Selection
from pathfold.sampling.settings import Settings
from pathfold.sampling.starts import Starts, find_starts
from pathfold.sampling.warm_start import check_same_series, check_start, guess_from
from pathfold.sampling.workers import execute


@dataclass(frozen=True)
class Run:
    """The outcome of a run of chains: draws, with the model, grid and settings they came from."""

    model: DiffusionModel
    grid: TimeGrid
    settings: dict[str, Any]
    chains: list[Draws]
    seconds: dict[str, float]
    noise: Noise | None = None  # of the draws that all chains hold, if there are any
    half_step_shift: Shift | None = None  # at these, where it is known
    iterations: list[int] = field(default_factory=list)  # of every chain, kept or not, where a run was cut short
    left_out: list[Draws] = field(default_factory=list)  # chains that a run cut short could not wait for
    keep: Selection | None = None  # what the draws have of parameters and states; all if it is None
    starts: Starts | None = None  # of chains that had no checkpoint to go on from
    statistics: Sequence[Statistic] = ()  # that the sampler records besides those of all


def run_chains(
    model: DiffusionModel,
    data: Data,
    grid: TimeGrid,
    settings: Settings,
    about: Callable[[Settings], str] = lambda settings: "",
) -> Run:
    """Compile, start, warm up and run the chains; return what they drew, and all that it depended on.

    A checkpoint folder gets the text that `about` makes, which says what the draws in it are.
    """
    _check(model, data, grid, settings)
    alone, sampler = only_chain(settings), settings.sampler
    begin = time.perf_counter()
    engine, sampled = _compiled(model, grid, settings)
    middle = time.perf_counter()
    task = _task(model, grid, settings, sampled)
    recorded = recorded_settings(model, grid, settings)
    mark = partial(_fingerprint, model, task, recorded)
    claimed = _claimed(settings, mark, about, shared=alone is not None)
    with explained(model, grid, settings.seed), claimed:
        indices = range(settings.chains) if alone is None else [alone]
        tasks, starts = _with_starts(task, engine, sampled, settings, indices)
        if starts.candidates and (sentence := contradiction_at(engine, starts.candidates[0])):
            say(sentence, show=settings.progress)
        where = settings if alone is None else replace(settings, executor=None)
        results, interrupted = execute(tasks, where, lambda: [*sampled.assembly()])
    if alone is not None:
        raise chain_ended(results[0], settings, alone)
    seconds = {"compile_seconds": middle - begin, "run_seconds": time.perf_counter() - middle}
    own = sampler.statistics(model)
    run = Run(model, grid, recorded, results, seconds, keep=settings.keep, starts=starts, statistics=own)
    if interrupted or min(d.made for d in results) < settings.warmup + settings.draws:
        run = _cut_short(run, settings, [task.iterations(d.made) for d in results], interrupted=interrupted)
    _warn_of_disk(run.chains, settings)
    return _with_noise(run, engine, sampled, settings.warmup)


def recorded_settings(model: DiffusionModel, grid: TimeGrid, settings: Settings) -> dict[str, Any]:
    """Return all that the draws depend on besides model and data, and what was chosen for these, as results have it."""
    return {**settings.recorded, **settings.sampler.chosen(model, grid), "steps_per_interval": grid.steps}


def _check(model: DiffusionModel, data: Data, grid: TimeGrid, settings: Settings) -> None:
    """Check whatever can be checked before anything is compiled, and make the checkpoint folder."""
    check_panel(model, data)
    warn_of_skipped_values(model.inputs, grid)
    if settings.start is not None:
        check_start(settings.start, model)
        check_same_series(settings.start, grid)
    settings.sampler.check(model, grid)
    if settings.checkpoint is not None:
        make_folder(settings.checkpoint)
    check_path_fits(model, grid)
    check_draws_fit(shape_of_draws(model, grid, settings), settings)


def _compiled(model: DiffusionModel, grid: TimeGrid, settings: Settings) -> tuple[Engine, Engine]:
    """Return the engine that finds where chains are to begin, and the one that they run on."""
    compile_sampler(settings.sampler.native, announce=settings.progress)
    with announced("compiling the model", show=settings.progress):
        engine = settings.sampler.engine(model, grid)
        sampled = settings.sampler.sampled(engine)
    if not isinstance(engine, IntegratedEngine):
        set_scales(engine)
    return engine, sampled


def _task(model: DiffusionModel, grid: TimeGrid, settings: Settings, sampled: Engine) -> ChainTask:
    """Return what all chains have in common."""
    return ChainTask(
        index=0,
        seed=settings.seed,
        program=sampled.program,
        layout=sampled.table,
        problems=settings.sampler.problems(sampled),
        block_sizes=sampled.block_sizes,
        start=None,
        sampler=settings.sampler,
        warmup=settings.warmup,
        draws=settings.draws,
        shape=shape_of_draws(model, grid, settings),
        thin=settings.thin,
        max_seconds=settings.max_seconds or math.inf,
        checkpoint=None if settings.checkpoint is None else str(settings.checkpoint.absolute()),
    )


def _cut_short(run: Run, settings: Settings, iterations: list[int], *, interrupted: bool) -> Run:
    """Return the chains that are worth keeping, cut to the same length, with a warning that says what is lost."""
    kept, left_out = worth_keeping(run.chains, settings.warmup)
    made = min(d.made for d in kept)
    if interrupted and made <= settings.warmup and not settings.keep_warmup:
        raise KeyboardInterrupt("in warm-up, so that there are no draws")
    cause = "the run was interrupted" if interrupted else "max_seconds were spent"
    draws = f"{max(0, made - settings.warmup)} of {settings.draws} draws"
    warn(f"{cause}: {draws} are kept, of {len(kept)} of {settings.chains} chains")
    chains = [_of_length(d, made, settings.warmup) for d in kept]
    return replace(run, chains=chains, left_out=left_out, iterations=iterations)


def _warn_of_disk(chains: list[Draws], settings: Settings) -> None:
    if unsaved := next((d.unsaved for d in chains if d.unsaved), ""):
        warn(
            f"the checkpoint {settings.checkpoint} could not be written ({unsaved}): the draws are all here, but a run "
            "that goes on from it will make some of them again"
        )


def _with_noise(run: Run, engine: Engine, sampled: Engine, warmup: int) -> Run:
    """Add what the noise of draws tells, with a warning in the place of what cannot be made."""
    lost, shift = "was left out of the results, since it could not be made", None
    noise = spared(f"the group noise {lost}", lambda: noise_of(sampled, run.grid, run.chains, warmup))
    if not sampled.of_fine_steps:
        judge = partial(half_step_shift, run.model, sampled, run.chains, warmup)
        shift = spared(f"the group half_step_shift {lost}", judge)
    return replace(run, noise=noise, half_step_shift=shift)


def shape_of_draws(model: DiffusionModel, grid: TimeGrid, settings: Settings) -> Shape:
    """Return the shape of the draws of one chain. The states of warm-up are kept only if they are asked for."""
    intervals = len(grid.starts)
    states = settings.keep_path if settings.keep.components else "none"
    return Shape(
        total=settings.warmup + settings.draws,
        unkept=0 if settings.keep_warmup else settings.warmup,
        z_size=model.parameters.z_size,
        series=len(grid.first),
        state_dim=model.state_dim,
        augmented_dim=model.augmented_dim,
        steps=grid.steps,
        intervals=intervals,
        nodes=0 if states == "none" else intervals,
        path=intervals if states == "all" else 0,
        statistics=STATISTICS + sum(own.size for own in settings.sampler.statistics(model)),
        columns=settings.keep.columns(model),
    )


def check_path_fits(model: DiffusionModel, grid: TimeGrid) -> None:
    """Raise SettingsError if three points are larger than the memory: every sampler and fit has as many, or more.

    Each has states, Jacobians by the noise, noise and gradient of every step.
    """
    X, V = model.augmented_dim, model.noise_dim
    points = 3 * 8 * len(grid.starts) * grid.steps * (X + X * V + 2 * V)
    check_memory("the fine steps of one path", points, "fewer steps_per_interval or a longer max_step")


def check_draws_fit(shape: Shape, settings: Settings) -> None:
    """Raise SettingsError if the draws of all chains are too large: for the disk with a checkpoint, for the memory
    otherwise, with their copy in the results."""
    less = {"all": "keep_path='nodes' or 'none', ", "nodes": "keep_path='none', ", "none": ""}[settings.keep_path]
    fewer, size = f"{less}fewer draws, a shorter warmup or fewer chains", settings.chains * shape.nbytes
    if settings.checkpoint is None:
        check_memory("the draws", 2 * size, f"{fewer}, or let them go to the disk with checkpoint=")
    else:
        check_disk("the draws", size, settings.checkpoint, fewer)


@contextmanager
def explained(model: DiffusionModel, grid: TimeGrid, seed: int) -> Iterator[None]:
    """Put the cause, where one is seen, at the beginning of the error that no start was found."""
    try:
        yield
    except InitialisationError as error:
        cause, besides = why_no_start(model, grid, seed), "" if model.network is None else f". Besides, {ENDS}"
        if not cause and not besides:
            raise
        said = f"{cause}. So {error}" if cause else f"{error}"
        raise InitialisationError(f"{said}{besides}", error.nearest) from error


@contextmanager
def _claimed(
    settings: Settings, fingerprint: Callable[[], dict[str, Any]], about: Callable[[Settings], str], *, shared: bool
) -> Iterator[None]:
    """Claim the checkpoint folder, if there is one, for as long as this run lasts: for this run alone, or shared with
    runs that make other chains."""
    if settings.checkpoint is None:
        yield
        return
    with sole_use(settings.checkpoint / "lock", shared=shared):
        claim_folder(settings.checkpoint, fingerprint(), about(settings))
        yield


def _starts(engine: Engine, settings: Settings, chains: Sequence[int]) -> Starts:
    """Find where these chains begin."""
    earlier, threads = settings.start, cores(settings.threads)
    again = earlier is not None and not earlier.fitted
    if isinstance(engine, IntegratedEngine):
        own = {} if earlier is None else {i: earlier.u[i % len(earlier.u)] for i in chains}
        return find_modes(engine, chains, seed=settings.seed, threads=threads, guesses=own, again=again)
    if earlier is not None:
        guesses = {i: guess_from(engine, earlier, settings.seed, i) for i in chains}
    else:
        guesses = settings.sampler.guesses(engine, settings.seed, chains)
    return find_starts(
        engine,
        chains,
        seed=settings.seed,
        threads=threads,
        relaxation=relative_spread(engine),
        guesses=guesses,
        again=again,
        thorough=settings.sampler.tempered,
    )


def _with_starts(
    task: ChainTask,
    engine: Engine,
    sampled: Engine,
    settings: Settings,
    chains: Sequence[int],
) -> tuple[list[ChainTask], Starts]:
    """Make a task for each of these chains, with a start for those that have no checkpoint; return these starts too."""
    folder, earlier = settings.checkpoint, settings.start
    new = [i for i in chains if folder is None or not Checkpoint(folder, i).file.exists()]
    starts = _starts(engine, settings, new)
    tasks = [replace(task, index=i) for i in chains]
    tasks = [replace(task, start=starts.point(task.index)) if task.index in new else task for task in tasks]
    if earlier is not None and sampled is engine and earlier.has_pace:
        tasks = [replace(task, pace=earlier.pace(task.index)) for task in tasks]
    if sampled is not engine:
        own = [task.start and task.sampler.start(engine, task.start.block(engine), sampled) for task in tasks]
        tasks = [replace(task, start=start) for task, start in zip(tasks, own, strict=True)]
    return tasks, starts


def worth_keeping(results: list[Draws], warmup: int) -> tuple[list[Draws], list[Draws]]:
    """Split the chains of a run cut short: those that give most draws when cut to the same length, and the others."""
    lengths = sorted((max(0, d.made - warmup) for d in results), reverse=True)
    most = max(range(len(lengths)), key=lambda i: (i + 1) * lengths[i])
    enough = [max(0, d.made - warmup) >= lengths[most] for d in results]
    kept, left_out = ([d for d, has in zip(results, enough, strict=True) if has == which] for which in (True, False))
    return kept, left_out


def _of_length(draws: Draws, made: int, warmup: int) -> Draws:
    """Return the first draws alone, with their share of the time after warm-up."""
    share = max(0, made - warmup) / max(1, draws.made - warmup)
    return replace(draws.first(made), main_seconds=share * draws.main_seconds)


def _fingerprint(model: DiffusionModel, task: ChainTask, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return everything that must be the same for a run to be resumed or extended."""
    digest = hashlib.sha256()
    for array in (task.layout, task.problems):
        digest.update(np.ascontiguousarray(array).tobytes())
    same = {name: value for name, value in recorded.items() if name != "draws"}
    if recorded["keep_path"] != "none":
        same["keep_warmup"] = task.shape.unkept == 0
    return {**same, **identity(model), "compiled model": task.program.key, "data": digest.hexdigest()}
