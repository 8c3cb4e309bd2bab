"""The settings of pf.sample besides model, data and fine steps, validated once."""

from __future__ import annotations

import json
import os
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

from pathfold.engine.engine import Solver, Splitting
from pathfold.errors import SettingsError, told
from pathfold.model.checks import choice, positive, truth, whole
from pathfold.sampling.heuristics import Heuristic
from pathfold.sampling.samplers import GuidedProposals, Sampler, StaticHMC, UnconstrainedHMC
from pathfold.sampling.selection import Selection
from pathfold.sampling.warm_start import WARMUP as WARM_START
from pathfold.sampling.warm_start import Earlier

KeepPath = Literal["nodes", "all", "none"]
InitialStates = Literal["projection"] | Heuristic
WARMUP = 250
GUIDED_WARMUP = 500  # draws, each of several iterations
INITIAL_STATES = ("projection", *get_args(Heuristic))


@dataclass(frozen=True)
class Settings:
    """The settings of pf.sample, each of its plain type, with defaults filled in."""

    chains: int
    warmup: int
    draws: int
    start: Earlier | None
    seed: int
    sampler: Sampler
    splitting: Splitting
    solver: Solver
    observations_per_block: int | None
    initial_states: InitialStates
    keep: Selection
    keep_path: KeepPath
    keep_warmup: bool
    thin: int
    progress: bool
    max_seconds: float | None
    checkpoint: Path | None
    executor: Executor | None
    threads: int | None

    @classmethod
    def checked(cls, **given: Any) -> Self:
        """Check what the user gave; raise a SettingsError that names a setting that cannot be used."""
        sampler = _checked_sampler(given["sampler"])
        splitting = given["splitting"]
        if splitting is not None and isinstance(sampler, GuidedProposals):
            raise SettingsError("splitting has no meaning for pf.GuidedProposals(): leave it out")
        if splitting is None:
            splitting = "stormer-verlet" if isinstance(sampler, UnconstrainedHMC) else "gaussian"
        initial_states = "projection" if given["initial_states"] is None else given["initial_states"]
        block, threads, limit = given["observations_per_block"], given["threads"], given["max_seconds"]
        return cls(
            chains=whole("chains", given["chains"], least=1),
            warmup=_checked_warmup(given["warmup"], given["start"], sampler),
            start=given["start"],
            draws=whole("draws", given["draws"], least=1),
            seed=whole("seed", given["seed"], least=0),
            sampler=sampler,
            splitting=cast(Splitting, choice("splitting", splitting, get_args(Splitting))),
            solver=_checked_solver(given["solver"]),
            observations_per_block=None if block is None else whole("observations_per_block", block, least=2),
            initial_states=cast(InitialStates, choice("initial_states", initial_states, INITIAL_STATES)),
            keep=given["keep"],
            keep_path=cast(KeepPath, choice("keep_path", given["keep_path"], get_args(KeepPath))),
            keep_warmup=truth("keep_warmup", given["keep_warmup"]),
            thin=_checked_thin(given["thin"], sampler),
            progress=truth("progress", given["progress"]),
            max_seconds=None if limit is None else positive("max_seconds", limit),
            checkpoint=_checked_path(given["checkpoint"]),
            executor=_checked_executor(given["executor"], threads),
            threads=None if threads is None else whole("threads", threads, least=1),
        )

    @property
    def recorded(self) -> dict[str, Any]:
        """Return the settings that the draws depend on, as the results record them."""
        return {
            "chains": self.chains,
            "warmup": self.warmup,
            "draws": self.draws,
            "seed": self.seed,
            "splitting": self.splitting,
            "observations_per_block": self.observations_per_block or 0,
            "initial_states": self.initial_states,
            "start": "none" if self.start is None else self.start.digest,
            "keep": self.keep.recorded,
            "keep_path": self.keep_path,
            "thin": self.thin,
            "sampler": type(self.sampler).__name__,
            **asdict(self.solver),
            **{name: _recorded(value) for name, value in asdict(self.sampler).items()},
        }


def _recorded(value: Any) -> Any:
    """Return a setting of a sampler as it is recorded; a metric that is given as numbers becomes text."""
    if value is None:
        return "adapted"
    return json.dumps(value) if isinstance(value, list | dict) else value


def _checked_warmup(given: Any, start: Earlier | None, sampler: Sampler) -> int:
    """Return the length of warm-up; its default is short for a run that takes over the pace of an earlier one."""
    if given is None and isinstance(sampler, GuidedProposals):
        return GUIDED_WARMUP
    if given is None:
        known = start is not None and start.has_pace and not isinstance(sampler, UnconstrainedHMC)
        return WARM_START if known else WARMUP
    return whole("warmup", given, least=0)


def _checked_thin(given: Any, sampler: Sampler) -> int:
    thin = whole("thin", given, least=1)
    if thin > 1 and isinstance(sampler, GuidedProposals):
        raise SettingsError(f"a draw of pf.GuidedProposals() has its own thin: write pf.GuidedProposals(thin={thin})")
    return thin


def _checked_sampler(given: Any) -> Sampler:
    if given is None:
        return StaticHMC()
    if not isinstance(given, Sampler):
        raise SettingsError(
            "sampler must be pf.StaticHMC(), pf.DynamicHMC(), pf.UnconstrainedHMC() or pf.GuidedProposals(), not "
            f"{told(given)}"
        )
    return given


def _checked_solver(given: Any) -> Solver:
    if given is not None and not isinstance(given, Solver):
        raise SettingsError(f"solver must be pf.Solver(), with other tolerances or limits, not {told(given)}")
    return given or Solver()


def _checked_path(given: Any) -> Path | None:
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike) or not isinstance(name := os.fspath(given), str) or not name.strip():
        raise SettingsError(f"checkpoint must be the name of a folder, not {told(given)}")
    return Path(name)


def _checked_executor(given: Any, threads: Any) -> Executor | None:
    if given is None:
        return None
    if not isinstance(given, Executor):
        raise SettingsError(
            "executor must be a concurrent.futures.Executor, such as ThreadPoolExecutor(4) or ProcessPoolExecutor(4), "
            f"not {told(given)}"
        )
    if threads is not None:
        raise SettingsError("give threads or an executor, not both: an executor has its own number of workers")
    try:
        given.submit(int).cancel()
    except RuntimeError as error:  # of a pool that was shut down, or whose workers died
        raise SettingsError(f"executor cannot be used: {error}; give one that is open") from error
    return given
