"""What takes long is announced, to a terminal that is there."""

from __future__ import annotations

import time

from pathfold.engine import installation
from pathfold.engine.installation import announced


class Gone:
    def write(self, *_):
        raise BrokenPipeError

    flush = write


def test_only_what_takes_long_is_announced(capsys, monkeypatch):
    monkeypatch.setattr(installation, "_ANNOUNCED_AFTER", 0.05)
    with announced("compiling", show=True):
        time.sleep(0.3)
    assert capsys.readouterr().err.splitlines() == ["pathfold: compiling ...", "pathfold: compiling took 0 s"]
    with announced("compiling", show=True):
        pass
    with announced("compiling", show=False):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr", Gone())
    with announced("compiling", show=True):
        time.sleep(0.1)
