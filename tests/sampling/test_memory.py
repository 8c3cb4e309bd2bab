"""Draws that are streamed do not add up in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "memory.py"


def measured(draws: int) -> dict[str, float]:
    """In a process of its own, whose peak is that of this run."""
    command = [sys.executable, str(SCRIPT), "--draws", str(draws), "--observations", "500"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_peak_does_not_grow_with_the_draws():
    """With a hundred times as many; what may differ is how full the buffers were."""
    few, many = measured(100), measured(10_000)
    assert many["draws_mib"] > 700
    assert many["peak_mib"] - few["peak_mib"] < 150
