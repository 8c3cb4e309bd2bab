"""Priors given other parameters, and parameters that vary between series: what the model makes of them."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import beta, kstest

import pathfold as pf
from pathfold.data import Seen, panel_of
from pathfold.model import Parameters, build_parameters
from pathfold.model.check_data import check_data


def build(**changes):
    """Growth at a rate and from a level of the series' own, both functions of what the series share."""
    parts = {
        "drift": lambda x, z: z["rate"] - z["pull"] * x,
        "diffusion": lambda x, z: z["sigma"] * jnp.eye(2),
        "parameters": {
            "rate": pf.Varying(lambda z: dist.Normal(z["mean"] * jnp.ones(2), z["spread"])),
            "pull": 0.3,
            "level": pf.Varying(dist.Gamma(3.0, 2.0)),
            "spread": lambda z: dist.LogNormal(z["mean"], 0.5),
            "mean": dist.Normal(0.5, 1.0),
            "sigma": dist.LogNormal(-1.0, 0.5),
        },
        "initial_state": lambda z: [z["level"], dist.Normal(z["rate"][0], z["spread"])],
        "observation": pf.GaussianNoise(lambda x, z: x + z["level"], lambda z: 0.1 * z["level"]),
    }
    return pf.DiffusionModel(**(parts | changes))


def shared(priors) -> Parameters:
    with jax.enable_x64(True):
        return build_parameters(priors)[0]


def test_priors_are_computed_in_the_order_they_need():
    """a = u_0; b given a; c follows from a and b; their normals stand in the order of the dict."""
    parameters = shared(
        {
            "c": lambda z: jnp.array([z["a"], z["b"] ** 2]),
            "b": lambda z: dist.Normal(2.0 * z["a"], jnp.exp(z["a"])),
            "a": dist.Normal(1.0, 3.0),
        }
    )
    assert parameters.names == ("c", "b", "a")
    assert (parameters.size, parameters.z_size, parameters.excess) == (2, 4, None)
    with jax.enable_x64(True):
        u = jnp.array([0.7, -0.2])
        a = 1.0 + 3.0 * -0.2
        b = 2.0 * a + np.exp(a) * 0.7
        np.testing.assert_allclose(parameters.push(u), [a, b**2, b, a], rtol=1e-14)
        slope = jax.jacfwd(parameters.push)(u)
        expected = [3.0 * (2.0 + 0.7 * np.exp(a)), np.exp(a)]  # of b by the normals of a and b
        np.testing.assert_allclose(slope[2], expected[::-1], rtol=1e-14)


def test_the_density_of_a_prior_that_depends_on_another():
    parameters = shared({"k": lambda z: dist.Gamma(z["a"], 2.0), "a": dist.LogNormal(0.5, 0.3)})
    excess = parameters.excess
    assert excess is not None
    with jax.enable_x64(True):
        for u in np.random.default_rng(3).normal(size=(5, 2)):
            k, a = parameters.push(jnp.asarray(u))
            jacobian = jax.jacfwd(parameters.push)(jnp.asarray(u))
            of_k = dist.Gamma(a, 2.0).log_prob(k) + jnp.log(jacobian[0, 0])
            np.testing.assert_allclose(dist.Normal().log_prob(u[0]) - excess(jnp.asarray(u)), of_k, rtol=1e-10)


def of_all(z):
    return dist.Normal(sum(z.values()), 1.0)


MISTAKES = [
    ({"a": lambda z: dist.Normal(z["a"], 1.0)}, ("circle", "'a' asks for 'a'")),
    (
        {"a": lambda z: dist.Normal(z["b"], 1.0), "b": lambda z: 2.0 * z["c"], "c": lambda z: dist.Normal(z["b"], 1.0)},
        ("circle", "'b' asks for 'c' asks for 'b'"),
    ),
    (
        {"a": lambda z: dist.Normal(z["m"], 1.0)},
        ("prior of parameter 'a' asks for parameter 'm'", "the model has 'a'", "a prior"),
    ),
    ({"a": of_all, "b": 1.0}, ("prior of parameter 'a' goes through all of z", "by name")),
    ({"a": lambda z: dist.Poisson(z["b"]), "b": 1.0}, ("'a'", "discrete")),
    ({"a": lambda z: dist.Normal(random.random(), 1.0)}, ("prior of parameter 'a'", "another value each time")),
    ({"a": lambda z: "normal"}, ("prior of parameter 'a'", "'normal'", "numpyro distribution")),
    ({"a": lambda: 1.0}, ("prior of parameter 'a' raised TypeError",)),
    ({"a": lambda z: z["b"], "b": pf.Varying(dist.Normal(0.0, 1.0))}, ("'a'", "'b'", "varies", "pf.Varying too")),
    ({"a": pf.Varying(2.0)}, ("'a' is pf.Varying", "2.0", "the same for every series")),
    ({"a": pf.Varying(dist.Normal)}, ("prior of parameter 'a'", "numpyro distribution")),
    ({"a": pf.Varying(pf.Varying(dist.Normal(0.0, 1.0)))}, ("prior of parameter 'a'", "numpyro distribution")),
]


