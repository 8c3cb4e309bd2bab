"""The command line, on a tiny run."""

from __future__ import annotations

import pytest

from pathfold.cli import main
from pathfold.example_models import EXAMPLES


def test_examples_are_listed_with_their_references(capsys):
    assert main(["examples"]) == 0
    out = capsys.readouterr().out
    for example in EXAMPLES.values():
        assert example.name in out
        assert example.summary in out
        assert example.reference in out


def test_an_unknown_example_gives_the_names(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["examples", "ornstein"])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert "there is no example 'ornstein'" in message
    assert all(name in message for name in EXAMPLES)


@pytest.mark.filterwarnings("ignore:(.*) has (not converged|few effective draws)")
def test_an_example_runs_and_leaves_pictures(capsys, tmp_path):
    assert main(["examples", "ornstein_uhlenbeck", "--draws", "10", "--folder", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    for name, value in (EXAMPLES["ornstein_uhlenbeck"].truth or {}).items():
        (line,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
        assert float(line.split()[1]) == value
    assert "effective draws a second" in out
    for picture in ("paths.png", "marginals.png"):
        assert (tmp_path / "new" / picture).stat().st_size > 10_000
