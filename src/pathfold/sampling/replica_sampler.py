"""Replica exchange: the sampler, and its chains on the host's side, which place the rungs (method.md, section 22)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from pathfold.data import TimeGrid
from pathfold.data.checks import positive, whole
from pathfold.engine import table as at
from pathfold.engine.engine import Solver
from pathfold.engine.helpers import Team, is_compiled
from pathfold.engine.native.chain_loop import Work
from pathfold.engine.native.integration_time import integration_time
from pathfold.engine.native.recording import Drawn
from pathfold.engine.native.replica_exchange import (
    CHANCES,
    EXCHANGES,
    OF_RUNGS,
    PACING,
    REPLICA_STATISTICS,
    RUNG_STATISTICS,
    Replicas,
    meet,
    run_replicas,
    set_coldness,
)
from pathfold.engine.native.run import Machine
from pathfold.engine.native.thresholds import MOST_RUNGS
from pathfold.engine.native.trajectory import COUNTS, STATIC_MOMENTA, STATIC_POINTS
from pathfold.engine.native.tuning import Tuning
from pathfold.engine.status import CONVERGED, MEANING, NON_FINITE
from pathfold.errors import InitialisationError, SettingsError
from pathfold.model import DiffusionModel
from pathfold.sampling import ladder
from pathfold.sampling.chain import Chain, ChainTask
from pathfold.sampling.progress import Monitor
from pathfold.sampling.sampler import SOLVER, Sampler, Statistic, check_noise
from pathfold.sampling.warm_start import Earlier

FOREVER = 2**40  # sweeps


@dataclass(frozen=True)
class ReplicaExchange(Sampler):
    """Replicas of the posterior with its likelihood to powers from 1 to 0, which exchange their places.

    For posteriors with several modes, each of which gets its share of the draws. On the rung of power 0, the prior,
    draws are independent; exchanges between neighbouring rungs bring them down to the posterior, which keeps its draws
    exact. Every rung is sampled as by `pf.StaticHMC`, so that a draw costs about as much as one of that times the
    number of rungs. All that is observed must have noise.

    Parameters
    ----------
    rungs
        How many powers there are, 1 and 0 included, from 3 to 48. By default warm-up finds out how many it takes for
        every second exchange to be accepted. Where they are, it finds out in any case.
    integration_time
        As that of `pf.StaticHMC`, on all rungs. By default warm-up finds it for the posterior, and on other rungs it is
        a quarter of a turn, or four pairs of steps if that is less.
    target_acceptance
        As that of `pf.StaticHMC`.
    solver
        As that of `pf.StaticHMC`.
    """

    native: ClassVar = "pathfold.engine.entries:REPLICAS"
    tempered: ClassVar = True

    rungs: int | None = None
    _: KW_ONLY
    integration_time: float | None = None
    target_acceptance: float = 0.95
    solver: Solver = SOLVER

    def __post_init__(self) -> None:
        self._check_solver()
        self._check_target(self.target_acceptance)
        if self.rungs is not None:
            self._set("rungs", whole("rungs", self.rungs, least=ladder.FEWEST))
            if self.rungs > MOST_RUNGS:
                raise SettingsError(f"rungs must be at most {MOST_RUNGS}, not {self.rungs}")
        if self.integration_time is not None:
            self._set("integration_time", positive("integration_time", self.integration_time))

    def check(self, model: DiffusionModel, grid: TimeGrid) -> None:
        check_noise(self, model, "there is no likelihood to take a power of")

    def warmup(self, start: Earlier | None) -> int:
        return 400  # half of which place the rungs

    def statistics(self, model: DiffusionModel) -> list[Statistic]:
        """Return those of the replica that a draw is of, and of every rung that there is room for."""
        rungs = range(MOST_RUNGS)
        return [
            *(Statistic(name, dtype) for name, dtype in REPLICA_STATISTICS.items()),
            *(Statistic(name, dim="rung", labels=rungs) for name in RUNG_STATISTICS),
        ]

    def chain(self, task: ChainTask) -> ReplicaChain:
        return ReplicaChain(task, self)


class ReplicaChain(Chain):
    """Replicas on rungs from the posterior to the prior, of which the first rung gives the draws.

    In the first half of warm-up rungs are placed, in rounds, each with step sizes of its own; in the second half they
    stay, and step sizes and integration times are adapted as those of a single chain are.
    """

    def __init__(self, task: ChainTask, sampler: ReplicaExchange) -> None:
        super().__init__(task, STATIC_POINTS, STATIC_MOMENTA)
        self.sampler = sampler
        self.ends = sorted({int(share * task.warmup) for share in ladder.ROUNDS} - {0})  # of rounds, in sweeps
        self.helpers = 0  # threads besides its own ...
        self.team: Team | None = None  # ... that do tasks, while rungs stay
        self.helped_seconds = 0.0  # by teams that have ended
        self._put(ladder.first_powers(self.sampler.rungs or ladder.FIRST_COUNT))

    @contextmanager
    def helped(self) -> Iterator[Callable[[], float]]:
        """Let other threads share the tasks of sweeps within this context."""
        self.helpers = self.task.helpers if is_compiled() else 0
        try:
            yield self._clock
        finally:
            self.helpers = 0
            self._end_team()

    def _clock(self) -> float:
        """Return the processor seconds of the chain and of all that helped it; raise what went wrong in a helper."""
        seconds = time.thread_time() + self.helped_seconds
        if self.team is None:
            return seconds
        self.team.raise_errors()
        return seconds + self.team.seconds()

    def _begin_team(self, rest: tuple) -> None:
        """Start threads that do tasks, fewer than there are rungs, each with memory of its own.

        They are given the rest of what the chain runs with, and do not use it.
        """
        work, replicas, helpers = self._work, self._replicas, min(self.helpers, len(self.powers) - 1)
        own = ("points", "momenta", "scratch", "counts")
        works = [work._replace(**{name: np.zeros_like(getattr(work, name)) for name in own}) for _ in range(helpers)]

        def help_along(address: int, number: int) -> None:
            run_replicas(works[number - 1], self.rng, replicas, address, number, *rest)

        self.team = Team(help_along, helpers) if helpers else None

    def _end_team(self) -> None:
        if (team := self.team) is not None:
            self.helped_seconds += team.seconds()
            self.team = None
            team.end()

    def _put(self, powers: np.ndarray) -> None:
        """Make room for rungs with these powers, of which nothing else is known yet."""
        self._end_team()
        count = len(powers)
        self.powers, self.problems = powers, np.repeat(self.task.problems[:1], count, axis=0)
        for problem, power in zip(self.problems, powers, strict=True):
            set_coldness(Machine.of(self.layout, problem, self.scratch), float(power))
        self.replicas = np.zeros((count, self.task.block_sizes["point"]))
        self.tuning, self.pacing = Tuning.of(count, int(self.layout[at.VECTOR_W])), np.zeros(1, PACING)
        self.labels, self.ways = np.arange(count), np.zeros(count, dtype=np.int64)
        self.rejected = np.zeros(count)  # sums over the sweeps of a round, and their number
        counts = np.zeros(COUNTS, dtype=np.int64)
        blocks = self.layout, self.problems, self.points, self.momenta, self.scratch
        self._work = Work(*blocks, self.tuning, counts)
        self._replicas = Replicas(
            self.replicas,
            powers,
            losses=np.zeros(count),
            labels=self.labels,
            ways=self.ways,
            normals=np.zeros((count + 1, self.momenta.shape[1])),
            chances=np.zeros((count + 1, CHANCES)),
            rows=np.zeros((count, OF_RUNGS)),
            pairs=np.zeros(count // 2, dtype=np.int64),
            pacing=self.pacing,
        )

    @property
    def current(self) -> np.ndarray:
        return self.replicas[0]

    def initialise(self) -> None:
        start = self.task.start
        assert start is not None
        block = np.zeros(self.task.block_sizes["point"])
        nodes = slice(self.layout[at.POINT_NODE], self.layout[at.POINT_NODE + at.END])
        block[: start.position.size] = start.position
        block[nodes][: start.nodes.size] = start.nodes
        for k in range(len(self.powers)):
            self._begin(k, [block])

    def _begin(self, k: int, blocks: list[np.ndarray]) -> None:
        """Let a rung begin at the first of these points that it can be at."""
        status = NON_FINITE
        for block in blocks:
            self.replicas[k] = block
            if (status := meet(Machine.of(self.layout, self.problems[k], self.scratch), self.replicas[k])) == CONVERGED:
                return
        raise InitialisationError(f"the sampler cannot start where a search ended: {MEANING[status]}")

    def _run(self, room: dict[str, np.ndarray], monitor: Monitor) -> int:
        placing = self._placing
        time_given = self.sampler.integration_time or 0.0
        pacing = self.pacing[0]
        pacing.time, pacing.warmup, pacing.target = time_given, self._adapting, self.sampler.target_acceptance
        rest = Drawn(**room), monitor.stop, monitor.done
        if self.team is None:
            self._begin_team(rest)
        made = run_replicas(self._work, self.rng, self._replicas, self.team.address if self.team else 0, 0, *rest)
        if placing and made:
            self.rejected[:-1] += np.sum(1.0 - room["statistics"][:made, EXCHANGES:][:, : len(self.powers) - 1], axis=0)
            self.rejected[-1] += made
        state = self.tuning.state[0]
        chosen = integration_time(float(state.time), int(state.iteration), self._adapting)
        self.draws.integration_time = float(self.sampler.integration_time or chosen)
        return made

    @property
    def _placing(self) -> bool:
        """Whether rungs are still being placed."""
        return bool(self.ends) and self.draws.made < self.ends[-1]

    @property
    def _adapting(self) -> int:
        """The sweeps of warm-up that step sizes are adapted in; without an end, as long as rungs are placed."""
        return FOREVER if self._placing else self.task.warmup - (self.ends[-1] if self.ends else 0)

    @property
    def _looking(self) -> bool:
        return self._placing

    def _look(self) -> None:
        """At the end of a round, place rungs by the rejection rates that it had; each begins where a near one was.

        Step sizes are sought anew: a round is short, and one that had met with failures would hand on too small a step.
        """
        if self.draws.made not in self.ends or not self.rejected[-1]:
            return
        powers, replicas = self.powers, self.replicas
        rates = self.rejected[:-1] / self.rejected[-1]
        self._put(ladder.placed(powers, rates, self.sampler.rungs or ladder.wanted(rates)))
        for k, power in enumerate(self.powers):
            self._begin(k, [replicas[i] for i in ladder.nearest(powers, power)])

    def _make_room_for(self, saved: Mapping[str, np.ndarray]) -> None:
        self._put(saved["powers"])

    def _state(self) -> dict[str, np.ndarray]:
        return {
            "powers": self.powers,
            "replicas": self.replicas,
            **self.tuning._asdict(),
            "labels": self.labels,
            "ways": self.ways,
            "pacing": self.pacing,
            "rejected": self.rejected,
        }
