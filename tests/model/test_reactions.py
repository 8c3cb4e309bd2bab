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
    plain, logarithms = model(None, counts), model(jnp.exp, np.log(counts))
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
        initial_state=np.zeros(len(network.species)),
        observation=pf.Noiseless(lambda x, z: x),
    )


MISTAKES = [
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
    start = np.ones(2) if amounts is None else np.zeros(2)
    model = pf.DiffusionModel(
        drift=network.drift,
        diffusion=network.diffusion,
        parameters={"tau": dist.LogNormal(0.0, 1.0)},
        initial_state=start,
        observation=pf.GaussianNoise(lambda x, z: jnp.stack([*network.amounts(x).values()]), "tau"),
    )
    with pytest.raises(pf.DataError, match=r"amount of '[AB]' was .* where an amount comes to zero.* larger counts"):
        pf.simulate(model, {"tau": 0.1}, np.arange(1, 200), steps_per_interval=20)
