"""Running one chain, in a thread or in another process, in pieces that can be saved.

The draws depend on the task alone, not on how the run is cut into pieces.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pathfold.engine.helpers import helped
from pathfold.sampling.chain_task import ChainTask, Monitor
from pathfold.sampling.checkpoint import Checkpoint
from pathfold.sampling.draws import Draws
from pathfold.sampling.guided_chain import GuidedChain
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from pathfold.sampling.samplers import GuidedProposals


def run_chain(task: ChainTask, monitor: Monitor | None = None) -> Draws:
    """Find a start, or resume where a checkpoint left off, and make all transitions unless stopped or out of time."""
    monitor = monitor or Monitor()
    if task.checkpoint is None:
        return _run_chain(task, monitor, None)
    checkpoint = Checkpoint(Path(task.checkpoint), task.index)
    with checkpoint.sole_use():
        return _run_chain(task, monitor, checkpoint)


def _run_chain(task: ChainTask, monitor: Monitor, checkpoint: Checkpoint | None) -> Draws:
    kind = GuidedChain if isinstance(task.sampler, GuidedProposals) else HamiltonianChain
    chain, total = kind(task), task.warmup + task.draws
    with helped(chain.layout, task.helpers) as chain.clock:
        if not (checkpoint and chain.restore(checkpoint)):
            chain.initialise()
        monitor.done[0] = min(chain.iterations, task.iterations(total))
        last_save = time.monotonic()
        while chain.draws.made < total and chain.draws.seconds < task.max_seconds and monitor.stop[0] == 0:
            chain.advance(monitor)
            if checkpoint and time.monotonic() - last_save > task.checkpoint_seconds:
                chain.save(checkpoint)
                last_save = time.monotonic()
            elif checkpoint and chain.draws.room < len(chain.rooms["z"]) and not chain.draws.unsaved:
                chain.make_room(checkpoint)
    if checkpoint and checkpoint.counted < chain.draws.made:
        chain.save(checkpoint)
    return replace(chain.draws.first(total), coordinates=chain.coordinates)
