"""The table that people publish, and how results print."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
import xarray as xr

import pathfold as pf
from pathfold.example_models import EXAMPLES
from pathfold.results.convergence import convergence
from pathfold.results.overview import Results
from pathfold.results.summary import shortened
from tests.analysis import population

SERIES = 12


@cache
def tree() -> Results:
    made = population.results(population.panel(SERIES, 4), noise=True)
    results = Results.from_dict({f"/{name}": group.to_dataset() for name, group in made.children.items()})
    results.attrs = made.attrs
    return results


@cache
def fitted(prior: bool) -> xr.DataTree:
    example = EXAMPLES["ornstein_uhlenbeck"]
    return pf.fit(example.model(), example.data(), steps_per_interval=5, prior=prior, progress=False)


def with_matrices(**matrices: np.ndarray) -> xr.DataTree:
    changed = tree().copy()
    changed["posterior"] = (
        tree()
        .posterior.to_dataset()
        .assign({name: (("chain", "draw", "i", "j"), values) for name, values in matrices.items()})
    )
    return changed


def test_numbers_are_those_of_the_draws():
    table = pf.summary(tree(), interval=0.5)
    assert [*table.columns] == ["mean", "sd", "median", "25 %", "75 %", "ess_bulk", "ess_tail", "r_hat", "shrinkage"]
    assert [*table.index] == ["typical", "spread", "sigma", "mean of rate", "mean of level"]
    draws = tree().posterior["sigma"].values
    exact = [draws.mean(), draws.std(), *np.quantile(draws, [0.5, 0.25, 0.75]), *convergence(draws)]
    np.testing.assert_allclose(table.loc["sigma"].iloc[:-1], exact, rtol=5e-4)


def test_what_varies_has_its_mean_and_its_shrinkage():
    table, means = pf.summary(tree()), tree().posterior["level"].mean("series").values
    np.testing.assert_allclose(table.loc["mean of level", ["mean", "sd"]], [means.mean(), means.std()], rtol=5e-4)
    shrunk = pf.shrinkage(tree())["shrinkage"]
    assert table["shrinkage"].isna().tolist() == [True] * 3 + [False] * 2
    np.testing.assert_allclose(table["shrinkage"].iloc[3:], shrunk[["rate", "level"]], rtol=5e-4)
    table = pf.summary(tree(), "level", by_series=True)
    assert [*table.index] == [f"level[{k}]" for k in range(SERIES)]
    assert "shrinkage" not in table


def test_a_correlation_is_one_number_and_constants_have_no_row():
    """Of its Cholesky factor and of the matrix, which other matrices are not."""
    r = np.random.default_rng(1).uniform(-0.9, 0.9, (2, 50))
    one, zero = np.ones_like(r), np.zeros_like(r)
    factor = np.stack([np.stack([one, zero], -1), np.stack([r, np.sqrt(1.0 - r**2)], -1)], -2)
    three = np.linalg.cholesky(np.eye(3) + r[..., None, None] ** 2)
    three /= np.linalg.norm(three, axis=-1, keepdims=True)
    given = with_matrices(factor=factor, matrix=factor @ np.swapaxes(factor, -1, -2), other=2.0 * factor)
    table = pf.summary(given, ["factor", "matrix", "other"])
    assert [*table.index] == ["factor", "matrix", "other[1, 0]", "other[1, 1]"]
    assert table.loc["factor"].equals(table.loc["matrix"])
    np.testing.assert_allclose(table.loc["factor", "mean"], r.mean(), rtol=5e-4)
    assert np.isfinite(table.to_numpy()).all()
    table = pf.summary(with_matrices(three=three), "three")
    assert [*table.index] == ["three[1, 0]", "three[2, 0]", "three[2, 1]"]
    np.testing.assert_allclose(table["mean"].iloc[2], (three[..., 2, :] * three[..., 1, :]).sum(-1).mean(), rtol=5e-4)


def test_a_fit_has_no_chains_to_judge_and_a_maximum_has_standard_errors():
    assert [*pf.summary(fitted(True)).columns] == ["mean", "sd", "median", "5 %", "95 %"]
    table = pf.summary(fitted(False))
    assert [*table.index] == ["theta", "mu", "sigma"]
    np.testing.assert_allclose(table.loc["mu"], fitted(False).laplace["mu_at_mode"], rtol=5e-4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"names": "sgima"}, "there is no variable 'sgima'; there are typical, spread, sigma"),
        ({"interval": 90}, "interval must be"),
    ],
)
def test_what_cannot_be_listed_is_said(settings, words):
    with pytest.raises(pf.SettingsError, match=words):
        pf.summary(tree(), **settings)


def test_of_many_rows_the_slowest_are_shown():
    table = pf.summary(tree(), ["rate", "level"], by_series=True)
    few, note = shortened(table, 5)
    least = table[["ess_bulk", "ess_tail"]].min(axis=1).sort_values()
    assert {*few.index} == {*least.index[:5]}
    assert [*few.index] == [label for label in table.index if label in few.index]
    assert note == "the 5 of 24 rows with the fewest effective draws; pf.summary has all"
    assert shortened(table, 24)[1] == ""


@pytest.mark.parametrize("results", [tree, lambda: fitted(True), lambda: fitted(False)])
def test_results_print_as_a_verdict_and_a_table(results):
    text = str(results())
    assert text == repr(results())
    assert len(text.splitlines()) <= 25
    assert all(f"\n{label}" in text for label in pf.summary(results()).index)
    words = (
        "has few effective draws" if results is tree else "pf.fit, paths integrated out, with verdict 'good'\n- paths"
    )
    assert words in text
    shown = results()._repr_html_()
    assert "<table" in shown
    assert "xr-group" in shown, "what xarray shows is there to be opened"


def test_of_many_sentences_the_first_are_printed():
    many = fitted(True).copy()
    many.attrs = fitted(True).attrs | {"reasons": [f"reason {i}" for i in range(5)]}
    assert "\n- reason 0\n- reason 1\n- and 3 more\n" in str(many)
    many.attrs |= {"reasons": many.attrs["reasons"][:3]}
    assert "\n- reason 2\n" in str(many)


def test_what_selects_from_results_prints_alike_and_what_changes_them_as_xarray_prints(tmp_path):
    for same in (tree().isel(draw=slice(20)), tree().copy(), pickle.loads(pickle.dumps(tree()))):
        assert repr(same).startswith("2 chains of ")
    damaged = tree().copy()
    damaged["sample_stats"] = tree().sample_stats.to_dataset().drop_vars("lp")
    for other in (tree().mean("draw"), tree().posterior, damaged, tree().drop_nodes("sample_stats")):
        assert repr(other).startswith("<xarray.DataTree")
        assert "<table" not in other._repr_html_()
    tree().to_netcdf(tmp_path / "results.nc")
    with xr.open_datatree(tmp_path / "results.nc") as opened:
        assert pf.summary(opened).equals(pf.summary(tree()))


def test_predictions_print_as_results():
    more = pf.predict(population.model(), tree(), [5.0])
    assert "predictions" in str(more).splitlines()[-1]
    assert str(more).splitlines()[:-1] == str(tree()).splitlines()[:-1]


def test_results_without_a_posterior_print_as_xarray_prints_and_are_refused_in_a_sentence():
    without = tree().copy()
    del without["posterior"]
    assert "noise" in repr(without)
    with pytest.raises(pf.SettingsError, match="posterior"):
        pf.summary(without)
