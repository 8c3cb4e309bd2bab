"""Covariates of series and what varies by groups of them: what model and data make of them, and their mistakes."""

from __future__ import annotations

from inspect import unwrap
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.stats import kstest

import pathfold as pf
from pathfold.analysis.predict import _check_level
from pathfold.data import TimeGrid
from pathfold.model.conditional import GroupMap
from pathfold.model.ensemble import Ensemble
from pathfold.model.identity import identity
from tests.once import once


@once
def build(**changes: Any) -> pf.DiffusionModel:
    """Growth whose typical rate depends on weight, with a factor for each sex and another given the first."""
    parts: dict[str, Any] = {
        "drift": lambda x, z: z["rate"] * x + z["weight"],
        "diffusion": lambda x, z: (0.1 + z["sex"])[None, None],
        "parameters": {
            "rate": pf.Varying(lambda z: dist.Normal(z["mean"] + 2.0 * z["weight"] + z["twice"][1], z["factor"])),
            "mean": dist.Normal(1.0, 2.0),
            "factor": pf.Varying(lambda z: dist.Gamma(3.0 + z["mean"] ** 2, 2.0), by="sex"),
            "twice": pf.Varying(lambda z: dist.Normal(z["factor"], 0.5 * jnp.ones(2)), by="sex"),
        },
        "initial_state": lambda z: [z["weight"] + z["factor"]],
        "observation": pf.GaussianNoise(lambda x, z: x + z["twice"][0], lambda z: 0.1 * z["weight"]),
        "covariates": {"weight": 1.0, "sex": ("F", "M")},
    }
    return pf.DiffusionModel(**(parts | changes))


def panel() -> list[pf.Observations]:
    known = [{"weight": 0.5, "sex": "M"}, {"weight": 2, "sex": "F"}, {"weight": 1.5, "sex": "M"}]
    return [pf.Observations([1.0, 2.0], [0.1, 0.2], covariates=each) for each in known]


def test_functions_see_the_covariates_and_the_groups_of_their_series():
    model = build()
    assert model.parameters.shapes == {"mean": (), "factor": (2,), "twice": (2, 2)}
    assert model.varying.shapes == {"rate": ()}
    grid = TimeGrid.build(panel(), steps_per_interval=1)
    assert {name: each.tolist() for name, each in model.covariates_of(grid).items()} == {
        "weight": [0.5, 2.0, 1.5],
        "sex": [1.0, 0.0, 1.0],
    }
    with jax.enable_x64(True):
        z = {"mean": 0.3, "factor": jnp.array([0.7, 0.9]), "twice": jnp.array([[1.0, 2.0], [3.0, 4.0]])}
        x = model.start(model.of_series(z, {"weight": 2.0, "sex": 0.0}), jnp.array([0.5]))
        np.testing.assert_allclose(x, [2.0 + 0.7, 0.3 + 4.0 + 2.0 + 0.7 * 0.5], rtol=1e-14)
        steps, nodes = jax.tree.map(jnp.asarray, model.clocks(grid))
        of_second = jax.tree.map(lambda each: each[2, 0], steps)  # the first interval of the second series
        moved = model.step(z, x, jnp.array([1.0]), 0.25, of_second)
        np.testing.assert_allclose(moved[0], x[0] + 0.25 * (x[1] * x[0] + 2.0) + 0.5 * 0.1, rtol=1e-14)
        of_first = jax.tree.map(lambda each: each[1], nodes)
        _, named = model.in_series(z, x, of_first)
        assert [*named] == ["rate", "mean", "factor", "twice", "weight", "sex"]
        np.testing.assert_array_equal(named["twice"], [3.0, 4.0])
        assert (named["factor"], named["weight"], named["sex"]) == (0.9, 0.5, 1.0)


