"""Work that is spread over threads, and memory that each of them has for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue


def spread[T](work: Callable[[int], T], count: int, threads: int) -> list[T]:
    """Return what the work gives for 0, ..., count - 1, in so many threads at most.

    After an error or Ctrl-C no more of it is begun.
    """
    threads = min(threads, count)
    if threads <= 1:
        return [work(i) for i in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        return [*pool.map(work, range(count))]


class Rooms[T]:
    """Memory of so many threads, one piece of which a thread takes for as long as it works."""

    def __init__(self, make: Callable[[], T], count: int) -> None:
        self._free: SimpleQueue[T] = SimpleQueue()
        for _ in range(count):
            self._free.put(make())

    @contextmanager
    def one(self) -> Iterator[T]:
        room = self._free.get()
        try:
            yield room
        finally:
            self._free.put(room)
