"""A sampler for the tests of the runner: a few draws, and then what the environment variable FAKE says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.peers.problem import Problem
from benchmarks.peers.sampler import Draws

PACKAGES = ("numpy",)
SETTINGS = {"warmup": 3}


def refuses(problem: Problem) -> str | None:
    return "not today" if os.environ["FAKE"] == "refuse" else None


def draw(problem: Problem, chains: int, seed: int) -> Iterator[Draws]:
    rng, end = np.random.default_rng(seed), os.environ["FAKE"]
    for _ in range(3):
        yield Draws(rng.standard_normal((chains, 1, 3)), warmup=True)
    busy(0.1)
    for _ in range(200):
        yield Draws(rng.standard_normal((chains, 1, 3)), diverging=1, steps=8.0)
    while end == "draw":
        busy(0.1)
        yield Draws(rng.standard_normal((chains, 100, 3)))
    if end == "fail":
        raise RuntimeError("it did not work")
    busy(0.6)
    yield Draws(rng.standard_normal((chains, 1, 3)))
    busy(np.inf if end == "spin" else 0.0)
    time.sleep(1000.0 if end == "sleep" else 0.0)


def busy(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