def test_the_values_of_groups_follow_their_prior():
    """Each group's is drawn by itself: against scipy, and the density of its normals by change of variables."""
    model = build()
    factor, twice = (model.parameters.maps[name] for name in ("factor", "twice"))
    assert isinstance(factor, GroupMap)
    assert (factor.size, twice.size, factor.gaussian, twice.gaussian) == (2, 4, False, True)
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        many = {"mean": jnp.full(2000, 0.5)}
        drawn = jax.jit(jax.vmap(factor.push))(many, jnp.asarray(factor.draw(many, rng, 2000)))
        gamma = dist.Gamma(3.25, 2.0)
        for values in (drawn[:, 0], drawn[:, 1]):
            assert kstest(np.asarray(values), lambda x: np.asarray(gamma.cdf(x))).pvalue > 1e-3
        assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 4.0 / np.sqrt(2000)
        z, v = {"mean": jnp.asarray(0.5)}, jnp.array([0.3, -0.8])
        slope = jnp.diag(jax.jacfwd(lambda v: factor.push(z, v))(v))
        density = jnp.sum(gamma.log_prob(factor.push(z, v)) + jnp.log(slope))
        assert factor.excess is not None
        np.testing.assert_allclose(factor.excess(z, v), jnp.sum(dist.Normal().log_prob(v)) - density, rtol=1e-10)
        both = twice.push({"factor": jnp.array([1.0, 2.0])}, jnp.arange(4.0))
        np.testing.assert_allclose(both, [[1.0, 1.5], [3.0, 3.5]])  # of each group given its own factor


def test_an_ensemble_has_the_groups_and_covariates_of_its_series():
    model, rng = build(), np.random.default_rng(2)
    grid = TimeGrid.build(panel(), steps_per_interval=1)
    ensemble = Ensemble.build(model, {"mean": np.zeros(400)}, 400, grid.covariates, rng)
    named = ensemble.named(np.array([2, 1]))
    np.testing.assert_array_equal(named["factor"][0::2], ensemble.shared["factor"][:, 1])
    np.testing.assert_array_equal(named["factor"][1::2], ensemble.shared["factor"][:, 0])
    np.testing.assert_array_equal(named["weight"][:2], [1.5, 2.0])
    mean = 2.0 * named["weight"] + named["twice"][:, 1]
    scores = (named["rate"] - mean) / named["factor"]
    assert kstest(scores, "norm").pvalue > 1e-3
    starts = ensemble.draw_starts(rng)
    np.testing.assert_allclose(starts[:, 1, 0], 2.0 + ensemble.shared["factor"][:, 0], rtol=1e-14)


def test_a_value_for_each_group_is_asked_for():
    values, known = {"mean": 1.0, "factor": 1.0, "twice": np.ones((2, 2))}, {"weight": 1.0, "sex": "F"}
    with pytest.raises(pf.ModelError, match=r"'factor' .* shape \(\), expected \(2,\), a value for each of the groups"):
        pf.simulate(build(), values, [1.0], covariates=known, steps_per_interval=1)


def test_models_with_other_groups_are_other_models():
    model = build()
    assert identity(model) == identity(unwrap(build)())
    changed = build(covariates={"weight": 1.0, "sex": ("M", "F")})
    assert [name for name, each in identity(model).items() if identity(changed)[name] != each] == ["covariate 'sex'"]
    assert identity(build(covariates={"weight": 3.0, "sex": ("F", "M")})) == identity(model), "it is only tried there"


def test_a_transformed_and_a_restricted_model_keep_them():
    model = build(diffusion=lambda x, z: 0.1 * x[:, None])
    logarithmic = model.transform(lambda x, z: jnp.log(x / z["weight"]), lambda y, z: z["weight"] * jnp.exp(y))
    given = {"mean": 0.3, "factor": [0.7, 0.9], "twice": np.zeros((2, 2)), "rate": -0.5}
    times = {"times": [0.5, 1.0], "max_step": 1e-3, "covariates": {"weight": 2.0, "sex": "M"}, "seed": 3}
    seen = [pf.simulate(each, given, **times).values for each in (model, logarithmic)]
    np.testing.assert_allclose(*seen, rtol=0.02)
    restricted = model.restricted_to(lambda function, *shapes: True)
    assert restricted.groups == {"factor": "sex", "twice": "sex"}


