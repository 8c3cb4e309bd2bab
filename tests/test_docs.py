"""The examples of the documentation run, but for the sampling itself."""

import re
from pathlib import Path
from typing import Any

import pathfold as pf

DOCS = Path(__file__).parents[1] / "docs"


def test_examples_on_models_and_data(monkeypatch):
    calls = []
    monkeypatch.setattr(pf, "sample", lambda *given, **settings: calls.append(settings))
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / "models.md").read_text(), re.DOTALL):
        exec(block, names)
    assert [*calls[0]["deterministics"]] == ["half_life", "highest", "time_of_highest"]
    assert [*names["model"].inputs] == ["heating", "outside"]
    assert [*names["panel"]] == ["plant 0", "plant 1", "plant 2", "plant 3"]
    assert names["outbreak"].states == names["network"].species == ("S", "I")
