"""Reaction networks: what is read from them, drift and diffusion, and the sentence for each mistake."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf

EPIDEMIC = {"infection": "S + I -> 2 I", "recovery": "I -> R", "return": "R ->S"}


def test_species_and_stoichiometry():
    network = pf.Reactions(EPIDEMIC)
    assert network.species == ("S", "I", "R")
    np.testing.assert_array_equal(network.stoichiometry, [[-1, 0, 1], [1, -1, 0], [0, 1, -1]])
    other = pf.Reactions(EPIDEMIC, species=("R", "S", "I"))
    np.testing.assert_array_equal(other.stoichiometry, network.stoichiometry[[2, 0, 1]])
    written = pf.Reactions({"a": "2A+A_2 + 3*B.c-> A", "b": " -> A", "c": "A_2 -> 0"})
    assert written.species == ("A", "A_2", "B.c")
    np.testing.assert_array_equal(written.stoichiometry, [[-1, 1, 0], [-1, 0, -1], [-3, 0, 0]])


def test_mass_action_in_amounts():
    network = pf.Reactions(
        {"pair": "2 A -> B", "meet": "A + B -> 0", "made": "0 -> A", "split": "B -> 2 A"},
        rates={"meet": "k", "made": 3.0, "split": lambda y, z, t: z["k"] * t * y["B"] ** 2},
        amounts=None,
    )
    with jax.enable_x64(True):
        x, z, t = jnp.array([7.0, 4.0]), {"pair": 0.3, "k": 0.2}, 1.5
        h = np.array([0.3 * 7.0**2 / 2, 0.2 * 7.0 * 4.0, 3.0, 0.2 * 1.5 * 4.0**2])
        S = np.array([[-2, -1, 1, 2], [1, -1, 0, -1]])
        np.testing.assert_allclose(network.drift(x, z, t), S @ h, rtol=1e-14)
        np.testing.assert_allclose(network.diffusion(x, z, t), S * np.sqrt(h), rtol=1e-14)
    assert {name: float(y) for name, y in network.amounts(np.array([7.0, 4.0])).items()} == {"A": 7.0, "B": 4.0}


def test_logarithms_are_those_of_the_transformed_model():
    """By Ito's lemma as `model.transform` applies it, in a model with inputs and a rate that depends on one."""
    rates = {"infection": lambda y, z, t, inputs: z["beta"] * inputs["contacts"] * y["S"] * y["I"] / 100.0}

    def model(amounts, start):
        network = pf.Reactions(EPIDEMIC, rates, amounts=amounts)
        return pf.DiffusionModel(
            drift=network.drift,
            diffusion=network.diffusion,
            parameters={"beta": dist.LogNormal(0.0, 0.5), "recovery": dist.LogNormal(0.0, 0.5), "return": 0.1},
            initial_state=start,
            observation=pf.Noiseless(lambda x, z: network.amounts(x)["I"][None]),
            states=network.species,
            inputs={"contacts": pf.Input([0.0, 9.0], [1.0, 2.0])},
        )

    counts = np.array([90.0, 8.0, 2.0])
    amounts = {"R": 2.0, "S": 90.0, "I": 8.0}
    plain, logarithms = model(None, amounts), model(jnp.exp, amounts)
    expected = plain.transform(jnp.log, jnp.exp)
    assert logarithms.states == expected.states == ("S", "I", "R")
    with jax.enable_x64(True):
        z: dict[str, Any] = {"beta": 1.3, "recovery": 0.4, "return": 0.1}
        t = logarithms.node_clock(1.0, np.array([1.2]), np.array([0.1]))
        for x in np.log(counts) + 0.3 * np.random.default_rng(1).normal(size=(4, 3)):
            for name in ("drift", "diffusion"):
                found, wanted = (getattr(m.sde, name)(jnp.array(x), z, t) for m in (logarithms, expected))
                np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


def network_model(network: pf.Reactions, **parameters: Any) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=network.drift,
        diffusion=network.diffusion,
        parameters=parameters,
        initial_state=dict.fromkeys(network.species, 1.0),
        observation=pf.Noiseless(lambda x, z: x),
    )


