"""One run, in a process of its own: `python -m benchmarks.peers.child`, which the runner calls.

The process has one core, and as many seconds of it as the budget says, counted from when the problem is built and all
is imported: the kernel then ends it, in whatever native code it is. What was drawn is in files by then, a piece every
fraction of a second, each with the clocks of its last draw.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import time
from importlib import import_module, metadata
from pathlib import Path

import jax
import numpy as np

from benchmarks.peers.problem import PROBLEMS
from benchmarks.peers.sampler import Draws, Sampler

PIECE = 0.5  # seconds of the processor between pieces that are saved


class Recorder:
    """Saves what it is given in pieces, as files 00000.npz, 00001.npz, ..."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.waiting, self.saved = folder, [], 0
        self.began = self.last = time.process_time()
        self.began_wall = time.perf_counter()

    def add(self, draws: Draws) -> None:
        if self.waiting and self.waiting[0].warmup != draws.warmup:
            self.save()
        self.waiting.append(draws)
        if time.process_time() - self.last > PIECE:
            self.save()

    def save(self) -> None:
        if not self.waiting:
            return
        new, file = self.folder / "new.npz", self.folder / f"{self.saved:05d}.npz"
        np.savez(
            new,
            values=np.concatenate([each.values for each in self.waiting], axis=1),
            warmup=self.waiting[0].warmup,
            iterations=len(self.waiting),
            diverging=sum(each.diverging for each in self.waiting),
            steps=sum(each.steps for each in self.waiting),
            seconds=time.process_time() - self.began,
            wall_seconds=time.perf_counter() - self.began_wall,
        )
        new.replace(file)
        self.waiting, self.saved, self.last = [], self.saved + 1, time.process_time()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("module", "problem"):
        parser.add_argument(name)
    parser.add_argument("folder", type=Path)
    for name in ("budget", "memory", "core", "chains", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[options.core % len(cores)]})
    resource.setrlimit(resource.RLIMIT_AS, (options.memory * 2**30,) * 2)
    jax.config.update("jax_enable_x64", True)
    problem = PROBLEMS[options.problem]()
    sampler: Sampler = import_module(options.module)  # pyright: ignore[reportAssignmentType]
    refusal = sampler.refuses(problem)
    about = {
        "settings": sampler.SETTINGS,
        "versions": {name: metadata.version(name) for name in sampler.PACKAGES},
        "refused": refusal,
    }
    (options.folder / "about.json").write_text(json.dumps(about))
    if refusal is not None:
        return
    limit = math.ceil(time.process_time() + options.budget)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    recorder = Recorder(options.folder)
    try:
        for draws in sampler.draw(problem, options.chains, options.seed):
            recorder.add(draws)
    finally:
        recorder.save()


if __name__ == "__main__":
    main()