@pytest.mark.parametrize(("parameters", "words"), MISTAKES)
def test_mistakes_are_named(parameters, words):
    with pytest.raises(pf.ModelError) as caught:
        build(parameters=parameters)
    assert all(word in str(caught.value) for word in words), caught.value


def test_what_varies_follows_the_state_and_stays():
    model = build()
    sizes = (model.state_dim, model.augmented_dim, model.parameters.size, model.start_dim)
    assert sizes == (2, 2 + 3, 3, 3 + 1)
    assert model.varying.names == ("rate", "level")
    with jax.enable_x64(True):
        z: dict[str, Any] = {"pull": 0.3, "spread": 0.7, "mean": -0.4, "sigma": 0.2}
        v0 = jnp.array([0.5, -1.0, 0.2, 0.9])
        x = model.start(z, v0)
        rate = -0.4 + 0.7 * np.array([0.5, -1.0])
        level = x[4]
        np.testing.assert_allclose(x, [level, rate[0] + 0.7 * 0.9, *rate, level], rtol=1e-12)
        state, named = model.in_series(z, x, 0.0)
        assert list(named) == ["rate", "pull", "level", "spread", "mean", "sigma"]
        v, w = jnp.array([0.3, -0.2]), jnp.array([1.0, 2.0])
        moved = model.step(z, x, v, 0.1, 0.0)
        np.testing.assert_allclose(moved[:2], state + 0.1 * (rate - 0.3 * state) + np.sqrt(0.1) * 0.2 * v, rtol=1e-12)
        np.testing.assert_array_equal(moved[2:], x[2:])
        nothing = Seen(jnp.zeros(2), jnp.ones(2), jnp.zeros(0), jnp.zeros(0))
        np.testing.assert_allclose(model.misfit(z, x, w, 0.0, nothing), state + level + 0.1 * level * w, rtol=1e-12)
        gamma = dist.Gamma(3.0, 2.0)
        slope = jax.jacfwd(lambda v: model.start(z, v0.at[2].set(v))[4])(v0[2])
        density = gamma.log_prob(level) + jnp.log(slope)
        np.testing.assert_allclose(model.start_excess(z, v0), dist.Normal().log_prob(v0[2]) - density, rtol=1e-10)


def test_transformed_and_restricted_models_vary_too():
    model = build(initial_state=lambda z: [z["level"], dist.LogNormal(0.0, 1.0)])
    logarithmic = model.transform(lambda x, z: jnp.log(x) - z["rate"], lambda x, z: jnp.exp(x + z["rate"]))
    with jax.enable_x64(True):
        z: dict[str, Any] = {"pull": 0.3, "spread": 0.7, "mean": -0.4, "sigma": 0.2}
        v0 = jnp.array([0.5, -1.0, 0.2, 0.9])
        before, after = model.start(z, v0), logarithmic.start(z, v0)
        np.testing.assert_allclose(after, [*(np.log(before[:2]) - before[2:4]), *before[2:]], rtol=1e-12)
        w = jnp.ones(2)
        nothing = Seen(jnp.zeros(2), jnp.ones(2), jnp.zeros(0), jnp.zeros(0))
        seen = [each.misfit(z, x, w, 0.0, nothing) for each, x in ((logarithmic, after), (model, before))]
        np.testing.assert_allclose(*seen, rtol=1e-12)
    plain = build(parameters=model.priors | {"spread": lambda z: dist.Exponential(jnp.exp(z["mean"]))})
    restricted = plain.restricted_to(lambda function, *given: "erf" not in str(jax.make_jaxpr(function)(*given)))
    assert (plain.parameters.excess is None, restricted.parameters.excess is None) == (True, False)
    assert restricted.varying.names == model.varying.names


def test_simulation_draws_what_varies_or_takes_it():
    model = build(
        parameters={
            "b": pf.Varying(lambda z: dist.Normal(z["m"], 2.0 * z["s"])),
            "c": pf.Varying(lambda z: dist.Gamma(2.0, z["b"] ** 2 + 1.0)),
            "m": dist.Normal(0.0, 1.0),
            "s": 0.5,
        },
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.eye(1),
        initial_state=[0.0],
        observation=pf.Noiseless(lambda x, z: jnp.array([z["b"], z["c"]])),
    )

    def simulated(seed, **values):
        return pf.simulate(model, {"m": 3.0, **values}, [1.0], steps_per_interval=1, seed=seed).values[0]

    np.testing.assert_array_equal(simulated(1, b=0.7, c=0.2), [0.7, 0.2])
    drawn = np.array([simulated(seed) for seed in range(100)])
    scaled = drawn[:, 1] * (drawn[:, 0] ** 2 + 1.0)
    assert kstest((drawn[:, 0] - 3.0) / 1.0, "norm").pvalue > 1e-3
    assert kstest(scaled, "gamma", args=(2.0,)).pvalue > 1e-3
    with pytest.raises(pf.ModelError, match="unknown parameter 'd'; the model has 'b', 'c', 'm', 's'"):
        simulated(1, d=2.0)
    with pytest.raises(pf.ModelError, match=r"parameter 'b' was given with shape \(2,\)"):
        simulated(1, b=[1.0, 2.0])
    with pytest.raises(pf.ModelError, match="no value was given for parameter 'm'"):
        pf.simulate(model, {"b": 1.0}, [1.0], steps_per_interval=1)


