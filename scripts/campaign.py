"""Kills, interrupts and corrupted files, many of each: does a run that goes on from its checkpoint give the same draws?

    python scripts/campaign.py [--kills 100] [--interrupts 100] [--corruptions 200] [--seed 0]

A small run is killed (SIGKILL) or interrupted (SIGINT) at a random moment while it compiles, warms up, samples or
saves, and then made again: it must end with the draws, to the bit, of a run that nobody disturbed. Files of the cache
of models are damaged: the draws must be the same. Files of a checkpoint are damaged: the draws must be the same, or an
error of pathfold must say what is wrong. What happened is printed as counts; the exit status is 1 if anything else did.

Every run is a process of its own, forked from one that has imported everything and computed nothing.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pathfold as pf
from pathfold.doctor import compile_samplers
from pathfold.engine.compile import CompiledModel
from pathfold.example_models import ornstein_uhlenbeck
from pathfold.sampling import checkpoint, execution
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.hamiltonian_chain import HamiltonianChain

STAGES = {"compiling": 1.5, "warm-up": 0.02, "sampling": 0.02, "saving": 0.003}  # seconds within which the blow falls
WARMUP, DRAWS, CHAINS = 200, 300, 2
SAME, SENTENCE, INTERRUPTED = "the same draws", "an error of pathfold", "interrupted"


def draw(folder: Path) -> str:
    """A digest of all draws of a small run with a checkpoint."""
    model = ornstein_uhlenbeck.EXAMPLE.model()
    times = 0.5 * np.arange(1, 11)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = pf.sample(
            model,
            pf.Observations(times, np.sin(times)),
            steps_per_interval=4,
            chains=CHAINS,
            warmup=WARMUP,
            draws=DRAWS,
            seed=11,
            progress=False,
            checkpoint=folder,
        )
    if any("the run was interrupted" in str(each.message) for each in caught):
        raise KeyboardInterrupt
    digest = hashlib.sha256()
    for group in ("posterior", "sample_stats"):
        for variable in tree[group].to_dataset().variables.values():
            digest.update(np.ascontiguousarray(variable.values).tobytes())
    return digest.hexdigest()


def announce(stage: Callable[[str], None]) -> None:
    """Call `stage` whenever one begins, and save often."""

    def told(owner: Any, method: str, name: Callable[..., str]) -> None:
        original = getattr(owner, method)

        @functools.wraps(original)
        def wrapped(self: Any, *arguments: Any) -> Any:
            stage(name(self))
            return original(self, *arguments)

        setattr(owner, method, wrapped)

    told(CompiledModel, "_build", lambda _: "compiling")
    told(HamiltonianChain, "advance", lambda self: "warm-up" if self.draws.made < WARMUP else "sampling")
    told(checkpoint.Checkpoint, "save", lambda _: "saving")
    execution.ChainTask = functools.partial(ChainTask, checkpoint_seconds=0.0)  # type: ignore[misc]


def child(place: Path, pipe: int) -> None:
    """One run, in a process of its own; leaves what came of it in a file."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["PATHFOLD_CACHE"] = str(place / "cache")
    announce(lambda stage: os.write(pipe, stage[:1].encode()) and None)
    try:
        outcome = {"kind": "drawn", "digest": draw(place / "checkpoint")}
    except pf.PathfoldError as error:
        outcome = {"kind": SENTENCE, "text": str(error)}
    except KeyboardInterrupt:
        outcome = {"kind": INTERRUPTED}
    except BaseException:
        outcome = {"kind": "fault", "text": traceback.format_exc()}
    (place / "outcome").write_text(json.dumps(outcome))


def run(place: Path, blow: tuple[signal.Signals, str, int, float] | None = None) -> dict[str, Any]:
    """Make a run; strike it with a signal, if one is given with a stage, the stage's how manieth turn, and a delay."""
    (place / "outcome").unlink(missing_ok=True)
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reading)
            child(place, writing)
        finally:
            os._exit(0)
    os.close(writing)
    struck = False
    try:
        turns = 0
        while told := os.read(reading, 1):
            if blow and not struck and told == blow[1][:1].encode():
                turns += 1
                if turns == blow[2]:
                    time.sleep(blow[3])
                    os.kill(process, blow[0])
                    struck = True
    finally:
        os.close(reading)
        os.waitpid(process, 0)
    file = place / "outcome"
    return {"struck": struck, "kind": "killed"} | (json.loads(file.read_text()) if file.exists() else {})


