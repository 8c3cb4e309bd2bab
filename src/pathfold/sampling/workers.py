"""Running chains in threads of this process, or in the workers of an executor, which may be anywhere.

While it runs a chain, a worker communicates by the checkpoint folder alone, if there is one: the host reads there how
far chains are, and puts a file there that asks them to end. An error in a chain comes back as a value. So an error of a
future means that a worker was lost, and the chain is given to another.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pathfold.data.checks import cores
from pathfold.engine.compile import OtherMachine
from pathfold.engine.installation import compile_sampler
from pathfold.errors import PathfoldError, SettingsError, told, warn
from pathfold.program.emit import Code
from pathfold.sampling.chain import ChainTask, run_chain
from pathfold.sampling.checkpoint import MARK, Checkpoint, InUse
from pathfold.sampling.draws import Draws
from pathfold.sampling.progress import Monitor, Progress
from pathfold.sampling.settings import Settings

Assembly = Callable[[], Sequence[Code]]

LOST_WORKERS = 3  # workers that a chain may lose before the run is given up
LOOK = 1.0  # seconds between two looks at the folder, of host and workers
GRACE = 60.0  # seconds that workers have to end when they are asked to; a network disk may take half of it to tell them
QUIET = 5  # looks that find nobody at work, after which no more is expected of them
LOCKED = 15.0  # seconds that a worker waits for one that was given up to let go of the chain's files


def execute(tasks: list[ChainTask], settings: Settings, assembly: Assembly) -> tuple[list[Draws], bool]:
    """Run the chains, and end them early on Ctrl-C; return what they drew, and whether it was cut short."""
    if settings.executor is None or isinstance(settings.executor, ThreadPoolExecutor):
        return _in_threads(tasks, settings)
    return _in_workers(tasks, settings, settings.executor, assembly)


def _in_threads(tasks: list[ChainTask], settings: Settings) -> tuple[list[Draws], bool]:
    monitors = [Monitor() for _ in tasks]
    own = settings.executor is None
    threads = cores(settings.threads)
    pool = settings.executor or ThreadPoolExecutor(min(threads, len(tasks)))
    if own:
        tasks = [replace(task, helpers=_helpers(i, len(tasks), threads)) for i, task in enumerate(tasks)]
    bar = Progress(monitors, _iterations(tasks[0]), show=settings.progress)
    try:
        return _all(pool, tasks, monitors, bar)
    finally:
        for monitor in monitors:
            monitor.stop[0] = 1
        bar.close()
        if own:
            pool.shutdown(wait=True, cancel_futures=True)


def _all(
    pool: Executor, tasks: Sequence[ChainTask], monitors: Sequence[Monitor], bar: Progress
) -> tuple[list[Draws], bool]:
    """Run every chain in the pool; return what they drew, and whether it was cut short by Ctrl-C.

    An error in one of them ends all, and is raised.
    """
    interrupted = False
    futures = [pool.submit(run_chain, task, monitor) for task, monitor in zip(tasks, monitors, strict=True)]
    try:
        while wait_for(futures, timeout=0.2).not_done:
            bar.update()
            if any(f.done() and f.exception() for f in futures):
                break
    except KeyboardInterrupt:
        if not _can_be_interrupted():
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
    return results, interrupted


def _helpers(chain: int, chains: int, threads: int) -> int:
    """Return how many threads a chain has besides its own, if there are more threads than chains."""
    return max(0, threads // chains - 1 + (chain < threads % chains))


def _iterations(task: ChainTask) -> int:
    return task.iterations(task.warmup + task.draws)


def _can_be_interrupted() -> bool:
    return threading.current_thread() is threading.main_thread()


def _in_workers(
    tasks: list[ChainTask], settings: Settings, executor: Executor, assembly: Assembly
) -> tuple[list[Draws], bool]:
    crew, monitors = Crew(executor, settings.checkpoint, assembly), [Monitor() for _ in tasks]
    _look(tasks, monitors)
    for monitor in monitors:
        monitor.before = int(monitor.done[0])
    bar = Progress(monitors, _iterations(tasks[0]), show=settings.progress and settings.checkpoint is not None)
    interrupted = False
    try:
        for task in tasks:
            crew.give(task)
        while crew.running:
            crew.take()
            _look(tasks, monitors)
            bar.update()
    except KeyboardInterrupt:
        if settings.checkpoint is None or not _can_be_interrupted():
            raise
        interrupted = True
    finally:
        crew.end()
        bar.close()
    by_task = [crew.results.get(task.index) or (_on_file(task) if interrupted else None) for task in tasks]
    results = [draws for draws in by_task if draws is not None]
    if not results:
        raise KeyboardInterrupt
    return results, interrupted


def _look(tasks: list[ChainTask], monitors: list[Monitor]) -> None:
    """Update the monitors from what the chains have saved."""
    for task, monitor in zip(tasks, monitors, strict=True):
        if task.checkpoint is not None:
            saved = _checkpoint(task).glance(task.shape.statistics)
            if saved is not None:
                made, monitor.recent = saved
                monitor.done[0] = min(task.iterations(made), _iterations(task))


def _on_file(task: ChainTask) -> Draws | None:
    """Return the draws that a chain has saved, if there are any and its worker has ended."""
    monitor = Monitor()
    monitor.stop[0] = 1
    try:
        return run_chain(task, monitor) if _checkpoint(task).file.exists() else None
    except InUse:
        return None


def _is_in_use(task: ChainTask) -> bool:
    try:
        with _checkpoint(task).sole_use():
            return False
    except InUse:
        return True


def _checkpoint(task: ChainTask) -> Checkpoint:
    assert task.checkpoint is not None
    return Checkpoint(Path(task.checkpoint), task.index)


@dataclass
class Crew:
    """The chains that workers of an executor are running, and the outcome of the others."""

    executor: Executor
    folder: Path | None
    assembly: Assembly  # of the model, for workers with another processor; made when the first of them asks
    running: dict[Future[Draws | Failed | None], ChainTask] = field(default_factory=dict)
    results: dict[int, Draws] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)  # by chain, how many workers

    def __post_init__(self) -> None:
        # A name of its own, since workers of a host that was killed may still be there.
        self.stop = None if self.folder is None else self.folder.absolute() / f"stop_{secrets.token_hex(8)}"

    def give(self, task: ChainTask) -> None:
        try:
            self.running[self.executor.submit(work, task, None if self.stop is None else str(self.stop))] = task
        except Exception as error:  # the executor's own: whatever it is, it takes no more work
            raise self._given_up(task, error) from error

    def take(self) -> None:
        """Wait for a moment, and collect the chains that have ended; give a chain that lost its worker to another."""
        for future in wait_for(self.running, timeout=LOOK, return_when=FIRST_COMPLETED).done:
            task = self.running.pop(future)
            error = CancelledError("it was cancelled") if future.cancelled() else future.exception()
            if error is not None:
                self._give_again(task, error)
                continue
            ended = future.result()
            if isinstance(ended, Draws):
                self.results[task.index] = ended
            elif isinstance(ended, Failed) and isinstance(ended.error, OtherMachine) and not task.program.assembly:
                self.give(replace(task, program=task.program.for_any_machine(self.assembly())))
            elif isinstance(ended, Failed):
                raise ended.error

    def end(self) -> None:
        """Let workers end the chains they still run; with a checkpoint folder, keep all that was drawn."""
        for future in self.running:
            if self.stop is None:
                future.cancel()
        if self.stop is None or not self.running:
            return
        self.stop.touch()
        end, quiet = time.monotonic() + GRACE, 0
        while (left := wait_for(self.running, timeout=LOOK).not_done) and time.monotonic() < end and quiet < QUIET:
            # An executor may have ended before it could say so: then nobody has its chains any more.
            quiet = 0 if any(_is_in_use(self.running[future]) for future in left) else quiet + 1
        if not left:
            self.stop.unlink(missing_ok=True)
        for future in self.running.keys() - left:
            if not future.cancelled() and future.exception() is None and isinstance(draws := future.result(), Draws):
                self.results[self.running[future].index] = draws

    def _give_again(self, task: ChainTask, error: BaseException) -> None:
        self.lost[task.index] = self.lost.get(task.index, 0) + 1
        if isinstance(error, BrokenExecutor) or self.lost[task.index] >= LOST_WORKERS:
            raise self._given_up(task, error) from error
        what = "begins again" if self.folder is None else "goes on from its checkpoint"
        warn(f"chain {task.index} lost its worker ({_name(error)}) and {what} with another")
        self.give(task)

    def _given_up(self, task: ChainTask, error: BaseException) -> PathfoldError:
        remedy = (
            "with checkpoint='folder', on a disk that all workers see, a run can be taken up where it was"
            if self.folder is None
            else f"the same call with a new executor goes on from the checkpoint {self.folder}"
        )
        times = self.lost.get(task.index, 0)
        how = f"lost its worker {times} times" if times > 1 else "lost its worker"
        return PathfoldError(f"chain {task.index} {how} ({_name(error)}): {remedy}")


def _name(error: BaseException) -> str:
    return f"{type(error).__name__}: {told(str(error))}" if str(error) else type(error).__name__


@dataclass(frozen=True)
class Failed:
    """An error in a chain, in a form that can be sent: one of our own, or the text of any other."""

    error: PathfoldError


def work(task: ChainTask, stop: str | None) -> Draws | Failed | None:
    """Run a chain in a worker to its end or until the file `stop` exists; return None if it exists at the beginning."""
    try:
        if stop is not None and os.path.exists(stop):
            return None
        if task.checkpoint is not None and not (Path(task.checkpoint) / MARK).exists():
            raise SettingsError(
                f"checkpoint: a worker does not see the folder {task.checkpoint}; give one on a disk that all share"
            )
        compile_sampler(task.sampler.native, announce=False)
        monitor = Monitor()
        with _stopped_by(stop, monitor):
            return _once_free(task, monitor)
    except PathfoldError as error:
        return Failed(error)
    except Exception as error:
        text = f"chain {task.index} failed in a worker ({_name(error)}):\n{traceback.format_exc()}"
        return Failed(PathfoldError(text))


def _once_free(task: ChainTask, monitor: Monitor) -> Draws:
    """Run a chain as soon as the last worker that had it has released its files."""
    end = time.monotonic() + LOCKED
    while True:
        try:
            return run_chain(task, monitor)
        except InUse:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK)


@contextmanager
def _stopped_by(stop: str | None, monitor: Monitor) -> Iterator[None]:
    """Ask the chain to end when the file appears, or on Ctrl-C if that reaches this thread: it reaches all workers of a
    terminal, and would interrupt the chain between two of its draws."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK):
            if stop is not None and os.path.exists(stop):
                monitor.stop[0] = 1

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    before = None
    if _can_be_interrupted():
        before = signal.signal(signal.SIGINT, lambda *_: monitor.stop.fill(1))
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        ended.set()
        watcher.join()
