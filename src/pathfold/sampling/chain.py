"""One chain on the host's side: its memory, its random stream, and its progress in pieces that can be saved.

A task holds everything a chain depends on, as plain arrays and numbers, so that it can run in a thread or be sent to
another process. What it yields depends on the task alone, not on how it is cut into pieces.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.compile import Program
from pathfold.engine.native import trajectory
from pathfold.engine.native.chain_loop import run
from pathfold.engine.native.integration_time import search_size
from pathfold.engine.native.step_size import STATE
from pathfold.errors import DataError
from pathfold.sampling.checkpoint import Checkpoint
from pathfold.sampling.initialise import Start, find_start
from pathfold.sampling.samplers import Sampler, StaticHMC

PIECE = 10  # transitions a native call: small enough to be interrupted, large enough to cost nothing


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
    sampler: Sampler
    warmup: int
    draws: int
    z_size: int
    series: int
    state_dim: int
    steps: int
    intervals: int
    keep_path: str
    checkpoint: str | None = None
    checkpoint_seconds: float = 5.0


@dataclass
class Draws:
    """What a chain has drawn, warm-up first; `made` rows of the arrays are filled."""

    z: np.ndarray
    x0: np.ndarray
    nodes: np.ndarray
    path: np.ndarray
    statistics: np.ndarray
    made: int = 0
    seconds: float = 0.0  # of its core: the time that others had it does not count
    main_seconds: float = 0.0  # of these after warm-up
    start_attempts: int = 0

    @classmethod
    def empty(cls, task: ChainTask, statistics: int) -> Draws:
        total, states = task.warmup + task.draws, task.state_dim
        nodes = 0 if task.keep_path == "none" else task.intervals
        path = task.intervals if task.keep_path == "all" else 0
        return cls(
            z=np.zeros((total, task.z_size)),
            x0=np.zeros((total, task.series, states)),
            nodes=np.zeros((total, nodes, states)),
            path=np.zeros((total, path, task.steps, states)),
            statistics=np.zeros((total, statistics)),
        )

    def first(self, count: int) -> Draws:
        """The first rows alone."""
        arrays = {name: getattr(self, name)[:count] for name in ("z", "x0", "nodes", "path", "statistics")}
        return replace(self, **arrays, made=count)


@dataclass
class Monitor:
    """Shared with the host while a chain runs in a thread: a flag to stop it, its count of transitions, its draws."""

    stop: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    done: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    draws: Draws | None = None


def run_chain(task: ChainTask, monitor: Monitor | None = None) -> Draws:
    """Find a start, or take up where a checkpoint left off, and make all transitions unless told to stop."""
    monitor = monitor or Monitor()
    chain = _Chain(task)
    checkpoint = Checkpoint(Path(task.checkpoint), task.index) if task.checkpoint else None
    saved = checkpoint.load() if checkpoint else None
    if saved is not None:
        chain.restore(saved)
    else:
        chain.initialise()
    monitor.draws = chain.draws
    monitor.done[0] = chain.draws.made
    last_save = time.monotonic()
    while chain.draws.made < task.warmup + task.draws and monitor.stop[0] == 0:
        chain.advance(PIECE, monitor)
        if checkpoint and time.monotonic() - last_save > task.checkpoint_seconds:
            checkpoint.save(chain.saved())
            last_save = time.monotonic()
    if checkpoint:
        checkpoint.save(chain.saved())
    return chain.draws


class _Chain:
    """The state of a running chain."""

    def __init__(self, task: ChainTask) -> None:
        self.task, self.layout = task, task.program.bind(task.layout)
        self.dynamic = not isinstance(task.sampler, StaticHMC)
        points, momenta = trajectory.STATIC_POINTS, trajectory.STATIC_MOMENTA
        if self.dynamic:
            points, momenta = trajectory.DYNAMIC_POINTS, trajectory.dynamic_momenta(self.layout[at.MAX_DEPTH])
        self.points = np.zeros((points, task.block_sizes["point"]))
        self.momenta = np.zeros((momenta, task.block_sizes["vector"]))
        self.scratch = np.zeros(task.block_sizes["scratch"])
        self.problems = task.problems.copy()  # a start changes the relaxation for a while, blocking the states held
        self.rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(task.seed, spawn_key=(task.index,))))
        self.state = np.zeros(STATE)
        self.search = np.zeros(search_size(self.layout))
        self.counts, self.result = np.zeros(trajectory.COUNTS, dtype=np.int64), np.zeros(4)
        self.draws = Draws.empty(task, trajectory.STATISTICS)

    @property
    def current(self) -> np.ndarray:
        return self.points[trajectory.CURRENT]

    @property
    def metric(self) -> np.ndarray:
        """The scales of a metric that is adapted, and what they are being estimated from."""
        return self.problems[0, self.layout[at.PROBLEM_METRIC] : self.layout[at.PROBLEM_WINDOW_SQUARES + at.END]]

    def initialise(self) -> None:
        blocks = (self.layout, self.problems[0], self.points, self.momenta, self.scratch)
        self.draws.start_attempts = find_start(*blocks, self.rng, self.task.start)

    def advance(self, count: int, monitor: Monitor) -> None:
        """Make up to `count` transitions."""
        task, draws = self.task, self.draws
        end = task.warmup if draws.made < task.warmup else task.warmup + task.draws
        rows = slice(draws.made, min(draws.made + count, end))
        time_given = task.sampler.integration_time if isinstance(task.sampler, StaticHMC) else None
        begin = time.thread_time()
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
            float(time_given or 0.0),
            task.warmup,
            float(task.sampler.target_acceptance),
            draws.z[rows],
            draws.x0[rows],
            draws.nodes[rows],
            draws.path[rows],
            draws.statistics[rows],
            monitor.stop,
            monitor.done,
        )
        if made < 0:
            raise DataError(
                "observations_per_block: the states between blocks cannot be held, since the noise of an interval does "
                "not move the whole state; take more steps_per_interval, a scheme of higher order, or no blocks"
            )
        seconds = time.thread_time() - begin
        draws.seconds += seconds
        draws.main_seconds += seconds if draws.made >= task.warmup else 0.0
        draws.made += made

    def saved(self) -> dict[str, Any]:
        """Everything that the chain's future depends on, and its past."""
        d = self.draws
        arrays = {name: getattr(d, name)[: d.made] for name in ("z", "x0", "nodes", "path", "statistics")}
        return {
            **arrays,
            "point": self.current,
            "state": self.state,
            "search": self.search,
            "metric": self.metric,
            "rng": np.array(json.dumps(self.rng.bit_generator.state)),
            "made": np.array(d.made),
            "seconds": np.array([d.seconds, d.main_seconds]),
            "start_attempts": np.array(d.start_attempts),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        d = self.draws
        d.made, d.start_attempts = int(saved["made"]), int(saved["start_attempts"])
        d.seconds, d.main_seconds = saved["seconds"].tolist()
        for name in ("z", "x0", "nodes", "path", "statistics"):
            getattr(d, name)[: d.made] = saved[name]
        self.current[:] = saved["point"]
        self.state[:] = saved["state"]
        self.search[:] = saved["search"]
        self.metric[:] = saved["metric"]
        self.rng.bit_generator.state = json.loads(str(saved["rng"]))
