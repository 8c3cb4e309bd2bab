"""Threads that help a chain with its steps: the host's side of a team."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native import team


@contextmanager
def helped(layout: np.ndarray, helpers: int) -> Iterator[Callable[[], float]]:
    """Share work that is done by this layout table, as far as it is cut into parts, with other threads in this context.

    The helpers live as long as the chain, and sleep when it has nothing to share. Plain Python has no use for them.
    The context gives a clock: the processor seconds of this thread and of those that help it.
    """
    helpers = min(helpers, int(layout[at.PARTS]) - 1) if hasattr(team.help_along, "compile") else 0
    if helpers < 1:
        yield time.thread_time
        return
    words = np.zeros(team.WORDS, dtype=np.int64)
    address = words.ctypes.data
    threads = [Thread(target=team.help_along, args=(address, i + 1), daemon=True) for i in range(helpers)]
    try:
        for thread in threads:
            thread.start()
        layout[at.TEAM] = address
        yield lambda: time.thread_time() + _seconds(threads)
    finally:
        layout[at.TEAM] = 0
        words[team.ENDED] = 1
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _seconds(threads: Sequence[Thread]) -> float:
    """Return the processor seconds of other threads, which must not have ended.

    Where the system does not tell them, each counts as busy as the thread that asks.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return len(threads) * time.thread_time()
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in threads if thread.ident is not None]
    return sum(time.clock_gettime(clock) for clock in clocks)