def epidemic(start: Any, **options: Any) -> pf.DiffusionModel:
    network = pf.Reactions(EPIDEMIC, **options)
    return pf.DiffusionModel(
        drift=network.drift,
        diffusion=network.diffusion,
        parameters={name: dist.LogNormal(-5.0, 0.5) for name in EPIDEMIC},
        initial_state=start,
        observation=pf.Noiseless(lambda x, z: jnp.stack([*network.amounts(x).values()])),
    )


AMOUNTS = {"I": 3.0, "R": 2.0, "S": 90.0}
VALUES = {"infection": 1e-9, "recovery": 1e-9, "return": 1e-9}


def at_start(model: pf.DiffusionModel, **options: Any) -> np.ndarray:
    return pf.simulate(model, VALUES, [0.0], steps_per_interval=1, **options).values[0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"amounts": None},
        {"amounts": lambda x: 2.0 * jnp.exp(x), "inverse": lambda y: jnp.log(0.5 * y)},
    ],
)
def test_initial_amounts_by_name(options):
    """In whatever order, as numbers, as what follows from parameters, and where a simulation begins."""
    np.testing.assert_allclose(at_start(epidemic(AMOUNTS, **options)), [90.0, 3.0, 2.0], rtol=1e-14)
    of_z = epidemic(lambda z: {"R": 2.0, "I": z["return"] * 3e9, "S": dist.Normal(90.0, 1e-12)}, **options)
    np.testing.assert_allclose(at_start(of_z), [90.0, 3.0, 2.0], rtol=1e-11)
    elsewhere = {"R": 1.0, "S": 5.0, "I": 7.0}
    np.testing.assert_allclose(at_start(of_z, initial_state=elsewhere), [5.0, 7.0, 1.0], rtol=1e-14)
    many = pf.simulate(
        of_z,
        VALUES,
        [0.0],
        steps_per_interval=1,
        draws=2,
        initial_state=elsewhere | {"S": [5.0, 6.0], "I": [7.0] * 2, "R": [1.0] * 2},
    )
    np.testing.assert_allclose(
        many.prior_predictive["y"].values[0, :, 0], [[5.0, 7.0, 1.0], [6.0, 7.0, 1.0]], rtol=1e-14
    )


def test_a_law_of_initial_amounts_is_that_of_the_states():
    """A log-normal amount is a normal logarithm; the one is drawn from the same normals as the other."""
    named = epidemic({"S": dist.LogNormal(4.0, 0.3), "I": 3.0, "R": dist.LogNormal(1.0, 0.1)})
    listed = epidemic([dist.Normal(4.0, 0.3), np.log(3.0), dist.Normal(1.0, 0.1)], species=("S", "I", "R"))
    with jax.enable_x64(True):
        v, z = jnp.array([0.7, -1.2]), {name: jnp.asarray(value) for name, value in VALUES.items()}
        np.testing.assert_allclose(named.start(z, v), listed.start(z, v), rtol=1e-14)
    assert named.initial_state.gaussian


