"""One chain on the host's side: its memory, its random stream, and its progress in pieces that can be saved.

A task holds everything a chain depends on, as plain arrays and numbers, so that it can run in a thread or be sent to
another process. What it yields depends on the task alone, not on how it is cut into pieces.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.compile import Program
from pathfold.engine.helpers import helped
from pathfold.engine.native import metropolis, trajectory
from pathfold.engine.native.chain_loop import run
from pathfold.engine.native.coordinates import change_coordinates, to_normals
from pathfold.engine.native.integration_time import CHOSEN, integration_time, search_size
from pathfold.engine.native.step_size import (
    ADAPTED,
    ERROR_MEAN,
    FIRST_STEP,
    ITERATION,
    REGULARISATION,
    SHORTENED,
    STATE,
    start_adaptation,
)
from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError, SettingsError
from pathfold.sampling.checkpoint import RECENT, Checkpoint
from pathfold.sampling.draws import Draws, Shape
from pathfold.sampling.initialise import Start, find_start
from pathfold.sampling.noise import STRIDE, is_held
from pathfold.sampling.parameter_metric import BEGIN, END, Coordinates, Window
from pathfold.sampling.samplers import DynamicHMC, GuidedProposals, Sampler, StaticHMC, UnconstrainedHMC
from pathfold.sampling.warm_start import Pace

# A warm start joins a warm-up of which nine tenths have passed, with a step size that weighs as much as one adapted for
# a few iterations.
PASSED, WEIGHT = 9, 25.0
PIECE = 10  # transitions a native call at most: enough for calls to cost nothing ...
PIECE_SECONDS = 1.0  # ... fewer where they are slow, so that a chain is saved, and ends, in time


@dataclass(frozen=True)
class ChainTask:
    """A chain to run, of a compiled model."""

    index: int
    seed: int
    program: Program
    layout: np.ndarray
    problems: np.ndarray  # the plain one first, then those that hold states
    block_sizes: dict[str, int]
    start: Start
    coordinates: Coordinates | None  # of a metric of the parameters that is given
    sampler: Sampler
    warmup: int
    draws: int
    shape: Shape
    pace: Pace | None = None  # of an earlier run, to begin with
    helpers: int = 0  # threads besides its own that share the work of its steps, if there is enough of it
    max_seconds: float = math.inf  # of its core, those before a checkpoint too
    checkpoint: str | None = None
    checkpoint_seconds: float = 5.0


@dataclass
class Monitor:
    """Shared with the host while a chain runs in a thread: a flag to stop it, its count of transitions, the statistics
    of the last ones."""

    stop: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    done: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    recent: np.ndarray | None = None


def run_chain(task: ChainTask, monitor: Monitor | None = None) -> Draws:
    """Find a start, or take up where a checkpoint left off, and make all transitions unless stopped or out of time."""
    monitor = monitor or Monitor()
    if task.checkpoint is None:
        return _run_chain(task, monitor, None)
    checkpoint = Checkpoint(Path(task.checkpoint), task.index)
    with checkpoint.sole_use():
        return _run_chain(task, monitor, checkpoint)


def _run_chain(task: ChainTask, monitor: Monitor, checkpoint: Checkpoint | None) -> Draws:
    kind = _GuidedChain if isinstance(task.sampler, GuidedProposals) else _Chain
    chain, total = kind(task), task.warmup + task.draws
    with helped(chain.layout, task.helpers):
        if not (checkpoint and chain.restore(checkpoint)):
            chain.initialise()
        monitor.done[0] = min(chain.draws.made, total)
        last_save = time.monotonic()
        while chain.draws.made < total and chain.draws.seconds < task.max_seconds and monitor.stop[0] == 0:
            chain.advance(monitor)
            if checkpoint and time.monotonic() - last_save > task.checkpoint_seconds:
                chain.save(checkpoint)
                last_save = time.monotonic()
    if checkpoint and checkpoint.counted < chain.draws.made:
        chain.save(checkpoint)
    return replace(chain.draws.first(total), last=chain.recorded(chain.current), coordinates=chain.coordinates)


class _Chain:
    """The state of a running chain."""

    def __init__(self, task: ChainTask) -> None:
        self.task, self.layout = task, task.program.bind(task.layout)
        self.dynamic = not isinstance(task.sampler, StaticHMC)
        points, momenta = self._rows()
        self.points = np.zeros((points, task.block_sizes["point"]))
        self.momenta = np.zeros((momenta, task.block_sizes["vector"]))
        self.scratch = np.zeros(task.block_sizes["scratch"])
        self.problems = task.problems.copy()  # a start changes the relaxation for a while, blocking the states held
        self.rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(task.seed, spawn_key=(task.index,))))
        self.state = np.zeros(STATE)
        self.search = self._new_search()
        self.passed = 0 if task.pace is None else PASSED * max(1, task.warmup)
        self.counts, self.result = np.zeros(trajectory.COUNTS, dtype=np.int64), np.zeros(4)
        self.draws = Draws.empty(task.shape)
        self.piece = 1  # transitions of the next native call
        adapted = isinstance(task.sampler, StaticHMC | DynamicHMC) and task.sampler.metric == "adapted"
        self.window = Window(int(self.layout[at.U]) if adapted and task.coordinates is None else 0)

    def _rows(self) -> tuple[int, int]:
        """How many points and momenta the chain works with."""
        if self.dynamic:
            return trajectory.DYNAMIC_POINTS, trajectory.dynamic_momenta(self.layout[at.MAX_DEPTH])
        return trajectory.STATIC_POINTS, trajectory.STATIC_MOMENTA

    def _new_search(self) -> np.ndarray:
        """What warm-up is to find, but for the step size."""
        return np.zeros(search_size(self.layout))

    @property
    def current(self) -> np.ndarray:
        return self.points[trajectory.CURRENT]

    @property
    def metric(self) -> np.ndarray:
        """Without constraints: the scales of a metric that is adapted, and what they are being estimated from."""
        return self.problems[0, self.layout[at.PROBLEM_METRIC] : self.layout[at.PROBLEM_WINDOW_SQUARES + at.END]]

    @property
    def _coordinates(self) -> np.ndarray:
        """Of all problems, the coordinates that the parameters have with their metric; empty with the identity."""
        return self.problems[:, self.layout[at.PROBLEM_COORDINATES] : self.layout[at.PROBLEM_COORDINATES + at.END]]

    @property
    def coordinates(self) -> Coordinates | None:
        if not self._coordinates.size:
            return None
        U, record = self.layout[at.U], self._coordinates[0].copy()
        return Coordinates(record[:U], record[U:].reshape(U, U))

    def recorded(self, block: np.ndarray) -> np.ndarray:
        """A copy of a position, or of a point, that has the parameters' normals themselves, whatever the metric."""
        copied = block.copy()
        to_normals(self.layout, self.problems[0], copied[: self.layout[at.U]])
        return copied

    def _go_over_to(self, coordinates: Coordinates) -> None:
        given = coordinates.centre, coordinates.factor.ravel()
        change_coordinates(self.layout, self.problems, self.problems[0], self.current, *given, self.scratch)

    def initialise(self) -> None:
        blocks = (self.layout, self.problems[0], self.points, self.momenta, self.scratch)
        try:
            self.draws.start_attempts = find_start(*blocks, self.rng, self.task.start)
        except InitialisationError:
            if self.task.pace is None:
                raise
            afresh = replace(self.task.start, guess=None)  # the data have changed too much
            self.draws.start_attempts = 1 + find_start(*blocks, self.rng, afresh)
        if self.task.coordinates is not None:
            self._go_over_to(self.task.coordinates)
        if self.task.pace is not None:
            self._keep_pace(self.task.pace)

    def _keep_pace(self, pace: Pace) -> None:
        """Join a warm-up of which nine tenths have passed: the step size is adapted further, the rest was chosen."""
        start_adaptation(self.state, pace.step_size)
        self.state[ADAPTED] = WEIGHT
        self.state[ERROR_MEAN] = REGULARISATION * np.log(10.0) / np.sqrt(WEIGHT)  # for which the step size stays
        self.state[[ITERATION, SHORTENED]] = self.passed, 1.0
        self.search[CHOSEN] = pace.integration_time

    def advance(self, monitor: Monitor) -> None:
        """Make a few transitions, none beyond the next draw that may be held."""
        task, draws = self.task, self.draws
        end = task.warmup if draws.made < task.warmup else task.warmup + task.draws
        held_next = draws.made + STRIDE - (draws.made - task.warmup) % STRIDE
        piece = 1 if self.state[ITERATION] < self._window[1] else self.piece  # every draw is looked at
        rows = draws.made, min(draws.made + piece, held_next, end)
        begin = time.thread_time()
        made = self._run(*rows, monitor)
        seconds = time.thread_time() - begin
        draws.seconds += seconds
        draws.main_seconds += seconds if draws.made >= task.warmup else 0.0
        draws.made += made
        monitor.recent = draws.rows("statistics", draws.made - RECENT, draws.made)
        self.piece = max(1, min(PIECE, int(PIECE_SECONDS * made / max(seconds, 1e-9))))
        self._hold()
        first, last = self._window
        if made and first < self.state[ITERATION] <= last:
            self._look()

    def _run(self, begin: int, end: int, monitor: Monitor) -> int:
        """Make the draws from `begin` to `end`; returns how many were made."""
        task, draws, sampler = self.task, self.draws, self.task.sampler
        assert not isinstance(sampler, GuidedProposals)
        time_given = sampler.integration_time if isinstance(sampler, StaticHMC) else None
        made = run(
            self.layout,
            self.problems,
            self.points,
            self.momenta,
            self.scratch,
            self.rng,
            self.state,
            self.search,
            self.counts,
            self.result,
            self.dynamic,
            isinstance(sampler, UnconstrainedHMC) and sampler.metric == "adapted",
            float(time_given or 0.0),
            self.passed + task.warmup,
            float(sampler.target_acceptance),
            *self._rooms(begin, end),
            monitor.stop,
            monitor.done,
        )
        if made < 0:
            raise SettingsError(
                "observations_per_block: the states between blocks cannot be held, since the noise of an interval does "
                "not move the whole state; take more steps_per_interval, a scheme of higher order, or no blocks"
            )
        if not self.dynamic:
            found = integration_time(self.search, int(self.state[ITERATION]), self.passed + task.warmup)
            draws.integration_time = float(time_given or found)
        return made

    @property
    def _window(self) -> tuple[int, int]:
        """Between which iterations draws count for the metric; none if it is not adapted."""
        warmup = self.task.warmup if self.window.size else 0
        return int(BEGIN * warmup), int(END * warmup)

    def _look(self) -> None:
        """Add the last draw to those that the metric is adapted by; after the last of them, go over to it.

        Up to then the metric is the identity, so that the position has u, and C is the mass with the identity.
        """
        U, C_inv = self.layout[at.U], self.layout[at.POINT_SUMS] + self.layout[at.SUMS_C_INV]
        self.window.add(self.current[:U], np.linalg.inv(self.current[C_inv : C_inv + U * U].reshape(U, U)))
        if self.state[ITERATION] == self._window[1]:
            self._go_over_to(self.window.coordinates())
            self.state[FIRST_STEP] = 0.0  # the step size is sought anew

    def _hold(self) -> None:
        """Keep the position of the last draw, and drop those that are not to be held."""
        made, warmup = self.draws.made, self.task.warmup
        if made <= warmup:
            return
        held = self.draws.positions
        held[made] = self._position()
        for number in [n for n in held if not is_held(n - warmup, made - warmup)]:
            del held[number]

    def _position(self) -> np.ndarray:
        """The standard normals that the model makes the last draw of, as a vector block."""
        return self.recorded(self.current[: self.momenta.shape[1]])

    def _rooms(self, begin: int, end: int) -> tuple[np.ndarray, ...]:
        """Where draws go: z, x0, nodes, path, statistics."""
        z, x0, statistics = (self.draws.rows(name, begin, end) for name in ("z", "x0", "statistics"))
        return z, x0, self._room("nodes", begin, end), self._room("path", begin, end), statistics

    def _room(self, name: str, begin: int, end: int) -> np.ndarray:
        """Where states go: draws whose states are not kept have rows without any."""
        if begin < self.draws.unkept:
            return np.zeros((end - begin, 0, *getattr(self.draws, name).shape[2:]))
        return self.draws.rows(name, begin, end)

    def _state(self) -> dict[str, np.ndarray]:
        """Everything that the chain's future depends on, but for its random stream."""
        return {
            "point": self.current,
            "state": self.state,
            "search": self.search,
            "metric": self.metric,
            "coordinates": self._coordinates,
            "window": self.window.numbers,
        }

    def save(self, checkpoint: Checkpoint) -> None:
        """Where that cannot be done, say so with the draws: they are worth more than the checkpoint."""
        d = self.draws
        state = {
            **self._state(),
            "rng": np.array(json.dumps(self.rng.bit_generator.state)),
            "seconds": np.array([d.seconds, d.main_seconds]),
            "start_attempts": np.array(d.start_attempts),
            "held": np.array([*d.positions], dtype=np.int64),
            "positions": np.array([*d.positions.values()]),
            "integration_time": np.array(d.integration_time),
        }
        try:
            checkpoint.save(d, state)
            d.unsaved = ""
        except OSError as error:
            d.unsaved = error.strerror or str(error)

    def restore(self, checkpoint: Checkpoint) -> bool:
        """Take up where the checkpoint left off; False if it has nothing yet."""
        loaded = checkpoint.load(self.draws)
        if loaded is None:
            return False
        d, saved = loaded
        try:
            d.start_attempts = int(saved["start_attempts"])
            d.seconds, d.main_seconds = saved["seconds"].tolist()
            d.positions = dict(zip(saved["held"].tolist(), saved["positions"], strict=True))
            d.integration_time = float(saved["integration_time"])
            for name, array in self._state().items():
                if saved[name].shape != array.shape:
                    raise ValueError(name)
                array[:] = saved[name]
            self.rng.bit_generator.state = json.loads(str(saved["rng"]))
        except (KeyError, TypeError, ValueError):
            raise checkpoint.damaged(checkpoint.file, "it has not what a chain of this run needs") from None
        self.draws = d
        return True