def test_a_start_that_varies_can_meet_what_is_observed_of_it():
    model = build(initial_state=lambda z: z["rate"], observation=pf.Noiseless(lambda x, z: x))
    check_data(model, pf.Observations([0.0, 1.0], [[1.0, 2.0], [1.0, 2.0]]))


def test_names_of_series():
    one = pf.Observations([1.0], [0.0])
    named = [pf.Observations([1.0], [0.0], name=name) for name in ("patient 7", 12, None)]
    assert [*panel_of(one)] == [0]
    assert [*panel_of([one, one])] == [0, 1]
    assert [*panel_of({"a": one, "b": one})] == ["a", "b"]
    assert [*panel_of({3: one, np.int64(5): one})] == [3, 5]
    assert [*panel_of(named)] == ["patient 7", "12", "2"]
    assert [*panel_of(named[1:2])] == [12]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda one: [one("a"), one("b"), one("a")], "two series of the panel are called 'a'"),
        (lambda one: [one(1), one()], "two series of the panel are called 1"),
        (lambda one: {}, "empty dict"),
        (lambda one: {"a": [1.0]}, "list or dict of them"),
        (lambda one: {("a", 1): one()}, r"a series is called \('a', 1\)"),
        (lambda one: [one(" ")], "a series is called ' '"),
        (lambda one: [one(True)], "a series is called True"),
    ],
)
def test_names_that_cannot_be(data, words):
    with pytest.raises(pf.DataError, match=words):
        panel_of(data(lambda name=None: pf.Observations([1.0], [0.0], name=name)))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"states": ("S",)}, "states has 1 names, .*for 2 components"),
        ({"states": "SI"}, "states must be a tuple of names"),
        ({"states": ("S", "S")}, "states has the name 'S', which is .* there twice"),
        ({"observed": ("cases", "")}, "observed has the name ''"),
        ({"observed": (1, 2)}, "observed must be a tuple of names"),
    ],
)
def test_names_of_components_that_cannot_be(names, words):
    with pytest.raises(pf.ModelError, match=words):
        build(**names)


def test_columns_in_another_order_than_what_is_observed():
    import pandas as pd

    model = build(observed=("hares", "lynx"))
    assert model.transform(lambda x: 2.0 * x, lambda x: 0.5 * x).observed == ("hares", "lynx")
    check_data(model, pf.Observations(pd.DataFrame({"a": [1.0], "b": [2.0]}, index=[1.0])))
    with pytest.raises(pf.DataError, match=r"\('lynx', 'hares'\), but the model observes \('hares', 'lynx'\)"):
        check_data(model, pf.Observations(pd.DataFrame({"lynx": [1.0], "hares": [2.0]}, index=[1.0])))


@pytest.mark.slow
def test_correlated_effects_have_the_covariance_that_is_asked_for():
    """Prior draws of three effects: correlations are 2 beta - 1 under LKJ, and effects whitened by them are normal."""
    spread = np.array([0.5, 1.0, 2.0])
    model = build(
        drift=lambda x, z: z["effects"][:2] - x,
        parameters={
            "correlation": dist.LKJCholesky(3, 1.5),
            "means": dist.Normal(jnp.array([1.0, 0.0, -1.0]), 1.0),
            "effects": pf.Varying(
                lambda z: dist.MultivariateNormal(z["means"], scale_tril=spread[:, None] * z["correlation"])
            ),
        },
        diffusion=lambda x, z: 0.1 * jnp.eye(2),
        initial_state=lambda z: z["effects"][1:],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    drawn = pf.prior_predictive(model, [0.5], draws=2000, steps_per_interval=1, seed=3).prior
    factor = drawn["correlation"].values[0]
    correlation = factor @ factor.transpose(0, 2, 1)
    away = drawn["effects"].values[0, :, 0] - drawn["means"].values[0]
    white = np.linalg.solve(spread[:, None] * factor, away[..., None])[..., 0]
    pairs = [correlation[:, i, j] for i, j in ((1, 0), (2, 0), (2, 1))]
    p_values = [kstest(pair, beta(2.0, 2.0, loc=-1.0, scale=2.0).cdf).pvalue for pair in pairs]
    p_values += [kstest(column, "norm").pvalue for column in white.T]
    assert min(p_values) > 1e-3 / len(p_values), p_values
