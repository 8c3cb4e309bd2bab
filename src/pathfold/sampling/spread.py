"""Work that is spread over threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def spread[T](work: Callable[[int], T], count: int, threads: int | None) -> list[T]:
    """Return what the work gives for 0, ..., count - 1, in so many threads; without a number, in one for each core.

    After an error or Ctrl-C no more of it is begun.
    """
    threads = min(threads or os.cpu_count() or 1, count)
    if threads <= 1:
        return [work(i) for i in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        return [*pool.map(work, range(count))]