class _GuidedChain(_Chain):
    """The state of a chain of guided proposals: its point has the normals that guides turn into noise."""

    def _rows(self) -> tuple[int, int]:
        return metropolis.GUIDED_POINTS, 1

    def _new_search(self) -> np.ndarray:
        sampler, search = self.task.sampler, np.zeros(metropolis.search_size(self.layout))
        assert isinstance(sampler, GuidedProposals)
        metropolis.begin_search(self.layout, search, float(sampler.thin), sampler.reference == "path")
        return search

    def initialise(self) -> None:
        guess = self.task.start.guess
        assert guess is not None
        metropolis.node_record(self.layout, self.points[metropolis.REFERENCE])[:] = guess.nodes
        blocks = (self.layout, self.problems[0], self.points, guess.position, self.scratch)
        if (status := metropolis.begin(*blocks)) != CONVERGED:
            raise InitialisationError(
                f"guided proposals cannot start where a projection ended: {MEANING[status]}; try another seed, or take "
                "more steps_per_interval"
            )
        self.draws.start_attempts = 1

    def _run(self, begin: int, end: int, monitor: Monitor) -> int:
        blocks = (self.layout, self.problems[0], self.points, self.scratch, self.rng, self.search)
        return metropolis.run(*blocks, self.task.warmup, *self._rooms(begin, end), monitor.stop, monitor.done)

    def _position(self) -> np.ndarray:
        metropolis.exchange_noise(self.layout, self.current, self.momenta[0], False)
        return self.momenta[0].copy()

    def _state(self) -> dict[str, np.ndarray]:
        return {**super()._state(), "paths": self.points[metropolis.REFERENCE :]}
