"""Progress of the chains: a bar on a terminal or in a notebook, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pathfold.engine.native.trajectory import ACCEPTANCE, STATUS, STEP_SIZE, STEPS_TAKEN
from pathfold.engine.status import CONVERGED
from pathfold.sampling.chain_task import Monitor
from pathfold.sampling.stages import LOG_SECONDS


class Progress:
    """A display of the chains' progress: iterations, acceptance, step size, steps per draw, failures."""

    def __init__(self, monitors: Sequence[Monitor], total: int, *, show: bool) -> None:
        self.monitors, self.total = monitors, total
        self.begin = self.logged = time.monotonic()
        self.bar: Any = None
        self.show = show and sys.stderr is not None  # as it is in a program without a console
        if self.show and (getattr(sys.stderr, "isatty", bool)() or "ipykernel" in sys.modules):
            from tqdm.auto import tqdm

            self.bar = tqdm(total=total * len(monitors), unit="it", desc="sampling", dynamic_ncols=True)

    def update(self) -> None:
        self._unless_closed(self._update)

    def close(self) -> None:
        self._unless_closed(self._close)

    def _unless_closed(self, show: Callable[[], None]) -> None:
        """Ignore errors of a terminal or pipe that is gone, which must not end a run."""
        try:
            show()
        except (OSError, ValueError):
            self.show, self.bar = False, None

    def _update(self) -> None:
        done = int(sum(m.done[0] for m in self.monitors))
        if self.bar is not None:
            self.bar.n, self.bar.initial = done, self._before()
            self.bar.set_postfix_str(self._summary())
        elif self.show and time.monotonic() - self.logged > LOG_SECONDS:
            self.logged = time.monotonic()
            self._log(done)

    def _close(self) -> None:
        self._update()
        if self.bar is not None:
            self.bar.close()
        elif self.show:
            self._log(int(sum(m.done[0] for m in self.monitors)))

    def _log(self, done: int) -> None:
        everything = self.total * len(self.monitors)
        elapsed = time.monotonic() - self.begin
        new = done - self._before()
        left = f", {elapsed * (everything - done) / new:.0f} s left" if new else ""
        left = ", done" if done == everything else left
        message = f"pathfold: {done} of {everything} iterations in {elapsed:.0f} s{left}; {self._summary()}"
        print(message, file=sys.stderr, flush=True)

    def _before(self) -> int:
        """Return the number of iterations made before this run."""
        return sum(monitor.before for monitor in self.monitors)

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
