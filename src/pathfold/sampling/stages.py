"""Progress of what goes from stage to stage: a line for each, once the whole takes longer than a second."""

from __future__ import annotations

import sys
import time

PATIENCE = 1.0  # seconds before the first line, and from one stage to another
LOG_SECONDS = 10.0  # from one line to the next of the same stage


class Stages:
    """Says on a line which stage has been reached, once the whole takes longer than a second."""

    def __init__(self, *, show: bool) -> None:
        self.show, self.stage, self.said = show, "", False
        self.begun = self.logged = time.monotonic()

    def begin(self, stage: str) -> None:
        self.stage, self.said = stage, False
        self.update()

    def update(self) -> None:
        """Say the stage if that is due: one line a second at most, and the same stage every ten seconds."""
        now = time.monotonic()
        if not self.show or now - self.logged <= (LOG_SECONDS if self.said else PATIENCE):
            return
        self.said, self.logged = True, now
        self.show = say(f"{self.stage}, after {now - self.begun:.0f} s", show=self.show)


def say(sentence: str, *, show: bool) -> bool:
    """Print a line for whoever waits, if it is to be shown; return whether the next one should be."""
    if not show or sys.stderr is None:
        return False
    try:
        print(f"pathfold: {sentence}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a terminal or pipe that is gone must not end a run
        return False
    return True
