"""The comparison with other samplers, as far as it needs none of them: problems, rows, budgets, tables and figure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pathfold as pf
from benchmarks.peers import __main__ as command
from benchmarks.peers import page, rows, runner
from benchmarks.peers.problem import Problem
from benchmarks.peers.rows import Results, measure
from benchmarks.peers.runner import Terms
from benchmarks.peers.sampler import SAMPLERS, needs_a_density
from experiments.__main__ import DOCS
from experiments.drawing import save
from experiments.page import with_tables
from pathfold.engine import UnconstrainedEngine
from pathfold.engine.status import CONVERGED
from pathfold.example_models import ornstein_uhlenbeck, redstart
from tests.dense import Dense
from tests.plain import compiled_native

FAKE = "tests.peers.fake_sampler"
ABOUT = {"at": "2026-01-01T00:00:00", "commit": "abc", "machine": "a machine", "load": 1.0, "numpy": "2"}


def jitted(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """In double precision."""
    compiled = jax.jit(function)

    def call(*arguments: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(compiled(*arguments))

    return call


def small(model: pf.DiffusionModel, count: int, first: float) -> Problem:
    values = np.random.default_rng(4).poisson(3.0, size=count)
    return Problem(model, pf.Observations(first + 0.5 * np.arange(count), values), 3)


@pytest.fixture(scope="module")
def noisy() -> Problem:
    return small(ornstein_uhlenbeck.noisy(0.3), 4, 0.5)


def test_the_log_density_is_that_of_the_sampler_without_constraints(noisy):
    engine = UnconstrainedEngine(noisy.model, noisy.grid, lanes=4)
    U, V0, _, V = noisy.sizes
    density, found, expected = jitted(noisy.log_density), [], []
    for q in 0.5 * np.random.default_rng(1).standard_normal((3, U + V0 + V)):
        point, (u, v0, v) = engine.block("point"), np.split(q, np.cumsum((U, V0)))
        engine.set_vector(point, u, v0[None], np.zeros((engine.intervals, 0)), v[:, None])
        native = compiled_native.dynamics
        assert native.prepare(engine.layout, engine.problem, point, engine.block("scratch")) == CONVERGED
        expected.append(-native.potential(engine.layout, point))
        found.append(float(density(q)))
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-10)


@pytest.mark.parametrize("make", [ornstein_uhlenbeck.noiseless, redstart.counted])
def test_constraint_and_excess_are_those_of_the_oracle(make):
    problem = small(make(), 3, 0.0 if make is redstart.counted else 0.5)
    dense = Dense(problem.model, problem.grid)
    assert sum(problem.sizes) == dense.dim
    q = 0.5 * np.random.default_rng(2).standard_normal(dense.dim)
    np.testing.assert_allclose(jitted(problem.constraint)(q), dense.constraint(q), rtol=1e-12)
    assert float(jitted(problem.excess)(q)) == pytest.approx(dense.excess(q), rel=1e-12)


def test_the_density_of_counts_is_that_of_their_distribution():
    problem = small(redstart.counted(), 3, 0.0)
    with jax.enable_x64(True):
        z, x = problem.named(jnp.zeros(3)), jnp.array([0.7])
        likely = [float(problem.log_likelihood(z, x, n)) for n in range(3)]
        expected = [np.asarray(problem.observed(z, x, n).log_prob(problem.grid.values[n])) for n in range(3)]
    np.testing.assert_allclose(likely, expected, rtol=1e-12)


def test_a_path_that_is_no_number_has_no_density_and_a_value_that_is_missing_no_share(noisy):
    values = noisy.data.values.copy()
    values[1] = np.nan
    some = Problem(noisy.model, pf.Observations(noisy.data.times, values), noisy.steps)

    def likely(problem: Problem, x: float, n: int) -> float:
        return float(jitted(lambda u, x: problem.log_likelihood(problem.named(u), x, n))(np.zeros(3), np.array([x])))

    assert np.isnan(likely(noisy, np.nan, 1))
    assert likely(some, 0.0, 1) == 0.0
    assert likely(some, 0.0, 2) == likely(noisy, 0.0, 2) < 0.0


def test_exact_observations_have_no_density(noisy):
    assert needs_a_density(noisy) is None
    assert needs_a_density(small(ornstein_uhlenbeck.noiseless(), 3, 0.5)) == "exact observations have no density"


def test_a_chain_starts_with_its_best_prior_draw(noisy, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.problem.TRIES", 5)
    U, V0, _, V = noisy.sizes
    with jax.enable_x64(True):
        starts = noisy.starts(2, 3)
    tries = np.random.default_rng(3).standard_normal((2, 5, U + V0 + V))
    density = jitted(noisy.log_density)
    for start, its in zip(starts, tries, strict=True):
        np.testing.assert_array_equal(start, max(its, key=lambda q: float(density(q))))


def piece(values: np.ndarray, seconds: float, *, warmup: bool = False) -> rows.Piece:
    count = values.shape[1]
    return {
        "values": values,
        "warmup": warmup,
        "iterations": count,
        "diverging": 1,
        "steps": 7.0 * values[..., 0].size,
        "seconds": seconds,
        "wall_seconds": 2 * seconds,
    }


def independent(chains: int = 4, count: int = 100, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((chains, count, 2))


def test_a_row_is_what_its_pieces_come_to():
    first, second = independent(count=20), independent(count=300, seed=2)
    found = [piece(first[:, :5], 2.0, warmup=True), piece(first, 3.0), piece(second, 5.0)]
    row = measure(found, ["a", "b"])
    assert row["warmup"] == {"iterations": 5, "seconds": 2.0}
    assert row["kept"] == [4, 320]
    together = np.concatenate([first, second], axis=1)
    assert row["effective"] == pytest.approx(rows.effective(together), rel=1e-5)
    assert row["seconds_per_effective"] == pytest.approx(3.0 / rows.effective(together), rel=1e-5)
    assert row["seconds_to_first"] == 5.0  # eighty draws cannot be worth a hundred
    assert row["steps_a_draw"] == 7.0
    assert row["diverging"] == pytest.approx(2 / 1280, rel=1e-5)
    assert row["parameters"]["a"]["mean"] == pytest.approx(together[..., 0].mean(), rel=1e-5)
    assert row["converged"]


def test_chains_that_disagree_have_not_converged():
    apart = independent(count=400) + 3.0 * np.arange(4)[:, None, None]
    row = measure([piece(apart, 1.0)], ["a", "b"])
    assert row["rhat"] > 1.5
    assert not row["converged"]
    assert row["seconds_to_first"] is None


@pytest.mark.parametrize(
    "found",
    [
        [],
        [piece(independent(), 1.0, warmup=True)],
        [piece(independent(count=rows.FEWEST - 1), 1.0)],
        [piece(np.zeros((4, 50, 2)), 1.0)],
        [piece(np.full((4, 50, 2), np.nan), 1.0)],
    ],
    ids=["nothing", "in warm-up", "few", "standing still", "no numbers"],
)
def test_a_row_without_draws_says_so(found):
    row = measure(found, ["a", "b"])
    assert "effective" not in row
    assert not row["converged"]


@pytest.fixture
def fast(monkeypatch):
    """The runner in a hurry; gives the terms of a run that ends as told."""
    monkeypatch.setattr(runner, "SET_UP", 60)
    monkeypatch.setattr(runner, "LOOK", 0.2)
    return lambda end, **terms: (monkeypatch.setenv("FAKE", end), Terms(memory=32, **terms))[1]


def made(terms: Terms) -> rows.Row:
    return runner.run("fake", "Ornstein-Uhlenbeck", FAKE, terms)


def test_a_run_ends_at_its_budget_with_what_it_drew(fast):
    row = made(fast("spin", budget=1))
    assert row["ended"] == "budget"
    assert row["kept"] == [4, 201]
    assert row["warmup"]["iterations"] == 3
    assert 0.6 < row["seconds"] <= 1.0
    assert row["settings"] == {"warmup": 3}
    assert {"at", "commit", "machine", "numpy", "load"} <= set(row["made"])
    assert row["terms"] == {"budget": 1, "enough": 2000, "memory": 32, "chains": 4, "seed": 1}
    json.dumps(row)


@pytest.mark.slow
def test_a_run_ends_when_it_has_enough(fast):
    row = made(fast("draw", budget=60, enough=1500))
    assert row["ended"] == "enough"
    assert row["effective"] >= 1500
    assert row["converged"]
    assert row["seconds"] < 30


@pytest.mark.slow
def test_what_is_refused_is_not_run(fast):
    row = made(fast("refuse", budget=60))
    assert row["ended"] == "refused: not today"
    assert row["seconds"] == 0.0


@pytest.mark.slow
def test_a_run_that_waits_ends_by_the_clock_on_the_wall(fast):
    row = made(fast("sleep", budget=1))
    assert row["ended"] == "wall clock"
    assert row["kept"] == [4, 201]


@pytest.mark.slow
def test_a_run_that_fails_has_what_was_drawn_before(fast):
    row = made(fast("fail", budget=60))
    assert row["ended"] == "failed: RuntimeError: it did not work"
    assert row["kept"] == [4, 200]


def test_rows_are_saved_at_once_whatever_comes_of_them_and_not_made_again(fast, tmp_path, monkeypatch):
    terms, file = fast("fail", budget=60), tmp_path / "results.json"
    wanted = [("fake", "Ornstein-Uhlenbeck"), ("fake", "redstart counts")]
    called = []

    def once(sampler: str, problem: str, *rest: Any) -> rows.Row:
        called.append(problem)
        if len(called) == 2:
            raise KeyboardInterrupt
        return saved(sampler, problem, ended="failed: RuntimeError: it did not work")

    monkeypatch.setattr(runner, "run", once)
    with pytest.raises(KeyboardInterrupt):
        runner.complete(Results(file), wanted, {"fake": FAKE}, terms, 1)
    (row,) = Results(file).rows.values()
    assert row["ended"] == "failed: RuntimeError: it did not work"
    monkeypatch.setattr(runner, "run", lambda sampler, problem, *rest: saved("fake", problem, ended="made"))
    runner.complete(Results(file), wanted, {"fake": FAKE}, terms, 2)
    assert [row["ended"][:6] for row in Results(file).rows.values()] == ["failed", "made"]


def saved(sampler: str, problem: str, **changes: Any) -> rows.Row:
    """A row as it would be saved."""
    measured = measure([piece(independent(count=400), 2.0)], ["a", "b"])
    row = {"sampler": sampler, "problem": problem, "terms": {"budget": 60}, "made": ABOUT, "ended": "budget"}
    return {**row, **measured, **changes}


@pytest.fixture
def few(tmp_path) -> Results:
    results = Results(tmp_path / "few.json")
    nothing = {"sampler": "PyMC NUTS", "terms": {"budget": 60}, "made": ABOUT, "ended": "budget"}
    nothing |= measure([piece(independent(), 60.0, warmup=True)], ["a", "b"])
    for row in (
        saved("pathfold", "Ornstein-Uhlenbeck"),
        saved("NumPyro NUTS", "Ornstein-Uhlenbeck", converged=False, rhat=1.234, seconds_to_first=None),
        saved("PyMC NUTS", "Ornstein-Uhlenbeck"),
        nothing | {"problem": "SIR, influenza"},
        nothing | {"problem": "FitzHugh-Nagumo, exact", "ended": "refused: so"},
    ):
        results.add(row)
    return Results(results.file)  # as it is read again


def lines(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_tables_say_what_converged_and_what_did_not(few):
    tables = page.tables(few)
    cost = few.rows["pathfold", "Ornstein-Uhlenbeck"]["seconds_per_effective"]
    one = page.seconds(cost)
    assert lines(tables["peers"]) == [
        ["", "pathfold", "NumPyro NUTS", "PyMC NUTS"],
        ["---"] * 4,
        ["Ornstein-Uhlenbeck", one, f"({one}; 1.23)", one],
        ["SIR, influenza", "", "", "no draws"],
        ["FitzHugh-Nagumo, exact", "", "", "no density"],
    ]
    assert lines(tables["peers first"])[2] == ["Ornstein-Uhlenbeck", "2.0 s", "> 2 s", "2.0 s"]
    details = lines(tables["peers details"])
    assert [line[-1] for line in details[2:]] == ["", "", "0.0", ""]  # z, where both converged
    assert len(details) == 2 + 4  # what was refused has nothing to tell
    assert "5 rows, 2026-01-01, on a machine" in tables["peers made"]


def test_what_converged_elsewhere_is_in_brackets(few):
    row = saved("PyMC NUTS", "Ornstein-Uhlenbeck")
    few.add(row | {"parameters": row["parameters"] | {"a": row["parameters"]["a"] | {"mean": 3.0}}})
    cell = lines(page.tables(few)["peers"])[2][3]
    assert re.fullmatch(r"\(.* m?s; z \d+\)", cell)


@pytest.mark.parametrize(("value", "told"), [(0.00123, "1.2 ms"), (0.0996, "0.1 s"), (2.34, "2.3 s"), (123.4, "123 s")])
def test_seconds_have_two_digits(value, told):
    assert page.seconds(value) == told


def test_the_figure_is_the_same_every_time(few, tmp_path):
    drawn = []
    for name in ("a", "b"):
        save(page.figure(few), tmp_path / name, "peers")
        drawn.append((tmp_path / name / "peers.svg").read_bytes())
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) > 10_000


def test_the_command_prints_tables_of_a_file(few, capsys):
    command.main(["--draw", "--results", str(few.file)])
    assert "no density" in capsys.readouterr().out


def test_every_sampler_is_a_file():
    folder = Path(command.__file__).parent / "samplers"
    assert {f"benchmarks.peers.samplers.{file.stem}" for file in folder.glob("[a-z]*.py")} == set(SAMPLERS.values())


def test_the_page_holds_the_tables_of_what_was_saved():
    results = Results(command.RESULTS)
    text = (DOCS / "peers.md").read_text()
    assert with_tables(text, page.tables(results)) == text, "run `make peers ARGS=--draw`"
    assert "figures/peers.png" in text
    assert not [row for row in results.rows.values() if row["made"]["commit"].endswith("dirty")]
