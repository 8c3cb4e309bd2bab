"""Effective draws and R-hat of many scalars at once, against ArviZ's of one at a time."""

from __future__ import annotations

import time
from typing import Any

import arviz_stats.base as base
import numpy as np
import pytest
import xarray as xr

from pathfold.results.convergence import convergences, judged
from pathfold.results.diagnostics import troubles

STATS: Any = base.array_stats  # pyright: ignore[reportPrivateImportUsage]


def one_by_one(x: np.ndarray) -> tuple[float, float, float]:
    with np.errstate(divide="ignore", invalid="ignore"):
        bulk, tail = STATS.ess(x, method="bulk"), STATS.ess(x, method="tail", prob=(0.05, 0.95))
        return float(bulk), float(tail), float(STATS.rhat(x)) if len(x) > 1 else np.nan


def kinds(chains: int, draws: int) -> np.ndarray:
    """Scalars (chain, draw, scalar) that mix well, badly, too well; with ties, tails, drift, jumps, standstill."""
    rng = np.random.default_rng(chains + 100 * draws)
    x = rng.normal(size=(chains, draws, 14))
    for k, slope in enumerate((0.5, 0.95, -0.6, 0.999)):
        for t in range(1, draws):
            x[:, t, k] += slope * x[:, t - 1, k]
    x[..., 4] = rng.integers(0, 3, size=(chains, draws))
    x[..., 5] = rng.standard_cauchy(size=(chains, draws))
    x[..., 6] += np.arange(draws) / draws
    x[..., 7] += 3.0 * np.arange(chains)[:, None]
    x[..., 8] = np.arange(chains)[:, None]
    x[..., 9] = 2.5
    x[..., 10] = 1e9 + 1e-3 * x[..., 10]
    x[0, draws // 2 :, 11] = 7.0
    x[..., 12] = (-1.0) ** np.arange(draws) * np.abs(x[..., 12])
    x[0, 1, 13] = np.nan
    return x


@pytest.mark.parametrize("chains", [1, 2, 4])
@pytest.mark.parametrize("draws", [*range(3, 14), 40, 101, 600])
def test_many_scalars_at_once_have_the_numbers_of_each(chains, draws, monkeypatch):
    x = kinds(chains, draws)
    monkeypatch.setattr("pathfold.results.convergence.PIECE", 3 * chains * draws)
    for k, found in enumerate(convergences(x)):
        np.testing.assert_allclose(found, one_by_one(x[..., k]), rtol=1e-7, err_msg=str(k))


def test_the_scalars_of_a_variable_are_named_and_constants_left_out():
    x = kinds(2, 40)[..., [0, 9, 4]]
    values = xr.DataArray(x, dims=("chain", "draw", "series"), coords={"series": ["a", "b", "c"]}, name="rate")
    found = [*judged(values)]
    assert [label for label, _, _ in found] == ["rate[a]", "rate[c]"]
    for (_, drawn, figures), k in zip(found, (0, 2), strict=True):
        np.testing.assert_array_equal(drawn, x[..., k])
        np.testing.assert_allclose(figures, one_by_one(x[..., k]), rtol=1e-7)


def test_thousands_of_effects_are_judged_in_seconds():
    """One by one they take 15 ms each, half a minute in all."""
    rng = np.random.default_rng(0)
    effects = xr.Dataset({"rate": (("chain", "draw", "series"), rng.normal(size=(4, 400, 2000)))})
    statistics = xr.Dataset(
        {
            "lp": (("chain", "draw"), rng.normal(size=(4, 400))),
            "status": (("chain", "draw"), np.zeros((4, 400), dtype=int)),
            "diverging": (("chain", "draw"), np.zeros((4, 400), dtype=bool)),
        }
    )
    tree = xr.DataTree.from_dict({"posterior": effects, "sample_stats": statistics})
    begin = time.process_time()
    found = [*troubles(tree, ["rate"])]
    assert time.process_time() - begin < 10.0
    assert all("has not converged" in each or "few effective" in each for each in found), found
