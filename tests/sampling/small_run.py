"""A small run of pf.sample, the same in every process; and one that kills its process at a chosen moment."""

from __future__ import annotations

import functools
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import pathfold as pf
from pathfold.sampling import Sampler, checkpoint, execution
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.draws import Draws
from tests.sampling.linear_gaussian import ornstein_uhlenbeck

SAMPLERS = {
    "static": pf.StaticHMC(integrate=False),
    "integrated": pf.StaticHMC(),
    "dynamic": pf.DynamicHMC(),
    "metric": pf.DynamicHMC(metric="adapted"),
    "guided": pf.GuidedProposals(thin=3),
    "replicas": pf.ReplicaExchange(rungs=4),
}
WARMUP, DRAWS, CHAINS = 60, 90, 3


@functools.cache
def model_and_data() -> tuple[pf.DiffusionModel, pf.Observations]:
    """Small, non-linear in its parameters, with missing data."""
    process = ornstein_uhlenbeck(noisy=True)
    model = process.model(known=False)
    times = 0.3 + np.cumsum(np.random.default_rng(5).uniform(0.2, 0.9, size=10))
    values = np.sin(times)
    values[[2, 5, 6]] = np.nan
    return model, pf.Observations(times, values, initial_time=0.3)


def small_run(sampler: str | Sampler = "static", **options: Any) -> xr.DataTree:
    """Too short for a good posterior, of which it does not warn."""
    model, data = model_and_data()
    settings: dict[str, Any] = {
        "steps_per_interval": 4,
        "chains": CHAINS,
        "warmup": WARMUP,
        "draws": DRAWS,
        "seed": 7,
        "sampler": SAMPLERS[sampler] if isinstance(sampler, str) else sampler,
        "keep_path": "all",
        "keep_warmup": True,
        "progress": False,
    }
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "(?!.*were left out)(.*) (has (not converged|few effective draws)|stood still|and back in)"
        )
        return pf.sample(model, data, **settings | options)


def assert_same_draws(a: xr.DataTree, b: xr.DataTree, *, held: slice = slice(None)) -> None:
    """Every draw, path and statistic, warm-up included, and of the noise in `b` the draws held, bit for bit."""
    for group in ("posterior", "sample_stats", "noise", "warmup_posterior", "warmup_sample_stats"):
        first, second = a[group].to_dataset(), b[group].to_dataset()
        second = second.isel(draw=held) if group == "noise" else second
        assert set(first.variables) == set(second.variables)
        for name in first.variables:
            assert first[name].values.tobytes() == second[name].values.tobytes(), (group, name)


def killed_run(folder: Path, sampler: str, moment: str) -> None:
    """Save after every piece, and die: in "warm-up", while "sampling", or within a save ("appending", "saving").

    There it is between appending draws and writing the state that counts them, or between writing and placing that.
    """
    save = checkpoint.Checkpoint.save
    saved: dict[int, int] = {}

    def die(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def fatal(self: checkpoint.Checkpoint, draws: Draws, state: dict[str, Any]) -> None:
        made = draws.made
        reached = {"warm-up": 0, "sampling": WARMUP + 20, "appending": WARMUP + 40, "saving": WARMUP + 50}[moment]
        now = made > reached and (moment != "warm-up" or made < WARMUP) and len(saved) >= 2
        if now and moment == "appending":
            np.savez = die
        if now and moment == "saving":
            Path.replace = die
        save(self, draws, state)
        saved[self.chain] = made
        if now:
            die()

    checkpoint.Checkpoint.save = fatal
    execution.ChainTask = functools.partial(ChainTask, checkpoint_seconds=0.0)  # type: ignore[misc]
    small_run(sampler, checkpoint=folder, threads=2)
