"""Threads that help a chain with its steps: the host's side of a team."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native import run, team


class Team:
    """Threads that work for a chain until it ends them, given the address of the team's words and a number each."""

    def __init__(self, work: Callable[[int, int], object], helpers: int) -> None:
        self.words = np.zeros(team.words_of(helpers + 1), dtype=np.int64)
        self.words[team.THREADS] = helpers + 1
        self.address, self.work = self.words.ctypes.data, work
        self.ended, self.errors = Event(), []
        self.threads = [Thread(target=self._help, args=(i + 1,), daemon=True) for i in range(helpers)]
        try:
            for thread in self.threads:
                thread.start()
        except BaseException:
            self.end()
            raise
        self._before = _seconds(self.threads)

    def _help(self, number: int) -> None:
        """Work until the team ends. A thread that failed waits for that, since one that is gone has no clock."""
        try:
            self.work(self.address, number)
        except Exception as error:
            self.errors.append(error)
            self.ended.wait()

    def seconds(self) -> float:
        """Return the processor seconds of these threads so far."""
        return _seconds(self.threads) - self._before

    def end(self) -> None:
        """Let the threads end; raise what went wrong in one of them."""
        self.words[team.ENDED] = 1
        self.ended.set()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()
        self.raise_errors()

    def raise_errors(self) -> None:
        """Raise what went wrong in a thread. The chain goes on without it: so it is asked now and then."""
        for error in self.errors:
            raise error


@contextmanager
def helped(layout: np.ndarray, helpers: int) -> Iterator[Callable[[], float]]:
    """Share work that is done by this layout table, as far as it is cut into parts, with other threads in this context.

    The helpers live as long as the chain, and sleep when it has nothing to share. Plain Python has no use for them.
    The context gives a clock: the processor seconds of this thread and of those that help it.
    """
    helpers = min(helpers, int(layout[at.PARTS]) - 1) if is_compiled() else 0
    if helpers < 1:
        yield time.thread_time
        return
    others = Team(run.help_along, helpers)

    def clock() -> float:
        others.raise_errors()
        return time.thread_time() + others.seconds()

    try:
        layout[at.TEAM] = others.address
        yield clock
    finally:
        layout[at.TEAM] = 0
        others.end()


def is_compiled() -> bool:
    """Return whether native functions are compiled, and not plain Python."""
    return hasattr(run.help_along, "compile")


def _seconds(threads: Sequence[Thread]) -> float:
    """Return the processor seconds of other threads, which must not have ended.

    Where the system does not tell them, each counts as busy as the thread that asks.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return len(threads) * time.thread_time()
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in threads if thread.ident is not None]
    return sum(time.clock_gettime(clock) for clock in clocks)
