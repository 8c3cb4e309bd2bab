"""Progress of what goes from stage to stage: a line for each, once the whole takes longer than a second."""

from __future__ import annotations

import math
import time
from threading import Lock

from pathfold.errors import say

PATIENCE = 1.0  # seconds before the first line, and from one stage to another
LOG_SECONDS = 10.0  # from one line to the next of the same stage


class Stages:
    """Says on a line which stage has been reached, once the whole takes longer than a second; knows when the time that
    it may take is spent."""

    def __init__(self, *, show: bool, max_seconds: float = math.inf) -> None:
        self.show, self.stage, self.said = show, "", False
        self.begun = self.logged = time.monotonic()
        self.max_seconds = max_seconds

    @property
    def spent(self) -> bool:
        return time.monotonic() - self.begun > self.max_seconds

    def begin(self, stage: str) -> None:
        self.stage, self.said = stage, False
        self.update()

    def update(self) -> None:
        """Say the stage if that is due: one line a second at most, and the same stage every ten seconds."""
        now = time.monotonic()
        if not self.show or now - self.logged <= (LOG_SECONDS if self.said else PATIENCE):
            return
        self.said, self.logged = True, now
        self.show = say(self.line(now - self.begun), show=self.show)

    def line(self, seconds: float) -> str:
        return f"{self.stage}, after {seconds:.0f} s"


class Counted(Stages):
    """Says how many of so many pieces of work are done, and how long the others will take."""

    def __init__(self, what: str, total: int, *, show: bool) -> None:
        super().__init__(show=show)
        self.what, self.total, self.done, self.before, self.lock = what, total, 0, 0, Lock()

    def advance(self) -> None:
        """Count one more; threads may call this."""
        with self.lock:
            self.done += 1
            self.update()

    def line(self, seconds: float) -> str:
        new = self.done - self.before  # what was there before took no time
        left = f", {seconds * (self.total - self.done) / new:.0f} s left" if new else ""
        left = ", done" if self.done == self.total else left
        return f"{self.done} of {self.total} {self.what} in {seconds:.0f} s{left}"
