"""Makes the rows that are missing, each in a process of its own with a budget, two or more at a time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from benchmarks.peers.problem import PROBLEMS
from benchmarks.peers.rows import Results, Row, drawn, effective, measure, pieces
from experiments.runner import circumstances

LOOK = 1.0  # seconds between looks at a run
IDLE = 6  # the budget by the clock on the wall, of which set-up and a busy machine may take their part, in budgets
SET_UP = 120  # and seconds besides

# A run has one core, where more threads of BLAS would wait for each other at its cost; a model that was compiled before
# would be found in the cache of the one who asks, so every run has its own; an error is to end with its message.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JAX_TRACEBACK_FILTERING": "off"}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The same for everyone."""

    budget: int = 300  # seconds of one core, after imports
    enough: int = 2000  # effective draws after which a run ends early
    memory: int = 12  # GiB
    chains: int = 4
    seed: int = 1


def complete(
    results: Results, wanted: Iterable[tuple[str, str]], samplers: Mapping[str, str], terms: Terms, at_a_time: int
) -> None:
    """Make the rows (sampler, problem) that are missing; one that is interrupted is made anew when asked for again."""
    missing = [key for key in wanted if key not in results.rows]
    free: SimpleQueue[int] = SimpleQueue()
    for core in range(at_a_time):
        free.put(core)
    lock = threading.Lock()

    def make(key: tuple[str, str]) -> None:
        core = free.get()
        try:
            row = run(*key, samplers[key[0]], terms, core)
        finally:
            free.put(core)
        with lock:
            results.add(row)
            print(f"[{len(results.rows)}]  {key[0]}, {key[1]}: {row['ended']}, {row['seconds']:.0f} s, "
                  f"{row.get('effective', 0.0):.0f} effective draws", flush=True)  # fmt: skip

    with ThreadPoolExecutor(at_a_time) as pool:
        for done in [pool.submit(make, key) for key in missing]:
            done.result()


def run(sampler: str, problem: str, module: str, terms: Terms, core: int = 0) -> Row:
    """One row, whatever comes of it."""
    made, folder = circumstances(), Path(tempfile.mkdtemp(prefix="peers-"))
    limits = {"budget": terms.budget, "memory": terms.memory, "core": core, "chains": terms.chains, "seed": terms.seed}
    command = [sys.executable, "-m", "benchmarks.peers.child", module, problem, str(folder)]
    command += [f"--{name}={value}" for name, value in limits.items()]
    try:
        with (folder / "output").open("w") as output:
            environment = os.environ | ENVIRONMENT | {"PATHFOLD_CACHE": str(folder / "models")}
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            try:
                ended = _watch(process, folder, terms)
            finally:
                process.kill()
                process.wait()
        about = folder / "about.json"
        said = json.loads(about.read_text()) if about.exists() else {}
        if ended == "failed":
            lines = (folder / "output").read_text().strip().splitlines() or ["no message"]
            ended = f"failed: {lines[-1][:200]}"
        if said.get("refused"):
            ended = f"refused: {said['refused']}"
        within = [piece for piece in pieces(folder) if piece["seconds"] <= terms.budget]  # the kernel counts in ticks
        measured = measure(within, PROBLEMS[problem]().names)
    finally:
        shutil.rmtree(folder)
    return {
        "sampler": sampler,
        "problem": problem,
        "terms": asdict(terms),
        "settings": said.get("settings", {}),
        "made": made | said.get("versions", {}),
        "ended": ended,
        **measured,
    }


def _watch(process: subprocess.Popen, folder: Path, terms: Terms) -> str:
    """How the run ended: at its budget, with enough draws, by itself, by the clock on the wall, or by a failure."""
    began, seen = time.monotonic(), 0
    while True:
        try:
            code = process.wait(LOOK)
        except subprocess.TimeoutExpired:
            if time.monotonic() - began > IDLE * terms.budget + SET_UP:
                return "wall clock"
            saved = len([*folder.glob("[0-9]*.npz")])
            if saved > seen:
                seen, values = saved, drawn(pieces(folder))
                if values is not None and values[..., 0].size >= terms.enough <= effective(values):
                    return "enough"
            continue
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return "budget"
        return "ended" if code == 0 else "failed"
