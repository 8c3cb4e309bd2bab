"""A chain on the host's side: all it depends on; its memory, random stream and draws; running it, in pieces that can be
saved.

The draws depend on the task alone, not on how the run is cut into pieces, nor on other chains.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.compile import Program
from pathfold.engine.helpers import helped
from pathfold.engine.native.dynamics import prepare
from pathfold.engine.native.run import Machine
from pathfold.engine.native.trajectory import CURRENT
from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError
from pathfold.sampling.checkpoint import RECENT, Checkpoint
from pathfold.sampling.draws import STATES, Draws, Held, Shape, rooms
from pathfold.sampling.held_noise import STRIDE, is_held
from pathfold.sampling.progress import Monitor
from pathfold.sampling.sampler import Sampler
from pathfold.sampling.starts import Point
from pathfold.sampling.warm_start import Pace

PIECE = 10  # transitions per native call at most: enough for calls to cost nothing ...
PIECE_SECONDS = 1.0  # ... fewer where they are slow, so that a chain is saved, and ends, in time


@dataclass(frozen=True)
class ChainTask:
    """A chain of a compiled model that is to be run."""

    index: int
    seed: int
    program: Program
    layout: np.ndarray
    problems: np.ndarray  # a row each: the first is that of the data
    block_sizes: dict[str, int]
    start: Point | None  # None if there is a checkpoint to go on from
    sampler: Sampler
    warmup: int
    draws: int
    shape: Shape
    thin: int = 1  # iterations for each draw after warm-up
    pace: Pace | None = None  # of an earlier run, to begin with
    helpers: int = 0  # threads besides its own that share the work of its steps, if there is enough of it
    max_seconds: float = math.inf  # of all its threads together, those before a checkpoint too
    checkpoint: str | None = None
    checkpoint_seconds: float = 5.0

    def iterations(self, made: int) -> int:
        """Return the number of iterations behind the first `made` draws, warm-up included."""
        return made + max(0, made - self.warmup) * (self.thin - 1)


class Chain(ABC):
    """A running chain, with memory for some numbers of points and momenta."""

    def __init__(self, task: ChainTask, points: int, momenta: int) -> None:
        self.task, self.layout = task, task.program.bind(task.layout)
        self.points = np.zeros((points, task.block_sizes["point"]))
        self.momenta = np.zeros((momenta, task.block_sizes["vector"]))
        self.scratch = np.zeros(task.block_sizes["scratch"])
        self.problems = task.problems.copy()  # a chain may change its own
        self.rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(task.seed, spawn_key=(task.index,))))
        folder = None if task.checkpoint is None else Path(task.checkpoint)
        self.draws, self.rooms = Draws.empty(task.shape, folder, task.index), rooms(task.shape, PIECE)
        self.piece = 1  # transitions of the next native call
        self.clock: Callable[[], float] = time.thread_time  # processor seconds of all threads that work for it
        self.stop = Monitor().stop  # not 0 once it is to stop

    def helped(self) -> AbstractContextManager[Callable[[], float]]:
        """Return a context in which other threads help the chain, as many as the task says; it gives a clock."""
        return helped(self.layout, self.task.helpers)

    def initialise(self) -> None:
        """Begin at the point that was found for the chain, and compute what a step from it needs."""
        start, nodes = self.task.start, slice(self.layout[at.POINT_NODE], self.layout[at.POINT_NODE + at.END])
        assert start is not None
        self.current[: start.position.size] = start.position
        self.current[nodes][: start.nodes.size] = start.nodes
        if (status := prepare(self.machine, self.current)) != CONVERGED:
            raise InitialisationError(f"the sampler cannot start where a search ended: {MEANING[status]}")

    @abstractmethod
    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        """Make as many transitions as there is room for, and return how many were made."""

    def _state(self) -> dict[str, np.ndarray]:
        """Return everything that the chain's future depends on, except its random stream."""
        return {"point": self.current}

    def _make_room_for(self, saved: Mapping[str, np.ndarray]) -> None:
        """Make room for what was saved, where its size is not known from the task."""

    @property
    def machine(self) -> Machine:
        return Machine.of(self.layout, self.problems[0], self.scratch)

    @property
    def current(self) -> np.ndarray:
        return self.points[CURRENT]

    def recorded(self, block: np.ndarray) -> np.ndarray:
        """Return a copy of a position, with the parameters' normals in place of their coordinates."""
        return block.copy()

    @property
    def _looking(self) -> bool:
        """Whether the host adapts something after every transition, so that they are made one by one."""
        return False

    def _look(self) -> None:
        """Adapt what the host adapts, after the last transition; the native loop has adapted the rest by then."""

    @property
    def iterations(self) -> int:
        """The number of transitions made so far, in warm-up and after it."""
        return self.task.iterations(self.draws.made) + self.draws.since

    def advance(self, monitor: Monitor) -> None:
        """Make a few transitions, and keep those that are draws."""
        draws, warming_up = self.draws, self.draws.made < self.task.warmup
        room = self._room(self._next_piece())
        begin, of_all = time.thread_time(), self.clock()
        made = self._run(room, monitor)
        own, seconds = time.thread_time() - begin, self.clock() - of_all
        draws.seconds += seconds
        draws.main_seconds += 0.0 if warming_up else seconds
        self.piece = max(1, min(PIECE, int(PIECE_SECONDS * made / max(own, 1e-9))))
        thin = 1 if warming_up else self.task.thin
        drawn = {name: rows[thin - 1 - draws.since : made : thin] for name, rows in room.items()}
        draws.add(drawn)
        draws.since = (draws.since + made) % thin
        if made and draws.since == 0 and not warming_up:
            self._hold(drawn)
        recent = room["statistics"][:made].copy()
        monitor.recent = recent if monitor.recent is None else np.concatenate([monitor.recent, recent])[-RECENT:]
        if made:
            self._look()

    def _next_piece(self) -> int:
        """Return how many transitions to make next: none beyond the end of warm-up, or beyond a draw that may be held.

        If a draw takes several transitions, the piece ends with a draw if it contains one, so that this can be held.
        """
        task, draws = self.task, self.draws
        most = 1 if self._looking else min(self.piece, len(self.rooms["z"]))
        if draws.made < task.warmup:
            return min(most, task.warmup - draws.made)
        after = draws.made - task.warmup
        until = min(STRIDE - after % STRIDE, task.draws - after) * task.thin - draws.since
        count = min(most, until)
        beyond = (draws.since + count) % task.thin
        return count - beyond if beyond < count else count

    def _room(self, count: int) -> dict[str, np.ndarray]:
        """Return the arrays that these transitions are written to, without room for states that are not kept."""
        room = {name: rows[:count] for name, rows in self.rooms.items()}
        if self.draws.made < self.draws.unkept:
            room |= {name: room[name][:, :0] for name in STATES}
        return room

    def _hold(self, drawn: dict[str, np.ndarray]) -> None:
        """Hold the last draw as a whole, and drop earlier ones that are no longer to be held."""
        made, warmup, held = self.draws.made, self.task.warmup, self.draws.held
        held[made] = Held(self._position(), *(drawn[name][-1].copy() for name in Held._fields[1:]))
        for number in [n for n in held if not is_held(n - warmup, made - warmup)]:
            del held[number]

    def _position(self) -> np.ndarray:
        """Return the standard normals that the model makes the last draw from, as a vector block."""
        return self.recorded(self.current[: self.momenta.shape[1]])

    def save(self, checkpoint: Checkpoint) -> None:
        """Save the chain. If that fails, record the reason with the draws: they are worth more than the checkpoint."""
        d = self.draws
        state = {
            **self._state(),
            "rng": np.array(json.dumps(self.rng.bit_generator.state)),
            "seconds": np.array([d.seconds, d.main_seconds]),
            "since": np.array(d.since),
            "held": np.array([*d.held], dtype=np.int64),
            **{f"held_{name}": np.array([getattr(draw, name) for draw in d.held.values()]) for name in Held._fields},
            "integration_time": np.array(d.integration_time),
        }
        self._unless_full(lambda: checkpoint.save(d, state))

    def make_room(self, checkpoint: Checkpoint) -> None:
        """Write the draws that are in memory to their files."""
        self._unless_full(lambda: checkpoint.append(self.draws))

    def _unless_full(self, write: Callable[[], None]) -> None:
        try:
            write()
            self.draws.unsaved = ""
        except OSError as error:
            self.draws.unsaved = error.strerror or str(error)

    def restore(self, checkpoint: Checkpoint) -> bool:
        """Resume where the checkpoint left off, and return whether there was anything saved."""
        d, saved = self.draws, checkpoint.load(self.draws)
        if saved is None:
            return False
        try:
            d.seconds, d.main_seconds = saved["seconds"].tolist()
            d.since = int(saved["since"])
            held = map(Held, *(saved[f"held_{name}"] for name in Held._fields))
            d.held = dict(zip(saved["held"].tolist(), held, strict=True))
            d.integration_time = float(saved["integration_time"])
            self._make_room_for(saved)
            for name, array in self._state().items():
                if saved[name].shape != array.shape:
                    raise ValueError(name)
                array[:] = saved[name]
            self.rng.bit_generator.state = json.loads(str(saved["rng"]))
        except (KeyError, TypeError, ValueError):
            raise checkpoint.damaged(checkpoint.file, "it lacks something that a chain of this run needs") from None
        return True


def run_chain(task: ChainTask, monitor: Monitor | None = None) -> Draws:
    """Begin a chain, or resume it where a checkpoint left off, and make all its transitions unless it is stopped or out
    of time."""
    monitor, total = monitor or Monitor(), task.warmup + task.draws
    chain, checkpoint = task.sampler.chain(task), _checkpoint(task)
    with checkpoint.sole_use() if checkpoint else nullcontext():
        chain.stop = monitor.stop
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