class Campaign:
    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.rng, self.faults = root, np.random.default_rng(seed), []
        self.counts: dict[str, Counter[str]] = {}
        self.whole = self.place("whole")
        self.digest = run(self.whole)["digest"]

    def place(self, name: str, *, cache: bool = False, saved: bool = False) -> Path:
        """A new folder for runs; with the compiled model, or with the checkpoint of a run that has ended."""
        place = self.root / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for part, wanted in (("cache", cache), ("checkpoint", saved)):
            if wanted:
                shutil.copytree(self.whole / part, place / part)
        return place

    def count(self, what: str, result: dict[str, Any], allowed: tuple[str, ...]) -> None:
        kind = result["kind"]
        if kind == "drawn":
            kind = SAME if result["digest"] == self.digest else "OTHER DRAWS"
        self.counts.setdefault(what, Counter())[kind] += 1
        if kind not in allowed:
            self.faults.append(f"{what}: {kind}: {result.get('text', '')}")

    def show(self) -> None:
        """Print what was counted since the last time."""
        for what, counts in sorted(self.counts.items()):
            kinds = ", ".join(f"{kind}: {number}" for kind, number in sorted(counts.items()))
            print(f"{what:60s} {kinds}", flush=True)
        self.counts.clear()

    def strike(self, what: signal.Signals, times: int) -> None:
        """At random moments; then go on, with the same cache and checkpoint."""
        struck, tries = 0, 0
        while struck < times and tries < 3 * times:
            tries += 1
            stage = [*STAGES][tries % len(STAGES)]
            place = self.place("struck", cache=stage != "compiling")
            turn = int(self.rng.integers(1, {"compiling": 2}.get(stage, 30)))
            first = run(place, (what, stage, turn, float(self.rng.uniform(0.0, STAGES[stage]))))
            if not first["struck"] or first["kind"] == "drawn":
                continue  # it ended before the blow fell
            struck += 1
            if what == signal.SIGINT:
                self.count(f"{what.name} while {stage}", first, (INTERRUPTED,))
            self.count(f"{what.name} while {stage}, then resumed", run(place), (SAME,))

    def corrupt(self, part: str, times: int) -> None:
        allowed = (SAME,) if part == "cache" else (SAME, SENTENCE)
        for _ in range(times):
            place = self.place("corrupted", cache=True, saved=part == "checkpoint")
            files = sorted(file for file in (place / part).rglob("*") if file.is_file())
            file = files[int(self.rng.integers(len(files)))]
            how = damage(file, self.rng)
            self.count(f"a file of the {part} {how}", run(place), allowed)


def damage(file: Path, rng: np.random.Generator) -> str:
    """Damage a file in one of seven ways; which."""
    content, how = bytearray(file.read_bytes()), int(rng.integers(7))
    somewhere = int(rng.integers(max(1, len(content))))
    if how == 0 and content:
        content[somewhere] ^= 1 << int(rng.integers(8))
        named = "with one bit flipped"
    elif how == 1:
        content, named = content[:somewhere], "cut short"
    elif how == 2:
        content[somewhere : somewhere + 64] = bytes(64)
        named = "with zeros in it"
    elif how == 3:
        content, named = bytearray(rng.bytes(len(content))), "replaced by noise"
    elif how == 4:
        content, named = content + rng.bytes(100), "with more at its end"
    elif how == 5:
        content, named = bytearray(), "emptied"
    else:
        file.unlink()
        return "removed"
    file.write_bytes(content)
    return named


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills, interrupts and corrupted files, as counts.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--interrupts", type=int, default=100)
    parser.add_argument("--corruptions", type=int, default=200, help="half of the cache, half of the checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = time.monotonic()
    warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # the threads are idle ones of NumPy's
    compile_samplers()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), options.seed)
        for part in (
            lambda: campaign.strike(signal.SIGKILL, options.kills),
            lambda: campaign.strike(signal.SIGINT, options.interrupts),
            lambda: campaign.corrupt("cache", options.corruptions // 2),
            lambda: campaign.corrupt("checkpoint", options.corruptions - options.corruptions // 2),
        ):
            part()
            campaign.show()
    print(f"{len(campaign.faults)} faults in {time.monotonic() - begin:.0f} s")
    for fault in campaign.faults[:20]:
        print(fault)
    return 1 if campaign.faults else 0


if __name__ == "__main__":
    sys.exit(main())