MISTAKES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"covariates": 70.0}, ("covariates must be a dict",)),
    ({"covariates": {"weight": None}}, ("typical value of the covariate 'weight' must be a finite number, not None",)),
    ({"covariates": {"weight": "heavy"}}, ("'weight' must be a finite number, not 'heavy'",)),
    ({"covariates": {"weight": 1.0, "sex": []}}, ("'sex' has the levels []", "at least one")),
    ({"covariates": {"weight": 1.0, "sex": ["F", "F"]}}, ("'sex'", "give each once")),
    ({"covariates": {"weight": 1.0, "sex": ["F", np.nan]}}, ("a level of the covariate 'sex'", "finite number")),
    ({"covariates": {"weight": 1.0}}, ("'factor' varies by 'sex', which is no covariate with levels",)),
    ({"covariates": {"weight": 1.0, "sex": 0.0}}, ("'factor' varies by 'sex', which is no covariate with levels",)),
    ({"covariates": {"sex": ("F", "M")}}, ("asks for parameter 'weight'", "the model has", "'sex'")),
    ({"covariates": {"weight": 1.0, "sex": ("F", "M"), "mean": 1.0}}, ("'mean' is the name of a parameter and",)),
    ({"covariates": {"weight": 1.0, "sex": ("F", "M"), "series": 1.0}}, ("'series' needs another name",)),
    ({"covariates": {"weight": 1.0, "sex": ("F", "M"), "fine_step": 1.0}}, ("'fine_step' needs another name",)),
    ({"inputs": {"weight": pf.Input([0.0], [1.0])}}, ("'weight' is the name of an input and of a covariate",)),
    ({"drift": lambda x, z, t, inputs: inputs["weight"] * x}, ("the last one for inputs, but the model has none",)),
    ({"drift": lambda x, z: z["height"] * x}, ("drift asks for parameter 'height'", "'weight'")),
]


@pytest.mark.parametrize(("changes", "words"), MISTAKES)
def test_mistakes_of_a_model_are_named(changes, words):
    with pytest.raises(pf.ModelError) as caught:
        build(**changes)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("name", "prior", "words"),
    [
        ("mean", lambda z: dist.Normal(z["weight"], 1.0), ("'mean', which all series share, asks for 'weight'",)),
        ("mean", lambda z: dist.Normal(z["factor"], 1.0), ("which all series share, asks for 'factor'",)),
        (
            "factor",
            pf.Varying(lambda z: dist.LogNormal(z["weight"], 1.0), by="sex"),
            ("varies by 'sex', asks for 'weight'", "a pf.Varying without by"),
        ),
        (
            "factor",
            pf.Varying(lambda z: dist.LogNormal(z["other"], 1.0), by="sex"),
            ("varies by 'sex', asks for 'other'",),
        ),
        ("other", pf.Varying(dist.LogNormal(), by=cast(Any, 3)), ("varies by 3",)),
        ("factor", pf.Varying(2.0, by="sex"), ("the same for every series",)),
    ],
)
def test_mistakes_of_priors_are_named(name, prior, words):
    parameters = build().priors | {"other": pf.Varying(dist.Normal(), by="clinic")} | {name: prior}
    with pytest.raises(pf.ModelError) as caught:
        build(parameters=parameters, covariates={"weight": 1.0, "sex": ("F", "M"), "clinic": (1, 2, 3)})
    assert all(word in str(caught.value) for word in words), caught.value


def test_yes_and_no_are_one_and_zero():
    assert pf.Observations([1.0], [0.1], covariates={"burnt": True, "grazed": np.False_}).covariates == {
        "burnt": 1.0,
        "grazed": 0.0,
    }


def test_a_row_of_a_table_has_covariates():
    table = pd.DataFrame({"weight": [70.0, 80.0], "sex": ["F", "M"]}, index=["anna", "ben"])
    data = pf.Observations([1.0], [0.1], covariates=table.loc["ben"])  # pyright: ignore[reportArgumentType]
    assert data.covariates == {"weight": 80.0, "sex": "M"}
    with pytest.raises(pf.DataError, match="covariates must be a dict of name -> number"):
        pf.Observations([1.0], [0.1], covariates=table)  # pyright: ignore[reportArgumentType]


