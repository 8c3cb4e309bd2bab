"""Running one chain, in a thread or in another process, in pieces that can be saved.

The draws depend on the task alone, not on how the run is cut into pieces, nor on other chains.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

from pathfold.sampling.chain import Chain
from pathfold.sampling.chain_task import ChainTask, Monitor
from pathfold.sampling.checkpoint import Checkpoint
from pathfold.sampling.draws import Draws


def run_chain(task: ChainTask, monitor: Monitor | None = None) -> Draws:
    """Begin a chain, or resume it where a checkpoint left off, and make all its transitions unless it is stopped or out
    of time."""
    monitor, total = monitor or Monitor(), task.warmup + task.draws
    chain, checkpoint = task.sampler.chain(task), _checkpoint(task)
    with checkpoint.sole_use() if checkpoint else nullcontext():
        with chain.helped() as chain.clock:
            if not (checkpoint and chain.restore(checkpoint)):
                chain.initialise()
            monitor.done[0] = monitor.before = min(chain.iterations, task.iterations(total))
            _advance(chain, checkpoint, monitor)
        if checkpoint and checkpoint.counted < chain.draws.made:
            chain.save(checkpoint)
    return chain.draws.first(total)


def _checkpoint(task: ChainTask) -> Checkpoint | None:
    return None if task.checkpoint is None else Checkpoint(Path(task.checkpoint), task.index)


def _advance(chain: Chain, checkpoint: Checkpoint | None, monitor: Monitor) -> None:
    """Make transitions until all draws are made, the chain is stopped or out of time, and save it now and then."""
    task, draws, last_save = chain.task, chain.draws, time.monotonic()
    while draws.made < task.warmup + task.draws and draws.seconds < task.max_seconds and monitor.stop[0] == 0:
        chain.advance(monitor)
        if checkpoint and time.monotonic() - last_save > task.checkpoint_seconds:
            chain.save(checkpoint)
            last_save = time.monotonic()
        elif checkpoint and draws.room < len(chain.rooms["z"]) and not draws.unsaved:
            chain.make_room(checkpoint)
