"""pathfold with its defaults."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np

import pathfold as pf
from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws

PACKAGES = ("pathfold", "jax", "numba")
SETTINGS = {"sampler": "StaticHMC", "warmup": 250}
FIRST, GROWTH = 100, 3  # draws a chain of the first piece; how the run grows from piece to piece


def refuses(problem: Problem) -> str | None:
    return None


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    """A run that grows: its checkpoint makes the draws those of one long run."""
    with tempfile.TemporaryDirectory() as folder:
        done, draws = 0, 1
        while True:
            tree = pf.sample(
                problem.model,
                problem.data,
                steps_per_interval=problem.steps,
                chains=chains,
                draws=draws,
                seed=seed,
                threads=1,
                keep_path="none",
                progress=False,
                checkpoint=folder,
            )
            new = tree.isel(draw=slice(done, None))
            values = np.stack([new.posterior[name].values for name in problem.names], axis=-1)
            steps, diverging = new.sample_stats["n_steps"], new.sample_stats["diverging"]
            yield Draws(values, done == 0, int(diverging.sum()), float(steps.sum()))
            done, draws = draws, FIRST if done == 0 else GROWTH * draws
