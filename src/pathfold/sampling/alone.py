"""Running one chain of a run by itself, while other jobs run the others: `pathfold run --chain 3 script.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pathfold.errors import SettingsError
from pathfold.sampling.draws import Draws
from pathfold.sampling.settings import Settings

_chain: ContextVar[int | None] = ContextVar("chain", default=None)


class ChainEnded(BaseException):
    """Ends a script once its chain is made, with a message for the user; it is no error for the script to handle."""

    def __init__(self, sentence: str, complete: bool) -> None:
        super().__init__(sentence)
        self.complete = complete


@contextmanager
def chain_alone(number: int) -> Iterator[None]:
    """Let runs with a checkpoint, within this context, make this chain alone and then raise ChainEnded."""
    token = _chain.set(number)
    try:
        yield
    finally:
        _chain.reset(token)


def only_chain(settings: Settings) -> int | None:
    """Return the chain that this run is to make alone, or None if it is to make all of them."""
    chain = _chain.get()
    if chain is None or settings.checkpoint is None:
        return None
    if not 0 <= chain < settings.chains:
        raise SettingsError(
            f"--chain {chain}: the script asks pf.sample for {settings.chains} chains, which are numbered from 0 to "
            f"{settings.chains - 1}"
        )
    return chain


def check_pilot() -> None:
    """Raise SettingsError where several jobs would each choose the number of fine steps."""
    if _chain.get() is not None:
        raise SettingsError(
            "steps_per_interval='auto' is found by a run of its own, which jobs of single chains cannot share; give "
            "the number that pf.refine found"
        )


def chain_ended(draws: Draws, settings: Settings, chain: int) -> ChainEnded:
    made, total = draws.made, settings.warmup + settings.draws
    counted = f"{made} of {total} draws and warm-up draws"
    so_far = f"chain {chain} of {settings.chains} has {counted} in {settings.checkpoint}"
    if draws.unsaved:
        return ChainEnded(f"{so_far}, but they could not be saved ({draws.unsaved})", complete=False)
    if made < total and draws.seconds < (settings.max_seconds or math.inf):
        return ChainEnded(f"{so_far}; the same command goes on from there", complete=False)
    return ChainEnded(f"{so_far}; once all chains are there, the script itself gathers them", complete=True)
