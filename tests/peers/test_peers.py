"""The comparison with other samplers, as far as it needs none of them: problems, rows, budgets and tables."""

from __future__ import annotations

import json
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
from benchmarks.peers.sampler import needs_a_density
from experiments.__main__ import DOCS
from experiments.page import with_tables
from pathfold.engine import UnconstrainedEngine
from pathfold.engine.status import CONVERGED
from pathfold.example_models import ornstein_uhlenbeck, redstart
from tests.by_numpy import by_numpy
from tests.dense import Dense
from tests.plain import compiled_native

FAKE = "tests.peers.fake_sampler"
ABOUT = {"at": "2026-01-01T00:00:00", "commit": "abc", "machine": "a machine", "load": 1.0, "numpy": "2"}


def small(model: pf.DiffusionModel, count: int, first: float) -> Problem:
    values = np.random.default_rng(4).poisson(3.0, size=count)
    return Problem(model, pf.Observations(first + 0.5 * np.arange(count), values), 3)


@pytest.fixture(scope="module")
def noisy() -> Problem:
    return small(ornstein_uhlenbeck.noisy(0.3), 4, 0.5)


def test_the_log_density_is_that_of_the_sampler_without_constraints(noisy):
    engine = UnconstrainedEngine(noisy.model, noisy.grid, lanes=4)
    U, V0, _, V = noisy.sizes
    density, found, expected = by_numpy(noisy.log_density), [], []
    for q in 0.5 * np.random.default_rng(1).standard_normal((3, U + V0 + V)):
        point, (u, v0, v) = engine.block("point"), np.split(q, np.cumsum((U, V0)))
        engine.set_vector(point, u, v0[None], np.zeros((engine.intervals, 0)), v[:, None])
        native = compiled_native.dynamics
        assert native.prepare(engine.machine(), point) == CONVERGED
        expected.append(-native.potential(engine.layout, point))
        found.append(float(density(q)))
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-10)


@pytest.mark.parametrize("make", [ornstein_uhlenbeck.noiseless, redstart.counted])
def test_constraint_and_excess_are_those_of_the_oracle(make):
    problem = small(make(), 3, 0.0 if make is redstart.counted else 0.5)
    dense = Dense(problem.model, problem.grid)
    assert sum(problem.sizes) == dense.dim
    q = 0.5 * np.random.default_rng(2).standard_normal(dense.dim)
    np.testing.assert_allclose(by_numpy(problem.constraint)(q), dense.constraint(q), rtol=1e-12)
    assert float(by_numpy(problem.excess)(q)) == pytest.approx(dense.excess(q), rel=1e-12)


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
        return float(by_numpy(lambda u, x: problem.log_likelihood(problem.named(u), x, n))(np.zeros(3), np.array([x])))

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
    density = by_numpy(noisy.log_density)
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


@pytest.mark.slow
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
@pytest.mark.parametrize(
    ("way", "terms", "ended", "draws"),
    [
        ("draw", {"budget": 60, "enough": 1500}, "enough", None),
        ("refuse", {"budget": 60}, "refused: not today", None),
        ("sleep", {"budget": 1}, "wall clock", 201),  # by the clock on the wall
        ("fail", {"budget": 60}, "failed: RuntimeError: it did not work", 200),
    ],
)
def test_how_runs_end(fast, way, terms, ended, draws):
    row = made(fast(way, **terms))
    assert row["ended"] == ended
    assert row["seconds"] < 30.0
    assert draws is None or row["kept"] == [4, draws]
    assert way != "draw" or (row["effective"] >= 1500 and row["converged"])
    assert way != "refuse" or row["seconds"] == 0.0


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


def test_the_page_holds_the_tables_of_what_was_saved():
    results = Results(command.RESULTS)
    text = (DOCS / "peers.md").read_text()
    assert with_tables(text, page.tables(results)) == text, "run `make peers ARGS=--draw`"
    assert "figures/peers.png" in text
    assert not [row for row in results.rows.values() if row["made"]["commit"].endswith("dirty")]
