"""The page "From data to report" runs, with shorter chains and fewer fine steps."""

import re
from pathlib import Path
from typing import Any

import pytest

import pathfold as pf

PAGE = Path(__file__).parents[1] / "docs" / "after.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|things are amiss)")
@pytest.mark.filterwarnings("ignore:the posterior depends on the time step")  # four steps are few
def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sample = pf.sample

    def short(*given, **settings):
        warmup = {} if "start" in settings else {"warmup": 150}
        return sample(*given, **settings | warmup | {"steps_per_interval": 4, "draws": 150})

    monkeypatch.setattr(pf, "sample", short)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        exec(block, names)
    for written in ("report.html", "marginals.png", "results.nc"):
        assert (tmp_path / written).stat().st_size > 10_000
    out = capsys.readouterr().out
    assert "no sign of misfit" in out
    assert "The model does not fit" in out
    assert "fine steps are enough" in out
    assert "uniform as far as these tell" in out
