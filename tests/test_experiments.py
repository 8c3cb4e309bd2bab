"""The paper's experiments at tiny size, and the page of results against what was saved."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import runner
from experiments.__main__ import DOCS, FIGURES, main
from experiments.drawing import draws as draws_of
from experiments.drawing import exponent, save, spread
from experiments.noise_levels import largest_difference
from experiments.noiseless import along, settings
from experiments.page import with_tables
from experiments.runner import ROOT, Results
from experiments.setting import BASELINE, FULL, QUICK, Setting
from pathfold.sampling.progress import Progress
from tests.thorough import thorough

TRIED = ["sir_noise_levels"]  # with and without constraints; all figures are drawn below


@pytest.fixture(scope="module")
def quick(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("experiments")
    main(["--quick", "--budget", "1000", "--folder", str(folder), *TRIED])
    return folder


@pytest.mark.slow
def test_a_run_is_saved_with_its_setting_and_circumstances(quick):
    saved = {file.stem: json.loads(file.read_text()) for file in (quick / "results").glob("*.json")}
    assert set(saved) == {"sir"}
    rows = [row for each in saved.values() for row in each]
    assert {Setting(**row["setting"]) for row in rows} == {s for name in TRIED for s in FIGURES[name].settings(QUICK)}
    for row in rows:
        assert {"at", "commit", "machine", "python", "pathfold", "jax", "numba", "numpy"} <= set(row["made"])
        assert row["kept"] == [QUICK.chains, row["setting"]["draws"]]
        assert row["ms_a_step"] > 0.0
        assert all(math.isfinite(each["mean"]) and each["bulk"] > 0.0 for each in row["parameters"].values())
        assert (row["newton_iterations"] > 0.0) == (row["setting"]["sampler"] not in BASELINE)
        assert row["setting"]["budget"] == (1000.0 if row["setting"]["sampler"] in BASELINE else None)
        assert "iterations" not in row, "none was cut short"
    assert not [*(quick / "unfinished").iterdir()]


@pytest.mark.slow
def test_the_unit_metric_is_not_adapted(quick):
    adapted, unit = (
        next(row for row in Results(quick / "results").rows.values() if row["setting"]["sampler"] == name)
        for name in BASELINE
    )
    assert adapted["parameters"] != unit["parameters"]
    assert np.mean(adapted["step_size"]) > np.mean(unit["step_size"]), "scales of the posterior allow longer steps"


@pytest.fixture(scope="module")
def baseline() -> Setting:
    """Cheap, and compiled by the runs above where they were made in this process."""
    wanted = FIGURES["sir_noise_levels"].settings(QUICK)
    return next(s for s in wanted if s.sampler == "unconstrained")


def test_a_budget_ends_a_run_and_a_larger_one_goes_on(baseline, tmp_path):
    """First in warm-up, then after it, then to the end, which is that of a run without a budget."""
    short = replace(baseline, draws=60, budget=1e-6)
    results = Results(tmp_path / "results")
    runner.complete(results, [short], tmp_path)
    row = results.rows[short]
    assert row["kept"][1] == 0
    assert not row["parameters"]
    assert all(0 < n < short.warmup for n in row["iterations"])
    assert row["seconds"] >= short.chains * short.budget
    assert "max_seconds were spent: 0 of 60 draws are kept, of 2 of 2 chains" in row["warnings"]
    assert draws_of(row) == "warm-up not finished in 1e-06 s per chain: iterations 1 1 of 40"
    assert [*tmp_path.glob("*/chain_0.npz")]
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "run", lambda *given: made.append(given))
        runner.complete(results, [short], tmp_path)
    assert not made, "the same budget was spent already"
    whole = replace(short, budget=1000.0)
    runner.complete(results, [whole], tmp_path)
    assert set(Results(results.folder).rows) == {whole}, "it stands in the place of the other"
    assert results.rows[whole]["kept"] == [2, 60]
    assert "iterations" not in results.rows[whole]
    assert not [*tmp_path.glob("*/chain_0.npz")]
    at_once = runner.run(replace(short, budget=None), tmp_path / "at once")
    assert results.rows[whole]["parameters"] == at_once["parameters"]


def test_when_time_is_up_a_run_stops_and_the_next_is_not_begun(baseline, tmp_path, monkeypatch):
    until, clock = 100.0, [0.0]

    def update(bar: Progress) -> None:
        if all(monitor.done[0] > 20 for monitor in bar.monitors):
            clock[0] = until
            signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(Progress, "update", update)
    monkeypatch.setattr(runner, "time", SimpleNamespace(time=lambda: clock[0]))
    long = replace(baseline, warmup=10, draws=1_000_000, budget=None)
    results = Results(tmp_path / "results")
    runner.complete(results, [long, replace(long, seed=5)], tmp_path, until=until)
    assert not results.rows
    assert len([*tmp_path.glob("*/chain_0.npz")]) == 1, "the second was not begun"


def test_what_is_done_is_interrupted_in_time():
    with pytest.raises(KeyboardInterrupt), runner._interrupted(time.time() + 0.05):
        time.sleep(30.0)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_rows_that_are_saved_at_once_are_all_there(tmp_path):
    """Each thread adds rows of its own while the others do; the lock is the one that keeps processes apart."""
    wanted = settings(FULL)[:40]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_rows, [tmp_path] * 4, [wanted[i::4] for i in range(4)]))
    assert set(Results(tmp_path).rows) == set(wanted)


def add_rows(folder: Path, wanted: list[Setting]) -> None:
    for setting in wanted:
        Results(folder).add(setting, row_of(setting))


def test_the_longest_runs_come_first_when_several_are_made_at_once():
    wanted = [s for module in FIGURES.values() for s in module.settings(FULL)]
    in_turn = sorted(wanted, key=lambda s: s.longest_first)
    without = [s.S * s.T * (s.warmup + s.draws) for s in in_turn if s.budget is None]
    assert all(s.budget is not None for s in in_turn[: len(in_turn) - len(without)])
    assert without == sorted(without, reverse=True)


def test_a_commit_is_that_of_the_code_and_not_of_the_rows(tmp_path, monkeypatch):
    def git(*arguments: str) -> None:
        author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True)

    code, rows = tmp_path / "src" / "code.py", tmp_path / "experiments" / "results" / "rows.json"
    for file in (code, rows):
        file.parent.mkdir(parents=True)
        file.write_text("1")
    git("init")
    git("add", ".")
    git("commit", "--message", "all")
    monkeypatch.setattr(runner, "ROOT", tmp_path / "experiments")
    commit = runner.circumstances()["commit"]
    rows.write_text("2")
    assert runner.circumstances()["commit"] == commit
    code.write_text("2")
    assert runner.circumstances()["commit"] == f"{commit}-dirty"


@pytest.mark.slow
def test_figures_are_drawn_and_what_is_saved_is_not_made_again(quick, monkeypatch):
    made = []
    monkeypatch.setattr(runner, "run", lambda setting, checkpoint: made.append(setting))
    main(["--quick", "--folder", str(quick), *TRIED])
    assert not made
    for name in TRIED:
        for suffix in ("png", "svg"):
            assert (quick / "figures" / f"{name}.{suffix}").stat().st_size > 10_000


@pytest.mark.slow
def test_everything_at_tiny_size(tmp_path):
    main(["--quick", "--jobs", "2", "--folder", str(tmp_path)])
    assert {file.stem for file in (tmp_path / "figures").iterdir()} == set(FIGURES)


def drawn(name: str, folder: Path) -> bytes:
    """A figure of what was saved, as it stands in a file."""
    results = Results(ROOT / "results")
    save(FIGURES[name].draw(results.of(FIGURES[name].settings(FULL)), FULL), folder, name)
    return (folder / f"{name}.svg").read_bytes()


@pytest.mark.parametrize("name", thorough(FIGURES))
def test_figures_of_what_was_saved(name, tmp_path):
    assert len(drawn(name, tmp_path)) > 10_000


def test_what_is_missing_is_made_and_saved_at_once(tmp_path, monkeypatch):
    made = []

    def run(setting, checkpoint):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(setting)
        return row_of(setting)

    monkeypatch.setattr(runner, "run", run)
    wanted = settings(QUICK)
    with pytest.raises(KeyboardInterrupt):
        runner.complete(Results(tmp_path), wanted, tmp_path)
    assert set(Results(tmp_path).rows) == set(made) == set(wanted[:2])
    monkeypatch.setattr(runner, "run", lambda setting, checkpoint: made.append(setting) or row_of(setting))
    runner.complete(Results(tmp_path), wanted, tmp_path)
    assert made == wanted
    assert set(Results(tmp_path).rows) == set(wanted)


def test_the_full_grid_is_the_papers():
    paper = [setting for setting in settings(FULL) if setting.sampler == "dynamic"]
    assert len(paper) == 3 * 2 * (6 + 4 + 4)  # seeds, splittings; R, and S and T besides the size they share with R
    assert {(s.R, s.S, s.T) for s in paper} == {
        *((R, 25, 100) for R in (2, 5, 10, 20, 50, 100)),
        *((5, S, 100) for S in (25, 50, 100, 200, 400)),
        *((5, 25, T) for T in (25, 50, 100, 200, 400)),
    }
    rows = [row_of(setting) for setting in settings(FULL)]
    for over in "RST":
        sizes = {row["setting"][over] for row in along(rows, over, FULL)} - {None}
        assert sizes == set(getattr(FULL, over))


def test_exponents_and_spreads_over_seeds():
    chosen = [s for s in settings(FULL) if s.sampler == "static" and s.T == 100]
    rows = [{**row_of(setting), "cost": setting.seed * setting.S**1.5} for setting in chosen]
    sizes, (least, median, greatest) = spread(rows, "S", lambda row: row["cost"])
    assert sizes.tolist() == [25, 50, 100, 200, 400]
    assert (2 * least).tolist() == median.tolist()
    assert (1.5 * median).tolist() == greatest.tolist()
    assert exponent(rows, "S", lambda row: row["cost"]) == pytest.approx(1.5)


def test_differences_are_in_monte_carlo_errors_of_both():
    a = {"parameters": {"x": {"mean": 1.0, "sd": 1.0, "mean_error": 0.3, "sd_error": 0.1}}}
    b = {"parameters": {"x": {"mean": 2.0, "sd": 1.1, "mean_error": 0.4, "sd_error": 0.1}}}
    assert largest_difference(a, b) == pytest.approx(2.0)


def test_the_page_holds_the_tables_of_what_was_saved():
    results = Results(ROOT / "results")
    tables = {name: module.describe(results.of(module.settings(FULL)), FULL) for name, module in FIGURES.items()}
    page = (DOCS / "results.md").read_text()
    assert with_tables(page, tables) == page, "run `python -m experiments --draw`"
    for name in FIGURES:
        assert f"figures/{name}.png" in page


def row_of(setting: Setting) -> runner.Row:
    return {"setting": setting.__dict__}
