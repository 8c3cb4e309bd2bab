"""Operations on whole vectors in shares: what NumPy gives, however many shares there are and whoever does them."""

from __future__ import annotations

import numpy as np
import pytest

from pathfold.data import Observations, TimeGrid
from pathfold.engine import Engine, engine, plans
from pathfold.engine.helpers import helped
from pathfold.example_models import ornstein_uhlenbeck
from tests.plain import compiled_native, plain_native

SHARES = (1, 5)
CLEAR_RESIDUALS = plans.plan(plans.chunks("clear_residuals"))


class Vectors:
    """Two random vectors, a point, and an engine in so many parts; the functions of `native.vectors` on them."""

    def __init__(self, parts: int, native) -> None:
        grid = TimeGrid.build([Observations(0.2 * np.arange(1, 38), np.zeros(37))], steps_per_interval=2)
        self.engine, rng = Engine(ornstein_uhlenbeck.noisy(), grid, lanes=8), np.random.default_rng(1)
        assert self.engine.parts == parts
        self.scratch, self.target = self.engine.block("scratch"), self.engine.block("point")
        self.origin = self.engine.block("point")
        self.size = self.engine.block_sizes["vector"]
        self.x, self.y = rng.normal(size=(2, self.size))
        self.origin[: self.size] = self.x
        self.native = native

    def __call__(self, name: str, *arguments):
        return getattr(self.native.vectors, name)(self.engine.machine(self.scratch), *arguments)


@pytest.fixture(params=[(parts, plain) for parts in SHARES for plain in (False, True)], ids=str)
def vectors(request, monkeypatch):
    parts, plain = request.param
    if parts > 1:
        monkeypatch.setattr(engine, "WORK", 1)
        monkeypatch.setattr(engine, "FEWEST_PARTS", 2)
    made = Vectors(parts, plain_native() if plain else compiled_native)
    with helped(made.engine.layout, 0 if plain else 2):
        yield made


def test_vectors_are_combined(vectors):
    target = np.full(vectors.size, np.nan)
    vectors("combine", 0.7, vectors.x, -1.3, vectors.y, target)
    np.testing.assert_allclose(target, 0.7 * vectors.x - 1.3 * vectors.y, rtol=1e-14, atol=1e-15)


def test_a_sum_comes_with_its_squared_norm(vectors):
    expected, target = vectors.y - 0.4 * vectors.x, vectors.y.copy()
    for _ in range(2):  # what one call leaves is not added to the next
        target[:] = vectors.y
        assert vectors("add", -0.4, vectors.x, target) == pytest.approx(expected @ expected, rel=1e-13)
    np.testing.assert_allclose(target, expected, rtol=1e-14, atol=1e-15)
    target[vectors.size // 2] = np.inf
    assert not np.isfinite(vectors("add", -0.4, vectors.x, target))


def test_a_displaced_position_comes_with_the_way_there(vectors):
    vectors("displace", 0.8, vectors.origin, 0.6, vectors.y, vectors.target)
    moved = 0.8 * vectors.x + 0.6 * vectors.y
    np.testing.assert_allclose(vectors.target[: vectors.size], moved, rtol=1e-14, atol=1e-15)
    way = vectors.engine.gradient(vectors.target)
    np.testing.assert_allclose(way, moved - vectors.x, rtol=1e-13, atol=1e-14)


def test_the_largest_difference_is_found_wherever_it_is(vectors):
    for place in range(vectors.size):
        other = vectors.x + 1e-3 * np.sin(vectors.y)
        other[place] = vectors.x[place] - 2.5
        assert vectors("largest_difference", vectors.x, other) == pytest.approx(2.5, rel=1e-12)
    assert vectors("largest_difference", vectors.x, vectors.x) == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_difference_that_is_no_number_is_infinite(vectors, value):
    for place in range(vectors.size):
        other = vectors.x.copy()
        other[place] = value
        assert vectors("largest_difference", other, vectors.x) == np.inf


def test_gaps_and_misfits_are_cleared_and_nothing_else(vectors):
    e = vectors.engine
    vectors.scratch[:] = 3.0
    vectors.native.run.run(e.machine(vectors.scratch), CLEAR_RESIDUALS, vectors.scratch, vectors.scratch)
    assert np.all(e.get("scratch", vectors.scratch, "newton", "gap") == 0.0)
    assert np.all(e.get("scratch", vectors.scratch, "newton", "o") == 0.0)
    cleared = e.chunks * e.lanes * (e.sizes.X + e.sizes.Y)
    assert np.sum(vectors.scratch == 0.0) == cleared
