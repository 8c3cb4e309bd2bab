"""The settings of pf.sample besides model, data and fine steps, validated once."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

from pathfold.data.checks import choice, positive, truth, whole
from pathfold.errors import SettingsError, told
from pathfold.sampling.replica_sampler import ReplicaExchange
from pathfold.sampling.sampler import Sampler
from pathfold.sampling.selection import Selection
from pathfold.sampling.static_sampler import StaticHMC
from pathfold.sampling.warm_start import Earlier

KeepPath = Literal["nodes", "all", "none"]


@dataclass(frozen=True)
class Settings:
    """The settings of pf.sample, each of its plain type, with defaults filled in."""

    chains: int
    warmup: int
    draws: int
    start: Earlier | None
    seed: int
    sampler: Sampler
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
    def checked(
        cls,
        *,
        chains: int,
        draws: int,
        seed: int,
        keep: Selection,
        warmup: int | None = None,
        start: Earlier | None = None,
        sampler: Sampler | None = None,
        keep_path: KeepPath = "nodes",
        keep_warmup: bool = False,
        thin: int = 1,
        progress: bool = True,
        max_seconds: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        executor: Executor | None = None,
        threads: int | None = None,
    ) -> Self:
        """Return what the user gave, in plain types; a SettingsError names the setting that cannot be used."""
        sampler = _checked_sampler(sampler, start)
        return cls(
            chains=whole("chains", chains, least=1),
            warmup=sampler.warmup(start) if warmup is None else whole("warmup", warmup, least=0),
            start=start,
            draws=whole("draws", draws, least=1),
            seed=whole("seed", seed, least=0),
            sampler=sampler,
            keep=keep,
            keep_path=cast(KeepPath, choice("keep_path", keep_path, get_args(KeepPath))),
            keep_warmup=truth("keep_warmup", keep_warmup),
            thin=_checked_thin(thin, sampler),
            progress=truth("progress", progress),
            max_seconds=None if max_seconds is None else positive("max_seconds", max_seconds),
            checkpoint=_checked_path(checkpoint),
            executor=_checked_executor(executor, threads),
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
            "start": "none" if self.start is None else self.start.digest,
            "keep": self.keep.recorded,
            "keep_path": self.keep_path,
            "thin": self.thin,
            "sampler": type(self.sampler).__name__,
            **asdict(self.sampler.solver),
            **self.sampler.recorded,
        }


def _checked_thin(given: Any, sampler: Sampler) -> int:
    thin = whole("thin", given, least=1)
    sampler.check_thin(thin)
    return thin


def _checked_sampler(given: Any, start: Earlier | None) -> Sampler:
    if given is None:
        return ReplicaExchange() if start is not None and start.exchanged else StaticHMC()
    if isinstance(given, type) and issubclass(given, Sampler):
        raise SettingsError(f"sampler must be made with parentheses: write sampler=pf.{given.__name__}()")
    if not isinstance(given, Sampler):
        raise SettingsError(
            "sampler must be pf.StaticHMC(), pf.DynamicHMC(), pf.ReplicaExchange(), pf.UnconstrainedHMC() or "
            f"pf.GuidedProposals(), not {told(given)}"
        )
    return given


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
