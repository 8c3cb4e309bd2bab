"""A chain of constrained or unconstrained Hamiltonian Monte Carlo on the host's side: its memory, its random stream,
what it adapts, and what is saved of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native import trajectory
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
from pathfold.errors import InitialisationError, SettingsError
from pathfold.sampling.chain_task import ChainTask, Monitor
from pathfold.sampling.checkpoint import RECENT, Checkpoint
from pathfold.sampling.draws import STATES, Draws, Held, in_order, rooms
from pathfold.sampling.initialise import find_start
from pathfold.sampling.noise import STRIDE, is_held
from pathfold.sampling.parameter_metric import BEGIN, END, Coordinates, Window
from pathfold.sampling.samplers import DynamicHMC, GuidedProposals, StaticHMC, UnconstrainedHMC
from pathfold.sampling.warm_start import Pace

# A warm start joins a warm-up of which nine tenths have passed, with a step size that weighs as much as one adapted for
# a few iterations.
PASSED, WEIGHT = 9, 25.0
PIECE = 10  # transitions a native call at most: enough for calls to cost nothing ...
PIECE_SECONDS = 1.0  # ... fewer where they are slow, so that a chain is saved, and ends, in time


class HamiltonianChain:
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
        folder = None if task.checkpoint is None else Path(task.checkpoint)
        self.draws, self.rooms = Draws.empty(task.shape, folder, task.index), rooms(task.shape, PIECE)
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

    @property
    def iterations(self) -> int:
        """How many were made, of warm-up and after it."""
        return self.task.iterations(self.draws.made) + self.draws.since

    def advance(self, monitor: Monitor) -> None:
        """Make a few transitions, and keep those that are draws."""
        draws, warming_up = self.draws, self.draws.made < self.task.warmup
        room = self._room(self._next_piece())
        begin = time.thread_time()
        made = self._run(room, monitor)
        seconds = time.thread_time() - begin
        draws.seconds += seconds
        draws.main_seconds += 0.0 if warming_up else seconds
        self.piece = max(1, min(PIECE, int(PIECE_SECONDS * made / max(seconds, 1e-9))))
        thin = 1 if warming_up else self.task.thin
        drawn = {name: each[thin - 1 - draws.since : made : thin] for name, each in room.items()}
        draws.add(drawn)
        draws.since = (draws.since + made) % thin
        if made and draws.since == 0 and not warming_up:
            self._hold(drawn)
        recent = room["statistics"][:made].copy()
        monitor.recent = recent if monitor.recent is None else np.concatenate([monitor.recent, recent])[-RECENT:]
        first, last = self._window
        if made and first < self.state[ITERATION] <= last:
            self._look()

    def _next_piece(self) -> int:
        """How many transitions to make next: none beyond the end of warm-up, or beyond a draw that may be held.

        Where there are several for each draw, they end with a draw if there is one among them, so that it can be held.
        """
        task, draws = self.task, self.draws
        most = min(self.piece, len(self.rooms["z"]))
        if self.state[ITERATION] < self._window[1]:
            most = 1  # every draw is looked at
        if draws.made < task.warmup:
            return min(most, task.warmup - draws.made)
        after = draws.made - task.warmup
        until = min(STRIDE - after % STRIDE, task.draws - after) * task.thin - draws.since
        count = min(most, until)
        beyond = (draws.since + count) % task.thin
        return count - beyond if beyond < count else count

    def _room(self, count: int) -> dict[str, np.ndarray]:
        """Where these transitions are written: those of warm-up whose states are not kept have none."""
        room = {name: each[:count] for name, each in self.rooms.items()}
        if self.draws.made < self.draws.unkept:
            room |= {name: room[name][:, :0] for name in STATES}
        return room

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        """Make as many transitions as there is room for; returns how many were made."""
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
            *in_order(room),
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

    def _hold(self, drawn: dict[str, np.ndarray]) -> None:
        """Keep all of the last draw, and drop those that are not to be held."""
        made, warmup, held = self.draws.made, self.task.warmup, self.draws.held
        held[made] = Held(self._position(), *(drawn[name][-1].copy() for name in Held._fields[1:]))
        for number in [n for n in held if not is_held(n - warmup, made - warmup)]:
            del held[number]

    def _position(self) -> np.ndarray:
        """The standard normals that the model makes the last draw of, as a vector block."""
        return self.recorded(self.current[: self.momenta.shape[1]])

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
            "since": np.array(d.since),
            "held": np.array([*d.held], dtype=np.int64),
            **{f"held_{name}": np.array([getattr(each, name) for each in d.held.values()]) for name in Held._fields},
            "integration_time": np.array(d.integration_time),
        }
        self._unless_full(lambda: checkpoint.save(d, state))

    def make_room(self, checkpoint: Checkpoint) -> None:
        """Bring the draws that are in memory to their files."""
        self._unless_full(lambda: checkpoint.append(self.draws))

    def _unless_full(self, write: Callable[[], None]) -> None:
        try:
            write()
            self.draws.unsaved = ""
        except OSError as error:
            self.draws.unsaved = error.strerror or str(error)

    def restore(self, checkpoint: Checkpoint) -> bool:
        """Take up where the checkpoint left off; False if it has nothing yet."""
        d, saved = self.draws, checkpoint.load(self.draws)
        if saved is None:
            return False
        try:
            d.start_attempts = int(saved["start_attempts"])
            d.seconds, d.main_seconds = saved["seconds"].tolist()
            d.since = int(saved["since"])
            held = map(Held, *(saved[f"held_{name}"] for name in Held._fields))
            d.held = dict(zip(saved["held"].tolist(), held, strict=True))
            d.integration_time = float(saved["integration_time"])
            for name, array in self._state().items():
                if saved[name].shape != array.shape:
                    raise ValueError(name)
                array[:] = saved[name]
            self.rng.bit_generator.state = json.loads(str(saved["rng"]))
        except (KeyError, TypeError, ValueError):
            raise checkpoint.damaged(checkpoint.file, "it has not what a chain of this run needs") from None
        return True
