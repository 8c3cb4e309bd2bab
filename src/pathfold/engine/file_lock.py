"""Locks on files, which vanish with the process that holds them, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

LOOK = 0.1  # seconds between two attempts

_held: set[FileIO] = set()


@contextmanager
def locked(file: Path, *, shared: bool = False, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock on a file; raise BlockingIOError if another process or call has it after `patience` seconds too.

    A shared lock keeps out only those who want the file for themselves alone. A file system without locks keeps out
    nobody.
    """
    with FileIO(file, "a") as stream:
        _acquire(stream, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, time.monotonic() + patience)
        _held.add(stream)
        try:
            yield
        finally:
            _held.discard(stream)
            if not stream.closed:
                with suppress(OSError):
                    fcntl.flock(stream, fcntl.LOCK_UN)


def _acquire(stream: FileIO, kind: int, end: float) -> None:
    while True:
        try:
            fcntl.flock(stream, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(LOOK)
        except OSError:  # a file system without locks
            return


def _let_go() -> None:
    """Close the files that the parent holds: a forked process may live on when its parent is killed."""
    for stream in _held:
        stream.close()
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
