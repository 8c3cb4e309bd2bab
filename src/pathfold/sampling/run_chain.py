"""Running one chain, in a thread or in another process, in pieces that can be saved.

The draws depend on the task alone, not on how the run is cut into pieces; and on the other chains, if these meet at the
end of warm-up (`meeting.py`).
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from pathfold.sampling.chain import Chain
from pathfold.sampling.chain_task import ChainTask, Monitor
from pathfold.sampling.checkpoint import Checkpoint
from pathfold.sampling.draws import Draws


def run_chain(task: ChainTask, monitor: Monitor | None = None) -> Draws:
    """Begin or resume a chain, and make all its transitions unless it is stopped or out of time."""
    monitor = monitor or Monitor()
    return run_to_the_end(run_through_warmup(task, monitor), monitor)


def run_through_warmup(task: ChainTask, monitor: Monitor) -> Chain:
    """Begin a chain, or resume it where a checkpoint left off, and make what is left of its warm-up."""
    chain, checkpoint = task.sampler.chain(task), _checkpoint(task)
    with checkpoint.sole_use() if checkpoint else nullcontext(), chain.helped() as chain.clock:
        if not (checkpoint and chain.restore(checkpoint)):
            chain.initialise()
        monitor.done[0] = monitor.before = min(chain.iterations, task.iterations(task.warmup + task.draws))
        _advance(chain, checkpoint, monitor, task.warmup)
    return chain


def run_to_the_end(chain: Chain, monitor: Monitor) -> Draws:
    """Make all transitions that a chain still has to make; return its draws."""
    task, checkpoint = chain.task, _checkpoint(chain.task)
    total = task.warmup + task.draws
    with checkpoint.sole_use() if checkpoint else nullcontext():
        with chain.helped() as chain.clock:
            _advance(chain, checkpoint, monitor, total)
        if checkpoint and checkpoint.counted < chain.draws.made:
            chain.save(checkpoint)
    return replace(chain.draws.first(total), coordinates=chain.coordinates)


def save(chain: Chain) -> None:
    """Save a chain to its checkpoint, if it has one."""
    if (checkpoint := _checkpoint(chain.task)) is not None:
        with checkpoint.sole_use():
            chain.save(checkpoint)


def _checkpoint(task: ChainTask) -> Checkpoint | None:
    return None if task.checkpoint is None else Checkpoint(Path(task.checkpoint), task.index)


def _advance(chain: Chain, checkpoint: Checkpoint | None, monitor: Monitor, until: int) -> None:
    """Make transitions until so many draws are made, the chain is stopped or out of time, and save it now and then."""
    task, last_save = chain.task, time.monotonic()
    while chain.draws.made < until and chain.draws.seconds < task.max_seconds and monitor.stop[0] == 0:
        chain.advance(monitor)
        if checkpoint and time.monotonic() - last_save > task.checkpoint_seconds:
            chain.save(checkpoint)
            last_save = time.monotonic()
        elif checkpoint and chain.draws.room < len(chain.rooms["z"]) and not chain.draws.unsaved:
            chain.make_room(checkpoint)
