"""Makes the rows that are missing, each in a process of its own, so that its memory is its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from benchmarks.peers.rows import Results
from benchmarks.scale.problem import SIZES, Terms
from experiments.runner import ROOT, Row

Key = tuple[str, int]  # table and size


class Failed(RuntimeError):
    """A row could not be made."""


def complete(results: Results, wanted: Iterable[Key], terms: Terms, at_a_time: int) -> list[Key]:
    """Make the rows that are missing, so many at a time and the largest first; those of chains at once one by one,
    after all others. Returns those that could not be made, for the reasons that were printed."""
    missing, lock, failed = [key for key in wanted if key not in results.rows], threading.Lock(), []
    missing.sort(key=lambda key: SIZES[key[0]][::-1].index(key[1]))

    def make(key: Key) -> None:
        try:
            row = run(*key, terms)
        except Failed as failure:
            failed.append(key)
            print(f"{key[0]} {key[1]}: {failure}", flush=True)
            return
        with lock:
            results.add(row)
            print(f"{key[0]} {key[1]}: {row['kept'][0]} x {row['kept'][1]} draws, {row['seconds']:.0f} s", flush=True)

    for together, count in ((lambda key: key[0] != "chains", at_a_time), (lambda key: key[0] == "chains", 1)):
        with ThreadPoolExecutor(count) as pool:
            try:
                for done in [pool.submit(make, key) for key in missing if together(key)]:
                    done.result()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    return failed


def run(table: str, size: int, terms: Terms) -> Row:
    """The model is compiled in another process, whose peak of memory is not that of the row."""
    command = [sys.executable, "-m", "benchmarks.scale.row", table, str(size), json.dumps(asdict(terms))]
    for more in (["--compile"], []):
        done = subprocess.run([*command, *more], cwd=ROOT.parent, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout.splitlines()[-1])
