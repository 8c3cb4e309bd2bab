"""Processes of a server that imports once what all of them need, which takes seconds."""

import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

imported = multiprocessing.get_context("forkserver")
imported.set_forkserver_preload([__name__, "tests.sampling.small_run", "pathfold.engine.model_cache"])

type Lock = Callable[[Path], AbstractContextManager[Any]]


def hold(lock: Lock, file: Path, held: Any) -> None:
    """Hold a lock until the process is killed."""
    with lock(file):
        held.set()
        time.sleep(100)


def fork_and_end(lock: Lock, file: Path, forked: Any) -> None:
    """Fork while a lock is held, and end; the process that was forked stays, in a group of this one."""
    os.setsid()
    begun, begins = os.pipe()
    with lock(file):
        if os.fork():
            os.read(begun, 1)
            forked.set()
            os._exit(1)
        os.write(begins, b".")
        time.sleep(100)