def test_a_new_level_of_what_makes_no_groups_is_refused():
    model = build(covariates={"weight": 1.0, "sex": ("F", "M"), "clinic": ("A", "B")})
    with pytest.raises(pf.DataError, match=r"no parameter varies by 'clinic': give one of \['A', 'B'\]"):
        _check_level(model, "clinic", "A", new=True)
    with pytest.raises(pf.DataError, match=r"the new series has 'C' as its covariate 'clinic'.*one of \['A', 'B'\]$"):
        _check_level(model, "clinic", "C", new=False)


@pytest.mark.parametrize("by", [["sex"], 3])
def test_groups_are_made_by_one_covariate(by):
    parameters = build().priors | {"own": pf.Varying(dist.Normal(0.0, 1.0), by=by)}
    with pytest.raises(pf.ModelError, match=r"'own' varies by .*; give by the name of one covariate, such as"):
        build(parameters=parameters)


def test_a_prior_by_groups_does_not_ask_for_what_makes_them():
    parameters = build().priors | {"own": pf.Varying(lambda z: dist.Normal(z["clinic"], 1.0), by="clinic")}
    with pytest.raises(pf.ModelError, match="asks for the covariate 'clinic' itself"):
        build(parameters=parameters, covariates={"weight": 1.0, "sex": ("F", "M"), "clinic": (1, 2, 3)})


@pytest.mark.parametrize(
    ("covariates", "words"),
    [
        (70.0, "covariates must be a dict of name -> number"),
        ({"weight": None}, "the covariate 'weight' must be a finite number, not None"),
        ({"weight": np.nan}, "the covariate 'weight' must be a finite number, not nan"),
        ({"weight": [70.0, 71.0]}, r"the covariate 'weight' has several values, .* what changes in time is an input"),
        ({"weight": 1.0 + 2.0j}, "the covariate 'weight' must be a finite number"),
        ({"sex": " "}, "the covariate 'sex' is ' '; give a number, or a name"),
        ({7: 1.0}, "the covariate names must be strings, not 7"),
        ({"time": 1.0}, "the covariate 'time' needs another name"),
        ({"event": 1.0}, "the covariate 'event' needs another name"),
    ],
)
def test_mistakes_of_a_series_are_named(covariates, words):
    with pytest.raises(pf.DataError, match=words):
        pf.Observations([1.0], [0.1], covariates=covariates)


@pytest.mark.parametrize(
    ("covariates", "words"),
    [
        ({}, "no covariate 'weight', which the model uses"),
        ({"weight": 1.0}, "no covariate 'sex', which the model uses"),
        ({"weight": "heavy", "sex": "F"}, "'weight' is 'heavy', and the model expects a number"),
        ({"weight": 1.0, "sex": "f"}, r"'sex' is 'f', which is none of the model's levels, \['F', 'M'\]"),
        ({"weight": 1.0, "sex": 1.0}, "'sex' is 1.0, which is none of the model's levels"),
    ],
)
def test_data_that_do_not_fit_the_model(covariates, words):
    given = {"mean": 0.3, "factor": [0.7, 0.9], "twice": np.zeros((2, 2)), "rate": -0.5}
    with pytest.raises(pf.DataError, match=words):
        pf.simulate(build(), given, [1.0], steps_per_interval=1, covariates=covariates)
    data = [*panel()[:1], pf.Observations([1.0], [0.1], covariates=covariates)]
    with pytest.raises(pf.DataError, match="series 1 has no covariate|series 1: .*" + words):
        pf.sample(build(), data, steps_per_interval=1, progress=False)


def test_all_series_of_a_panel_have_the_same_covariates():
    data = {"a": panel()[0], "b": pf.Observations([1.0], [0.1], covariates={"weight": 1.0})}
    with pytest.raises(pf.DataError, match="series 'b' has no covariate 'sex', which others of the panel have"):
        TimeGrid.build(data, steps_per_interval=1)


def test_levels_may_be_numbers():
    model = build(covariates={"weight": 1.0, "sex": (1, 2)})
    assert model.numbers({"weight": 2, "sex": 2}) == model.numbers({"weight": 2.0, "sex": 2.0}) == {
        "weight": 2.0,
        "sex": 1.0,
    }  # fmt: skip
