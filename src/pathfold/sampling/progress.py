"""Progress of the chains: a bar on a terminal or in a notebook, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pathfold.engine.native.trajectory import ACCEPTANCE, STATUS, STEP_SIZE, STEPS_TAKEN
from pathfold.engine.status import CONVERGED
from pathfold.errors import say
from pathfold.sampling.chain_task import Monitor
from pathfold.sampling.stages import Counted


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
