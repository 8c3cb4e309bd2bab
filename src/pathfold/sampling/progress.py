"""Progress: lines about stages, about how many of so many pieces are done, and a bar for chains."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from pathfold.engine.native.trajectory import ACCEPTANCE, STATUS, STEP_SIZE, STEPS_TAKEN
from pathfold.engine.status import CONVERGED
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


@dataclass
class Monitor:
    """State shared with the host while a chain runs in a thread: a flag to stop it, its number of transitions, those of
    them made `before` this run, and the statistics of the last ones."""

    stop: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    done: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    before: int = 0
    recent: np.ndarray | None = None


class Progress(Counted):
    """A display of the chains' progress: iterations, acceptance, step size, steps per draw, failures."""

    def __init__(self, monitors: Sequence[Monitor], total: int, *, show: bool) -> None:
        super().__init__("iterations", total * len(monitors), show=show)
        self.monitors, self.said = monitors, True  # a short run has a line at its end alone
        self.bar: Any = None
        if show and sys.stderr and (getattr(sys.stderr, "isatty", bool)() or "ipykernel" in sys.modules):
            from tqdm.auto import tqdm

            self.bar = tqdm(total=self.total, unit="it", desc="sampling", dynamic_ncols=True)

    def update(self) -> None:
        self.done = int(sum(monitor.done[0] for monitor in self.monitors))
        self.before = sum(monitor.before for monitor in self.monitors)
        if self.bar is None:
            super().update()
            return
        try:
            self.bar.n, self.bar.initial = self.done, self.before
            self.bar.set_postfix_str(self._summary())
        except (OSError, ValueError):  # a terminal that is gone must not end a run
            self.show, self.bar = False, None

    def close(self) -> None:
        self.update()
        if self.bar is None:
            say(self.line(time.monotonic() - self.begun), show=self.show)
        else:
            with suppress(OSError, ValueError):
                self.bar.close()

    def line(self, seconds: float) -> str:
        return f"{super().line(seconds)}; {self._summary()}"

    def _summary(self) -> str:
        recent = [monitor.recent for monitor in self.monitors if monitor.recent is not None and len(monitor.recent)]
        if not recent:
            return "looking for starting points"
        latest = np.concatenate(recent).T
        acceptance, steps, step_size, status = latest[[ACCEPTANCE, STEPS_TAKEN, STEP_SIZE, STATUS]]
        return (
            f"acceptance {acceptance.mean():.2f}, step size {step_size.mean():.2g}, "
            f"{steps.mean():.1f} steps per draw, {100 * np.mean(status != CONVERGED):.1f} % failures"
        )