MISTAKES = [
    (
        lambda: epidemic(np.log([90.0, 3.0, 2.0])),
        r"without names.*give amounts by name, {'S': ..., 'I': ..., 'R': ...}",
    ),
    (lambda: epidemic(lambda z: dist.Normal(jnp.zeros(3), 1.0)), "without names"),
    (lambda: pf.simulate(epidemic(AMOUNTS), VALUES, [1.0], steps_per_interval=1, initial_state=[1.0] * 3), "without n"),
    (lambda: epidemic({"S": 90.0, "I": 3.0}), "initial_state leaves out 'R'; the species are 'S', 'I', 'R'"),
    (lambda: epidemic(AMOUNTS | {"E": 1.0}), "initial_state has 'E'; the species are"),
    (lambda: epidemic(AMOUNTS, amounts=lambda x: 2.0 * x), "inverse=..."),
    (lambda: epidemic(AMOUNTS | {"I": 0.0}), "initial_state gave .*inf"),
    (lambda: pf.Reactions({}), "reactions must be a dict"),
    (lambda: pf.Reactions("A -> B"), "reactions must be a dict"),  # pyright: ignore[reportArgumentType]
    (lambda: pf.Reactions({"a": "A = B"}), "reaction 'a' is 'A = B'; write 'A .* two reactions"),
    (lambda: pf.Reactions({"a": "A <-> B"}), "reaction 'a' is 'A <-> B'.* two reactions"),
    (lambda: pf.Reactions({"a": "A -> B -> C"}), "one arrow"),
    (lambda: pf.Reactions({"a": "A + -> B"}), "reaction 'a', 'A \\+ -> B', has the term ''"),
    (lambda: pf.Reactions({"a": "1.5 A -> B"}), "has the term '1.5 A'"),
    (lambda: pf.Reactions({"a": "0 A -> B"}), "has the term '0 A'"),
    (lambda: pf.Reactions({"a": "A B -> C"}), "has the term 'A B'"),
    (lambda: pf.Reactions({"a": "A + B -> B + A"}), "changes no amount"),
    (lambda: pf.Reactions({"a": "A -> B"}, {"b": 1.0}), "rates has 'b', which is not a reaction; there are 'a'"),
    (lambda: pf.Reactions({"a": "A -> B"}, {"a": -1.0}), "rate of reaction 'a' is -1"),
    (lambda: pf.Reactions({"a": "A -> B"}, {"a": [1.0]}), "rate of reaction 'a' must be a finite number"),
    (lambda: pf.Reactions({"a": "A -> B"}, {"a": lambda y: 1.0}), r"rate of reaction 'a' takes arguments \(y\)"),
    (lambda: pf.Reactions({"a": "A -> B"}, species=("A",)), "species has 1 names"),
    (lambda: pf.Reactions({"a": "A -> B"}, species=("A", "C")), "species has 'C', which no reaction names"),
    (lambda: network_model(pf.Reactions({"a": "A -> 0"}), k=1.0), "'a' asks for 'a'; there are species 'A' and par"),
    (
        lambda: network_model(pf.Reactions({"a": "A -> 0"}, {"a": lambda y, z: z["k"] * y["B"]}), k=1.0),
        "rate of reaction 'a' asks for 'B'; there are species 'A' and parameters 'k'",
    ),
    (
        lambda: network_model(pf.Reactions({"a": "A -> 0"}), a=np.ones(2)),
        r"rate of reaction 'a' has shape \(2,\), expected a number",
    ),
]


@pytest.mark.parametrize(("make", "words"), MISTAKES)
def test_mistakes_are_named(make, words):
    with pytest.raises(pf.ModelError, match=words):
        make()


@pytest.mark.parametrize("amounts", [None, jnp.exp])
def test_a_path_that_meets_zero_is_told(amounts):
    """A toggle switch at low copy numbers: each gene stops the other, which is then as good as gone."""
    network = pf.Reactions(
        {"make A": "0 -> A", "make B": "0 -> B", "lose A": "A -> 0", "lose B": "B -> 0"},
        rates={
            "make A": lambda y, z: 3.0 / (1.0 + y["B"] ** 2),
            "make B": lambda y, z: 3.0 / (1.0 + y["A"] ** 2),
            "lose A": 1.0,
            "lose B": 1.0,
        },
        amounts=amounts,
    )
    model = pf.DiffusionModel(
        drift=network.drift,
        diffusion=network.diffusion,
        parameters={"tau": dist.LogNormal(0.0, 1.0)},
        initial_state={"A": 1.0, "B": 1.0},
        observation=pf.GaussianNoise(lambda x, z: jnp.stack([*network.amounts(x).values()]), "tau"),
    )
    with pytest.raises(pf.DataError, match=r"amount of '[AB]' was .* where an amount comes to zero.* larger counts"):
        pf.simulate(model, {"tau": 0.1}, np.arange(1, 200), steps_per_interval=20)
