"""How cost grows: rows, exponents, and the page's tables against what was saved."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from benchmarks.peers.rows import Results
from benchmarks.scale import __main__ as command
from benchmarks.scale import page, row, runner
from benchmarks.scale.problem import QUARTER, SIZES, TO_CORES, Terms, problem
from experiments.page import with_tables
from experiments.runner import Row
from pathfold.data import Observations

ABOUT = {"at": "2026-01-01T00:00:00", "commit": "abc", "machine": "a machine", "load": 1.0, "numpy": "2"}


def saved(table: str, size: int, *, effective: float = 400.0, rhat: float = 1.001, **changes: Any) -> Row:
    """A row as it would be saved; an effective draw costs as size^1.5, a step as size, memory grows as size^0.5."""
    return {
        "table": table,
        "size": size,
        "terms": {"warmup": 100, "draws": 500, "seconds": 60.0},
        "made": ABOUT,
        "kept": [4, 500],
        "step_size": [size**-0.25, size**-0.25],
        "steps_a_draw": 3.0,
        "seconds": 1.0,
        "main_seconds": 1e-4 * effective * size**1.5,
        "ms_a_step": 0.2 * size,
        "run_seconds": 2.0,
        "steps": 1000 * size,
        "memory_mib": {"before": 300.0, "peak": 301.0 + size, "chain": 0.1 * size**0.5},
        "parameters": {
            "a": {"bulk": effective, "tail": 2.0 * effective, "rhat": 1.0},
            "b": {"bulk": 3.0 * effective, "tail": effective, "rhat": rhat},
        },
        **changes,
    }


@pytest.fixture
def few(tmp_path) -> Results:
    results = Results(tmp_path / "few.json", command.KEY)
    alone = saved("chains", 1)
    for each in alone["parameters"].values():
        del each["rhat"]
    for each in (
        saved("observations", 1000),
        saved("observations", 100),
        saved("observations", 10_000, effective=99.0, main_seconds=1.0),
        saved("observations", 100_000, parameters={}, ms_a_step=None),
        saved("series", 1),
        saved("series", 10, rhat=1.06, main_seconds=1e9),
        saved("states", 1, main_seconds=1e9, ms_a_step=1e9),
        saved("states", 4),
        saved("states", 16),
        alone,
        saved("chains", 2, effective=780.0),
    ):
        results.add(each)
    return Results(results.file, command.KEY)  # as it is read again


def test_exponents_leave_out_what_is_not_known_or_of_another_kind(few):
    of = {name: page.rows_of(few, name) for name in SIZES}
    assert page.exponent(of["observations"], page.cost, page.trusted) == pytest.approx(1.5)
    assert page.exponent(of["states"], page.cost, page.trusted) == pytest.approx(1.5)
    assert math.isnan(page.exponent(of["series"], page.cost, page.trusted)), "one row is left"
    wrong = page.exponent(of["observations"], page.cost, page.measured)
    assert wrong != pytest.approx(1.5), "the row with too few draws is off the line"


def test_rows_are_saved_at_once_and_not_made_again(tmp_path, monkeypatch):
    """Chains at once come last; what fails is named and tried again; an interruption loses nothing that was made."""
    wanted = [("chains", 1), ("series", 1), ("series", 10), ("observations", 100)]
    file, called = tmp_path / "results.json", []

    def run(table: str, size: int, terms: Terms) -> Row:
        called.append((table, size))
        if (table, size) == ("series", 1):
            raise runner.Failed("it did not work")
        if len(called) == 4:
            raise KeyboardInterrupt
        return saved(table, size)

    monkeypatch.setattr(runner, "run", run)
    with pytest.raises(KeyboardInterrupt):
        runner.complete(Results(file, command.KEY), wanted, Terms(), 1)
    assert called == [("series", 10), ("observations", 100), ("series", 1), ("chains", 1)]
    assert set(Results(file, command.KEY).rows) == {("series", 10), ("observations", 100)}
    assert runner.complete(Results(file, command.KEY), wanted, Terms(), 2) == [("series", 1)]
    assert called[4:] == [("series", 1), ("chains", 1)]


@pytest.mark.slow
def test_a_process_that_fails_is_quoted():
    with pytest.raises(runner.Failed, match="KeyError: 'nonsense'"):
        runner.run("nonsense", 1, Terms())


@pytest.mark.slow
def test_a_row_of_a_real_run():
    terms = Terms(chains=2, warmup=20, draws=40, seconds=100.0)
    found = row.row("series", 1, terms)
    assert found["kept"] == [2, 40]
    assert set(found["parameters"]) == {"theta", "mu", "sigma"}
    assert found["terms"]["chains"] == 2
    assert found["steps"] > 2 * 40 * found["steps_a_draw"], "warm-up counts"
    assert 0.0 < found["memory_mib"]["chain"] < 1.0
    assert found["memory_mib"]["peak"] >= found["memory_mib"]["before"] > 50.0
    assert 0.0 < page.cost(found) < 1.0
    json.dumps(found, allow_nan=False)


def test_warm_up_is_shorter_where_iterations_take_seconds():
    assert Terms().of("observations", 10_000) == Terms()
    assert Terms(warmup=20).of("observations", 100_000) == Terms(chains=2, warmup=20, integration_time=QUARTER)
    assert Terms().of("chains", 8) == Terms(chains=8)


def test_problems_have_their_sizes():
    assert TO_CORES[0] == 1
    assert len(set(TO_CORES)) == len(TO_CORES)
    panel = problem("series", 3)
    assert isinstance(panel.data, list)
    assert len(panel.data) == 3
    assert len({float(each.values[0, 0]) for each in panel.data}) == 3, "each series is its own"
    first = panel.short().data
    assert isinstance(first, Observations)
    assert first.times.tolist() == panel.data[0].times[:2].tolist()
    assert problem("states", 1).model.state_dim == 1
    assert problem("states", 4).model.state_dim == 4
    chaotic = problem("chaotic", 7).data
    assert isinstance(chaotic, Observations)
    assert len(chaotic.times) == 7


def test_the_page_holds_the_tables_of_what_was_saved():
    results = Results(command.RESULTS, command.KEY)
    text = (command.DOCS / "scaling.md").read_text()
    assert with_tables(text, page.tables(results)) == text, "run `python -m benchmarks.scale --draw`"
    assert "figures/scale.png" in text
    for name in SIZES:
        machines = {row["made"]["machine"] for row in page.rows_of(results, name)}
        assert len(machines) == 1, "times of two machines do not compare"
    assert not [row for row in results.rows.values() if row["made"]["commit"].endswith("dirty")]
